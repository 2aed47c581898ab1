"""The loop of the daemon, its metrics and its probes.

Put here: repeated passes, `/metrics`, `/healthz`, `/readyz`.
Not here: a pass (`idle_pruner.pruner`), or signals (`orchestration.cli.signals`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from domain.errors import LedgerError
from idle_pruner.decision import Verdict
from idle_pruner.pruner import PassResult

FAILURES_UNTIL_NOT_READY = 5


class PrunerMetrics:
    """The metrics of one daemon: numbers of workloads, without names, which belong to tenants."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.failed_in_a_row = 0
        name = "gpu_ledger_idle_pruner"
        self._passes = Counter(
            f"{name}_passes", "Passes by result.", ["result"], registry=self.registry
        )
        self._last_pass = Gauge(
            f"{name}_last_pass_timestamp_seconds",
            "Start of the last complete pass.",
            registry=self.registry,
        )
        self._workloads = Gauge(
            f"{name}_workloads",
            "GPU workloads of the last pass by verdict.",
            ["verdict"],
            registry=self.registry,
        )
        self._idle_devices = Gauge(
            f"{name}_idle_devices",
            "Devices of idle workloads in the last pass.",
            registry=self.registry,
        )
        self._actions = Counter(
            f"{name}_actions", "Actions by kind.", ["action"], registry=self.registry
        )

    def count_pass(self, result: PassResult) -> None:
        self.failed_in_a_row = 0
        self._passes.labels("complete").inc()
        self._last_pass.set(result.started_at.timestamp())
        for verdict in Verdict:
            found = [r for r in result.results if r.verdict is verdict]
            self._workloads.labels(verdict.value).set(len(found))
            if verdict is Verdict.IDLE:
                self._idle_devices.set(sum(r.device_count for r in found))
        for action in ("noticed", "stopped", "restored", "refused"):
            self._actions.labels(action).inc(result.count(action))

    def count_failure(self) -> None:
        self.failed_in_a_row += 1
        self._passes.labels("failed").inc()

    @property
    def is_ready(self) -> bool:
        return self.failed_in_a_row < FAILURES_UNTIL_NOT_READY

    def text(self) -> bytes:
        return generate_latest(self.registry)


def run_daemon(
    run_pass: Callable[[], PassResult],
    metrics: PrunerMetrics,
    interval_seconds: float,
    on_pass: Callable[[PassResult], None],
    on_error: Callable[[LedgerError], None],
    stop: threading.Event,
) -> None:
    """Run passes until `stop` is set; a pass that failed is repeated after the interval."""
    while not stop.is_set():
        try:
            result = run_pass()
        except LedgerError as error:
            metrics.count_failure()
            on_error(error)
        else:
            metrics.count_pass(result)
            on_pass(result)
        stop.wait(interval_seconds)


@contextmanager
def metrics_server(host: str, port: int, metrics: PrunerMetrics) -> Iterator[int]:
    """Serve metrics and probes in a thread; yields the port."""

    class DaemonHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = 404, "text/plain", b"not found\n"
            if self.path == "/metrics":
                status, kind, body = 200, CONTENT_TYPE_LATEST, metrics.text()
            elif self.path == "/healthz":
                status, body = 200, b"ok\n"
            elif self.path == "/readyz":
                status, body = (200, b"ok\n") if metrics.is_ready else (503, b"queries fail\n")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes are not logged."""

    server = ThreadingHTTPServer((host, port), DaemonHandler)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
