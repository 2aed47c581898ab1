"""What `gpu-ledger doctor` finds at a sample store: one line per check, with cause and remedy.

Put here: whether a cluster can be asked, and whether everything that is relied on is there.
Not here: printing, or the checks of the Kubernetes side (`ingestion.kubernetes`).

Nothing is landed: a probe is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import numpy as np

from domain.clock import Clock
from domain.interval import HOUR, Interval, hour_of
from ingestion.catalogue import ALLOCATION_ENTRIES, Entry, allocation_asks
from ingestion.probe import ProbeLine, clock_line
from ingestion.settings import ClusterSource
from ingestion.thanos.asking import Asker, Part
from ingestion.thanos.client import ThanosClient, connected_to
from ingestion.thanos.decode import Runs

DEVICE_METRICS = ("DCGM_FI_.+", "gpu_.+")
OPTIONAL = frozenset(
    {
        "kube_pod_init_container_resource_requests",
        "kube_pod_init_container_info",
        "kube_pod_completion_time",
        "kube_pod_deletion_timestamp",
        "kube_pod_status_unschedulable",
        "kube_pod_status_scheduled_time",
        "kube_pod_start_time",
        "kube_pod_resourceclaim_info",
        "kube_replicaset_owner",
        "kube_job_owner",
        "kube_resourcequota",
        "kube_namespace_labels",
        "kube_pod_resource_request",
    }
)
"""Metrics that a healthy cluster may lack at any one time: no such object, or dropped by design."""


def probe(
    cluster: ClusterSource, clock: Clock, client: ThanosClient | None = None
) -> list[ProbeLine]:
    """Look at the last whole hour of a cluster."""
    now = clock.now()
    overlap = timedelta(seconds=cluster.sampling.sample_interval_seconds)
    ended_at = hour_of(now - overlap)
    window = Interval(ended_at - HOUR, ended_at)
    with connected_to(cluster.thanos.connection, client) as connected:
        asker = Asker(cluster, connected)
        parts = list(asker.allocation(allocation_asks(), window))
        reached = _reached(cluster, parts)
        if not reached.is_fine:
            return [reached]
        runs = [part.runs for part in parts if part.runs is not None]
        return [
            reached,
            *_clock_line(asker, now),
            *_metric_lines(runs),
            *_sampling_lines(cluster, runs),
            *_retention_line(asker, cluster, ended_at),
            *_device_line(asker, window),
        ]


def _reached(cluster: ClusterSource, parts: Sequence[Part]) -> ProbeLine:
    bad = [part for part in parts if part.runs is None]
    where = f"{cluster.thanos.name} answers"
    if not bad:
        return ProbeLine(where, True, f"{len(parts)} questions answered")
    answer = bad[0].answer
    if answer.status in (401, 403):
        remedy = "give its user the view of this cluster's metrics, or renew token_file"
    elif answer.status == 0:
        remedy = "check url, proxy, ca_file and network policies"
    else:
        remedy = "check that url is the address without /api/v1"
    return ProbeLine(where, False, f"{len(bad)} of {len(parts)} failed: {answer.reason}", remedy)


def _clock_line(asker: Asker, now: datetime) -> Iterator[ProbeLine]:
    seconds = asker.source_time()
    if seconds is not None:
        yield clock_line(seconds, now.timestamp())


def _metric_lines(runs: Sequence[Runs]) -> Iterator[ProbeLine]:
    """Every metric of the catalogue, with the labels that are relied on."""
    labels = _labels(runs)
    for entry in ALLOCATION_ENTRIES:
        if entry.metric not in labels:
            if entry.metric not in OPTIONAL:
                yield _absent(entry)
            continue
        missing = [name for name in entry.labels if name not in labels[entry.metric]]
        if missing:
            yield ProbeLine(
                entry.metric,
                False,
                f"has no label {', '.join(missing)}",
                "no relabelling may drop it: " + entry.why,
            )
        else:
            yield ProbeLine(entry.metric, True, "present with its labels")


def _absent(entry: Entry) -> ProbeLine:
    remedy = f"collect it ({entry.why}); on ACM: gpu-ledger init --from-acm writes the allowlist"
    return ProbeLine(entry.metric, False, "no sample in the last hour", remedy)


def _labels(runs: Sequence[Runs]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for part in runs:
        for place in set(part.series_index.tolist()):
            one = part.series[place]
            found.setdefault(one.metric, set()).update(one.labels)
    return found


def _sampling_lines(cluster: ClusterSource, runs: Sequence[Runs]) -> Iterator[ProbeLine]:
    """The interval at which samples really come, and replicas that nobody named."""
    decided = cluster.sampling.sample_interval_seconds
    gaps = sorted(gap for part in runs for gap in _distances(part))
    if gaps:
        seen = gaps[len(gaps) // 2]
        replicas = any(part.raw_counts for part in runs)
        fine = seen <= 1.5 * decided and (replicas or seen >= decided / 1.5)
        yield ProbeLine(
            "sampling interval",
            fine,
            f"samples come every {seen:.0f} s, decisions/clusters.csv says {decided}",
            "correct sample_interval_seconds, from a date on",
        )
    unnamed = _unnamed_replica_labels(cluster, runs)
    if unnamed:
        yield ProbeLine(
            "replica labels",
            False,
            f"{', '.join(unnamed)} tells copies apart and is not in replica_labels",
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
    asker: Asker, cluster: ClusterSource, ended_at: datetime
) -> Iterator[ProbeLine]:
    """Whether the oldest hour that may still be asked for is there; a young cluster has none."""
    days = cluster.thanos.raw_retention_days
    oldest = ended_at - timedelta(days=days - 1)
    month = ended_at - timedelta(days=35)
    health = [ask for ask in allocation_asks() if ask.metrics == ("up",)]
    for instant, is_needed in ((month, True), (oldest, False)):
        [part] = list(asker.allocation(health, Interval(instant - HOUR, instant)))
        there = part.runs is not None and len(part.runs) > 0
        if there or is_needed:
            age = (ended_at - instant).days
            seen = f"samples of {age} days ago are {'there' if there else 'not there'}"
            remedy = "a month that is closed late cannot be asked again: keep raw samples longer"
            yield ProbeLine(f"raw samples, {age} days", there, seen, remedy)


def _device_line(asker: Asker, window: Interval) -> Iterator[ProbeLine]:
    names, _ = asker.metric_names(DEVICE_METRICS, window)
    if names is None:
        return
    yield ProbeLine(
        "device telemetry",
        bool(names),
        f"{len(names)} metrics of devices",
        "label the GPU operator's namespace: oc label namespace nvidia-gpu-operator "
        "openshift.io/cluster-monitoring=true",
    )
