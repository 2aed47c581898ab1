"""The cost of one pass of the idle pruner over a large cluster, against its queries alone.

Put here: a cluster of 10,000 GPU pods with half an hour of samples, and the two measurements.
Not here: the correctness of its decisions (`tests/unit/test_prune_decision.py`).
"""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import msgspec

from bench.measurement import Measurement
from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from clients.prometheus import PrometheusClient
from domain.clock import StoppedClock
from idle_pruner.evidence import METRICS, collect_evidence
from idle_pruner.pruner import Pruner
from idle_pruner.records import Records
from idle_pruner.settings import PruneSettings
from tests.idle_workloads import NOW, KubernetesInMemory, TrueDevice, pod, samples_of, scrape_times

GOAL = "idle pruner"
WORKLOADS, REPLICAS = 2_500, 4
RATIO_LIMIT, MEMORY_LIMIT_MIB = 4.0, 1024.0


def measure() -> list[Measurement]:
    kubernetes = _cluster()
    with serving(_responses()) as url, tempfile.TemporaryDirectory() as folder:
        prometheus = PrometheusClient(ServerAccess(url))
        before = _peak_mib()
        bare = _seconds(lambda: [prometheus.raw_samples(f"{m}[1800s]", NOW) for m in METRICS])
        evidence = _seconds(lambda: collect_evidence(prometheus, NOW, timedelta(minutes=30)))
        client = KubernetesClient(
            ServerAccess("http://kubernetes.example"), httpx.MockTransport(kubernetes.answer)
        )
        records = Records(Path(folder) / "records.jsonl")
        pruner = Pruner(client, prometheus, records, PruneSettings(), StoppedClock(NOW))
        result = pruner.run_pass()
        memory = _peak_mib() - before
    assert len(result.results) == WORKLOADS
    size = f"{WORKLOADS * REPLICAS:,} pods with a GPU, 60 samples of each of four metrics"
    sides = f"{size}; {evidence:.1f} s against {bare:.1f} s of CPU"
    quantity = "evidence of a pass against its queries alone"
    return [
        Measurement(GOAL, quantity, evidence / bare, RATIO_LIMIT, "at most", sides),
        Measurement(GOAL, "memory of a pass", memory, MEMORY_LIMIT_MIB, "at most", size, "MiB"),
    ]


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cluster() -> KubernetesInMemory:
    """Deployments with their pods; a page of a list has 500 objects of realistic size."""
    kubernetes = KubernetesInMemory()
    for number in range(WORKLOADS):
        name = f"model-{number:04}"
        path = f"/apis/apps/v1/namespaces/team-{number % 50}"
        kubernetes.add(f"{path}/statefulsets/{name}", {"spec": {"replicas": REPLICAS}})
        for replica in range(REPLICAS):
            document = pod(f"{name}-{replica}", ("apps/v1", "StatefulSet", name))
            pods = f"/api/v1/namespaces/team-{number % 50}/pods"
            kubernetes.add(f"{pods}/{name}-{replica}", document)
    return kubernetes


def _responses() -> dict[str, bytes]:
    """The response of each query, by its metric."""
    quiet = [0.0] * len(scrape_times())
    devices = [
        TrueDevice(f"GPU-{n}-{r}", "", f"model-{n:04}-{r}", f"team-{n % 50}", quiet, f"node-{n}")
        for n in range(WORKLOADS)
        for r in range(REPLICAS)
    ]
    samples = samples_of(devices)
    return {
        name: msgspec.json.encode(
            {"status": "success", "data": {"resultType": "matrix", "result": series}}
        )
        for name, series in samples.series.items()
    }


@contextmanager
def serving(responses: dict[str, bytes]) -> Iterator[str]:
    """Serve responses on a thread; returns the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            name = form["query"][0].partition("[")[0].partition("{")[0]
            body = responses.get(name) or empty()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@cache
def empty() -> bytes:
    return msgspec.json.encode(
        {"status": "success", "data": {"resultType": "matrix", "result": []}}
    )
