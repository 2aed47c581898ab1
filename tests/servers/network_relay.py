"""A network that a test can interrupt: a TCP relay between a client and a server on loopback.

Put here: passing bytes on, and interrupting that.
Not here: any protocol; TLS passes unchanged.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

CHUNK_BYTES = 1 << 16


class Relay:
    """Listens on a port of its own and passes all bytes on to another."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        with self._lock:
            self._cut = True
            broken, self._open = self._open, set()
        for each in broken:
            _break(each)

    def mend(self) -> None:
        with self._lock:
            self._cut = False

    def close(self) -> None:
        self.cut()
        _break(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target_port), timeout=10)
            except ConnectionError:
                _break(near)
                continue
            except OSError:
                return
            far.settimeout(None)
            with self._lock:
                if self._cut:
                    _break(near)
                    _break(far)
                    continue
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while chunk := source.recv(CHUNK_BYTES):
                sink.sendall(chunk)
        except OSError:
            pass
        for each in (source, sink):
            _break(each)
        with self._lock:
            self._open -= {source, sink}


def _break(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def relayed(target_port: int) -> Iterator[Relay]:
    relay = Relay(target_port)
    try:
        yield relay
    finally:
        relay.close()
