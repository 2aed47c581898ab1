"""A month of the demo's three clusters, queried and landed: our cost, and the cost of the whole
demo.

Put here: days of the demo's month, served by a process of their own, with the queries of a refresh.
Not here: an hour of a large fleet beside curl (`bench_pull`), or the simulator alone
(`bench_fake_fleet`).

    python -m bench.bench_month

The whole demo is measured as well, in the seconds that its user waits.

One request per query and day, with the sampling of the scenario. For each cluster the first day,
which has the most to decode, and two more days are measured; the others are like these two. Our
seconds are CPU seconds. Wall-clock seconds include the simulated fleet, whose work a real Thanos
does on another machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.measurement import Measurement
from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.query_runner import PullMemory
from warehouse.manifest import Outcome, Sampling
from warehouse.store import FolderStore

GOAL = "demo month"
DAYS, MONTH_DAYS = 3, 31
GOAL_SECONDS = 10.0
"""A user waits a few seconds without starting other work."""

DEMO_SECONDS = 60.0
"""A minute, on two processors and after installation."""

SERVING = """
import sys
from fake_gpu.clock import VirtualClock, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
fleet = build_fleet(load_scenario("demo"))
with serve(fleet, VirtualClock(epoch(fleet.ended_at + 7200))) as running:
    print(running.thanos_url, fleet.started_at, flush=True)
    for one in fleet.clusters:
        told = one.monitoring
        scraped = {job.job: job.scrape_interval_seconds for job in told.jobs}["kube-state-metrics"]
        sampled = told.collect_interval_seconds or scraped
        print(one.cluster_id, told.replica_label, sampled, scraped, flush=True)
    print(flush=True)
    sys.stdin.read()
"""


def measure() -> list[Measurement]:
    command = [sys.executable, "-c", SERVING]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory(prefix="bench_month_") as folder,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as serving,
    ):
        assert serving.stdout is not None
        url, started = serving.stdout.readline().split()
        clusters = [line.split() for line in iter(serving.stdout.readline, "\n")]
        began, began_processor = time.perf_counter(), _processor_seconds()
        asked = [_measure_queries(Path(folder), url, int(started), *told) for told in clusters]
        wall, ours = time.perf_counter() - began, _processor_seconds() - began_processor
        serving.communicate()
    size = sum(one for _, one in asked)
    first = sum(days[0] for days, _ in asked)
    others = sum(sum(days[1:]) for days, _ in asked) / (DAYS - 1)
    how = (
        f"{DAYS} days of {len(clusters)} clusters: {size / 1e6:.0f} MB of responses,"
        f" {ours:.1f} s of CPU of gpu-ledger, {wall:.1f} s on the wall"
        " with the simulator's own work"
    )
    return [
        Measurement(GOAL, "pull of all hours, CPU of gpu-ledger", first + (MONTH_DAYS - 1) * others,
                    GOAL_SECONDS, "at most", how, "s"),
        _whole_demo(),
    ]  # fmt: skip


def _whole_demo() -> Measurement:
    """Seconds of the demo in a process of its own, with all its children."""
    program = Path(sys.executable).with_name("gpu-ledger")
    with tempfile.TemporaryDirectory(prefix="bench_demo_") as folder:
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [program, "demo", "--home", str(Path(folder) / "home")]
        subprocess.run(command, check=True, capture_output=True)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    how = (
        f"`gpu-ledger demo`, from the simulated fleet to sealed invoices, on {os.cpu_count()}"
        f" processors of which it used {processor:.0f} s"
    )
    return Measurement(GOAL, "the whole demo", wall, DEMO_SECONDS, "at most", how, "s")


def _measure_queries(
    home: Path, url: str, started: int, cluster_id: str, replica: str, sampled: str, scraped: str
) -> tuple[list[float], int]:
    """Query the days of a cluster: our seconds for each day, and the bytes of all responses."""
    settings = ThanosSettings("hub", Connection(url), replica_labels=(replica,))
    source = ClusterSource(cluster_id, settings, Sampling(int(sampled), int(scraped)))
    landing, memory = Landing(FolderStore(home / "landing")), PullMemory()
    first = datetime.fromtimestamp(started, UTC)
    clock = StoppedClock(first + timedelta(days=40))
    seconds, size = [], 0
    for day in range(DAYS):
        began = _processor_seconds()
        window = Interval(first + timedelta(days=day), first + timedelta(days=day + 1))
        attempt = pull_hours(source, window, landing, home / "runs", clock, memory=memory)
        assert attempt.outcome is Outcome.OK, attempt.hours
        seconds.append(_processor_seconds() - began)
        size += sum(answer.byte_count for answer in attempt.answers)
    return seconds, size


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for row in measure():
        print(row.line())
