"""The address of a server, and the credentials of a client: token, authority, client certificate.

Put here: reading credentials from their files, and the errors of files that cannot be used.
Not here: requests (`clients.kubernetes`, `clients.prometheus`, `clients.alertmanager`).

Verification cannot be skipped: a server is trusted through the system's or a given authority. A
token is sent over TLS only, and is read again from its file for every request, because it rotates.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from domain.errors import TemporarilyUnavailable, WrongUse

LOOPBACK = ("127.0.0.1", "::1", "localhost")

# The characters of a header. RFC 6750 allows fewer, but tokens of Rancher contain a colon.
_TOKEN = re.compile(rb"[\x21-\x7e]+")


class CredentialUnreadable(TemporarilyUnavailable):
    """A token, an authority or a certificate could not be read."""

    code = "SERVER-003"

    def __init__(self, path: Path | str, cause: str) -> None:
        super().__init__(
            where=str(path),
            seen=cause,
            why="the server refuses requests without it, or is not known to be the right one",
            remedy="check that the path is right and the file readable by this user; in a pod, "
            "that the volume with the ServiceAccount's token is mounted",
        )


class TokenWithoutTls(WrongUse):
    """A token would be sent without encryption."""

    code = "CONF-001"

    def __init__(self, url: str) -> None:
        super().__init__(
            where=url,
            seen="a token is configured, and the URL is not https",
            why="anyone on the network could read the token, and the cluster with it",
            remedy="write the URL with https:// and give the CA file",
        )


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """The address of a server, and the credentials of the user. Certificates are PEM texts."""

    url: str
    ca_file: Path | None = None
    ca_pem: str = ""
    token: str = ""
    token_file: Path | None = None  # read for every request, because tokens rotate
    certificate_pem: str = ""
    key_pem: str = ""
    certificate_file: Path | None = None
    key_file: Path | None = None
    proxy: str = ""  # else HTTPS_PROXY and NO_PROXY are used

    def current_token(self) -> str:
        return self.token if self.token_file is None else read_token(self.token_file)

    def tls_context(self) -> ssl.SSLContext | None:
        files = (self.ca_file, self.certificate_file)
        if not self.url.startswith("https://") and not any(files):
            return None
        own = f"{self.certificate_pem}\n{self.key_pem}\n" if self.certificate_pem else ""
        return make_tls_context(
            self.ca_file, self.certificate_file, self.key_file, self.ca_pem, own
        )


def is_loopback(url: str) -> bool:
    """Whether the server is this machine."""
    return urlsplit(url).hostname in LOOPBACK


def read_token(path: Path) -> str:
    """The token in a file; raises CredentialUnreadable, which never contains the content."""
    try:
        content = path.read_bytes().strip()
    except OSError as cause:
        raise CredentialUnreadable(path, f"no readable token: {describe(cause)}") from None
    if not _TOKEN.fullmatch(content):
        # httpx would refuse such a header with an error that contains it.
        seen = "no readable token: its content has not the form of a bearer token"
        raise CredentialUnreadable(path, seen)
    return content.decode("ascii")


def make_tls_context(
    authority: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    authority_pem: str = "",
    certificate_pem: str = "",
) -> ssl.SSLContext:
    """Verification by the system's or a given authority; with a certificate of our own, if any.

    `certificate_pem` contains the key, too.
    """
    path: Path | str = authority or "the authority"
    try:
        context = ssl.create_default_context(
            cafile=str(authority) if authority else None, cadata=authority_pem or None
        )
        path = certificate or "the client certificate"
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        if certificate_pem:
            # Python reads a client certificate from a file only.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(certificate_pem)
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ssl.SSLError) as cause:
        raise CredentialUnreadable(path, f"no usable certificate: {describe(cause)}") from None
    return context


def describe(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}"[:200]
