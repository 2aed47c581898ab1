"""The causes of missing evidence, distinguished by the other evidence of the hour.

Put here: the causes, and the rule that distinguishes them.
Not here: the missing time (`coverage`), or its remedy (`gap_findings`).

A failed query reports its failure. After a successful query the other metrics of the hour show the
cause: a target that is down takes its own metrics and leaves `up`; a metric that was removed from
an allow-list, or renamed, leaves the others of its target; a lost push to the hub takes all metrics
for a while; a lost store takes all metrics without a warning. Samples can also exist and be
refused: without a label that identifies the pod, or with a value that is not a count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from domain.findings import Finding
from domain.interval import Interval
from quality.coverage import SAMPLES, CoverageGap, Expectation, HourCoverage
from quality.finding_catalogue import CATALOGUE

HEALTH_METRIC = "up"
STEADY_METRICS = "kube_node_"
"""Due while there is a node. If their target is down, all that are due in the whole hour are
missing."""
NEEDED_METRICS = (
    HEALTH_METRIC,
    "kube_pod_container_resource_requests",
    "kube_pod_status_phase",
    "kube_pod_info",
)
"""Without these the samples show no allocation at all, or cannot tell which pods run."""
EXAMPLE_LIMIT = 80
"""Characters of an invalid label that a finding shows."""


class GapCause(StrEnum):
    """The class of a gap."""

    NEVER_ASKED = "never asked"
    QUERY_FAILED = "query failed"
    STORE_MISSING = "store missing without a warning"
    INCOMPLETE = "response not complete"
    PUSH_LOST = "push to the hub lost"
    TARGET_DOWN = "target down"
    METRIC_LOST = "metric not allowed or renamed"
    LABEL_RENAMED = "label renamed"
    LABEL_INVALID = "label invalid"
    VALUE_REFUSED = "value refused"
    COLLECTOR_LOST = "collector lost"
    JOURNAL_GAP = "journal gap"


@dataclass(frozen=True, slots=True)
class MetricHour:
    """One metric in one hour of one cluster."""

    expected_count: int
    missing_count: int

    @property
    def is_whole(self) -> bool:
        return self.missing_count == 0

    @property
    def is_gone(self) -> bool:
        return self.missing_count >= self.expected_count


MetricHours = Mapping[tuple[str, datetime], Mapping[str, MetricHour]]


def cause_of(row: HourCoverage, metrics: Mapping[str, MetricHour]) -> GapCause:
    """Why an incomplete hour of one source is incomplete."""
    if row.outcome in _CAUSE_OF_OUTCOME:
        return _CAUSE_OF_OUTCOME[row.outcome]
    if row.source != SAMPLES:
        return GapCause.COLLECTOR_LOST if not row.seen_count else GapCause.JOURNAL_GAP
    if row.is_response_incomplete:
        return GapCause.INCOMPLETE
    health = metrics.get(HEALTH_METRIC)
    if health and health.is_whole and any(not one.is_whole for one in metrics.values()):
        steady = [
            one
            for name, one in metrics.items()
            if name.startswith(STEADY_METRICS) and one.expected_count >= health.expected_count
        ]
        return GapCause.METRIC_LOST if any(one.is_whole for one in steady) else GapCause.TARGET_DOWN
    if metrics and not all(one.is_gone for one in metrics.values()):
        return GapCause.PUSH_LOST
    return GapCause.STORE_MISSING


_CAUSE_OF_OUTCOME: Mapping[str, GapCause] = {
    "not_asked": GapCause.NEVER_ASKED,
    "failed": GapCause.QUERY_FAILED,
    "refused": GapCause.QUERY_FAILED,
    "truncated": GapCause.QUERY_FAILED,
}


def explain_hour(row: HourCoverage, metrics: MetricHours) -> tuple[str, str]:
    """The cause, and the message of the source if it has one."""
    cause = cause_of(row, metrics.get((row.cluster_id, row.hour_started_at), {}))
    message = row.reason.strip()
    return cause.value, message if message != cause.value else ""


@dataclass(frozen=True, slots=True, order=True)
class RefusedSamples:
    """Refused samples of one metric in one hour: they exist and cannot be counted."""

    cluster_id: str
    metric: str
    label_missing: str  # '' if none is missing
    label_invalid: str  # with a value that Kubernetes does not accept; '' if all are valid
    first_sampled_at: datetime
    last_sampled_at: datetime
    series_count: int
    sample_count: int
    example: str  # labels of one series as JSON, the invalid label, or a value as written

    @property
    def cause(self) -> GapCause:
        if self.label_missing:
            return GapCause.LABEL_RENAMED
        return GapCause.LABEL_INVALID if self.label_invalid else GapCause.VALUE_REFUSED

    @property
    def explanation(self) -> str:
        count = f"{self.sample_count} samples of {self.series_count} series refused"
        if self.label_missing:
            own = ", ".join(sorted(json.loads(self.example)))
            why = f"{self.metric} without the label {self.label_missing}, with {own}"
        elif self.label_invalid:
            value = ascii(self.example[:EXAMPLE_LIMIT])
            why = f"{self.metric} with {self.label_invalid}={value}, which Kubernetes cannot have"
        else:
            why = f"{self.metric} of {self.example}"
        return f"{self.cause}, {count}: {why}"


def refused_gaps(
    expectations: Sequence[Expectation],
    refused: Iterable[RefusedSamples],
    intervals_seconds: Mapping[str, int],
) -> list[CoverageGap]:
    """The gaps of refused samples, which no backfill closes.

    Each sample leaves a gap until the next sample was due.
    """
    gaps = []
    for one in sorted(refused):
        until = one.last_sampled_at + timedelta(seconds=intervals_seconds.get(one.cluster_id, 1))
        for expectation in expectations:
            if expectation.cluster_id == one.cluster_id and SAMPLES in expectation.sources:
                piece = Interval(one.first_sampled_at, until).clipped_to(expectation.measured)
                if piece:
                    gaps.append(
                        CoverageGap(
                            one.cluster_id, SAMPLES, piece, one.explanation, backfillable=False
                        )
                    )
    return gaps


def unseen_metric_findings(
    expectations: Sequence[Expectation], metrics: MetricHours
) -> list[Finding]:
    """Metrics that were due and that no hour of a cluster shows: not on its allow-list, or renamed.

    A metric of requests is due only while a pod requests devices.
    """
    due: dict[str, set[str]] = {}
    seen: dict[str, set[str]] = {}
    for (cluster, _), found in metrics.items():
        due.setdefault(cluster, set()).update(found)
        seen.setdefault(cluster, set()).update(m for m, hour in found.items() if not hour.is_gone)
    sampled = sorted({e.cluster_id for e in expectations if SAMPLES in e.sources})
    return [
        CATALOGUE["metric_never_seen"].finding(
            where=f"cluster {cluster}, metric {metric}",
            seen=f"no sample in the whole period, beside {len(seen[cluster])} other metrics",
            cluster_id=cluster,
        )
        for cluster in sampled
        for metric in NEEDED_METRICS
        if seen.get(cluster) and metric in due[cluster] - seen[cluster]
    ]


@dataclass(frozen=True, slots=True, order=True)
class DeviceUse:
    """Busy devices of one node that no allocation explains, over the period."""

    cluster_id: str
    node_name: str
    is_unallocated: bool  # no pod holds the device; otherwise only the exporter lost the pod
    hour_count: int
    first_hour_started_at: datetime
    last_hour_ended_at: datetime


def device_use_findings(uses: Sequence[DeviceUse]) -> list[Finding]:
    """Contradictions of telemetry, which never decides an amount."""
    return [
        CATALOGUE["device_used_unallocated" if use.is_unallocated else "attribution_lost"].finding(
            where=f"cluster {use.cluster_id}, node {use.node_name}",
            seen=f"busy devices without a pod in {use.hour_count} device-hours",
            cluster_id=use.cluster_id,
            started_at=use.first_hour_started_at,
            ended_at=use.last_hour_ended_at,
        )
        for use in sorted(uses)
    ]


@dataclass(frozen=True, slots=True, order=True)
class DuplicateReading:
    """Devices of one node with two names for one reading in consecutive hours."""

    cluster_id: str
    node_name: str
    device_count: int
    hour_count: int  # of all devices
    first_hour_started_at: datetime
    last_hour_ended_at: datetime


def twice_reported_findings(nodes: Sequence[DuplicateReading]) -> list[Finding]:
    return [
        CATALOGUE["device_reported_twice"].finding(
            where=f"cluster {node.cluster_id}, node {node.node_name}",
            seen=f"{node.device_count} devices with both sets of DCGM names in "
            f"{node.hour_count} device-hours",
            cluster_id=node.cluster_id,
            started_at=node.first_hour_started_at,
            ended_at=node.last_hour_ended_at,
        )
        for node in sorted(nodes)
    ]
