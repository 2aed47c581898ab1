"""A server that sends single bytes without long pauses cannot block a client for ever.

Put here: real sockets and a real clock.
Not here: silence (`test_prometheus_client`, `test_collector_watcher`), or endless responses
(`test_hostile_responses`).
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clients import alertmanager, kubernetes, kubernetes_responses
from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import NotKubernetes, ServerUnreachable
from clients.prometheus import PrometheusClient, PrometheusFailed
from idle_pruner import actions
from idle_pruner.cluster import ObjectName
from ingestion.kubernetes.watched_resources import PATHS
from ingestion.settings import Connection
from ingestion.thanos import attempt_client
from ingestion.thanos.attempt_client import AttemptClient
from tests.certificates import Authority
from tests.tunnel_proxy import tunnel_proxy

PAUSE_SECONDS = 0.05
GIVES_UP_SECONDS = 20.0  # for a busy machine; a client without a limit would continue for minutes


class Trickle(BaseHTTPRequestHandler):
    """A server that sends ten thousand bytes in 500 s: of a body, or of a header for some paths."""

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
            return  # the client closed the connection

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with trickling() as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@contextmanager
def trickling(tls: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.ended = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.ended.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_query_ends_at_its_time_limit(url: str) -> None:
    began = time.monotonic()
    with AttemptClient(Connection(url, timeout_seconds=1)) as client:
        reply = client.post("/api/v1/query", {"query": "up"})
    assert (reply.timed_out, reply.failure) == (True, "still arriving after 1 s")
    assert time.monotonic() - began < GIVES_UP_SECONDS


def test_a_page_of_objects_ends_at_its_time_limit(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_responses, "BODY_SECONDS_LIMIT", 1.0)
    began = time.monotonic()
    client = KubernetesClient(ServerAccess(url))
    with pytest.raises(NotKubernetes, match="still arrived after 1 s"):
        client.get("/api/v1/pods")
    assert time.monotonic() - began < GIVES_UP_SECONDS


def query_prometheus(url: str) -> object:
    client = PrometheusClient(ServerAccess(url), timeout_seconds=0.3)
    return client.raw_samples("up[5m]", datetime(2026, 10, 1, tzinfo=UTC))


def get_from_kubernetes(url: str) -> object:
    return KubernetesClient(ServerAccess(url)).get("/api/v1/pods")


def watch_of_the_collector(url: str) -> object:
    return next(KubernetesClient(ServerAccess(url), silence_seconds=0.5).watch(PATHS["pods"], 7))


def pull(url: str) -> object:
    with AttemptClient(Connection(url, timeout_seconds=1)) as client:
        reply = client.post("/api/v1/query", {"query": "up"})
    if reply.timed_out or reply.not_connected:
        raise PrometheusFailed(url, reply.failure)
    return reply


CLIENTS: dict[str, Callable[[str], object]] = {
    "pruner's queries": query_prometheus,
    "pruner's cluster": get_from_kubernetes,
    "collector": watch_of_the_collector,
    "pull": pull,
}


@pytest.fixture(params=["server", "forward proxy", "slow tunnel", "tunnel to a slow server"])
def slow_url(
    request: pytest.FixtureRequest,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A URL whose response header arrives byte by byte, if necessary through a proxy."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("slow", folder=tmp_path))
    through_tunnel = "tunnel" in request.param
    pause_seconds = PAUSE_SECONDS if request.param == "slow tunnel" else 0.0
    with (
        trickling(tls if through_tunnel else None) as server,
        tunnel_proxy(pause_seconds=pause_seconds) as proxy,
    ):
        here = f"127.0.0.1:{server.server_port}"
        if request.param == "forward proxy":
            monkeypatch.setenv("http_proxy", f"http://{here}")  # it responds instead of the server
            here = "store.test"
        monkeypatch.setenv("https_proxy", proxy.url)
        yield f"{'https' if through_tunnel else 'http'}://{here}/heads"
        assert bool(proxy.heads) == through_tunnel


@pytest.mark.parametrize("name", CLIENTS)
def test_a_slow_header_ends_every_client(
    slow_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(kubernetes, "READ_SECONDS", 0.5)
    monkeypatch.setattr(attempt_client, "TRIES_LIMIT", 1)
    began = time.monotonic()
    with pytest.raises((PrometheusFailed, ServerUnreachable), match=r"[Tt]ime(d )?[Oo]ut"):
        CLIENTS[name](slow_url)
    assert time.monotonic() - began < GIVES_UP_SECONDS


def test_clients_of_the_pruner_end_at_the_time_limit_of_a_body(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_responses, "BODY_SECONDS_LIMIT", 0.3)
    began = time.monotonic()
    with pytest.raises(PrometheusFailed, match=r"still arriving after 0\.3 s"):
        query_prometheus(url)
    with pytest.raises(NotKubernetes, match=r"still arrived after 0\.3 s"):
        get_from_kubernetes(url)
    assert time.monotonic() - began < 2 * GIVES_UP_SECONDS


def test_the_notice_of_a_stop_is_posted_or_abandoned(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertmanager, "READ_SECONDS", 0.3)
    name = ObjectName("apps/v1", "Deployment", "team-a", "train")
    began, now = time.monotonic(), datetime(2026, 10, 1, tzinfo=UTC)
    [no_head] = actions.post_stop_notice(f"{url}/heads", name, "idle", now, now)
    assert no_head.startswith(f"The alert was not posted to {url}/heads: ReadTimeout")
    [no_body] = actions.post_stop_notice(url, name, "idle", now, now)
    assert "still arrived after 0.3 s" in no_body
    assert time.monotonic() - began < 2 * GIVES_UP_SECONDS
