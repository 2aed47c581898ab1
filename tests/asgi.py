"""Requests to an ASGI application without a port.

Put here: a client that waits, and requests with the bytes of the wire, which no client library
would send.
Not here: real sockets (`tests/servers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx


class Client:
    """GET and POST of one application, with httpx's answers."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://fake") as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as on the wire; the target is ASCII, as servers demand."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class RawResponse:
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


async def respond(app: Any, request: RawRequest) -> RawResponse:
    """The response to a request, whose path is decoded once, as uvicorn does."""
    raw_path, _, query = request.target.encode("ascii").partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(n.lower().encode("ascii"), v.encode("latin-1")) for n, v in request.headers],
        "client": ("127.0.0.1", 1),
        "server": ("fake", 80),
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *bodies = messages
    body = b"".join(message.get("body", b"") for message in bodies)
    return RawResponse(start["status"], sorted(start["headers"]), body)
