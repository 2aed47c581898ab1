"""HTTP to one API server, over connections that are kept: what requests are sent through.

Put here: which connection a request is sent over, and when one may be used again.
Not here: addresses, tokens and what answers mean (`client`); proxies, for which httpx has its own
transport.

It is a transport as httpx defines them, over the standard library's connections. For a list of
20 kB that takes 170 us of the processor's time, where httpx with its own transport takes 400 (pools
for any host, cookies, redirects, answers read in Python), and urllib3 alone 210. A collector asks
for eight things an hour, and under a driven clock for a month of hours at once. A parser in C would
take 85; it is not worth a reader of answers of our own.
"""

from __future__ import annotations

import contextlib
import select
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection

import httpx

# What is read of a connection at a time: what is packed may be a thousand times as much.
READ_BYTES = 64 * 1024


class KeptConnections(httpx.BaseTransport):
    """Sends each request over a connection that nobody uses at the moment. Safe for threads."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        there = httpx.URL(url)
        self._host, self._port = there.raw_host.decode("ascii"), there.port
        self._tls = tls if there.scheme == "https" else None
        self._idle: list[HTTPConnection] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        while (kept := self._kept()) is not None:
            # A server leaves a connection when it likes, perhaps just now, and does nothing for
            # whoever still used it; and everything that we ask may be asked again.
            with contextlib.suppress(ConnectionError), _as_httpx_says(ConnectionError):
                return self._exchange(kept, request, timeouts.get("read"))
        connection = self._connected(timeouts.get("connect"))
        with _as_httpx_says():
            return self._exchange(connection, request, timeouts.get("read"))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def give_back(self, connection: HTTPConnection) -> None:
        """An answer came to its end, and the server waits for another request."""
        self._idle.append(connection)

    def _kept(self) -> HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            waiting = select.poll()
            waiting.register(connection.sock, select.POLLIN)
            if not waiting.poll(0):
                return connection
            connection.close()  # the server left meanwhile, or spoke without being asked

    def _connected(self, seconds: float | None) -> HTTPConnection:
        connection = (
            HTTPConnection(self._host, self._port, timeout=seconds)
            if self._tls is None
            else HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        )
        try:
            connection.connect()
        except TimeoutError as cause:
            raise httpx.ConnectTimeout(_said(cause)) from cause
        except OSError as cause:
            raise httpx.ConnectError(_said(cause)) from cause
        return connection

    def _exchange(
        self, connection: HTTPConnection, request: httpx.Request, read_seconds: float | None
    ) -> httpx.Response:
        """Ask, and read until it is known what is answered; the body comes later."""
        try:
            connection.sock.settimeout(read_seconds)
            path = request.url.raw_path.decode("ascii")
            connection.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.raw:
                connection.putheader(name, value)
            connection.endheaders(request.read() or None)
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        stream = _Body(self, connection, answer)
        return httpx.Response(answer.status, headers=answer.getheaders(), stream=stream)


class _Body(httpx.SyncByteStream):
    """The body of an answer, as it comes."""

    def __init__(
        self, wire: KeptConnections, connection: HTTPConnection, answer: HTTPResponse
    ) -> None:
        self._wire, self._answer = wire, answer
        self._connection: HTTPConnection | None = connection

    def __iter__(self) -> Iterator[bytes]:
        while not self._answer.isclosed():
            if self._answer.length == 0:
                self._answer.close()  # to the last byte that was announced
                return
            with _as_httpx_says():
                part = self._answer.read1(READ_BYTES)
            if part:
                yield part
            elif self._answer.length:
                missing = f"{self._answer.length} bytes are missing"
                raise httpx.RemoteProtocolError(f"no whole answer in HTTP: {missing}")

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
def _as_httpx_says(but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
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
    return f"{type(cause).__name__}: {cause}"[:200]
