"""A real Prometheus scrapes the simulated exporters and stores the same as the simulated Thanos."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from fake_gpu.clock import epoch, running
from fake_gpu.fleet.build import build_fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.expositions import Expositions, make_metrics_app
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.scenario.load import load_scenario
from tests.asgi import Client
from tests.servers.prometheus import programs, prometheus
from tests.servers.queried_fleet import QUIET_SECONDS, queried_fleet
from tests.servers.scraping import scrape_config
from tests.shared_data import shared_text

pytestmark = pytest.mark.servers


@contextmanager
def _served(app: Any) -> Iterator[int]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
        )
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)


EXTERNAL = ("cluster", "clusterID", "prometheus_replica")
SHOWN = '{__name__=~"kube_.*|DCGM_.*|gpu_.*|up|scrape_samples_.*",job!="kubelet"}'
# Energy grows between two queries; other metrics do not change within seconds.
GROWING = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL",
    "gpu_energy_consumed",
}
STEPS = 3

Values = dict[tuple[tuple[str, str], ...], list[str]]


def _values(answer: httpx.Response) -> Values:
    """The value of an instant or the values of a range, by labels."""
    return {
        tuple(sorted((k, v) for k, v in row["metric"].items() if k not in EXTERNAL)): [
            value for _, value in row.get("values", [row.get("value")])
        ]
        for row in answer.json()["data"]["result"]
    }


def _last_seconds(client: httpx.Client | Client, now: float) -> Values:
    """A range with a step of a second, until now."""
    asked = {"query": SHOWN, "start": str(int(now) - STEPS + 1), "end": str(int(now)), "step": "1"}
    return _values(client.post("/api/v1/query_range", data=asked))


@pytest.mark.parametrize("version", [2, 3])
def test_scraped_samples_equal_those_of_the_simulator(version: int, tmp_path: Path) -> None:
    fleet = queried_fleet()
    clock = running(epoch(fleet.started_at + QUIET_SECONDS))
    [cluster] = fleet.clusters
    history = ObjectHistory(cluster)
    pages = Expositions(cluster, history)
    with (
        _served(make_metrics_app(cluster, history, clock)) as port,
        prometheus(programs(version), tmp_path, scrape_config(pages, port)) as real,
    ):
        theirs = _when_scraped(real, len(pages.texts))
        their_range = _when_in_range(real, theirs)
    source = FleetSeries(fleet, {cluster.cluster_id: history}, clock)
    fake = Client(make_app(source, clock, ApiOptions()))
    assert len(theirs) > 900
    _same(theirs, _values(fake.post("/api/v1/query", data={"query": SHOWN})))
    _same(their_range, _last_seconds(fake, clock.now_seconds()))


def _same(theirs: Values, ours: Values) -> None:
    assert set(theirs) == set(ours)
    different = {labels for labels, values in theirs.items() if ours[labels] != values}
    assert {dict(labels)["__name__"] for labels in different} <= GROWING
    for labels in different:
        grown = [float(value) for value in theirs[labels]]
        assert grown == sorted(grown)


def _when_scraped(real: httpx.Client, targets: int) -> Values:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        up = real.get("/api/v1/query", params={"query": "up == 1"}).json()["data"]["result"]
        if len(up) == targets:
            return _values(real.get("/api/v1/query", params={"query": SHOWN}))
        time.sleep(0.2)
    raise AssertionError("the real Prometheus did not scrape every exporter")


def _when_in_range(real: httpx.Client, series: Values) -> Values:
    """The last seconds, as soon as every series has samples in all of them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = _last_seconds(real, time.time())
        if set(found) == set(series) and all(len(v) == STEPS for v in found.values()):
            return found
        time.sleep(0.2)
    raise AssertionError("the real Prometheus has no range of what it scrapes")


def _complaints(which: Any, text: str) -> set[str]:
    """The lint messages of promtool for an exposition, without the metric names."""
    command = [str(which.promtool), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return {row.partition(" ")[2] for row in (done.stdout + done.stderr).splitlines() if row}


@pytest.mark.parametrize("version", [2, 3])
def test_promtool_reports_only_the_lint_messages_of_real_exporters(version: int) -> None:
    which = programs(version)
    real = {
        "dcgm": _complaints(which, shared_text("dcgm/t4_one_workload.prom"))
        | _complaints(which, shared_text("dcgm/a100_mig_2x1g.5gb_2g.10gb.prom")),
        "kube-state-metrics": _complaints(
            which, shared_text("control-plane/kube-state-metrics.prom")
        ),
        "kube-scheduler": _complaints(which, shared_text("control-plane/scheduler-resources.prom")),
        # AMD's exporter calls its number of cards `gpu_nodes_total`, which is a gauge.
        "amd-exporter": {'non-counter metrics should not have "_total" suffix'},
    }
    # Whole cards, MIG, time-slicing, quotas, and cards of AMD with and without partitions.
    fleet = build_fleet(load_scenario("demo"))
    seen = set()
    for cluster in fleet.clusters:
        pages = Expositions(cluster, ObjectHistory(cluster))
        for path in pages.texts:
            text = pages.text(path, (fleet.started_at + 4 * 3600) * 1000)
            assert text
            kind = next(kind for kind in real if kind in path)
            assert _complaints(which, text) <= real[kind], path
            seen.add(kind)
    assert seen == set(real)
