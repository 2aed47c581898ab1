"""HTTP to one server, with a new connection for each request.

Put here: connections, with or without a proxy, and the limits of time and size of a response.
Not here: addresses, tokens and the meaning of responses (`kubernetes`, `prometheus`, `ingestion`).

httpx limits each read from a connection, not the time of the whole head of a response: a server
that sends single bytes could block a request for ever. Here a head has to arrive within the time
limit of one read. A connection serves one request, so that bytes after a response are never read as
the next response. A pull has some tens of requests an hour.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx


def make_transport(
    url: str, proxy: str = "", tls: ssl.SSLContext | None = None, address: str = ""
) -> httpx.BaseTransport:
    """A transport to the server, direct or through the proxy of the settings or environment.

    `address` is one of several addresses of the server's name; a proxy chooses one itself.
    """
    there = urlsplit(url)
    # NO_PROXY names a host, or a host with its port.
    names = (there.hostname or "", there.netloc.rpartition("@")[2])
    if not proxy:
        named = getproxies()
        proxy = named.get(there.scheme) or named.get("all") or ""
        proxy = "" if proxy and any(map(proxy_bypass, names)) else proxy
    proxy = proxy if "://" in proxy or not proxy else f"http://{proxy}"
    return ServerTransport(tls, proxy, "" if proxy else address)


class BodyOverLimit(Exception):
    """A body that took too long or is too large; the text says which."""


def whole_body(parts: Iterator[bytes], seconds: float, byte_limit: int) -> bytes:
    """All parts of a body. httpx limits the silence between two of them, not all of the time."""
    body = bytearray()
    deadline = time.monotonic() + seconds
    for part in parts:
        body += part
        if time.monotonic() > deadline:
            raise BodyOverLimit(f"a response that still arrived after {seconds:g} s")
        if len(body) > byte_limit:
            raise BodyOverLimit(f"a response of more than {byte_limit} bytes")
    return bytes(body)


class ServerTransport(httpx.BaseTransport):
    """Requests over connections of httpcore. Safe to use from several threads."""

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        proxy: str = "",
        address: str = "",
    ) -> None:
        self._proxy_scheme = urlsplit(proxy).scheme
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls or ssl.create_default_context(),
            proxy=_proxy(proxy) if self._proxy_scheme in ("http", "https") else None,
            max_connections=None,
            max_keepalive_connections=0,
            network_backend=_Network(address),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._proxy_scheme not in ("", "http", "https"):
            seen = f"a proxy with {self._proxy_scheme}://; gpu-ledger speaks to proxies over"
            raise httpx.ProxyError(f"{seen} http:// and https://")
        with _errors_of_httpx():
            response = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    _url(request.url, request.url.raw_path),
                    headers=request.headers.raw,
                    content=request.read(),
                    extensions=request.extensions,
                )
            )
        connection = response.extensions["network_stream"]
        if isinstance(connection, _Connection):
            connection.end_head()
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    """The body of a response, as it arrives."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx():
            yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Network(httpcore.NetworkBackend):
    """Connections to the host of the request, or to one of its addresses."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._network = httpcore.SyncBackend()

    def connect_tcp(self, host: str, port: int, *others: Any, **named: Any) -> _Connection:
        return _Connection(self._network.connect_tcp(self._address or host, port, *others, **named))


class _Connection(httpcore.NetworkStream):
    """A connection whose responses have a limit of time for their heads.

    The body is limited by its reader: a watch may take as long as it likes.
    """

    def __init__(self, connection: httpcore.NetworkStream) -> None:
        self._connection = connection
        self._in_head = False
        self._deadline: float | None = None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._in_head, self._deadline = True, None
        self._connection.write(buffer, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._in_head and timeout is not None:
            now = time.monotonic()
            if self._deadline is None:
                self._deadline = now + timeout
            timeout = self._deadline - now
            if timeout <= 0:
                raise httpcore.ReadTimeout("the limit of time is reached")
        return self._connection.read(max_bytes, timeout)

    def end_head(self) -> None:
        self._in_head = False

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _Connection:
        return _Connection(self._connection.start_tls(ssl_context, server_hostname, timeout))

    def close(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        return self._connection.get_extra_info(info)


def _url(url: httpx.URL, target: bytes) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=target)


def _proxy(text: str) -> httpcore.Proxy:
    url = httpx.URL(text)
    name, _, password = url.userinfo.decode("ascii").partition(":")
    return httpcore.Proxy(
        _url(url, b"/"),
        auth=(unquote(name), unquote(password)) if name else None,
        ssl_context=ssl.create_default_context() if url.scheme == "https" else None,
    )


@contextlib.contextmanager
def _errors_of_httpx() -> Iterator[None]:
    """httpcore's errors have the names of httpx's."""
    try:
        yield
    except httpcore.RemoteProtocolError as cause:
        raise httpx.RemoteProtocolError(f"incomplete HTTP response: {cause}") from cause
    except httpcore.ProxyError as cause:
        raise httpx.ProxyError(f"the proxy refused a tunnel: {cause}") from cause
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as cause:
        name = type(cause).__name__
        raise getattr(httpx, name, httpx.TransportError)(_text(cause)) from cause


def _text(cause: Exception) -> str:
    """The full text: a cut could hide a part of a secret from the search for it."""
    origin = cause.__context__ or cause
    return f"{type(origin).__name__}: {origin}"
