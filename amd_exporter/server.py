"""The HTTP server: metrics, `/healthz`, `/readyz`, with TLS if a certificate is set.

Put here: requests, TLS and its reload, limits of connections.
Not here: the contents of the page (`exposition`).
"""

from __future__ import annotations

import gzip
import logging
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from amd_exporter.collection import SnapshotCollector
from amd_exporter.settings import ExporterSettings

log = logging.getLogger("amd_exporter")

REQUEST_SECONDS_LIMIT = 10.0  # for a handshake, and between two reads
CONNECTIONS_LIMIT = 32
REFUSED = "readings need a client certificate\n"


class MetricsServer(ThreadingHTTPServer):
    """Serves one registry. Handshakes and requests run in threads: slow clients block no others."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, settings: ExporterSettings, registry: CollectorRegistry, collection: SnapshotCollector
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
        self.settings = settings
        self.registry = registry
        self.collection = collection
        self._connections = threading.BoundedSemaphore(CONNECTIONS_LIMIT)
        self._tls = _Certificates(settings) if settings.tls_cert else None
        super().__init__((settings.address, settings.port), _MetricsHandler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        connection.settimeout(REQUEST_SECONDS_LIMIT)
        if self._tls is None:
            return connection, address
        # The handshake waits for the client, so it runs in the client's thread, at the first read.
        wrapped = self._tls.context().wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request from %s failed", client_address, exc_info=True)


class _Certificates:
    """The TLS context; created again when the files change."""

    def __init__(self, settings: ExporterSettings) -> None:
        assert settings.tls_cert is not None
        assert settings.tls_key is not None
        self._files = (settings.tls_cert, settings.tls_key)
        self._client_ca = settings.tls_client_ca
        self._state = self._file_states()
        self._context = self._load()  # an invalid certificate stops the start

    def context(self) -> ssl.SSLContext:
        state = self._file_states()
        if state != self._state:
            try:
                self._context = self._load()
                self._state = state
                log.info("certificates were loaded again")
            except (OSError, ssl.SSLError) as error:
                # The files are only partly replaced: keep the old pair until both match.
                log.warning("certificates cannot be loaded: %s", error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            # The kubelet's probes have no certificate, so the handshake does not require one. The
            # metrics page does.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _file_states(self) -> tuple[Any, ...]:
        paths: list[Path] = [*self._files, *([self._client_ca] if self._client_ca else [])]
        try:
            return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in (p.stat() for p in paths))
        except OSError:
            return ()


class _MetricsHandler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "gpu-ledger-amd-exporter"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        snapshot = self.server.collection.snapshot
        if path == "/healthz":
            is_alive = self.server.collection.is_alive
            self._respond(200 if is_alive else 503, "ok\n" if is_alive else "no collection runs\n")
        elif path == "/readyz":
            reasons = [f"{name}: {reason}" for name, reason in snapshot.problems.items()]
            reason = "; ".join(reasons) or "no collection yet"
            ready = snapshot.is_ready
            self._respond(200 if ready else 503, "ok\n" if ready else f"not ready: {reason}\n")
        elif path != self.server.settings.metrics_path:
            self._respond(404, f"metrics are at {self.server.settings.metrics_path}\n")
        elif not self._may_read():
            self._respond(403, REFUSED)
        else:
            self._metrics()

    do_HEAD = do_GET

    def _may_read(self) -> bool:
        if self.server.settings.tls_client_ca is None:
            return True
        return isinstance(self.connection, ssl.SSLSocket) and bool(self.connection.getpeercert())

    def _metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        compress = "gzip" in self.headers.get("Accept-Encoding", "")
        self._send(200, gzip.compress(body, 5) if compress else body, content_type, compress)

    def _respond(self, status: int, text: str) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8")

    def _send(self, status: int, body: bytes, content_type: str, is_gzip: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if is_gzip:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug(format, *arguments)
