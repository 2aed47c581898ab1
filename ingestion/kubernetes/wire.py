"""HTTP to one API server, over connections that are kept: what requests are sent through.

Put here: sockets, TLS, and when a connection may be used again.
Not here: addresses, tokens and what answers mean (`client`); proxies, for which httpx has its own
transport.

It is a transport as httpx defines them, with httptools' parser of answers underneath: what httpx
does beside it (pools for any host, cookies, redirects, its own parser in Python) takes ten times as
long as it takes to send a request and to read what comes back, and a collector asks for eight
things an hour for every cluster, in a whole month of a driven clock at once.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Iterator

import httptools
import httpx

# What is read of a socket at a time: what is packed may be a thousand times as much.
READ_BYTES = 64 * 1024
# What may come without a word of the answer's body: headers, of which a real server sends a dozen.
HEADERS_BYTES_LIMIT = 256 * 1024


class KeptConnections(httpx.BaseTransport):
    """Sends each request over a connection that nobody uses at the moment. Safe for threads."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        there = httpx.URL(url)
        self._host = there.raw_host.decode("ascii")
        self._tls = tls if there.scheme == "https" else None
        self._port = there.port or (443 if self._tls else 80)
        self._idle: list[socket.socket] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        head = _head(request) + request.read()
        timeouts = request.extensions.get("timeout", {})
        while (kept := self._kept()) is not None:
            answer = _Answer(self, kept)
            try:
                return answer.to(head, timeouts.get("read"))
            except (httpx.RemoteProtocolError, httpx.NetworkError):
                # A server leaves a connection when it likes, perhaps just now, and asks nothing
                # of whoever used it: everything that we ask may be asked again.
                if answer.has_begun:
                    raise
        answer = _Answer(self, self._connected(timeouts.get("connect")))
        return answer.to(head, timeouts.get("read"))

    def close(self) -> None:
        while self._idle:
            _leave(self._idle.pop())

    def give_back(self, connection: socket.socket) -> None:
        """An answer came to its end, and the server waits for another request."""
        self._idle.append(connection)

    def _kept(self) -> socket.socket | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            waiting = select.poll()
            waiting.register(connection, select.POLLIN)
            if not waiting.poll(0):
                return connection
            _leave(connection)  # it was closed meanwhile, or somebody spoke who was not asked

    def _connected(self, seconds: float | None) -> socket.socket:
        try:
            plain = socket.create_connection((self._host, self._port), seconds)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            return self._tls.wrap_socket(plain, server_hostname=self._host)
        except TimeoutError as cause:
            raise httpx.ConnectTimeout(str(cause)) from cause
        except OSError as cause:
            raise httpx.ConnectError(str(cause)) from cause


class _Answer(httpx.SyncByteStream):
    """One answer, as it comes; the parser calls what begins with `on_`."""

    def __init__(self, wire: KeptConnections, connection: socket.socket) -> None:
        self.has_begun = False
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_headed = False
        self._is_whole = False
        self._is_kept = False
        self._bytes_without_body = 0
        self._wire = wire
        self._connection: socket.socket | None = connection
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    def to(self, head: bytes, read_seconds: float | None) -> httpx.Response:
        """Send a request, and read until it is known what is answered; the body comes later."""
        assert self._connection is not None, "one question for one answer"
        try:
            self._connection.settimeout(read_seconds)
            _send(self._connection, head)
            while not self._is_headed:
                self._read_on()
        except BaseException:
            self.close()
            raise
        return httpx.Response(self._status, headers=self._headers, stream=self)

    # --- called by the parser -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise httpx.RemoteProtocolError("two answers to one question")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._is_headed = self._status >= 200  # before, a server only says that it is at work
        if not self._is_headed:
            self._headers.clear()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._bytes_without_body = 0

    def on_message_complete(self) -> None:
        self._is_whole = self._is_headed
        self._is_kept = self._parser.should_keep_alive()

    # --- reading ------------------------------------------------------------------------------

    def _read_on(self) -> None:
        """What the socket has, through the parser."""
        assert self._connection is not None, "nobody reads on after the end"
        try:
            said = self._connection.recv(READ_BYTES)
        except TimeoutError as cause:
            raise httpx.ReadTimeout(str(cause)) from cause
        except OSError as cause:
            raise httpx.ReadError(str(cause)) from cause
        if said:
            self.has_begun = True
            self._parse(said)
        elif self._is_headed and not self._has_length():
            self._is_whole = True  # an answer that ends when its connection does
        else:
            raise httpx.RemoteProtocolError("the server left before its answer was whole")

    def _parse(self, said: bytes) -> None:
        self._bytes_without_body += len(said)
        try:
            self._parser.feed_data(said)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as cause:
            why = f"no answer in HTTP: {cause.__context__ or cause}"
            raise httpx.RemoteProtocolError(why) from cause
        if self._bytes_without_body > HEADERS_BYTES_LIMIT:
            raise httpx.RemoteProtocolError(f"more than {HEADERS_BYTES_LIMIT} bytes of headers")

    def _has_length(self) -> bool:
        names = {name.lower() for name, _ in self._headers}
        return bool(names & {b"content-length", b"transfer-encoding"})

    def __iter__(self) -> Iterator[bytes]:
        while self._parts or not self._is_whole:
            if not self._parts:
                self._read_on()
            parts, self._parts = self._parts, []
            yield from parts

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._is_whole and self._is_kept and not self._parts:
            self._wire.give_back(connection)
        else:
            _leave(connection)


def _head(request: httpx.Request) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _send(connection: socket.socket, head: bytes) -> None:
    try:
        connection.sendall(head)
    except TimeoutError as cause:
        raise httpx.WriteTimeout(str(cause)) from cause
    except OSError as cause:
        raise httpx.WriteError(str(cause)) from cause


def _leave(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.close()
