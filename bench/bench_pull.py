"""P1: an hour of a fleet fetched, decoded and stored, against `curl -o /dev/null`.

Put here: a real Prometheus with an hour of pods and devices, and the ratio of goal P1 in one run.
Not here: decoding alone (`bench_decode`).

    python -m bench P1

The goal is for the whole fleet at 5 minutes, as one cluster. One of its ten clusters at 30 s is
measured as well, without a goal; there the fixed cost of a pull has ten times the weight. The
metrics are requests, phase, info and owner of pods, capacity of nodes, utilisation of cards. The
memory for a whole day of that cluster is measured separately (`large_window`).

Both sides send the same queries to the same server, in turn. curl discards the responses; a pull
lands the bytes and writes runs. The least of several repetitions counts, for both sides. The limits
are 1.4 times the time of curl, with and without gzip, and 400 MiB of memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.large_window import SLOTS, measure_pull
from bench.measurement import CannotMeasure, Measurement
from clients.prometheus import PrometheusResponse
from domain.clock import SystemClock
from domain.interval import HOUR, Interval
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.query_runner import PullMemory
from warehouse.manifest import Attempt, Sampling
from warehouse.store import FolderStore

Form = tuple[str, dict[str, str]]
REPEAT = 5
START = 1_790_848_800  # 2026-10-01T10:00:00Z
PORT = 19_482
CLUSTER = 'cluster="c",clusterID="c1"'
GOAL_IDENTITY, GOAL_GZIP, GOAL_MIB = 1.4, 1.4, 400


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a fleet and its sampling."""

    quantity: str
    pods: int
    nodes: int  # of 8 cards
    step: int


FLEET = Size("the whole fleet at 5 min", 19_000, 1250, 300)
CLUSTER_OF_IT = Size("a tenth of it at 30 s", 1900, 125, 30)


def history(path: Path, size: Size) -> None:
    """Write the hour, and half an hour before and after it, as OpenMetrics."""
    families: dict[str, list[str]] = {}
    for pod in range(size.pods):
        uid = f"{pod:08x}-0b5e-4d7c-9d3a-0c9b6a3e2f11"
        named = f'namespace="team-{pod % 97}",pod="train-{pod}",uid="{uid}"'
        node = f'node="gpu-{pod % size.nodes}"'
        families.setdefault("kube_pod_container_resource_requests", []).append(
            f'{named},container="main",{node},resource="nvidia_com_gpu",unit="integer"'
        )
        families.setdefault("kube_pod_status_phase", []).append(f'{named},phase="Running"')
        families.setdefault("kube_pod_info", []).append(f'{named},{node},created_by_kind="Job"')
        families.setdefault("kube_pod_owner", []).append(f'{named},owner_kind="Job"')
    for number in range(size.nodes):
        families.setdefault("kube_node_info", []).append(f'node="gpu-{number}"')
        families.setdefault("up", []).append(f'job="dcgm",instance="gpu-{number}"')
        families.setdefault("kube_node_status_capacity", []).append(
            f'node="gpu-{number}",resource="nvidia_com_gpu",unit="integer"'
        )
        for card in range(8):
            families.setdefault("DCGM_FI_DEV_GPU_UTIL", []).append(
                f'gpu="{card}",UUID="GPU-{number}-{card}"'
            )
    with path.open("w") as file:
        for family, series in sorted(families.items()):
            file.write(f"# TYPE {family} gauge\n")
            for labels in series:
                for at in range(START - 1800, START + 5400, size.step):
                    file.write(f"{family}{{{labels},{CLUSTER}}} 1 {at}\n")
        file.write("# EOF\n")


@contextmanager
def server(folder: Path, size: Size) -> Iterator[str]:
    folder.mkdir()
    history(folder / "om.txt", size)
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "om.txt", "data"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("")
    command = ["prometheus", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    command += ["--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{PORT}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{PORT}"
    try:
        for _ in range(200):
            ready = subprocess.run(["curl", "-sf", f"{url}/-/ready"], capture_output=True)
            if ready.returncode == 0:
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


class Puller:
    """Pulls the same hour from one server several times, each time into a new landing."""

    def __init__(self, url: str, folder: Path, step: int) -> None:
        settings = ThanosSettings("p", Connection(url))
        self.source = ClusterSource("c1", settings, Sampling(step, 30))
        self.home = folder / "home"
        self.memory = PullMemory()

    def pull(self, client: type[AttemptClient] | None = None, encoding: str = "") -> Attempt:
        shutil.rmtree(self.home, ignore_errors=True)
        started_at = datetime.fromtimestamp(START, UTC)
        with (client or AttemptClient)(
            self.source.thanos.connection, encoding=encoding
        ) as connected:
            return pull_hours(
                self.source,
                Interval(started_at, started_at + HOUR),
                Landing(FolderStore(self.home / "landing")),
                self.home / "runs",
                SystemClock(),
                connected,
                self.memory,
            )


def queries_of_pull(puller: Puller) -> tuple[list[Form], float]:
    """The queries of a pull, for curl to send as well; and the MiB of their responses."""
    forms: list[Form] = []

    class Recording(AttemptClient):
        def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
            forms.append((path, dict(form)))
            return super().post(path, form)

    attempt = puller.pull(Recording)
    assert attempt.outcome.value == "ok", attempt.hours
    return forms, sum(answer.byte_count for answer in attempt.answers) / (1 << 20)


def measure() -> list[Measurement]:
    for program in ("prometheus", "promtool", "curl"):
        if shutil.which(program) is None:
            raise CannotMeasure(f"no {program}")
    alone = _seconds(CLUSTER_OF_IT)
    memory = _memory()
    whole = _seconds(FLEET)
    beside = f"; {alone.said('')}; with gzip {alone.said(' with gzip')}"
    return [
        Measurement("P1", f"a pull against curl{kind}", whole.ratio(kind), limit, "at most",
                    whole.said(kind) + (beside if not kind else ""))
        for kind, limit in (("", GOAL_IDENTITY), (" with gzip", GOAL_GZIP))
    ] + [memory, _memory_of_a_day()]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sides:
    """The least seconds of both sides, with and without compression."""

    how: str
    seconds: Mapping[str, float]

    def ratio(self, kind: str) -> float:
        return self.seconds[f"ours{kind}"] / self.seconds[f"curl{kind}"]

    def said(self, kind: str) -> str:
        ours, curls = self.seconds[f"ours{kind}"], self.seconds[f"curl{kind}"]
        return f"{self.how}: {ours:.2f} s against {curls:.2f} s"


def _seconds(size: Size) -> Sides:
    folder = Path(tempfile.mkdtemp(prefix="bench_pull_"))
    try:
        with server(folder / "prometheus", size) as url:
            puller = Puller(url, folder, size.step)
            forms, mib = queries_of_pull(puller)
            gzip = ["-H", "Accept-Encoding: gzip"]
            sides: dict[str, Callable[[], object]] = {
                "ours": lambda: puller.pull(encoding="identity"),
                "curl": lambda: curl(url, forms, []),
                "ours with gzip": lambda: puller.pull(encoding="gzip"),
                "curl with gzip": lambda: curl(url, forms, gzip),
            }
            seconds = dict.fromkeys(sides, 1e9)
            for _ in range(REPEAT):  # in turn, so that other load affects all sides
                for name, act in sides.items():
                    seconds[name] = min(seconds[name], measure_seconds(act))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    quantity = f"{size.quantity}, {size.pods:,} pods, {len(forms)} queries, {mib:.0f} MiB of JSON"
    return Sides(quantity, seconds)


def _memory() -> Measurement:
    """The peak after the pulls of one cluster, because clusters are queried one at a time."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    how = "the process's peak after the pulls of one cluster, libraries included"
    return Measurement("P1", "memory of a pull", peak, GOAL_MIB, "at most", how, "MiB")


def _memory_of_a_day() -> Measurement:
    found = measure_pull()
    how = f"{SLOTS:,} pods at a time at 30 s, {found.mib} MiB of JSON in {found.answers} answers,"
    how += f" the largest of {found.largest_mib} MiB: the process's peak, libraries included"
    quantity = "memory of a pull of a whole day"
    return Measurement("P1", quantity, found.peak_mib, GOAL_MIB, "at most", how, "MiB")


def measure_seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def curl(url: str, forms: list[tuple[str, dict[str, str]]], options: list[str]) -> None:
    """Send all queries in one process over one connection, and discard the responses."""
    command = ["curl", "-sf"]
    for number, (path, form) in enumerate(forms):
        command += ["--next", "-sf"] if number else []
        command += [*options, "-o", os.devnull, f"{url}{path}"]
        for name, text in form.items():
            command += ["--data-urlencode", f"{name}={text}"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    for row in measure():
        print(row.line())
