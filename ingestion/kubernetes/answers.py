"""Reading what an API server answers: a body or a stream of lines, never more than a limit.

Put here: bytes as they come, and what a failure says of itself.
Not here: asking (`client`), or what documents mean (`state`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx

from ingestion.kubernetes.errors import NotKubernetes

# 500 pods of the largest size that etcd stores would be 750 MB; a real page is 5 MB.
PAGE_BYTES_LIMIT = 64 * 1024 * 1024
# One object is at most 1.5 MB in etcd; JSON of it is somewhat longer.
EVENT_BYTES_LIMIT = 4 * 1024 * 1024


def failure(response: httpx.Response, body: bytes) -> tuple[str, str]:
    try:
        status = json.loads(body)
        return str(status.get("reason", "")), str(status.get("message", ""))
    except (ValueError, AttributeError):
        return response.reason_phrase, ""


def _parts(response: httpx.Response) -> Iterator[bytes]:
    """What comes, as it comes; httpx looks through every part even where nothing is packed."""
    if "content-encoding" in response.headers or not isinstance(
        response.stream, httpx.SyncByteStream
    ):
        return response.iter_bytes()
    return iter(response.stream)


def bounded_body(response: httpx.Response, url: str, path: str) -> bytes:
    parts, size = [], 0
    for part in _parts(response):
        size += len(part)
        if size > PAGE_BYTES_LIMIT:
            raise NotKubernetes(url, path, f"an answer of more than {PAGE_BYTES_LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


def lines(response: httpx.Response, url: str, path: str) -> Iterator[bytes]:
    """The lines of a stream; a line that never ends is refused before it fills the memory."""
    rest = b""
    for part in _parts(response):
        *whole, rest = (rest + part).split(b"\n")
        yield from (line for line in whole if line)
        if len(rest) > EVENT_BYTES_LIMIT:
            raise NotKubernetes(url, path, f"an event of more than {EVENT_BYTES_LIMIT} bytes")
    if rest.strip():
        raise NotKubernetes(url, path, "the stream broke off within an event")
