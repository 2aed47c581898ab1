"""collector: an hour's complete list of 10,000 GPU pods, against parsing its JSON once.

Put here: the lists of a large cluster in a collector, with no changed pod and with new pods only.
Not here: requesting the list (the figures have no network), or the demo's month (`bench_month`).

    python -m bench collector

A collector reads such a list every hour: 20 pages of 500 pods, of 5 kB each with managed fields,
environment and volumes. Both sides have the bytes in memory. The collector compares each pod with
its last state, and writes it to the journal with its earliest start.
"""

from __future__ import annotations

import gc
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import zstandard

from bench.measurement import Measurement
from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.clock import StoppedClock
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.observations import ListedPage
from ingestion.kubernetes.requests import take_list
from warehouse.store import FolderStore

POD_COUNT = 10_000
PAGE_PODS = 500
HOURS = 5  # the fastest counts, on both sides
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
TIME = "2026-10-01T00:00:00Z"
CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"
GOAL_RATIO = 0.5
GOAL_NEW_RATIO = 4.0
GOAL_MIB = 256.0
CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def measure() -> list[Measurement]:
    pages = [zstandard.compress(page) for page in _pages()]
    with tempfile.TemporaryDirectory() as folder:
        first, hourly, parsing = _collected(pages, Path(folder))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = f"{POD_COUNT} pods, {POD_COUNT // PAGE_PODS} pages"
    parsed = f"{parsing * 1000:.0f} ms of msgspec.json.decode"
    return [
        Measurement("collector", "the list of an hour in which nothing changed, against parsing it",
                    hourly / parsing, GOAL_RATIO, "at most",
                    f"{size}: {hourly * 1000:.0f} ms with its lines synced, {parsed}"),
        Measurement("collector", "a first list, with only new objects, against parsing it",
                    first / parsing, GOAL_NEW_RATIO, "at most",
                    f"{size}: {first * 1000:.0f} ms, {parsed}"),
        Measurement("collector", "peak memory of the process", peak_mib, GOAL_MIB, "at most",
                    f"{size}, read into the journal {HOURS + 1} times", "MiB"),
    ]  # fmt: skip


def _collected(pages: list[bytes], folder: Path) -> tuple[float, float, float]:
    """CPU seconds of the first list, of the fastest later list, and of parsing."""

    def answer(request: httpx.Request) -> httpx.Response:
        started = time.process_time()
        body = zstandard.decompress(pages[int(request.url.params.get("continue", "0"))])
        found = httpx.Response(200, content=body, headers={"content-type": "application/json"})
        unpacking.append(time.process_time() - started)
        return found

    unpacking: list[float] = []
    client = KubernetesClient(ServerAccess("https://api.example"), httpx.MockTransport(answer))
    state, writer = JournalState(), JournalWriter(FolderStore(folder), CLUSTER_ID, "bench", "bench")

    def take(page: ListedPage) -> None:
        state.unknown_owners(page.documents)
        writer.add(state.apply(page))

    def listed(why: str) -> float:
        unpacking.clear()
        gc.collect()
        started = time.process_time()
        writer.add(state.apply(take_list(client, StoppedClock(NOON), "pods", why, "", take)))
        writer.flush(NOON)
        return time.process_time() - started - sum(unpacking)

    first = listed("start")
    hourly = min(listed("hourly") for _ in range(HOURS))
    assert state.open_pod_count == POD_COUNT, "every pod is known"
    parsing = min(sum(_parsing(page) for page in pages) for _ in range(HOURS))
    return first, hourly, parsing


def _parsing(page: bytes) -> float:
    body = zstandard.decompress(page)
    started = time.process_time()
    msgspec.json.decode(body)
    return time.process_time() - started


def _pages() -> Iterator[bytes]:
    for start in range(0, POD_COUNT, PAGE_PODS):
        rest = start + PAGE_PODS < POD_COUNT
        meta = {"resourceVersion": "99999", "continue": str(start // PAGE_PODS + 1) if rest else ""}
        pods = [_pod(number) for number in range(start, start + PAGE_PODS)]
        document = {"kind": "PodList", "metadata": meta, "items": pods}
        yield json.dumps(document, separators=(",", ":")).encode()


def _pod(number: int) -> dict[str, Any]:
    """A pod of a job in the JSON of an API server."""
    asked = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    fields: dict[str, Any] = {f"f:{name}": {} for name in range(52)}
    volumes = [f"volume-{n}" for n in range(6)]
    return {
        "metadata": {
            "name": f"train-{number}",
            "namespace": f"team-{number % 50}",
            "uid": f"{number:08d}-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": TIME,
            "labels": {"app": "train", "kueue.x-k8s.io/queue-name": "night"},
            "annotations": {"k8s.v1.cni.cncf.io/network-status": "x" * 600},
            "managedFields": [
                {"manager": name, "operation": "Update", "time": TIME, "fieldsV1": fields}
                for name in ("kubelet", "controller")
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 1250}",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "train",
                    "image": "registry.example/train:1",
                    "env": [{"name": f"SETTING_{n}", "value": "v" * 30} for n in range(25)],
                    "resources": {"limits": asked, "requests": asked},
                    "volumeMounts": [{"name": v, "mountPath": f"/mnt/{v}"} for v in volumes],
                }
            ],
            "volumes": [{"name": v, "secret": {"secretName": v}} for v in volumes],
        },
        "status": {
            "phase": "Running",
            "startTime": TIME,
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": TIME} for name in CONDITIONS
            ],
            "containerStatuses": [
                {
                    "name": "train",
                    "restartCount": 0,
                    "state": {"running": {"startedAt": TIME}},
                    "lastState": {},
                }
            ],
        },
    }


if __name__ == "__main__":
    for row in measure():
        print(row.line())
