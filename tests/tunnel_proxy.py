"""A proxy that opens tunnels (CONNECT), like those between a cluster and the outside.

Put here: tunnels over plain sockets and over TLS, and the proxy's possible responses.
Not here: proxies that read the traffic (`query_proxies`).
"""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class TunnelProxy(socketserver.ThreadingTCPServer):
    """Connects every tunnel to the requested port on this machine."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None, answer: bytes, pause_seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.heads: list[bytes] = []
        self.answer, self.pause_seconds = answer, pause_seconds
        self.ended = threading.Event()
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"


class _Tunnel(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        proxy, near = self.server, self.request
        assert isinstance(proxy, TunnelProxy)
        head = b""
        try:
            while not head.endswith(b"\r\n\r\n"):
                if not (part := near.recv(1)):
                    return
                head += part
            proxy.heads.append(head)
            if not proxy.pause_seconds:
                near.sendall(proxy.answer)
            for byte in proxy.answer if proxy.pause_seconds else b"":
                near.sendall(bytes([byte]))
                if proxy.ended.wait(proxy.pause_seconds):
                    return
            if proxy.answer == OPENED:
                port = int(head.split(b" ")[1].rpartition(b":")[2])
                with socket.create_connection(("127.0.0.1", port)) as far:
                    self._pass_on(near, far)
        except OSError:
            return  # a client or a server has disconnected

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        while True:
            unread = isinstance(near, ssl.SSLSocket) and near.pending()
            ready = [near] if unread else select.select([near, far], [], [])[0]
            for source in ready:
                if not (part := source.recv(1 << 16)):
                    return
                (far if source is near else near).sendall(part)


@contextmanager
def tunnel_proxy(
    tls: ssl.SSLContext | None = None, answer: bytes = OPENED, pause_seconds: float = 0.0
) -> Iterator[TunnelProxy]:
    with TunnelProxy(tls, answer, pause_seconds) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.ended.set()
            proxy.shutdown()
