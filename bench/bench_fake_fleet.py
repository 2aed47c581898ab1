"""The simulated fleet: simulating a large one, and serving a small one hour by hour.

Put here: 10,000 GPUs and their pods, in order of their ends, against a minimum; a month of
3 clusters x 40 nodes: queries of the catalogue's allocation hour by hour, and an export as text.
Device telemetry is in neither.
Not here: processing the responses (`bench_pull`, `bench_decode`).

    python -m bench.bench_fake_fleet [--clusters 1] [--days 7]     (the whole: 10 and 31)

The minimum is the hashing and drawing that make every pod the same on every machine. Serving is
compared with a client that reads the same responses, and exporting with a program that writes the
same bytes. Both also have a limit of one minute. Seconds are CPU seconds. Measurements of a part
are extrapolated to the whole.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import msgspec

from bench.measurement import Measurement
from fake_gpu.clock import epoch, fixed
from fake_gpu.fleet.build import build_fleet, iter_pods
from fake_gpu.prometheus.api import Api, ApiOptions
from fake_gpu.prometheus.language import parse_selector
from fake_gpu.prometheus.openmetrics import write_openmetrics
from fake_gpu.prometheus.parameters import FormParameters
from fake_gpu.scenario.load import read_scenario
from fake_gpu.scenario.seeds import StreamFamily
from fake_gpu.serve import series_of, settle
from ingestion.metric_catalogue import ALLOCATION_ENTRIES, allocation_queries

GOAL = "simulated fleet"
WORKLOADS = 20
STREAMS_PER_POD = 7
WORDS_PER_POD = 30
WHOLE_PODS = 1_150_000
WHOLE_HOURS = 31 * 24
GOAL_RATIO, GOAL_MINUTES, GOAL_MIB = 12.0, 15.0, 300.0
# A user waits for this month, so it has to take seconds, not minutes.
GOAL_MONTH_SECONDS, GOAL_SERVED_MIB = 60.0, 600.0
# The client parses the text into objects, which takes about as long as writing the text.
GOAL_SERVED_RATIO = 3.0
# Each byte is formatted, joined and written: three copies in memory, of about equal cost.
GOAL_EXPORTED_RATIO = 6.0
ALLOCATION = "3 x 40 nodes, allocation metrics alone, no telemetry"
SERVED_DAYS = 2
EXPORTED_HOURS = 24


def scenario(clusters: int, days: int, whole: int = 108, mig: int = 17, every: str = "466s") -> str:
    """Nodes of 8 cards, an eighth of them with MIG instances; jobs that start and end."""
    until = date(2026, 10, 1) + timedelta(days=days)
    lines = ["name: large", "from: 2026-10-01", f"until: {until}", "clusters:"]
    for cluster in range(clusters):
        lines += [
            f"  - name: c{cluster}",
            "    monitoring: {collect_interval: 5m}",
            "    nodes:",
            f"      - {{name: whole, count: {whole}, product: NVIDIA-A100-SXM4-80GB, cards: 8}}",
            f"      - {{name: mig, count: {mig}, product: NVIDIA-A100-SXM4-40GB, cards: 8,"
            " mig: {layout: all-1g.5gb}}",
            "    workloads:",
        ]
        for workload in range(WORKLOADS):
            asks = "1" if workload % 4 else "{nvidia.com/mig-1g.5gb: 1}"
            lines.append(
                f"      - {{name: w{workload}, namespace: t{workload}, kind: Job, requests: {asks},"
                f" arrivals: {{every: ~{every}}}, lifetime: 2h~1.2, keep: 5m}}"
            )
    return "\n".join(lines) + "\n"


def floor_seconds(pods: int) -> float:
    """Seconds of hashing and drawing alone, for this number of pods."""
    family = StreamFamily(1, "cluster", "namespace", "workload", "Job")
    began = time.process_time()
    for pod in range(pods):
        for number in range(STREAMS_PER_POD):
            draw = family.stream(number, pod)
            for _ in range(WORDS_PER_POD // STREAMS_PER_POD):
                draw.word()
    return time.process_time() - began


def measure_simulation(clusters: int, days: int) -> Iterator[Measurement]:
    """All pods of a large fleet; none is stored."""
    read = read_scenario(scenario(clusters, days), "large", None)
    began = time.process_time()
    pods = sum(1 for _ in iter_pods(read))
    elapsed = time.process_time() - began
    floor = floor_seconds(pods)
    how = (
        f"{pods} pods of {clusters} x 1,000 GPUs in {days} days: {elapsed:.1f} s, {_mib():.0f} MiB"
    )
    hashes = f"{how}; their hashes alone {floor:.1f} s"
    yield Measurement(
        GOAL,
        "simulating against computing its hashes alone",
        elapsed / floor,
        GOAL_RATIO,
        "at most",
        hashes,
    )
    minutes = elapsed / pods * WHOLE_PODS / 60
    yield Measurement(GOAL, "1.15 M pods", minutes, GOAL_MINUTES, "at most", how, "minutes")
    yield Measurement(GOAL, "memory of the simulation", _mib(), GOAL_MIB, "at most", how, "MiB")


def measure_serving(days: int) -> Iterator[Measurement]:
    """The allocation of a month of 3 x 40 nodes, with the hourly queries of a pull."""
    text = scenario(3, days, whole=35, mig=5, every="1456s")
    fleet = build_fleet(read_scenario(text, "served", None))
    clock = fixed(epoch(fleet.ended_at + 3600))
    api = Api(series_of(fleet, clock), clock, ApiOptions())
    # Load the modules before the measurement: their cost does not grow with the days.
    api.answer(
        Api.query, FormParameters.read(urlencode({"query": "up[1h]", "time": fleet.ended_at}))
    )
    settle()
    elapsed = read = 0.0
    size = 0
    for hour in range(days * 24):
        at = fleet.started_at + (hour + 1) * 3600
        for cluster in fleet.clusters:
            for ask in allocation_queries():
                own = f'clusterID="{cluster.cluster_id}"' + f",{ask.matchers}".rstrip(",")
                query = f'{{__name__=~"{"|".join(ask.metrics)}",{own}}}[1h]'
                form = urlencode({"query": query, "time": at, "dedup": "false"})
                began = time.process_time()
                body = api.answer(Api.query, FormParameters.read(form)).body
                answered = time.process_time()
                msgspec.json.decode(body)
                read += time.process_time() - answered
                elapsed += answered - began
                size += len(body)
    month = elapsed / (days * 24) * WHOLE_HOURS
    how = f"{days} days of {ALLOCATION}: {size / 1e6:.0f} MB of responses in {elapsed:.1f} s"
    quantity = "a month's allocation metrics, served by the hour"
    yield Measurement(GOAL, quantity, month, GOAL_MONTH_SECONDS, "at most", how, "s")
    both = f"{how}; a client's reading them {read:.1f} s"
    yield Measurement(
        GOAL, "serving against reading", elapsed / read, GOAL_SERVED_RATIO, "at most", both
    )
    yield Measurement(GOAL, "memory of serving", _mib(), GOAL_SERVED_MIB, "at most", how, "MiB")


def measure_export(hours: int) -> Iterator[Measurement]:
    """The same fleet's allocation as OpenMetrics, with all labels on each sample."""
    text = scenario(3, 1, whole=35, mig=5, every="1456s")
    fleet = build_fleet(read_scenario(text, "exported", None))
    source = series_of(fleet, fixed(epoch(fleet.ended_at)))
    names = "|".join(entry.metric for entry in ALLOCATION_ENTRIES)
    end = epoch(fleet.ended_at)
    with TemporaryDirectory() as folder:
        hour = end - timedelta(hours=1)
        write_openmetrics(source, hour, end, Path(folder), matchers=parse_selector("up"))
        settle()  # the command does the same
        began = time.process_time()
        files = write_openmetrics(
            source,
            end - timedelta(hours=hours),
            end,
            Path(folder),
            matchers=parse_selector(f'{{__name__=~"{names}"}}'),
        )
        elapsed = time.process_time() - began
        size = sum(file.stat().st_size for file in files)
        floor = _writing_seconds(size, Path(folder))
    month = elapsed / hours * WHOLE_HOURS
    how = f"{hours} hours of {ALLOCATION}: {size / 1e6:.0f} MB of text in {elapsed:.1f} s"
    quantity = "a month's allocation metrics, exported"
    yield Measurement(GOAL, quantity, month, GOAL_MONTH_SECONDS, "at most", how, "s")
    both = f"{how}; writing as many bytes {floor:.1f} s"
    yield Measurement(
        GOAL, "exporting against writing", elapsed / floor, GOAL_EXPORTED_RATIO, "at most", both
    )


def _writing_seconds(size: int, folder: Path) -> float:
    """Seconds of writing this number of bytes, a megabyte at a time."""
    page = bytes(range(256)) * 4096
    began = time.process_time()
    with (folder / "floor").open("wb") as file:
        for _ in range(size // len(page)):
            file.write(page)
    return time.process_time() - began


def measure(clusters: int = 1, days: int = 7) -> list[Measurement]:
    """Simulate before serving, because the peak memory includes everything before it."""
    return [
        *measure_simulation(clusters, days),
        *measure_serving(SERVED_DAYS),
        *measure_export(EXPORTED_HOURS),
    ]


def _mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--days", type=int, default=7)
    asked = parser.parse_args()
    for row in measure(asked.clusters, asked.days):
        print(row.line())
