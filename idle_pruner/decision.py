"""Whether a workload is idle: pure, from its replicas and the readings of their devices.

Put here: the rules, and a reason with numbers for each workload that is not idle.
Not here: queries (`idle_pruner.evidence`), Kubernetes (`idle_pruner.cluster`), or actions.

A workload is idle only if every device of every replica was idle during the whole window, shown
by complete, unambiguous evidence. Everything else is busy or unknown, and nothing is done.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from idle_pruner.evidence import METRICS, Evidence, MeasuredDevice, PodName, SeriesReading, Signal

SAMPLES_SHARE_MIN = 0.95  # of the scrapes in the window, and of the window in the scrapes
EDGE_INTERVALS = 2.0  # a store has the newest sample only after a while
GAP_INTERVALS = 2.5  # a single lost scrape is tolerated, two in a row are a gap
SCRAPES_MIN = 5  # fewer do not describe a window
SCRAPE_INTERVAL_LIMIT_SECONDS = 300.0  # a model server can answer many requests in a longer gap
RATIO_LIMIT = 1.05  # rounding of the exporters


class Verdict(Enum):
    IDLE = "idle"
    BUSY = "busy"
    TOO_YOUNG = "too young"
    UNKNOWN = "unknown"  # the evidence is incomplete or contradictory


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of idleness."""

    duration: timedelta = timedelta(minutes=30)
    grace_period: timedelta = timedelta(seconds=300)
    activity: float = 0.0
    memory_traffic: float = 0.01
    power_watts: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadPod:
    """A pod of a workload that has not ended."""

    namespace: str
    name: str
    uid: str
    phase: str
    is_terminating: bool
    device_count: int  # requested GPUs, MIG instances and partitions, of all containers
    has_claims: bool  # of devices through DRA, whose series name no pod
    changed_at: datetime  # creation or the last start of a container, the later one

    @property
    def pod(self) -> PodName:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one workload and its reasons, one sentence each."""

    verdict: Verdict
    reasons: tuple[str, ...]
    devices: tuple[MeasuredDevice, ...] = ()


def decide(
    replicas: Sequence[WorkloadPod],
    changed_at: datetime,
    evidence: Evidence,
    thresholds: Thresholds,
) -> Decision:
    """The verdict on a workload whose specification last changed at `changed_at`.

    Of several verdicts the strongest counts: busy, then too young, then unknown, then idle.
    """
    found: dict[Verdict, list[str]] = defaultdict(list)
    devices: list[MeasuredDevice] = []
    users: dict[MeasuredDevice, PodName] = {}
    if not any(replica.device_count for replica in replicas):
        return Decision(Verdict.UNKNOWN, ("No running replica requests a GPU.",))
    earliest = evidence.ended_at - thresholds.duration - thresholds.grace_period
    if changed_at > earliest:
        found[Verdict.TOO_YOUNG].append(_too_young("The workload", changed_at, evidence))
    for replica in replicas:
        if replica.changed_at > earliest:
            name = f"Pod {replica.name}"
            found[Verdict.TOO_YOUNG].append(_too_young(name, replica.changed_at, evidence))
        for verdict, reason in _state_reasons(replica):
            found[verdict].append(reason)
        readings = evidence.readings.get(replica.pod, ())
        for verdict, reason in _replica_reasons(replica, readings, evidence, thresholds):
            found[verdict].append(reason)
        for device in sorted({reading.device for reading in readings}):
            devices.append(device)
            if users.setdefault(device, replica.pod) != replica.pod:
                found[Verdict.UNKNOWN].append(
                    f"Device {device} is reported for pods {users[device][1]} and {replica.name}."
                )
    for verdict in (Verdict.BUSY, Verdict.TOO_YOUNG, Verdict.UNKNOWN):
        if found[verdict]:
            return Decision(verdict, tuple(found[verdict]), tuple(devices))
    minutes = thresholds.duration.total_seconds() / 60
    reason = f"All {len(devices)} devices of {len(replicas)} replicas idle for {minutes:g} minutes."
    return Decision(Verdict.IDLE, (reason,), tuple(devices))


def _too_young(name: str, changed_at: datetime, evidence: Evidence) -> str:
    seconds = (evidence.ended_at - changed_at).total_seconds()
    return f"{name} changed {max(seconds, 0):.0f} s ago."


def _state_reasons(replica: WorkloadPod) -> list[tuple[Verdict, str]]:
    reasons = []
    if replica.is_terminating:
        reasons.append((Verdict.UNKNOWN, f"Pod {replica.name} is terminating."))
    elif replica.phase != "Running":
        reasons.append((Verdict.UNKNOWN, f"Pod {replica.name} is {replica.phase}, not Running."))
    if replica.has_claims:
        reason = f"Pod {replica.name} claims devices through DRA; their series name no pod."
        reasons.append((Verdict.UNKNOWN, reason))
    return reasons


def _replica_reasons(
    replica: WorkloadPod,
    readings: Sequence[SeriesReading],
    evidence: Evidence,
    thresholds: Thresholds,
) -> list[tuple[Verdict, str]]:
    """The observations of one replica that contradict idleness."""
    if not replica.device_count:
        return []
    by_device: dict[MeasuredDevice, list[SeriesReading]] = defaultdict(list)
    for reading in readings:
        by_device[reading.device].append(reading)
    against: list[tuple[Verdict, str]] = []
    if len(by_device) != replica.device_count:
        against.append(
            (
                Verdict.UNKNOWN,
                f"Pod {replica.name} requests {replica.device_count} devices and "
                f"{len(by_device)} are reported for it.",
            )
        )
    for device, of_device in sorted(by_device.items()):
        where = f"Device {device} of pod {replica.name}"
        against += [
            (v, f"{where}: {r}") for v, r in _device_reasons(of_device, evidence, thresholds)
        ]
        others = {r.pod_uid for r in of_device} - {"", replica.uid}
        if others:
            against.append((Verdict.UNKNOWN, f"{where}: reported for another pod of this name."))
        if not device.identity:
            against.append((Verdict.UNKNOWN, f"{where}: its series has no device identity."))
    return against


def _device_reasons(
    readings: Sequence[SeriesReading], evidence: Evidence, thresholds: Thresholds
) -> list[tuple[Verdict, str]]:
    against: list[tuple[Verdict, str]] = []
    metrics = [reading.metric for reading in readings]
    for metric in sorted({name for name in metrics if metrics.count(name) > 1}):
        against.append((Verdict.UNKNOWN, f"{metric} has {metrics.count(metric)} series."))
    seen: set[Signal] = set()
    for reading in readings:
        limit = _limit(reading, thresholds)
        if limit is not None and reading.maximum > limit:
            unit = " W" if reading.signal is Signal.POWER else ""
            against.append(
                (
                    Verdict.BUSY,
                    f"{reading.metric} reached {reading.maximum:g}{unit}, above {limit:g}.",
                )
            )
        if reading.device.instance and not METRICS[reading.metric].is_known_for_instances:
            continue  # it shows the whole card, or 0 for every instance
        if defect := _defect(reading, evidence):
            against.append((Verdict.UNKNOWN, defect))
        elif limit is not None:
            seen.add(reading.signal)
    if Signal.ACTIVITY not in seen:
        against.append((Verdict.UNKNOWN, "no complete series of engine activity."))
    if not seen & {Signal.MEMORY_TRAFFIC, Signal.POWER}:
        against.append(
            (Verdict.UNKNOWN, "no complete series of memory traffic or power confirms it.")
        )
    return against


def _limit(reading: SeriesReading, thresholds: Thresholds) -> float | None:
    limits: Mapping[Signal, float | None] = {
        Signal.ACTIVITY: thresholds.activity,
        Signal.MEMORY_TRAFFIC: thresholds.memory_traffic,
        Signal.POWER: thresholds.power_watts,
    }
    return limits[reading.signal]


def _defect(reading: SeriesReading, evidence: Evidence) -> str:
    """The defect of a reading that does not cover the whole window; "" if it does."""
    name = reading.metric
    if math.isnan(reading.maximum) or reading.minimum < 0:
        return f"{name} has a value that is no {reading.signal.value}."
    if reading.signal is not Signal.POWER and reading.maximum > RATIO_LIMIT:
        return f"{name} reached {reading.maximum:g}, more than a device can."
    if reading.scrape_count < SCRAPES_MIN:
        return f"{name} comes from a target with {reading.scrape_count} known scrapes."
    if reading.scrape_failed_count:
        return f"{reading.scrape_failed_count} scrapes of {name} failed."
    interval = reading.scrape_interval_seconds
    if not 0 < interval <= SCRAPE_INTERVAL_LIMIT_SECONDS:
        return f"{name} is scraped every {interval:g} s; at most 300 s describe use."
    started, ended = evidence.started_at.timestamp(), evidence.ended_at.timestamp()
    due = (ended - started) / interval
    if reading.scrape_count < SAMPLES_SHARE_MIN * due - 1:
        return f"{name}: {reading.scrape_count} of {due:.0f} scrapes exist."
    if reading.sample_count < SAMPLES_SHARE_MIN * reading.scrape_count:
        return f"{name} has {reading.sample_count} samples in {reading.scrape_count} scrapes."
    if reading.first_at > started + EDGE_INTERVALS * interval:
        return f"{name} begins {reading.first_at - started:.0f} s after the window."
    if reading.last_at < ended - EDGE_INTERVALS * interval:
        return f"{name} ends {ended - reading.last_at:.0f} s before the end of the window."
    if reading.gap_seconds > GAP_INTERVALS * interval:
        return f"{name} has a gap of {reading.gap_seconds:.0f} s."
    return ""
