"""The health of a collector, for probes and for Prometheus.

Put here: the state of a running collector as values and as text, and its HTTP server.
Not here: the collector itself, or alerts on these metrics.

    /healthz   200 while the loop runs; 503 leads to a restart
    /readyz    200 while every watch has events or bookmarks and the spool accepts segments
    /metrics   in the text format of Prometheus
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from domain.clock import Clock

# A watch is silent after two missing bookmarks; a loop hangs if a turn takes longer than the
# slowest list may take.
SILENT_AFTER = timedelta(seconds=180)
STUCK_AFTER = timedelta(minutes=15)


@dataclass(slots=True)
class Health:
    """The state of a collector; written by its loop, read by other threads."""

    cluster_id: str = ""
    started_at: datetime | None = None
    turned_at: datetime | None = None
    heard_at: dict[str, datetime] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)
    lines_written: int = 0
    segments_written: int = 0
    lines_pending: int = 0
    gaps: int = 0
    contradictions: int = 0
    replayed: int = 0
    open_pods: int = 0
    hours_closed: int = 0
    spool_trouble: str = ""

    def is_alive(self, now: datetime) -> bool:
        return self.turned_at is not None and now - self.turned_at < STUCK_AFTER

    def silent(self, now: datetime) -> list[str]:
        """The resources without any event or bookmark for too long."""
        return sorted(r for r, at in self.heard_at.items() if now - at >= SILENT_AFTER)

    def is_ready(self, now: datetime) -> bool:
        quiet = self.silent(now) or self.trouble or self.spool_trouble
        return self.started_at is not None and self.is_alive(now) and not quiet


_GAUGES: tuple[tuple[str, str, Callable[[Health], int]], ...] = (
    ("open_pods", "GPU pods that exist and have not ended.", lambda h: h.open_pods),
    ("lines_pending", "Journal lines that are not synced yet.", lambda h: h.lines_pending),
    ("spool_refuses", "1 while the spool does not take segments.", lambda h: bool(h.spool_trouble)),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Health], int]], ...] = (
    ("lines_total", "Journal lines numbered so far.", lambda h: h.lines_written),
    ("segments_total", "Segments written.", lambda h: h.segments_written),
    ("gaps_total", "Gaps in a watch.", lambda h: h.gaps),
    ("contradictions_total", "Statements that contradict others.", lambda h: h.contradictions),
    ("replayed_total", "Repeated events that were ignored.", lambda h: h.replayed),
    ("hours_closed_total", "Hours of the journal that are closed.", lambda h: h.hours_closed),
)


def metrics_text(health: Health, now: datetime) -> str:
    """All metrics in the text format of Prometheus."""
    labels = f'{{cluster_id="{health.cluster_id}"}}'
    lines = []
    for kind, rows in (("gauge", _GAUGES), ("counter", _COUNTERS)):
        for name, text, read in rows:
            full = f"gpu_ledger_collector_{name}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
            lines.append(f"{full}{labels} {int(read(health))}")
    full = "gpu_ledger_collector_heard_seconds_ago"
    lines += [
        f"# HELP {full} Seconds since the last event or bookmark of a resource.",
        f"# TYPE {full} gauge",
    ]
    for resource, at in sorted(health.heard_at.items()):
        ago = max(0, int((now - at).total_seconds()))
        of = f'{{cluster_id="{health.cluster_id}",resource="{resource}"}}'
        lines.append(f"{full}{of} {ago}")
    return "\n".join(lines) + "\n"


def answer(path: str, health: Health, now: datetime) -> tuple[int, str]:
    """Status and text for one path."""
    match path.partition("?")[0]:
        case "/healthz":
            return (200, "ok\n") if health.is_alive(now) else (503, "the loop does not run\n")
        case "/readyz":
            return (200, "ok\n") if health.is_ready(now) else (503, _reasons(health, now))
        case "/metrics":
            return 200, metrics_text(health, now)
        case _:
            return 404, "healthz, readyz, metrics\n"


def _reasons(health: Health, now: datetime) -> str:
    reasons = [f"{resource}: {text}" for resource, text in sorted(health.trouble.items())]
    reasons += [f"{resource}: silent" for resource in health.silent(now)]
    if health.spool_trouble:
        reasons.append(f"spool: {health.spool_trouble}")
    return "\n".join(reasons or ["not started"]) + "\n"


class HealthServer:
    """Serves the health of a collector on one port until it is closed."""

    def __init__(
        self, health: Health, clock: Clock, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        class HealthHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = answer(self.path, health, clock.now())
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Probes come every few seconds and are not logged."""

        self._server = ThreadingHTTPServer((host, port), HealthHandler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="collector-health", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
