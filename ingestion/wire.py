"""HTTP to one server, over connections that are kept: what requests are sent through.

Put here: which way and over which connection a request is sent, and when one may be used again.
Not here: addresses, tokens and what answers mean (`kubernetes.client`, `thanos.client`).

It is a transport as httpx defines them, over the standard library's connections. For a list of
20 kB that takes 170 us of the processor's time, where httpx with its own transport takes 400 (pools
for any host, cookies, redirects, answers read in Python), and urllib3 alone 210. A collector asks
for eight things an hour, a pull twenty a day of a cluster, and both for a month of them at once. A
parser in C would take 85; it is not worth a reader of answers of our own.
"""

from __future__ import annotations

import contextlib
import io
import select
import socket
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# What is read of a connection at a time: what is packed may be a thousand times as much.
READ_BYTES = 64 * 1024
# What lies between us and a server forgets a connection after minutes, and tells nobody. What an
# hour asks comes within seconds; a new connection an hour costs nothing.
IDLE_SECONDS = 10.0


def transport_to(url: str, proxy: str, tls: ssl.SSLContext | None) -> httpx.BaseTransport:
    """Straight to the server, or through what the settings or the environment name."""
    there = urlsplit(url)
    # NO_PROXY names a host, or a host with its port.
    names = (there.hostname or "", there.netloc.rpartition("@")[2])
    if not proxy:
        named = getproxies()
        proxy = named.get(there.scheme) or named.get("all") or ""
        proxy = "" if proxy and any(map(proxy_bypass, names)) else proxy
    if not proxy:
        return KeptConnections(url, tls)
    return httpx.HTTPTransport(
        verify=tls or True, proxy=proxy if "://" in proxy else f"http://{proxy}", trust_env=False
    )


class KeptConnections(httpx.BaseTransport):
    """Sends each request over a connection that nobody uses at the moment. Safe for threads."""

    def __init__(
        self, url: str, tls: ssl.SSLContext | None, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        there = httpx.URL(url)
        self._host, self._port = there.raw_host.decode("ascii"), there.port
        self._tls = (tls or ssl.create_default_context()) if there.scheme == "https" else None
        self._idle_seconds = idle_seconds
        self._idle: list[tuple[socket.socket, float]] = []  # and since when

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        while (kept := self._kept()) is not None:
            # A server leaves a connection when it likes, perhaps just now, and does nothing for
            # whoever still used it; and everything that we ask may be asked again.
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

    def give_back(self, connection: socket.socket) -> None:
        """An answer came to its end, and the server waits for another request."""
        self._idle.append((connection, time.monotonic()))

    def _kept(self) -> socket.socket | None:
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

    def _connected(self, seconds: float | None) -> socket.socket:
        connecting = (
            HTTPConnection(self._host, self._port, timeout=seconds)
            if self._tls is None
            else HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        )
        try:
            connecting.connect()
        except TimeoutError as cause:
            raise httpx.ConnectTimeout(_said(cause)) from cause
        except OSError as cause:
            raise httpx.ConnectError(_said(cause)) from cause
        connected: socket.socket = connecting.sock
        return connected

    def _exchange(
        self, connection: socket.socket, request: httpx.Request, read_seconds: float | None
    ) -> httpx.Response:
        """Ask, and read until it is known what is answered; the body comes later."""
        answer: HTTPResponse | None = None
        try:
            connection.settimeout(read_seconds)
            connection.sendall(_written(request))
            head = _LimitedHead(connection, read_seconds)
            answer = HTTPResponse(head, method=request.method)  # type: ignore[arg-type]
            answer.begin()
            head.end()
            headers = [(name.encode("latin-1"), text.encode("latin-1"))
                       for name, text in answer.getheaders()]  # fmt: skip
            stream = _Body(self, connection, answer)
            return httpx.Response(answer.status, headers=headers, stream=stream)
        except BaseException:
            if answer is not None:
                answer.close()  # it holds the connection, too
            connection.close()
            raise


class _LimitedHead(io.RawIOBase):
    """The bytes of an answer; its head has to come within the time that one read may take.

    A server that sends a byte of a header now and then would otherwise hold the request for ever.
    The body is limited by its reader: a watch may take as long as it likes.
    """

    def __init__(self, connection: socket.socket, seconds: float | None) -> None:
        self._connection, self._seconds = connection, seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._bytes = connection.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def end(self) -> None:
        """The head is read."""
        self._deadline = None
        self._connection.settimeout(self._seconds)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"its head still arrived after {self._seconds} s")
            self._connection.settimeout(left)
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


def _written(request: httpx.Request) -> bytes:
    """Head and body as they are sent, in one piece: the server need not be woken twice."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % header for header in request.headers.raw]
    head = b"\r\n".join([*lines, b""])
    if head.count(b"\n") > len(lines) or head.count(b"\r") > len(lines):
        raise httpx.LocalProtocolError("a header of several lines")
    return b"%b\r\n%b" % (head, request.read())


class _Body(httpx.SyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(
        self, wire: KeptConnections, connection: socket.socket, answer: HTTPResponse
    ) -> None:
        self._wire, self._answer = wire, answer
        self._connection: socket.socket | None = connection

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
                raise httpx.RemoteProtocolError(f"no whole answer in HTTP: {missing}")
            elif not may_end:
                # The head may have broken off before it could say how long the answer is.
                raise httpx.RemoteProtocolError("no whole answer in HTTP: it ended with its head")

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
        raise httpx.RemoteProtocolError(f"no whole answer in HTTP: {_said(cause)}") from cause
    except TimeoutError as cause:
        raise httpx.ReadTimeout(_said(cause)) from cause
    except OSError as cause:
        raise httpx.ReadError(_said(cause)) from cause


def _said(cause: Exception) -> str:
    """In full: whoever cuts it looks first for a secret in it, which a cut would hide."""
    return f"{type(cause).__name__}: {cause}"
