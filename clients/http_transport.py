"""HTTP to one server, over a pool of connections.

Put here: connections, with or without a proxy, and the limits of time and size of a response.
Not here: addresses, tokens and the meaning of responses (`kubernetes`, `prometheus`, `ingestion`).

It is a transport of httpx over the standard library's connections, for two reasons. httpx has no
limit for the total time of a head: a server that sends one byte now and then would hold a request
for ever. And bytes that a server sends after a response must not be read as the next response: such
a connection is closed.
"""

from __future__ import annotations

import base64
import contextlib
import io
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

# Compressed bytes that are read at a time; they may become a thousand times as many.
READ_BYTES = 64 * 1024
# Firewalls and load balancers drop idle connections after minutes without notice. The queries of an
# hour follow each other within seconds, and a new connection per hour costs nothing.
IDLE_SECONDS = 10.0


def make_transport(
    url: str, proxy: str = "", tls: ssl.SSLContext | None = None, address: str = ""
) -> httpx.BaseTransport:
    """Straight to the server, or through the proxy of the settings or of the environment.

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
    return ConnectionPool(url, tls, proxy, address="" if proxy else address)


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


class _Connection(Protocol):
    """The common interface of a socket, a TLS socket, and TLS inside TLS."""

    def settimeout(self, value: float | None, /) -> None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def recv_into(self, buffer: WriteableBuffer, /) -> int: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class ConnectionPool(httpx.BaseTransport):
    """Sends each request over a connection that no other request uses. Safe for threads."""

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext | None = None,
        proxy: str = "",
        *,
        idle_seconds: float = IDLE_SECONDS,
        address: str = "",
    ) -> None:
        there = httpx.URL(url)
        self._host = there.raw_host.decode("ascii")
        self._address = address or self._host
        self._port = there.port or (443 if there.scheme == "https" else 80)
        self._tls = (tls or ssl.create_default_context()) if there.scheme == "https" else None
        self._proxy = _Proxy(proxy) if proxy else None
        self._idle_seconds = idle_seconds
        self._idle: list[tuple[_Connection, float]] = []  # and since when

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        # A server leaves a connection when it likes, perhaps just now; then the request is sent
        # again, which a change of an object must not be.
        while request.method != "PATCH" and (kept := self._kept()) is not None:
            try:
                with _as_httpx_says(but=(ConnectionError, TimeoutError)):
                    return self._exchange(kept, request, timeouts.get("read"))
            except ConnectionError:
                continue
            except TimeoutError:
                self.close()  # forgotten on the way, as the others are that wait beside it
                break
        connection = self._connected(timeouts.get("connect"))
        with _as_httpx_says():
            return self._exchange(connection, request, timeouts.get("read"))

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[0].close()

    def give_back(self, connection: _Connection) -> None:
        """The response was read to its end, and the server waits for another request."""
        self._idle.append((connection, time.monotonic()))

    def _kept(self) -> _Connection | None:
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            waiting = select.poll()
            waiting.register(connection, select.POLLIN)
            if time.monotonic() - since < self._idle_seconds and not waiting.poll(0):
                return connection
            connection.close()  # too old; or the server left, or spoke without being asked

    def _connected(self, seconds: float | None) -> _Connection:
        """A new connection to the server; a proxy and TLS on the way share its limit of time."""
        deadline = None if seconds is None else time.monotonic() + seconds
        there = self._proxy
        if self._proxy is not None and self._proxy.scheme not in ("http", "https"):
            seen = f"a proxy with {self._proxy.scheme}://; gpu-ledger speaks to proxies over"
            raise httpx.ProxyError(f"{seen} http:// and https://")
        connection: _Connection | None = None
        try:
            place = (there._host, there._port) if there else (self._address, self._port)
            connection = plain = socket.create_connection(place, seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._proxy is not None and self._proxy.tls is not None:
                connection = plain = self._proxy.tls.wrap_socket(
                    plain, server_hostname=self._proxy._host
                )
            if self._tls is None:
                return connection
            if self._proxy is not None:
                self._proxy.open_tunnel(connection, self._host, self._port, deadline)
            _limit(connection, deadline)
            if isinstance(plain, ssl.SSLSocket):
                connection = _TlsInTls(plain, self._tls, self._host)
            else:
                connection = self._tls.wrap_socket(plain, server_hostname=self._host)
            return connection
        except BaseException as cause:
            if connection is not None:
                connection.close()
            if isinstance(cause, TimeoutError):
                raise httpx.ConnectTimeout(_said(cause)) from cause
            if isinstance(cause, OSError | HTTPException):
                raise httpx.ConnectError(_said(cause)) from cause
            raise

    def _exchange(
        self, connection: _Connection, request: httpx.Request, read_seconds: float | None
    ) -> httpx.Response:
        """Send the request, and read the head of its response; the body comes later."""
        try:
            connection.settimeout(read_seconds)
            connection.sendall(self._written(request))
            deadline = None if read_seconds is None else time.monotonic() + read_seconds
            answer = _head_of_response(connection, request.method, deadline)
            connection.settimeout(read_seconds)
            headers = [(name.encode("latin-1"), text.encode("latin-1"))
                       for name, text in answer.getheaders()]  # fmt: skip
            stream = _Body(self, connection, answer)
            return httpx.Response(answer.status, headers=headers, stream=stream)
        except BaseException:
            connection.close()
            raise

    def _written(self, request: httpx.Request) -> bytes:
        """Head and body as they are sent, in one piece: the server need not be woken twice."""
        url, headers = request.url, list(request.headers.raw)
        target = url.raw_path
        if self._proxy is not None and self._tls is None:
            target = b"%b://%b%b" % (url.raw_scheme, url.netloc, target)
            headers += self._proxy.headers
        lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), target)]
        lines += [b"%b: %b" % header for header in headers]
        head = b"\r\n".join([*lines, b""])
        if head.count(b"\n") > len(lines) or head.count(b"\r") > len(lines):
            raise httpx.LocalProtocolError("a header of several lines")
        return b"%b\r\n%b" % (head, request.read())


class _Proxy:
    """The proxy that every connection goes through."""

    def __init__(self, url: str) -> None:
        there = httpx.URL(url)
        self.scheme = there.scheme
        self._host = there.raw_host.decode("ascii")
        self._port = there.port or (443 if there.scheme == "https" else 80)
        self.tls = ssl.create_default_context() if there.scheme == "https" else None
        self.headers: list[tuple[bytes, bytes]] = []
        if there.userinfo:
            basic = base64.b64encode(unquote(there.userinfo.decode("ascii")).encode())
            self.headers = [(b"Proxy-Authorization", b"Basic " + basic)]

    def open_tunnel(
        self, connection: _Connection, host: str, port: int, deadline: float | None
    ) -> None:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {name} HTTP/1.1\r\nHost: {name}".encode("ascii")]
        lines += [b"%b: %b" % header for header in self.headers]
        connection.sendall(b"\r\n".join([*lines, b"", b""]))
        answer = _head_of_response(connection, "CONNECT", deadline)
        if not 200 <= answer.status < 300:
            raise httpx.ProxyError(f"the proxy refused a tunnel: HTTP {answer.status}")


def _limit(connection: _Connection, deadline: float | None) -> None:
    """Let the next operation of a connection end at the deadline."""
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the limit of time is reached")
    connection.settimeout(left)


def _head_of_response(connection: _Connection, method: str, deadline: float | None) -> HTTPResponse:
    incoming = _Incoming(connection, deadline)
    answer = HTTPResponse(incoming, method=method)  # type: ignore[arg-type]
    answer.begin()
    incoming.deadline = None
    return answer


class _Incoming(io.RawIOBase):
    """The bytes of a response. Its head has to come within the time that one read may take.

    The body is limited by its reader: a watch may take as long as it likes.
    """

    def __init__(self, connection: _Connection, deadline: float | None) -> None:
        self._connection, self.deadline = connection, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        _limit(self._connection, self.deadline)
        return self._connection.recv_into(buffer)


class _TlsInTls:
    """TLS to a server through a proxy that itself speaks TLS, which `ssl` cannot wrap twice."""

    def __init__(self, outer: ssl.SSLSocket, tls: ssl.SSLContext, host: str) -> None:
        self._outer, self._seconds = outer, outer.gettimeout()
        self.fileno, self.close = outer.fileno, outer.close
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._inner = tls.wrap_bio(self._received, self._to_send, server_hostname=host)
        self._complete(self._inner.do_handshake)

    def settimeout(self, value: float | None, /) -> None:
        self._seconds = value

    def sendall(self, data: bytes, /) -> None:
        self._complete(lambda: self._inner.write(data))

    def recv_into(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        try:
            received = self._complete(lambda: self._inner.read(len(view)))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        view[: len(received)] = received
        return len(received)

    def _complete(self, step: Callable[[], T]) -> T:
        """Repeat a step of the inner TLS until it needs no more bytes, within its limit of time."""
        deadline = None if self._seconds is None else time.monotonic() + self._seconds
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                is_complete = False
            else:
                is_complete = True
            self._outer.settimeout(self._seconds)
            self._outer.sendall(self._to_send.read())
            if is_complete:
                return result
            _limit(self._outer, deadline)
            if part := self._outer.recv(READ_BYTES):
                self._received.write(part)
            else:
                self._received.write_eof()


class _Body(httpx.SyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(self, wire: ConnectionPool, connection: _Connection, answer: HTTPResponse) -> None:
        self._wire, self._answer = wire, answer
        self._connection: _Connection | None = connection

    def __iter__(self) -> Iterator[bytes]:
        may_end = self._answer.chunked or self._answer.length is not None
        while not self._answer.isclosed():
            if self._answer.length == 0:
                self._answer.close()  # to the last byte that was announced
                return
            with _as_httpx_says():
                part = self._answer.read1(READ_BYTES)
            if part:
                may_end = True
                yield part
            elif self._answer.length:
                missing = f"{self._answer.length} bytes are missing"
                raise httpx.RemoteProtocolError(f"incomplete HTTP response: {missing}")
            elif not may_end:
                # The head may have broken off before it could say how long the answer is.
                raise httpx.RemoteProtocolError("incomplete HTTP response: it ended with its head")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._answer.isclosed() and not self._answer.length and not self._answer.will_close:
            self._wire.give_back(connection)
        else:
            self._answer.close()
            connection.close()


@contextlib.contextmanager
def _as_httpx_says(but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Errors as any transport of httpx names them."""
    try:
        yield
    except but:
        raise
    except HTTPException as cause:
        raise httpx.RemoteProtocolError(f"incomplete HTTP response: {_said(cause)}") from cause
    except TimeoutError as cause:
        raise httpx.ReadTimeout(_said(cause)) from cause
    except OSError as cause:
        raise httpx.ReadError(_said(cause)) from cause


def _said(cause: Exception) -> str:
    """The full text: a cut could hide a part of a secret from the search for it."""
    return f"{type(cause).__name__}: {cause}"
