"""Requests to an ASGI application without a port.

Put here: a synchronous client.
Not here: real sockets (`tests/servers`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Client:
    """GET and POST of one application, with responses of httpx."""

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
