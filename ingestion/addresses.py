"""Checks of the addresses in config.toml.

Put here: the allowed forms of an address, and the refusal of secrets in it.
Not here: which setting is which address, or its line (`ingestion.settings`), or going there.

A message does not repeat an address that may contain a password.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from clients.credentials import is_loopback

Fault = tuple[str, str]
"""A description of the fault, and the remedy."""


def server_fault(url: str, *, sends_token: bool) -> Fault | None:
    """The fault of a server's address, if any."""
    parts = _parts(url)
    if parts is None:
        return _NO_ADDRESS
    if "@" in parts.netloc or parts.query:
        remedy = "put secrets into a file and name it as token_file"
        return "the url carries a password or a query", remedy
    if not url.startswith(("http://", "https://")):
        seen = f"url is {url!r}" if url else "url is missing"
        return seen, 'write url = "https://…", the address without /api/v1'
    if sends_token and parts.scheme == "http" and not is_loopback(url):
        remedy = "use the https:// address, with ca_file for a private authority"
        return "a token would be sent over http://, readable on the way", remedy
    return None


def proxy_fault(proxy: str) -> Fault | None:
    """The fault of a proxy's address, if any."""
    parts = _parts(proxy)
    if parts is None:
        return _NO_ADDRESS
    if "@" in parts.netloc:
        return "the proxy's address carries a password", (
            "leave proxy out, and let HTTPS_PROXY (and NO_PROXY) come into this process's "
            "environment from a secret"
        )
    if proxy and (parts.scheme not in ("", "http", "https") or not parts.hostname):
        return f"proxy is {proxy!r}", 'write proxy = "http://proxy.example.com:3128"'
    return None


def place_fault(place: str) -> Fault | None:
    """The fault of a folder or of the URL of a bucket, if any."""
    if "://" not in place:
        return None
    parts = _parts(place)
    if parts is None:
        return _NO_ADDRESS
    if "@" in parts.netloc:
        return "the url carries a password", (
            "leave it out: a bucket's credentials come from the environment, as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from AWS_SHARED_CREDENTIALS_FILE"
        )
    return None


_NO_ADDRESS: Fault = "it is not an address", "correct the part between // and /"


def _parts(text: str) -> SplitResult | None:
    """The parts of an address, also of one without its scheme."""
    try:
        return urlsplit(text if "://" in text else f"//{text}")
    except ValueError:
        return None
