"""P1: an hour of a large cluster fetched, decoded and stored, against `curl -o /dev/null`.

Put here: a real Prometheus with one cluster's hour, and the ratio of goal P1 in one run.
Not here: decoding alone (`bench_decode`).

    python bench/bench_pull.py [--pods 1900] [--repeat 3]

One of the ten clusters of the estate in the goals, at 30 s: requests, phase, info and owner of its
pods, capacity of its nodes, and utilisation of its cards. Both sides send the same queries to the
same server one after the other; curl throws the answers away, we land bytes and write runs. The
least of several repetitions counts, for both. Goals: at most 1.25 times curl without compression,
at most 1.1 times with gzip.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

START = 1_790_848_800  # 2026-10-01T10:00:00Z
STEP = 30
PORT = 19_482
CLUSTER = 'cluster="c",clusterID="c1"'
GOAL_IDENTITY, GOAL_GZIP = 1.25, 1.1


def history(path: Path, pods: int) -> None:
    """The hour, with half an hour before and after, as OpenMetrics."""
    families: dict[str, list[str]] = {}
    for pod in range(pods):
        uid = f"{pod:08x}-0b5e-4d7c-9d3a-0c9b6a3e2f11"
        named = f'namespace="team-{pod % 97}",pod="train-{pod}",uid="{uid}"'
        node = f'node="gpu-{pod % 125}"'
        families.setdefault("kube_pod_container_resource_requests", []).append(
            f'{named},container="main",{node},resource="nvidia_com_gpu",unit="integer"'
        )
        families.setdefault("kube_pod_status_phase", []).append(f'{named},phase="Running"')
        families.setdefault("kube_pod_info", []).append(f'{named},{node},created_by_kind="Job"')
        families.setdefault("kube_pod_owner", []).append(f'{named},owner_kind="Job"')
    for number in range(125):
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
                for at in range(START - 1800, START + 5400, STEP):
                    file.write(f"{family}{{{labels},{CLUSTER}}} 1 {at}\n")
        file.write("# EOF\n")


@contextmanager
def server(folder: Path, pods: int) -> Iterator[str]:
    history(folder / "om.txt", pods)
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


def best(act: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> int:
    from domain.clock import SystemClock
    from domain.interval import HOUR, Interval
    from ingestion.landing import Landing
    from ingestion.manifest import Sampling
    from ingestion.settings import ClusterSource, Connection, ThanosSettings
    from ingestion.thanos.asking import PullMemory
    from ingestion.thanos.client import ThanosClient
    from ingestion.thanos.pull import pull_hours
    from warehouse.store import FolderStore

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1900)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench_pull_"))
    started_at = datetime.fromtimestamp(START, UTC)
    window = Interval(started_at, started_at + HOUR)
    forms: list[tuple[str, dict[str, str]]] = []

    class Recording(ThanosClient):
        """Remembers what was asked, so that curl can ask the same."""

        def post(self, path: str, form: dict[str, str]) -> object:  # type: ignore[override]
            forms.append((path, dict(form)))
            return super().post(path, form)

    try:
        with server(folder, asked.pods) as url:
            source = ClusterSource("c1", ThanosSettings("p", Connection(url)), Sampling(30, 30))
            memory = PullMemory()

            def pull(client: type[ThanosClient] = ThanosClient) -> object:
                shutil.rmtree(folder / "home", ignore_errors=True)
                landing = Landing(FolderStore(folder / "home/landing"))
                with client(source.thanos.connection) as connected:
                    return pull_hours(
                        source,
                        window,
                        landing,
                        folder / "home/runs",
                        SystemClock(),
                        connected,
                        memory,
                    )

            attempt = pull(Recording)
            mib = sum(a.byte_count for a in attempt.answers) / (1 << 20)  # type: ignore[attr-defined]
            print(f"{asked.pods} pods, {len(forms)} queries, {mib:.1f} MiB of JSON")
            ours = best(pull, asked.repeat)
            identity = best(lambda: curl(url, forms, []), asked.repeat)
            gzip = best(lambda: curl(url, forms, ["-H", "Accept-Encoding: gzip"]), asked.repeat)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"  curl {identity:.2f} s, curl with gzip {gzip:.2f} s, ours (gzip) {ours:.2f} s")
    reached = ours <= GOAL_IDENTITY * identity or ours <= GOAL_GZIP * gzip
    print(f"P1 {ours / identity:.2f} x curl, at most {GOAL_IDENTITY}")
    print(f"P1 {ours / gzip:.2f} x curl with gzip, at most {GOAL_GZIP}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"P1 peak memory {peak:.0f} MiB, at most 300")
    return 0 if reached and peak <= 300 else 1


def curl(url: str, forms: list[tuple[str, dict[str, str]]], options: list[str]) -> None:
    """All queries in one process over one connection, answers thrown away."""
    command = ["curl", "-sf"]
    for number, (path, form) in enumerate(forms):
        command += ["--next", "-sf"] if number else []
        command += [*options, "-o", os.devnull, f"{url}{path}"]
        for name, text in form.items():
            command += ["--data-urlencode", f"{name}={text}"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
