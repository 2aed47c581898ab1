"""What opens an API server to us: a token, a CA, a certificate of our own.

Put here: reading them from their files, and the errors of files that cannot be used.
Not here: requests (`client`).

There is no way to skip verification: a server is trusted through the system's or a given CA. A
token goes over TLS only, and is read again from its file for every request, because it rotates.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from clients import bearer_token
from domain.errors import WrongUse


class CredentialUnreadable(WrongUse):
    """A token, a CA or a certificate could not be read."""

    code = "KUBE-004"

    def __init__(self, path: Path | str, cause: str) -> None:
        super().__init__(
            where=str(path),
            seen=cause,
            why="without it the API server does not let anybody look",
            remedy="check that the volume with the ServiceAccount's token is mounted and readable",
        )


class TokenWithoutTls(WrongUse):
    """A token would travel readable."""

    code = "KUBE-005"

    def __init__(self, url: str) -> None:
        super().__init__(
            where=url,
            seen="a token is configured, and the URL is not https",
            why="whoever reads the token on its way can read the cluster",
            remedy="write the URL with https:// and give the CA file",
        )


def read_token(path: Path) -> str:
    try:
        return bearer_token.read_token(path)
    except bearer_token.NoToken as cause:
        raise CredentialUnreadable(path, f"no readable token: {cause}") from None


def tls_context(
    ca_file: Path | None, certificate_file: Path | None, key_file: Path | None
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        if certificate_file is not None:
            context.load_cert_chain(certificate_file, key_file)
    except (OSError, ssl.SSLError) as cause:
        path = ca_file or certificate_file or Path()
        raise CredentialUnreadable(path, f"no usable certificate: {_said(cause)}") from None
    return context


def _said(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}"[:200]
