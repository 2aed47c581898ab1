"""P8: bytes of a month's runs and dimensions, against a Prometheus with its samples.

Put here: days of a large cluster, landed and compacted by the pull itself, and written as blocks.
Not here: the time of that (`bench_pull`, `bench_decode`).

    python -m bench P8

The cluster is one of the ten of the goals, with their density: 3.7 pods per GPU and day, of 70
samples at 5 minutes each, with realistic names and UIDs. A month is eight times these four days,
because a file has one day and pods run for hours. The goals were set for requests alone. The phase
Running has as many samples again, and requests cannot be billed without it, so both are measured.
Our side is all files below runs/ after settled days are compacted, with all labels. The other side
is the blocks that promtool writes, up to 54 hours each, with their index. The landed bytes are
reported separately.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl

import httpx

from bench.measurement import CannotMeasure, Measurement
from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.rebuild import compact_settled
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from warehouse.manifest import Sampling
from warehouse.store import FolderStore

START = 1_790_812_800  # 2026-10-01T00:00:00Z
STEP = 300
DAYS = 4
MONTH_DAYS = 31
NODES = 125  # of 8 cards
POD_COUNT = 14_840  # 1.15 million a month on ten such clusters
POD_HOURS = 5.8
GOAL_BYTES, GOAL_RATIO = 0.6, 8.0
CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"
REQUESTS = "kube_pod_container_resource_requests"
PHASE = "kube_pod_status_phase"
FAMILIES = {"requests": (REQUESTS,), "requests and Running": (REQUESTS, PHASE)}


@dataclass(frozen=True, slots=True)
class PodSeries:
    """The two series of a pod, and the time of their samples."""

    labels: tuple[dict[str, str], dict[str, str]]
    value: int
    first: int
    last: int

    def between(self, started: int, ended: int) -> range:
        """The instants of its samples in a half-open interval."""
        first = max(self.first, -(-started // STEP) * STEP)
        return range(first, min(self.last + 1, ended), STEP)


def pods() -> list[PodSeries]:
    chance = random.Random(8)
    found = []
    for _ in range(POD_COUNT):
        bits = f"{chance.getrandbits(128):032x}"
        uid = f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"
        workload = chance.randrange(300)
        suffix = "".join(chance.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(10))
        shared = {
            "cluster": "prod-us",
            "clusterID": CLUSTER_ID,
            "job": "kube-state-metrics",
            "namespace": f"team-{workload % 97}",
            "pod": f"train-{workload}-{suffix}",
            "uid": uid,
        }
        request = shared | {
            "__name__": REQUESTS,
            "container": "main",
            "node": f"gpu-{chance.randrange(NODES)}",
            "resource": "nvidia_com_gpu",
            "unit": "integer",
        }
        phase = shared | {"__name__": PHASE, "phase": "Running"}
        length = min(chance.expovariate(1 / (POD_HOURS * 3600)) + STEP, DAYS * 86_400)
        begins = START + chance.randrange(int(DAYS * 86_400 - length) + 1)
        first = -(-begins // STEP) * STEP
        last = max(first, int(begins + length) // STEP * STEP)
        found.append(PodSeries((request, phase), chance.choice((1, 1, 1, 2, 8)), first, last))
    return found


def answer(fleet: list[PodSeries], form: dict[str, str], names: tuple[str, ...]) -> bytes:
    """The response of Prometheus to a raw range selector; empty for other queries."""
    query = form.get("query", "")
    if "[" not in query or "_over_time" in query:
        return b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
    seconds = int(query.rpartition("[")[2].removesuffix("s]"))
    until = int(float(form["time"]))
    parts = []
    for pod in fleet:
        for labels in pod.labels:
            if labels["__name__"] not in query or labels["__name__"] not in names:
                continue
            value = pod.value if labels["__name__"] == REQUESTS else 1
            times = pod.between(until - seconds, until)
            if times:
                values = ",".join(f'[{at},"{value}"]' for at in times)
                metric = json.dumps(labels, separators=(",", ":"), sort_keys=True)
                parts.append(f'{{"metric":{metric},"values":[{values}]}}')
    parts += _sentinels(query, until - seconds, until)
    text = ",".join(parts)
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[{text}]}}}}'.encode()


def _sentinels(query: str, started: int, ended: int) -> Iterator[str]:
    for name in ("up", "kube_node_info"):
        if name in query:
            times = range(-(-started // STEP) * STEP, ended, STEP)
            values = ",".join(f'[{at},"1"]' for at in times)
            yield f'{{"metric":{{"__name__":"{name}","node":"gpu-0"}},"values":[{values}]}}'


def landed(fleet: list[PodSeries], folder: Path, names: tuple[str, ...]) -> tuple[int, int, int]:
    """Pull each day, then compact the days: bytes of runs, bytes landed, number of samples."""

    def say(request: httpx.Request) -> httpx.Response:
        body = answer(fleet, dict(parse_qsl(request.content.decode())), names)
        headers = {"content-type": "application/json"}
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(body))

    connection = Connection("http://127.0.0.1:9")
    source = ClusterSource(CLUSTER_ID, ThanosSettings("p", connection), Sampling(STEP, 30))
    landing = Landing(FolderStore(folder / "landing"))
    clock = StoppedClock(datetime.fromtimestamp(START, UTC) + timedelta(days=DAYS + 5))
    samples = 0
    with AttemptClient(connection, httpx.MockTransport(say)) as client:
        for day in range(DAYS):
            at = datetime.fromtimestamp(START, UTC) + timedelta(days=day)
            window = Interval(at, at + timedelta(days=1))
            attempt = pull_hours(source, window, landing, folder / "runs", clock, client)
            for hour in attempt.hours:
                samples += sum(hour.by_metric[name][1] for name in names)
    compact_settled(landing, folder / "runs", clock.now())
    return size(folder / "runs"), size(folder / "landing"), samples


def block_bytes(fleet: list[PodSeries], folder: Path, names: tuple[str, ...]) -> int:
    """The bytes of the same samples as Prometheus blocks."""
    folder.mkdir()
    with (folder / "om.txt").open("w", encoding="utf-8") as file:
        for place, name in enumerate(names):
            file.write(f"# TYPE {name} gauge\n")
            for pod in fleet:
                labels = {k: v for k, v in pod.labels[place].items() if k != "__name__"}
                inner = ",".join(f'{key}="{text}"' for key, text in labels.items())
                value = pod.value if name == REQUESTS else 1
                for at in pod.between(START, START + DAYS * 86_400):
                    file.write(f"{name}{{{inner}}} {value} {at}\n")
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=54h"]
    command += ["openmetrics", "om.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return size(folder / "data")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure() -> list[Measurement]:
    if shutil.which("promtool") is None:
        raise CannotMeasure("no promtool")
    fleet = pods()
    rows = []
    for quantity, names in FAMILIES.items():
        folder = Path(tempfile.mkdtemp(prefix="bench_storage_"))
        try:
            ours, kept, samples = landed(fleet, folder / "home", names)
            theirs = block_bytes(fleet, folder / "prometheus", names)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        rows += _rows(quantity, ours, kept, theirs, samples)
    return rows


def _rows(quantity: str, ours: int, kept: int, theirs: int, samples: int) -> list[Measurement]:
    gpus = NODES * 8
    month = kept / gpus * MONTH_DAYS / DAYS
    size = f"{POD_COUNT:,} pods of {gpus:,} GPUs in {DAYS} days, {samples:,} samples at 5 min"
    how = f"{size}: {ours:,} bytes of runs and labels"
    return [
        Measurement("P8", f"{quantity}: runs and dimensions", ours / samples, GOAL_BYTES, "at most",
                    f"{how}; landed besides: {month:,.0f} bytes per GPU and month",
                    "bytes per sample"),
        Measurement("P8", f"{quantity}: smaller than Prometheus blocks", theirs / ours, GOAL_RATIO,
                    "at least", f"{how}, {theirs:,} bytes of blocks"),
    ]  # fmt: skip


if __name__ == "__main__":
    for row in measure():
        print(row.line())
