"""A server that answers a byte at a time, never silent for long, keeps no client for ever.

Put here: real sockets and a real clock.
Not here: silence (`test_thanos_client`, `test_collector_watcher`), or answers without an end
(`test_hostile_responses`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clients import kubernetes, prometheus
from clients.kubeconfig import ClusterAccess
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import NotKubernetes, ServerUnreachable
from clients.prometheus import PrometheusClient, PrometheusFailed
from ingestion.kubernetes import answers
from ingestion.kubernetes.client import ApiClient, ApiSettings
from ingestion.settings import Connection
from ingestion.thanos.client import ThanosClient

PAUSE_SECONDS = 0.05
GIVES_UP_SECONDS = 20.0  # a busy machine; a client without a limit would go on for minutes


class Trickle(BaseHTTPRequestHandler):
    """Ten thousand bytes in 500 s: of a body, or of a header where the path says so."""

    def do_GET(self) -> None:
        if "/heads/" in self.path:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Padding: ")
            self._trickle()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "10000")
        self.end_headers()
        self._trickle()

    def _trickle(self) -> None:
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


def test_a_head_ends_when_its_time_is_over(url: str) -> None:
    began = time.monotonic()
    with ThanosClient(Connection(f"{url}/heads", timeout_seconds=1)) as client:
        reply = client.post("/api/v1/query", {"query": "up"})
    assert (reply.timed_out, reply.failure) == (True, "timed out (ReadTimeout)")
    assert time.monotonic() - began < GIVES_UP_SECONDS


def test_a_watch_ends_when_the_time_of_its_head_is_over(url: str) -> None:
    began = time.monotonic()
    client = ApiClient(ApiSettings(f"{url}/heads"), silence_seconds=0.3)
    with pytest.raises(ServerUnreachable, match="ReadTimeout"):
        next(client.watch("pods", 7))
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


def test_the_clients_of_the_pruner_end_when_their_time_is_over(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "READ_SECONDS", 0.3)
    monkeypatch.setattr(kubernetes, "READ_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(PrometheusFailed, match="still arrived after 0 s"):
        PrometheusClient(url).raw_samples("up[5m]", datetime(2026, 10, 1, tzinfo=UTC))
    with pytest.raises(NotKubernetes, match="still arrived after 0 s"):
        KubernetesClient(ClusterAccess(url)).get("/api/v1/pods")
    assert time.monotonic() - began < 2 * GIVES_UP_SECONDS
