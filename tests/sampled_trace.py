"""A trace of real pods by its lifecycle and by samples: calculated by hand, and by the pipeline.

Put here: the arithmetic of the trace, and a simulation as five clusters with different sources: one
with a journal, four with samples alone, every 15 seconds to every 15 minutes.
Not here: expectations (`tests/scenarios/test_trace_by_samples.py`), or the page
(`docs/explanation/why-five-minute-samples-mislead.md`).

`python -m tests.sampled_trace FOLDER` simulates the whole openb trace, five months of it, compares
each pod and prints the page's table; about eleven minutes. FOLDER has the two files of the trace.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from statistics import median

from domain.billing_period import BillingPeriod
from fake_gpu.clock import epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, SimulatedCluster
from fake_gpu.prometheus.scrapes import Schedule
from fake_gpu.prometheus.targets import KUBE_STATE_METRICS, targets_of
from fake_gpu.scenario.load import LoadedScenario
from fake_gpu.scenario.openb import PODS_FILE, START, openb_scenario
from fake_gpu.scenario.spec import JobSpec, MonitoringSpec, Scenario
from fake_gpu.scenario.spec_work import PodSpec
from tests.decisions_by_hand import decided, table
from tests.recorded_fleets import record_fleet
from tests.scenarios import against_truth as truth
from warehouse.build import build_period
from warehouse.home import Home

INTERVALS = (15, 60, 300, 900)  # seconds
WATCHED = "watched"
OTHER_JOBS = ("dcgm-exporter", "amd-exporter", "kube-scheduler", "kubelet")
THOUSAND = 1000  # the parts of a card in the trace


@dataclass(frozen=True, slots=True)
class Life:
    """One pod of the trace: its time, and its thousandths of a card."""

    pod: str
    started: int
    ended: int
    thousandths: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """The use of all pods by samples, in thousandths of a card x seconds (except the count)."""

    unseen_count: int
    unseen: int
    to_last_sample: int
    counted_samples: int  # each sample stands for one interval
    far_off_count: int  # pods whose count of samples is off by more than a tenth of their time


# --- by arithmetic -------------------------------------------------------------------------------


def openb_pods(folder: Path) -> list[Life]:
    """The pods of the trace with cards, from its files alone."""
    with (folder / PODS_FILE).open(encoding="utf-8", newline="") as file:
        return [
            Life(
                row["name"],
                START + int(row["scheduled_time"]),
                START + int(row["deletion_time"]),
                int(row["num_gpu"]) * int(row["gpu_milli"]),
            )
            for row in csv.DictReader(file)
            if int(row["num_gpu"]) and row["scheduled_time"]
        ]


def by_lifecycle(lives: Sequence[Life]) -> int:
    return sum(life.thousandths * (life.ended - life.started) for life in lives)


def seen_seconds(life: Life, times_ms: Sequence[int]) -> int | None:
    """From the start, whose time a sample has, to the last sample; None without samples."""
    after_last = bisect_left(times_ms, life.ended * 1000)
    if bisect_left(times_ms, life.started * 1000) == after_last:
        return None
    return times_ms[after_last - 1] // 1000 - life.started


def by_samples(lives: Sequence[Life], times_ms: Sequence[int], interval: int) -> Sampled:
    seen = [(life, seen_seconds(life, times_ms)) for life in lives]
    unseen = [life for life, seconds in seen if seconds is None]
    counted = [
        interval
        * (bisect_left(times_ms, life.ended * 1000) - bisect_left(times_ms, life.started * 1000))
        for life in lives
    ]
    both = list(zip(lives, counted, strict=True))
    return Sampled(
        unseen_count=len(unseen),
        unseen=by_lifecycle(unseen),
        to_last_sample=sum(life.thousandths * (seconds or 0) for life, seconds in seen),
        counted_samples=sum(life.thousandths * seconds for life, seconds in both),
        far_off_count=sum(
            10 * abs(seconds - (life.ended - life.started)) > life.ended - life.started
            for life, seconds in both
        ),
    )


def scrape_times(cluster: SimulatedCluster, started: int, ended: int) -> list[int]:
    """The scrape times of kube-state-metrics by a cluster's Prometheus, in milliseconds."""
    target = next(t for t in targets_of(cluster) if t.job == KUBE_STATE_METRICS)
    return Schedule(f"{target.name}#0", target.interval_ms).times(started * 1000, ended * 1000)


# --- by the pipeline -----------------------------------------------------------------------------


def openb_on_its_nodes(folder: Path) -> Scenario:
    """The trace on the nodes on which its pods ran; other nodes do not change hours."""
    whole = openb_scenario(folder)
    placed = {pod.node_name for pod in build_fleet(LoadedScenario(whole, "openb")).clusters[0].pods}
    (cluster,) = whole.clusters
    nodes = tuple(node for node in cluster.nodes if node.name in placed)
    return replace(whole, clusters=(replace(cluster, nodes=nodes),))


def watched(scenario: Scenario, interval: int) -> Fleet:
    """The pods of the trace, with a journal."""
    return _fleet(scenario, WATCHED, interval)


def sampled(scenario: Scenario, interval: int) -> Fleet:
    """The same pods, deleted as they end, so that no remaining object has the time of the end."""
    (cluster,) = scenario.clusters
    work = tuple(replace(w, pods=tuple(map(_deleted_at_end, w.pods))) for w in cluster.workloads)
    gone = replace(scenario, clusters=(replace(cluster, workloads=work),))
    return _fleet(gone, f"every-{interval}s", interval)


def _deleted_at_end(pod: PodSpec) -> PodSpec:
    return replace(pod, deleted=pod.ended, gone=pod.ended) if pod.ended is not None else pod


def _fleet(scenario: Scenario, name: str, interval: int) -> Fleet:
    jobs = {job: JobSpec(enabled=False) for job in OTHER_JOBS}
    how = MonitoringSpec(prometheus_replicas=1, scrape_interval=interval, jobs=jobs)
    (cluster,) = scenario.clusters
    named = replace(cluster, name=name, monitoring=how)
    return build_fleet(LoadedScenario(replace(scenario, clusters=(named,)), name))


@dataclass(frozen=True, slots=True)
class Counted:
    """The pipeline's result for one cluster: seconds and uncertainty of each pod."""

    seconds: dict[str, int]
    uncertain: dict[str, int]
    thousandth_seconds: Fraction


def play(folder: Path, fleets: dict[str, Fleet], periods: Sequence[str]) -> dict[str, Counted]:
    """Simulate every fleet as a cluster of one home, and build each period once."""
    home = Home.create(folder / "home")
    rows = []
    for name, fleet in fleets.items():
        record_fleet(home, fleet, watched=name == WATCHED)
        rows.append(_decision(name, fleet))
        print(f"{name}: asked", file=sys.stderr, flush=True)
    decisions = decided(table("clusters", *rows))
    for period in periods:
        build = build_period(home, BillingPeriod(period), decisions, closed_periods=frozenset())
        assert build.failed_tests == [], [test.name for test in build.failed_tests]
        print(f"{period}: counted", file=sys.stderr, flush=True)
    return {name: _counted(home, fleet) for name, fleet in fleets.items()}


def _decision(name: str, fleet: Fleet) -> str:
    (cluster,) = fleet.clusters
    sources = "both" if name == WATCHED else "samples"
    interval = next(j for j in cluster.monitoring.jobs if j.enabled).scrape_interval_seconds
    since, until = (
        epoch(at).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (fleet.started_at, fleet.ended_at)
    )
    return f"{cluster.cluster_id},{name},{since},{until},{sources},{interval},{interval}"


def _counted(home: Home, fleet: Fleet) -> Counted:
    (cluster,) = fleet.clusters
    statement = f"""
        select pod_name, device_count, compute_share_numerator, compute_share_denominator,
            sum(running_seconds), sum(uncertainty_seconds)
        from marts.fct_pod_hours where cluster_id = '{cluster.cluster_id}' group by all
    """
    seconds, uncertain, total = {}, {}, Fraction(0)
    for pod, count, numerator, denominator, running, about in truth.ask(home, statement):
        seconds[pod], uncertain[pod] = int(running), int(about)
        total += Fraction(THOUSAND * int(numerator), int(denominator)) * int(count) * int(running)
    return Counted(seconds, uncertain, total)


# --- the page's table ----------------------------------------------------------------------------


def rows_of_page(lives: Sequence[Life], fleets: dict[str, Fleet]) -> Iterator[str]:
    """By the trace's arithmetic; `play` gives the same for the same fleets."""
    true = by_lifecycle(lives)
    for interval in INTERVALS:
        fleet = fleets[f"every-{interval}s"]
        times = scrape_times(fleet.clusters[0], fleet.started_at, fleet.ended_at)
        said = by_samples(lives, times, interval)
        yield (
            f"| {_span(interval)} | {said.unseen_count:,} | {_hours(said.unseen)} |"
            f" {_hours(said.to_last_sample)} | {_percent(said.to_last_sample, true)} |"
            f" {_hours(said.counted_samples)} | {_percent(said.counted_samples, true)} |"
            f" {said.far_off_count:,} |"
        )


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min"


def _hours(thousandth_seconds: int) -> str:
    thousandths = round(Fraction(thousandth_seconds, 3600))
    return f"{thousandths // THOUSAND:,}.{thousandths % THOUSAND:03}"


def _percent(part: int, whole: int) -> str:
    hundredths = round(Fraction((part - whole) * 10_000, whole))
    sign = "−" if hundredths < 0 else "+"
    return f"{sign}{abs(hundredths) // 100}.{abs(hundredths) % 100:02} %"


def compare(lives: Sequence[Life], fleets: dict[str, Fleet], counted: dict[str, Counted]) -> None:
    """Each pod's seconds equal the arithmetic; the uncertainty covers the true seconds."""
    for name, fleet in fleets.items():
        (cluster,) = fleet.clusters
        times = scrape_times(cluster, fleet.started_at, fleet.ended_at)
        expected = {}
        for life in lives:
            alone = seen_seconds(life, times)
            said = life.ended - life.started if name == WATCHED else alone
            if said is not None:
                expected[life.pod] = said
        found = counted[name]
        wrong = {
            pod: (expected.get(pod, 0), found.seconds.get(pod, 0))
            for pod in {*expected, *found.seconds}
            if expected.get(pod, 0) != found.seconds.get(pod, 0)
        }
        assert wrong == {}, (name, len(wrong), sorted(wrong.items())[:5])
        short = [
            life.pod
            for life in lives
            if life.pod in found.seconds
            and life.ended - life.started - found.seconds[life.pod] > found.uncertain[life.pod]
        ]
        assert short == [], (name, short[:5])
        if name != WATCHED:
            # The uncertainty is one interval at each end, because the store scrapes itself. It is
            # larger only for pods that end together with many others.
            interval = next(j for j in cluster.monitoring.jobs if j.enabled).scrape_interval_seconds
            assert median(found.uncertain.values()) <= 2 * interval + 1, name


def main(folder: Path) -> None:
    lives = openb_pods(folder)
    scenario = openb_on_its_nodes(folder)
    fleets = {WATCHED: watched(scenario, 300)}
    fleets |= {f"every-{interval}s": sampled(scenario, interval) for interval in INTERVALS}
    months = [f"2026-{month:02}" for month in range(5, 10)]
    assert epoch(scenario.until) + timedelta(hours=1) < BillingPeriod(months[-1]).ended_at
    with tempfile.TemporaryDirectory() as place:
        counted = play(Path(place), fleets, months)
    compare(lives, fleets, counted)
    assert counted[WATCHED].thousandth_seconds == by_lifecycle(lives)
    print(f"by lifecycle: {_hours(by_lifecycle(lives))} GPU-hours")
    print("\n".join(rows_of_page(lives, fleets)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
