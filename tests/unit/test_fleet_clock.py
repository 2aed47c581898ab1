"""Reading the clock of a simulated fleet over HTTP."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from orchestration.fleet_clock import FleetClock


class Clock(BaseHTTPRequestHandler):
    """A clock with a fixed time that counts the connections of its readers."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def do_GET(self) -> None:
        body = b'{"now":"2026-10-01T00:00:00Z"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Suppress the log, because the output of a test is for its failure."""


def test_clock_reads_share_one_client_and_connection() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Clock)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    clock = FleetClock(f"http://127.0.0.1:{server.server_port}/-/clock")
    assert {clock.now() for _ in range(50)} == {datetime(2026, 10, 1, tzinfo=UTC)}
    server.shutdown()
    assert Clock.connections == 1
