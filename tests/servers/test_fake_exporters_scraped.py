"""A real Prometheus scrapes the fake exporters and holds what the fake Thanos would show."""

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
from fake_gpu.estate.build import build_estate
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.expositions import Expositions, make_metrics_app
from fake_gpu.prometheus.source import EstateSeries
from fake_gpu.scenario.load import load_scenario
from tests.asgi import Client
from tests.servers.prometheus import programs, prometheus
from tests.servers.scraping import scrape_config
from tests.shared_data import shared_text

pytestmark = pytest.mark.servers


def _estate_now() -> tuple[Any, Any]:
    """The thin line, and a clock that goes on from its fourth hour."""
    estate = build_estate(load_scenario("thin_line"))
    return estate, running(epoch(estate.started_at + 4 * 3600))


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
SHOWN = '{__name__=~"kube_.*|DCGM_.*|up|scrape_samples_.*",job!="kubelet"}'


def _values(answer: dict[str, Any]) -> dict[tuple[tuple[str, str], ...], str]:
    return {
        tuple(sorted((k, v) for k, v in row["metric"].items() if k not in EXTERNAL)): row["value"][
            1
        ]
        for row in answer["data"]["result"]
    }


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_scraped_is_what_the_fake_shows(version: int, tmp_path: Path) -> None:
    estate, clock = _estate_now()
    cluster = estate.clusters[0]
    history = ObjectHistory(cluster)
    pages = Expositions(cluster, history)
    with (
        _served(make_metrics_app(cluster, history, clock)) as port,
        prometheus(programs(version), tmp_path, scrape_config(pages, port)) as real,
    ):
        theirs = _values(_when_scraped(real, len(pages.texts)))
    source = EstateSeries(estate, {cluster.cluster_id: history}, clock)
    fake = Client(make_app(source, clock, ApiOptions()))
    ours = _values(fake.post("/api/v1/query", data={"query": SHOWN}).json())
    assert len(theirs) > 600
    assert set(theirs) == set(ours)
    # Energy goes on between the two questions; nothing else does within seconds.
    different = {
        dict(labels)["__name__"] for labels, value in theirs.items() if ours[labels] != value
    }
    assert different <= {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}


def _when_scraped(real: httpx.Client, targets: int) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        up = real.get("/api/v1/query", params={"query": "up == 1"}).json()["data"]["result"]
        if len(up) == targets:
            answer: dict[str, Any] = real.get("/api/v1/query", params={"query": SHOWN}).json()
            return answer
        time.sleep(0.2)
    raise AssertionError("the real Prometheus did not scrape every exporter")


def _complaints(which: Any, text: str) -> set[str]:
    """What promtool has against an exposition, without the names."""
    command = [str(which.promtool), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return {row.partition(" ")[2] for row in (done.stdout + done.stderr).splitlines() if row}


@pytest.mark.parametrize("version", [2, 3])
def test_promtool_has_nothing_against_ours_that_it_has_not_against_real_ones(version: int) -> None:
    which = programs(version)
    real = {
        "dcgm": _complaints(which, shared_text("dcgm/t4_one_workload.prom"))
        | _complaints(which, shared_text("dcgm/a100_mig_2x1g.5gb_2g.10gb.prom")),
        "kube-state-metrics": _complaints(
            which, shared_text("control-plane/kube-state-metrics.prom")
        ),
        "kube-scheduler": _complaints(which, shared_text("control-plane/scheduler-resources.prom")),
        # AMD's exporter calls its number of cards `gpu_nodes_total`, and it is a gauge.
        "amd-exporter": {'non-counter metrics should not have "_total" suffix'},
    }
    # Whole cards, MIG, time-slicing, quotas, and cards of AMD with and without partitions.
    estate = build_estate(load_scenario("demo"))
    seen = set()
    for cluster in estate.clusters:
        pages = Expositions(cluster, ObjectHistory(cluster))
        for path in pages.texts:
            text = pages.text(path, (estate.started_at + 4 * 3600) * 1000)
            assert text
            kind = next(kind for kind in real if kind in path)
            assert _complaints(which, text) <= real[kind], path
            seen.add(kind)
    assert seen == set(real)
