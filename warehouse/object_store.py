"""An object store by URL, with the guarantees of a folder: S3 and compatible stores.

Put here: conditional create and compare-and-swap in the protocol of a bucket.
Not here: the guarantees themselves and the rules for keys (`warehouse.store`).

Credentials come from the environment or the platform, or from the file that
AWS_SHARED_CREDENTIALS_FILE names. The file is read again for each request, so that changed keys
need no restart.

A bucket makes an object appear whole, so there is no temporary file; `create` is a put with
`If-None-Match: *`, `replace` a put with the `If-Match` of the object that was read. After an
uncertain response (the connection broke after the put) the object is read to decide.
"""

from __future__ import annotations

import configparser
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import MemoryStore, from_url

from domain.errors import InvalidSetting
from warehouse.store import Keys, ObjectMissing, StoreUnusable, validate_key

if TYPE_CHECKING:
    # obstore has them in its type stubs only
    from obstore import UpdateVersion
    from obstore.store import S3Credential

FAILURES = (BaseError, OSError)

TRIES_LIMIT = 3
"""Of one request to the bucket; the store's own client waits between them."""

KEYS_FILE_VARIABLE = "AWS_SHARED_CREDENTIALS_FILE"

CONNECT_TIMEOUT_SECONDS = 10
TIMEOUT_SECONDS = 60
"""A manifest is a few kilobytes and a body a few megabytes; a minute is for a bucket far away."""


def open_bucket(url: str) -> Any:
    """obstore's client of a bucket: how it waits and repeats, and its credentials."""
    # An http:// endpoint is on this host or in this cluster, and was configured on purpose.
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    settings: dict[str, Any] = {
        "client_options": {
            "timeout": f"{TIMEOUT_SECONDS}s",
            "connect_timeout": f"{CONNECT_TIMEOUT_SECONDS}s",
            "allow_http": plain,
        },
        "retry_config": {"max_retries": TRIES_LIMIT},
    }
    path = Path(os.environ.get(KEYS_FILE_VARIABLE) or "/nonexistent")
    # As for the clients of AWS: keys in the environment come first, a missing file is none.
    if url.startswith("s3://") and path.is_file() and not os.environ.get("AWS_ACCESS_KEY_ID"):
        settings["credential_provider"] = KeysFile(path)
    return from_url(url, **settings)


class KeysFile:
    """The keys in an AWS credentials file, section AWS_PROFILE or default, read at each call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> S3Credential:
        parser = configparser.ConfigParser(interpolation=None)
        section = os.environ.get("AWS_PROFILE") or "default"
        try:
            parser.read_string(self._path.read_text(encoding="utf-8"))
            keys = parser[section]
            return {
                "access_key_id": keys["aws_access_key_id"],
                "secret_access_key": keys["aws_secret_access_key"],
                "token": keys.get("aws_session_token"),
                "expires_at": datetime.now(UTC),  # the next request reads the file again
            }
        except (OSError, ValueError, LookupError, configparser.Error) as cause:
            # The text of the error could repeat a line of the file.
            wrong = f"no keys of [{section}] in {self._path} ({type(cause).__name__})"
            raise OSError(0, wrong) from None


class ObjectStore:
    """A store in a bucket, or in anything that obstore reaches."""

    def __init__(self, store: Any, location: str) -> None:
        self._store = store
        self._location = location

    @classmethod
    def open(cls, url: str) -> ObjectStore:
        """Open by URL, which never contains credentials."""

        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        if parts.scheme == "memory":
            return cls(MemoryStore(), shown)
        if parts.scheme not in ("s3", "gs", "az"):
            raise InvalidSetting(
                where=f"the store URL {url.split('://', 1)[0]}://…",
                seen="its scheme is none of s3://, gs://, az://, file://, memory://",
                why="evidence needs a store with conditional creates",
                remedy="give s3://bucket/prefix in config.toml, or nothing for a folder in the "
                "home",
            )
        return cls(open_bucket(url), shown)

    @property
    def location(self) -> str:
        return self._location

    def create(self, key: str, body: bytes) -> bool:

        validate_key(key)
        try:
            obstore.put(self._store, key, body, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False  # or our own first try, repeated by the client: the caller's bytes tell
        except FAILURES as cause:
            return self._settled(key, body, cause)
        return True

    def read(self, key: str) -> bytes:
        return self._read(key)[0]

    def list(self, prefix: str) -> Keys:

        if prefix:
            validate_key(prefix.rstrip("/") or "/")
        # Buckets list by whole parts of a key; the rest of the prefix is ours to compare.
        folder = prefix.rpartition("/")[0] or None
        try:
            pages = obstore.list(self._store, folder)
            keys = [meta["path"] for page in pages for meta in page]
        except FAILURES as cause:
            raise self._unusable(f"list {prefix or 'everything'}", cause) from cause
        return sorted(key for key in keys if key.startswith(prefix))

    def exists(self, key: str) -> bool:

        validate_key(key)
        try:
            obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        except FAILURES as cause:
            raise self._unusable(f"look for {key}", cause) from cause
        return True

    def replace(self, key: str, body: bytes, expected: bytes | None) -> bool:

        validate_key(key)
        if expected is None:
            return self.create(key, body) or self._holds(key, body)
        try:
            present, version = self._read(key)
        except ObjectMissing:
            return False
        if present != expected:
            return False
        try:
            obstore.put(self._store, key, body, mode=version, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, NotFoundError):
            return self._holds(key, body)
        except FAILURES as cause:
            return self._settled(key, body, cause)
        return True

    def _read(self, key: str) -> tuple[bytes, UpdateVersion]:
        """The bytes, and the version that a swap must name."""

        validate_key(key)
        try:
            found = obstore.get(self._store, key)
            meta = found.meta
            body = bytes(found.bytes())
        except FileNotFoundError:
            raise ObjectMissing(self.location, key) from None
        except FAILURES as cause:
            raise self._unusable(f"read {key}", cause) from cause
        version: UpdateVersion = {}
        if meta["e_tag"] is not None:
            version["e_tag"] = meta["e_tag"]
        if meta["version"] is not None:
            version["version"] = meta["version"]
        return body, version

    def _holds(self, key: str, body: bytes) -> bool:
        """Whether a refused swap was our own, whose answer got lost and which was sent again."""
        try:
            return self.read(key) == body
        except ObjectMissing:
            return False

    def _settled(self, key: str, body: bytes, cause: Exception) -> bool:
        """After a put with an uncertain end: whether our bytes are there now."""
        try:
            present = self.read(key)
        except ObjectMissing:
            raise self._unusable(f"write {key}", cause) from cause
        return present == body

    def _unusable(self, what: str, cause: Exception) -> StoreUnusable:
        first_line = str(cause).strip().splitlines()[0] if str(cause).strip() else ""
        return StoreUnusable(
            self.location, what, OSError(0, first_line[:200] or type(cause).__name__)
        )
