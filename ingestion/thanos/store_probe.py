"""The lines of `gpu-ledger doctor` about a sample store, each with cause and remedy.

Put here: access to the store, its clock, intervals and retention.
Not here: printing, or the checks of the Kubernetes side (`ingestion.kubernetes`).

Nothing is landed: a probe is no evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from domain.clock import Clock
from domain.interval import HOUR, Interval, hour_of
from ingestion.doctor_lines import DoctorLine, clock_line
from ingestion.exporter_pins import Exporter
from ingestion.metric_catalogue import (
    TELEMETRY_ENTRIES,
    allocation_queries,
    group_queries,
    queried_entries,
)
from ingestion.settings import ClusterSource
from ingestion.thanos.attempt_client import AttemptClient, connected_to
from ingestion.thanos.decode import Runs
from ingestion.thanos.exporters_seen import (
    SeriesSeen,
    exporter_lines,
    metric_lines,
    operator_line,
    telemetry_lines,
)
from ingestion.thanos.hour_facts import attempt_facts
from ingestion.thanos.pull import telemetry_queries
from ingestion.thanos.query_runner import Part, QueryRunner
from ingestion.thanos.telemetry import DeviceReading, function_response

DEVICE_METRICS = ("DCGM_FI_.+", "gpu_.+", "amd_gpu_.+")

COUNT = "count_over_time"


def probe(
    cluster: ClusterSource, clock: Clock, client: AttemptClient | None = None
) -> list[DoctorLine]:
    """Check the last whole hour of a cluster."""
    now = clock.now()
    overlap = timedelta(seconds=cluster.sampling.sample_interval_seconds)
    ended_at = hour_of(now - overlap)
    window = Interval(ended_at - HOUR, ended_at)
    with connected_to(cluster.thanos.connection, client) as connected:
        runner = QueryRunner(_replicas_apart(cluster), connected)
        asks = group_queries(queried_entries(cluster.pod_labels), cluster.thanos.pins)
        parts = list(runner.pull_raw(asks, window))
        reached = _reached(cluster, parts)
        if not reached.is_fine:
            return [reached]
        runs = [part.runs for part in parts if part.runs is not None]
        names = _device_metrics(runner, window)
        devices = list(_device_runs(runner, names, window))
        seen_series = SeriesSeen([*runs, *devices])
        return [
            reached,
            *_clock_line(runner, now),
            *metric_lines(cluster, seen_series),
            *telemetry_lines(names, seen_series),
            operator_line(names, seen_series),
            *exporter_lines(cluster, seen_series),
            *_sampling_lines(cluster, runs),
            *_cluster_line(runs),
            *_retention_line(runner, cluster, ended_at),
        ]


def _replicas_apart(cluster: ClusterSource) -> ClusterSource:
    """With each replica as a series: merged, two of them seem to be sampled twice as often."""
    return replace(cluster, thanos=replace(cluster.thanos, replica_labels=()))


def _device_metrics(runner: QueryRunner, window: Interval) -> frozenset[str]:
    """The metrics of devices in the window; by counting them if a proxy refuses lists of names."""
    pins = runner.source.thanos.pins.matchers(Exporter.DEVICES, is_of_pods=False)
    names, _ = runner.metric_names(DEVICE_METRICS, window, pins)
    if names is not None:
        return names
    counts = telemetry_queries(runner, window, (COUNT,))
    told = DeviceReading((), window)
    for part in runner.send(counts):
        told.add(function_response(part.answer.ask, part.series))
    return frozenset(one.metric for one in told.rows().series)


def _device_runs(runner: QueryRunner, names: Collection[str], window: Interval) -> Iterator[Runs]:
    """One metric of each vendor's devices, to see which exporter writes it."""
    told = [entry for entry in TELEMETRY_ENTRIES if entry.metric in names]
    chosen = {entry.metric.partition("_")[0]: entry for entry in reversed(told)}
    for part in runner.pull_raw(group_queries(chosen.values(), runner.source.thanos.pins), window):
        if part.runs is not None:
            yield part.runs


def _reached(cluster: ClusterSource, parts: Sequence[Part]) -> DoctorLine:
    bad = [part for part in parts if part.runs is None]
    where = f"{cluster.thanos.name} answers"
    if not bad:
        return DoctorLine(where, True, f"{len(parts)} queries answered")
    answer = bad[0].answer
    if answer.status in (401, 403):
        remedy = "give its user the view of this cluster's metrics, or renew token_file"
    elif answer.status == 0:
        remedy = "check url, proxy, ca_file and network policies"
    else:
        remedy = "check that url is the address without /api/v1"
    return DoctorLine(where, False, f"{len(bad)} of {len(parts)} failed: {answer.reason}", remedy)


def _clock_line(runner: QueryRunner, now: datetime) -> Iterator[DoctorLine]:
    seconds = runner.source_time()
    if seconds is not None:
        yield clock_line(seconds, now.timestamp())


def _sampling_lines(cluster: ClusterSource, runs: Sequence[Runs]) -> Iterator[DoctorLine]:
    """The actual sampling interval, and replica labels that are not configured."""
    decided = cluster.sampling.sample_interval_seconds
    gaps = sorted(gap for part in runs for gap in _distances(part))
    if gaps:
        seen = gaps[len(gaps) // 2]
        harm = (
            "until then a missed scrape is not seen as a gap"
            if seen < decided
            else "until then every sample looks like a gap"
        )
        yield DoctorLine(
            "sampling interval",
            decided / 1.5 <= seen <= decided * 1.5,
            f"samples of one replica come every {seen:.0f} s, "
            f"decisions/clusters.csv says {decided}",
            f"correct sample_interval_seconds, from a date on: {harm}",
        )
    unnamed = _unnamed_replica_labels(cluster, runs)
    if unnamed:
        yield DoctorLine(
            "replica labels",
            False,
            f"{', '.join(unnamed)} distinguishes replicas and is not in replica_labels",
            "add it to replica_labels in config.toml, or every device counts twice",
        )


def _distances(part: Runs) -> Iterator[float]:
    """The mean distance of the samples of each series, in seconds."""
    starts = np.flatnonzero(np.diff(part.series_index, prepend=-1))
    if not len(part):
        return
    ends = np.append(starts[1:], len(part)) - 1
    counts = np.add.reduceat(part.sample_count, starts)
    spans = part.last_ms[ends] - part.first_ms[starts]
    several = counts > 1
    yield from (spans[several] / (counts[several] - 1) / 1000).tolist()


def _unnamed_replica_labels(cluster: ClusterSource, runs: Sequence[Runs]) -> list[str]:
    values: dict[str, set[str]] = {}
    for part in runs:
        for one in part.series:
            for name, text in one.labels.items():
                if "replica" in name and not name.startswith(("label_", "replicaset")):
                    values.setdefault(name, set()).add(text)
    return sorted(
        name
        for name, texts in values.items()
        if len(texts) > 1 and name not in cluster.thanos.replica_labels
    )


def _retention_line(
    runner: QueryRunner, cluster: ClusterSource, ended_at: datetime
) -> Iterator[DoctorLine]:
    """Whether the store has the oldest hour that may be queried; a new cluster has none."""
    days = cluster.thanos.raw_retention_days
    oldest = ended_at - timedelta(days=days - 1)
    month = ended_at - timedelta(days=35)
    health = [ask for ask in allocation_queries() if ask.metrics == ("up",)]
    for instant, is_needed in ((month, True), (oldest, False)):
        [part] = list(runner.pull_raw(health, Interval(instant - HOUR, instant)))
        there = part.runs is not None and len(part.runs) > 0
        if there or is_needed:
            age = (ended_at - instant).days
            seen = f"samples of {age} days ago {'exist' if there else 'are missing'}"
            remedy = "a month that is closed late cannot be queried again: keep raw samples longer"
            yield DoctorLine(f"raw samples, {age} days", there, seen, remedy)


def _cluster_line(runs: Sequence[Runs]) -> Iterator[DoctorLine]:
    """Whether the series are of one clusterID: two clusters would get one bill."""
    count = attempt_facts(runs).get("clusters_in_the_answer", 1)
    yield DoctorLine(
        "one cluster",
        count == 1,
        f"the series name {count} clusters" if count > 1 else "the series name one",
        "let cluster_matcher select one, by its clusterID; or find out who sends without that "
        "label. A cluster that was just renamed has two names for an hour",
    )
