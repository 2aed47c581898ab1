"""Scrapes that are lost, late, shifted, or taken at another interval.

Put here: the effects of faults on the times of samples.
Not here: their effects on series (`series_faults`) and responses (`answer_faults`).

A sample has two times: the true time of the scrape, which decides its values, and the time that is
written. They differ only here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.faults import (
    SampleFaults,
    drawn,
    for_job,
    for_metric,
    text,
    whole,
)
from fake_gpu.prometheus.scrapes import DAY_MS, HOUR_MS, Federation, Grid, Schedule
from fake_gpu.prometheus.series import TimeBlock
from fake_gpu.prometheus.targets import Target

Sample = tuple[int, int]  # (written, real) in milliseconds
_LOST_BY_SCRAPES = ("dropped_scrapes", "replica_scrape_lost")
_LOST_ON_THE_WAY = ("collector_down", "block_gap")
_BY_METRIC = ("out_of_order_dropped", "late_arrival")
# Faults that write another time on a sample than that of its scrape.
WRITTEN = ("clock_skew", "timestamps_overwritten")
# Samples of a shifted clock are looked for this far on both sides of a window.
LARGEST_SKEW_MS = 6 * HOUR_MS


class SampleEffect(NamedTuple):
    """The effect of a fault on samples: added, removed or changed ones."""

    fault: Fault
    times: list[int]  # in milliseconds


@dataclass(frozen=True, slots=True)
class FaultedSampling:
    """The samples of one metric of one target in one replica, through all faults of their times."""

    target: Target
    replica: int
    metric: str
    faults: SampleFaults
    collect_ms: int | None  # a collector takes the newest samples at this interval
    _touches: list[SampleEffect] = field(default_factory=list)  # not counted yet

    def grid(self) -> Grid:
        # Only queried samples are made, and faults are counted when a query touches them.
        faulted = bool(self._of((*_LOST_BY_SCRAPES, *_LOST_ON_THE_WAY, *_BY_METRIC, *WRITTEN)))
        if faulted or self._of(("interval_changed",)):
            return Grid(self.block, HOUR_MS, self._count_returned)
        return Grid(self.block, DAY_MS)

    def _count_returned(self, from_ms: int, until_ms: int) -> None:
        """Count the faults of the samples that a query returned in a closed range."""
        for touch in list(self._touches):
            if any(from_ms <= at <= until_ms for at in touch.times):
                self._touches.remove(touch)
                detail = f"{len(touch.times)} of {self.target.name}#{self.replica}"
                self.faults.fire(touch.fault, touch.times[0] // 1000, detail)

    def _note(self, fault: Fault, before: Sequence[Sample], after: Sequence[Sample]) -> None:
        if times := sorted({at for at, _ in set(before) ^ set(after)}):
            self._touches.append(SampleEffect(fault, times))

    def key(self) -> tuple[str, int, str]:
        """Metrics that no fault singles out share their times."""
        own = any(for_metric(f, self.metric) and text(f, "metric") for f in self._of(_BY_METRIC))
        return self.target.name, self.replica, self.metric if own else ""

    def _of(self, kinds: Sequence[str]) -> Sequence[Fault]:
        return self.faults.of(*kinds)

    def block(self, from_ms: int, until_ms: int) -> TimeBlock:
        """The samples whose written time lies in the window."""
        margin = LARGEST_SKEW_MS if self._of(WRITTEN) else 0
        noted = len(self._touches)
        real = self._drop_lost(self._collect(from_ms - margin, until_ms + margin))
        block = TimeBlock(real)
        if margin:
            written = [sample for sample in self._written(real) if from_ms <= sample[0] < until_ms]
            block = TimeBlock([at for at, _ in written], [at for _, at in written])
        self._touches[noted:] = [
            SampleEffect(fault, inside)
            for fault, times in self._touches[noted:]
            if (inside := [at for at in times if from_ms <= at < until_ms])
        ]
        return block

    def _collect(self, from_ms: int, until_ms: int) -> list[int]:
        if self.collect_ms is None:
            return self._scraped(from_ms, until_ms)
        collection = Federation(f"{self.faults.cluster_id}#collector", self.collect_ms)
        lost = self._lost_by_scrapes()
        if not lost:
            times = collection.of(self._schedule(), from_ms, until_ms)
        else:
            times = collection.collect(self._scraped, from_ms, until_ms)
            for fault in lost:
                others = partial(self._scraped, but=fault)
                without = collection.collect(others, from_ms, until_ms)
                self._note(fault, _plain(without), _plain(times))
        for fault in self._of(("interval_changed",)):
            times = self._collect_at_interval(fault, times, from_ms, until_ms)
        return times

    def _collect_at_interval(
        self, fault: Fault, times: list[int], from_ms: int, until_ms: int
    ) -> list[int]:
        low, high = max(from_ms, fault.from_at * 1000), min(until_ms, fault.until_at * 1000)
        if low >= high:
            return times
        other = Federation(f"{self.target.name}#{fault.fault_id}", _interval_ms(fault))
        outside = [at for at in times if not low <= at < high]
        found = sorted([*outside, *other.collect(self._scraped, low, high)])
        self._note(fault, _plain(times), _plain(found))
        return found

    def _schedule(self) -> Schedule:
        return Schedule(f"{self.target.name}#{self.replica}", self.target.interval_ms)

    def _lost_by_scrapes(self) -> list[Fault]:
        return [fault for fault in self._of(_LOST_BY_SCRAPES) if self._concerns(fault)]

    def _scraped(self, from_ms: int, until_ms: int, but: Fault | None = None) -> list[int]:
        times = self._schedule().times(from_ms, until_ms)
        if self.collect_ms is None:
            for fault in self._of(("interval_changed",)):
                times = self._rescheduled(fault, times, from_ms, until_ms)
        for fault in self._lost_by_scrapes():
            kept = times if fault == but else self._without(fault, times)
            # A collector does not take every scrape, so its losses show only in the samples that it
            # took.
            if self.collect_ms is None:
                self._note(fault, _plain(times), _plain(kept))
            times = kept
        return times

    def _rescheduled(
        self, fault: Fault, times: list[int], from_ms: int, until_ms: int
    ) -> list[int]:
        low, high = max(from_ms, fault.from_at * 1000), min(until_ms, fault.until_at * 1000)
        if low >= high:
            return times
        other = Schedule(f"{self.target.name}#{self.replica}", _interval_ms(fault))
        outside = [at for at in times if not low <= at < high]
        found = sorted([*outside, *other.times(low, high)])
        self._note(fault, _plain(times), _plain(found))
        return found

    # -- lost

    def _drop_lost(self, times: list[int]) -> list[int]:
        dropped = [f for f in self._of(("out_of_order_dropped",)) if for_metric(f, self.metric)]
        for fault in (*self._of(_LOST_ON_THE_WAY), *dropped):
            kept = self._without(fault, times)
            self._note(fault, _plain(times), _plain(kept))
            times = kept
        return times

    def _concerns(self, fault: Fault) -> bool:
        if fault.kind == "replica_scrape_lost":
            ours = whole(fault, "replica", 0) == self.replica
            return ours and for_job(fault, self.target.job)
        return for_job(fault, self.target.job)

    def _without(self, fault: Fault, times: list[int]) -> list[int]:
        low, high = fault.from_at * 1000, fault.until_at * 1000
        return [at for at in times if not (low <= at < high and self._drawn(fault, at))]

    def _drawn(self, fault: Fault, at: int) -> bool:
        # All replicas lose the same scrape: their offsets differ, its number does not.
        return drawn(fault, self.target.name, at // self.target.interval_ms)

    # -- written with another time

    def _written(self, real: list[int]) -> list[Sample]:
        samples = [(at, at) for at in real]
        for fault in self._of(("clock_skew",)):
            samples = self._skewed(fault, samples)
        for fault in self._of(("timestamps_overwritten",)):
            samples = self._overwritten(fault, samples)
        return samples

    def _skewed(self, fault: Fault, samples: list[Sample]) -> list[Sample]:
        """The cluster's clock is ahead; samples that seem older than the newest one are refused."""
        ahead = whole(fault, "seconds", 90) * 1000
        low, high = fault.from_at * 1000, fault.until_at * 1000
        shifted: list[Sample] = []
        for written, real in samples:
            at = written + ahead if low <= real < high else written
            if not shifted or at > shifted[-1][0]:
                shifted.append((at, real))
        self._note(fault, samples, shifted)
        return shifted

    def _overwritten(self, fault: Fault, samples: list[Sample]) -> list[Sample]:
        """A backlog arrives at the end of the fault; of each series its newest sample is kept."""
        low, high = fault.from_at * 1000, fault.until_at * 1000
        backlog = [real for _, real in samples if low <= real < high]
        if not backlog:
            return samples
        rest = [sample for sample in samples if not low <= sample[1] < high]
        position = bisect_right([written for written, _ in rest], high)
        if not (position and rest[position - 1][0] == high):
            rest.insert(position, (high, backlog[-1]))
        self._note(fault, samples, rest)
        return rest


def _plain(times: Sequence[int]) -> list[Sample]:
    return [(at, at) for at in times]


def _interval_ms(fault: Fault) -> int:
    return whole(fault, "interval", 300) * 1000


def arrived(
    block: TimeBlock, faults: Sequence[Fault], metric: str, target: Target, now_ms: int
) -> tuple[TimeBlock, Fault | None]:
    """The samples of a block that can be seen by now, and the fault that holds others back."""
    for fault in faults:
        low, high = fault.from_at * 1000, fault.until_at * 1000
        delay_ms = whole(fault, "delay", 7200) * 1000
        if not for_metric(fault, metric) or now_ms >= high + delay_ms:
            continue
        kept = [
            (written, real)
            for written, real in zip(block.times, block.real, strict=True)
            if not (low <= real < high and now_ms < real + delay_ms and _late(fault, target, real))
        ]
        if len(kept) < len(block.times):
            return TimeBlock([at for at, _ in kept], [at for _, at in kept]), fault
    return block, None


def _late(fault: Fault, target: Target, at: int) -> bool:
    return drawn(fault, target.name, at // target.interval_ms)
