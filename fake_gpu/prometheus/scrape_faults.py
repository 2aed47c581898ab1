"""Scrapes that are lost, late, shifted, or taken at another interval.

Put here: what faults do to the times of samples.
Not here: what they do to series (`life_faults`), or to answers (`answer_faults`).

A sample has two times: when the scrape really was, which says what it found, and the time that is
written on it. They differ only here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from fake_gpu.estate.model import Fault
from fake_gpu.prometheus.faults import (
    SampleFaults,
    drawn,
    for_job,
    for_metric,
    text,
    whole,
)
from fake_gpu.prometheus.scrapes import DAY_MS, HOUR_MS, Collection, Grid, Schedule
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


@dataclass(frozen=True, slots=True)
class Sampling:
    """The samples of one metric of one target in one replica, through all faults of their times."""

    target: Target
    replica: int
    metric: str
    faults: SampleFaults
    collect_ms: int | None  # a collector takes the newest samples at this interval

    def grid(self) -> Grid:
        # Faults are counted hour by hour.
        faulted = bool(self._of((*_LOST_BY_SCRAPES, *_LOST_ON_THE_WAY, *_BY_METRIC, *WRITTEN)))
        faulted = faulted or bool(self._of(("interval_changed",)))
        return Grid(self.block, HOUR_MS if faulted else DAY_MS)

    def key(self) -> tuple[str, int, str]:
        """Metrics that no fault singles out share their times."""
        own = any(for_metric(f, self.metric) and text(f, "metric") for f in self._of(_BY_METRIC))
        return self.target.name, self.replica, self.metric if own else ""

    def _of(self, kinds: Sequence[str]) -> Sequence[Fault]:
        return self.faults.of(*kinds)

    def block(self, from_ms: int, until_ms: int) -> TimeBlock:
        """The samples whose written time lies in the window."""
        margin = LARGEST_SKEW_MS if self._of(WRITTEN) else 0
        real = self._kept(self._taken(from_ms - margin, until_ms + margin))
        if not margin:
            return TimeBlock(real)
        written = [sample for sample in self._written(real) if from_ms <= sample[0] < until_ms]
        return TimeBlock([at for at, _ in written], [at for _, at in written])

    def _taken(self, from_ms: int, until_ms: int) -> list[int]:
        if self.collect_ms is None:
            return self._scraped(from_ms, until_ms)
        collection = Collection(f"{self.faults.cluster_id}#collector", self.collect_ms)
        if not self._of(_LOST_BY_SCRAPES):
            taken = collection.of(self._schedule(), from_ms, until_ms)
        else:
            taken = collection.taken(self._scraped, from_ms, until_ms)
        for fault in self._of(("interval_changed",)):
            taken = self._recollected(fault, taken, from_ms, until_ms)
        return taken

    def _recollected(
        self, fault: Fault, taken: list[int], from_ms: int, until_ms: int
    ) -> list[int]:
        low, high = max(from_ms, fault.from_at * 1000), min(until_ms, fault.until_at * 1000)
        if low >= high:
            return taken
        other = Collection(f"{self.target.name}#{fault.fault_id}", _interval_ms(fault))
        self.faults.fire(fault, low // 1000, self.target.name)
        outside = [at for at in taken if not low <= at < high]
        return sorted([*outside, *other.taken(self._scraped, low, high)])

    def _schedule(self) -> Schedule:
        return Schedule(f"{self.target.name}#{self.replica}", self.target.interval_ms)

    def _scraped(self, from_ms: int, until_ms: int) -> list[int]:
        times = self._schedule().times(from_ms, until_ms)
        if self.collect_ms is None:
            for fault in self._of(("interval_changed",)):
                times = self._rescheduled(fault, times, from_ms, until_ms)
        for fault in self._of(_LOST_BY_SCRAPES):
            if self._concerns(fault):
                times = self._without(fault, times)
        return times

    def _rescheduled(
        self, fault: Fault, times: list[int], from_ms: int, until_ms: int
    ) -> list[int]:
        low, high = max(from_ms, fault.from_at * 1000), min(until_ms, fault.until_at * 1000)
        if low >= high:
            return times
        other = Schedule(f"{self.target.name}#{self.replica}", _interval_ms(fault))
        self.faults.fire(fault, low // 1000, self.target.name)
        outside = [at for at in times if not low <= at < high]
        return sorted([*outside, *other.times(low, high)])

    # -- lost

    def _kept(self, times: list[int]) -> list[int]:
        for fault in self._of(_LOST_ON_THE_WAY):
            times = self._without(fault, times)
        for fault in self._of(("out_of_order_dropped",)):
            if for_metric(fault, self.metric):
                times = self._without(fault, times)
        return times

    def _concerns(self, fault: Fault) -> bool:
        if fault.kind == "replica_scrape_lost":
            ours = whole(fault, "replica", 0) == self.replica
            return ours and for_job(fault, self.target.job)
        return for_job(fault, self.target.job)

    def _without(self, fault: Fault, times: list[int]) -> list[int]:
        low, high = fault.from_at * 1000, fault.until_at * 1000
        kept = [at for at in times if not (low <= at < high and self._drawn(fault, at))]
        if len(kept) < len(times):
            detail = f"{len(times) - len(kept)} of {self.target.name}#{self.replica}"
            self.faults.fire(fault, times[0] // 1000, detail)
        return kept

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
        """The cluster's clock is ahead; what seems older than the newest sample is refused."""
        ahead = whole(fault, "seconds", 90) * 1000
        low, high = fault.from_at * 1000, fault.until_at * 1000
        shifted: list[Sample] = []
        touched = 0
        for written, real in samples:
            inside = low <= real < high
            touched += inside
            at = written + ahead if inside else written
            if not shifted or at > shifted[-1][0]:
                shifted.append((at, real))
        if touched:
            self.faults.fire(fault, low // 1000, f"{touched} of {self.target.name}")
        return shifted

    def _overwritten(self, fault: Fault, samples: list[Sample]) -> list[Sample]:
        """A backlog arrives at the end of the fault; of each series its newest sample is kept."""
        low, high = fault.from_at * 1000, fault.until_at * 1000
        backlog = [real for _, real in samples if low <= real < high]
        if not backlog:
            return samples
        self.faults.fire(fault, high // 1000, f"{len(backlog)} of {self.target.name}")
        rest = [sample for sample in samples if not low <= sample[1] < high]
        position = bisect_right([written for written, _ in rest], high)
        if position and rest[position - 1][0] == high:
            return rest
        return [*rest[:position], (high, backlog[-1]), *rest[position:]]


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
