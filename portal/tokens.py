"""Tokens of the portal in a file, for sites without a cluster that reviews them.

Put here: the file, making a token, and the caller that a token stands for.
Not here: sessions of browsers (`portal.sessions`).

    portal-tokens.csv    token_id,role,tenant,salt,sha256,created_at

A token is `glp_<id>_<secret>`, with 256 random bits. The file has only its salted hash, which is
enough for a secret that cannot be guessed. Deleting a row ends the token and its sessions.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import os
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from domain.errors import BadInput
from domain.interval import format_instant
from warehouse.store import StoreUnusable

FILE = "portal-tokens.csv"
COLUMNS = ("token_id", "role", "tenant", "salt", "sha256", "created_at")
TENANT, PROVIDER, PROGRAMME = "tenant", "provider", "programme"
ROLES = (TENANT, PROVIDER, PROGRAMME)
SECRET_BYTES = 32

_TOKEN = re.compile(r"glp_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class TokenFileInvalid(BadInput):
    """The file of tokens cannot be used."""

    code = "CONF-001"

    def __init__(self, path: Path, line: int, seen: str) -> None:
        super().__init__(
            where=f"{path}:{line}" if line else str(path),
            seen=seen,
            why="a token that is read wrongly could show one tenant's use to another",
            remedy=f"delete that line, or rewrite the file with `gpu-ledger portal token create`"
            f" (columns: {','.join(COLUMNS)})",
        )


@dataclass(frozen=True, slots=True)
class Token:
    """One row of the file."""

    token_id: str
    role: str
    tenant: str
    salt: str
    sha256: str
    created_at: str


@dataclass(frozen=True, slots=True)
class TokenCaller:
    """A caller with a token of the file."""

    token: Token

    @property
    def name(self) -> str:
        return f"token {self.token.token_id}"

    def may_see_tenant(self, tenant: str) -> bool:
        return self.is_provider() or (self.token.role == TENANT and tenant == self.token.tenant)

    def clusters_of(self, tenant: str) -> frozenset[str] | None:
        return None if self.may_see_tenant(tenant) else frozenset()

    def is_provider(self) -> bool:
        return self.token.role == PROVIDER

    def is_programme(self) -> bool:
        return self.token.role in (PROGRAMME, PROVIDER)

    def tenants_among(self, tenants: Sequence[str]) -> list[str]:
        return [tenant for tenant in tenants if self.may_see_tenant(tenant)]


class TokenFile:
    """The callers of a file of tokens. It is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int, int], dict[str, Token]] | None = None

    def caller(self, token: str) -> TokenCaller | None:
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        kept = self._tokens().get(found[1])
        if kept is None or not hmac.compare_digest(kept.sha256, _digest(kept.salt, found[2])):
            return None
        return TokenCaller(kept)

    def caller_of_session(self, subject: str) -> TokenCaller | None:
        token_id, _, digest = subject.partition(".")
        kept = self._tokens().get(token_id)
        return TokenCaller(kept) if kept and kept.sha256 == digest else None

    def session_subject(self, token: str) -> str:
        caller = self.caller(token)
        return f"{caller.token.token_id}.{caller.token.sha256}" if caller else ""

    def _tokens(self) -> Mapping[str, Token]:
        with self._lock:
            try:
                status = self.path.stat()
            except FileNotFoundError:
                return {}
            version = (status.st_mtime_ns, status.st_ino, status.st_size)
            if self._read is None or self._read[0] != version:
                self._read = (version, _parsed(self.path))
            return self._read[1]


def create_token(path: Path, role: str, tenant: str, now: datetime) -> str:
    """A new token, added to the file; it is shown once and cannot be read from the file."""
    tokens = _parsed(path) if path.exists() else {}
    token_id, salt = secrets.token_hex(6), secrets.token_hex(16)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    kept = Token(token_id, role, tenant, salt, _digest(salt, secret), format_instant(now))
    _write(path, [*tokens.values(), kept])
    return f"glp_{token_id}_{secret}"


def _parsed(path: Path) -> dict[str, Token]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise TokenFileInvalid(path, 0, f"it cannot be read: {type(cause).__name__}") from None
    rows = csv.DictReader(io.StringIO(text), strict=True)
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise TokenFileInvalid(path, 1, "its columns are not those of a file of tokens")
    tokens: dict[str, Token] = {}
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise TokenFileInvalid(path, line, "the line has another number of columns")
        token = Token(**row)
        is_tenant = token.role == TENANT
        if token.role not in ROLES or is_tenant != bool(token.tenant):
            seen = f"role {token.role[:20]!r} with tenant {token.tenant[:63]!r}"
            raise TokenFileInvalid(path, line, seen)
        if len(token.sha256) != 64 or not all(map(_HEX.fullmatch, (token.salt, token.sha256))):
            raise TokenFileInvalid(path, line, "the salt or the hash is not hexadecimal")
        if token.token_id in tokens:
            raise TokenFileInvalid(path, line, f"token_id {token.token_id} is there twice")
        tokens[token.token_id] = token
    return tokens


def _write(path: Path, tokens: Sequence[Token]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([getattr(token, name) for name in COLUMNS] for token in tokens)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.unlink(missing_ok=True)
        with open(unfinished, "x", encoding="utf-8", opener=_private) as file:
            file.write(text.getvalue())
        unfinished.replace(path)
    except OSError as cause:
        raise StoreUnusable(str(path), "write", cause) from cause


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(f"{salt} {secret}".encode()).hexdigest()
