"""Addresses as people write them into settings: what is wrong with one, and what to do.

Put here: what an address may say, and that none carries a secret.
Not here: which setting is which address, or its line (`ingestion.settings`), or going there.

What is wrong is never said with the address itself where that may hold a password.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

_LOOPBACK = ("127.0.0.1", "::1", "localhost")

Fault = tuple[str, str]
"""What was seen, and the remedy."""


def server_fault(url: str, *, sends_token: bool) -> Fault | None:
    """What is wrong with the address of a server that is asked."""
    parts = _parts(url)
    if parts is None:
        return _NO_ADDRESS
    if "@" in parts.netloc or parts.query:
        remedy = "put secrets into a file and name it as token_file"
        return "the url carries a password or a query", remedy
    if not url.startswith(("http://", "https://")):
        seen = f"url is {url!r}" if url else "url is missing"
        return seen, 'write url = "https://…", the address without /api/v1'
    if sends_token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        remedy = "use the https:// address, with ca_file for a private authority"
        return "a token would be sent over http://, readable on the way", remedy
    return None


def proxy_fault(proxy: str) -> Fault | None:
    """What is wrong with a proxy; none is none."""
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
    """What is wrong with a folder or the URL of a bucket."""
    if "://" not in place:
        return None
    parts = _parts(place)
    if parts is None:
        return _NO_ADDRESS
    if "@" in parts.netloc:
        return "the url carries a password", (
            "leave it out: a bucket's credentials come from the environment, as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return None


_NO_ADDRESS: Fault = "it is no address", "correct what is between // and /"


def _parts(text: str) -> SplitResult | None:
    """The parts of an address, also of one without its scheme."""
    try:
        return urlsplit(text if "://" in text else f"//{text}")
    except ValueError:
        return None
