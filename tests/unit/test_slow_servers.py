"""A server that answers a byte at a time, never silent for long, keeps no client for ever.

Put here: real sockets and a real clock.
Not here: silence (`test_thanos_client`, `test_collector_watcher`), or answers without an end
(`test_hostile_responses`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clients.kubernetes_errors import NotKubernetes
from ingestion.kubernetes import answers
from ingestion.kubernetes.client import ApiClient, ApiSettings
from ingestion.settings import Connection
from ingestion.thanos.client import ThanosClient

PAUSE_SECONDS = 0.05
GIVES_UP_SECONDS = 20.0  # a busy machine; a client without a limit would go on for minutes


class Trickle(BaseHTTPRequestHandler):
    """Ten thousand bytes in 500 s."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "10000")
        self.end_headers()
        ended: threading.Event = self.server.ended  # type: ignore[attr-defined]
        try:
            for _ in range(10_000):
                self.wfile.write(b" ")
                if ended.wait(PAUSE_SECONDS):
                    return
        except OSError:
            return  # the client gave up

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    server.ended = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.ended.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_query_ends_when_its_time_is_over(url: str) -> None:
    began = time.monotonic()
    with ThanosClient(Connection(url, timeout_seconds=1)) as client:
        reply = client.post("/api/v1/query", {"query": "up"})
    assert (reply.timed_out, reply.failure) == (True, "still arriving after 1 s")
    assert time.monotonic() - began < GIVES_UP_SECONDS


def test_a_page_of_objects_ends_when_its_time_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PAGE_SECONDS_LIMIT", 1.0)
    began = time.monotonic()
    client = ApiClient(ApiSettings(url))
    with pytest.raises(NotKubernetes, match="still arrived after 1 s"):
        client.get("/api/v1/pods")
    assert time.monotonic() - began < GIVES_UP_SECONDS
