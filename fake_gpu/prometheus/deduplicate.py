"""Replicas made one, as a Thanos querier does it, with the holes that it invents.

Put here: grouping by labels without the replica's, and the penalty algorithm.
Not here: which labels are the replicas' (`view`).

The querier follows one replica and leaves it only when it stays behind: after each sample the
other replica may not come before twice the last distance. So one lost scrape can cost a sample
that the other replica has, and whether it does depends on where the window begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby

from fake_gpu.prometheus.series import (
    BlockSamples,
    ConstantSamples,
    TimeBlock,
    VaryingSamples,
    WindowSeries,
)

# Before two samples are known, a sample of the other replica within 5 s counts as the same.
INITIAL_PENALTY_MS = 5000

Sample = tuple[int, float | None]  # None: a staleness marker


def without_labels(found: Iterable[WindowSeries], names: Sequence[str]) -> list[WindowSeries]:
    """The series without some labels; several may then have the same ones."""
    dropped = frozenset(names)
    stripped = []
    for series in found:
        if not dropped.isdisjoint(series.labels):
            label_set = series.label_set.without(dropped)
            series = WindowSeries(label_set, series.parts, series.stale_ms)
        stripped.append(series)
    return sorted(stripped, key=lambda series: series.label_set.order)


def deduplicated(
    found: Iterable[WindowSeries], replica_labels: Sequence[str]
) -> list[WindowSeries]:
    """One series for all replicas of it."""
    merger = _Merger()
    groups = groupby(without_labels(found, replica_labels), key=lambda series: series.key)
    return [merger.merged(list(group)) for _, group in groups]


class _Merger:
    """Merges pairs of replicas; equal cuts of equal blocks are merged once."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], tuple[TimeBlock, tuple[int, ...]]] = {}

    def merged(self, replicas: list[WindowSeries]) -> WindowSeries:
        result = replicas[0]
        for other in replicas[1:]:
            result = self._pair(result, other)
        return result

    def _pair(self, one: WindowSeries, other: WindowSeries) -> WindowSeries:
        constant = _constant((*one.parts, *other.parts))
        parts: tuple[BlockSamples, ...] = ()
        if constant is None:
            picked = _pick(_samples(one), _samples(other))
            stale = tuple(at for at, number in picked if number is None)
            samples = [(at, number) for at, number in picked if number is not None]
            if samples:
                block = TimeBlock([at for at, _ in samples])
                numbers = [number for _, number in samples]
                parts = (VaryingSamples(block, 0, len(numbers), numbers),)
        else:
            block, stale = self._times(one, other)
            if block.times:
                parts = (ConstantSamples(block, 0, len(block.times), constant),)
        return WindowSeries(one.label_set, parts, stale)

    def _times(self, one: WindowSeries, other: WindowSeries) -> tuple[TimeBlock, tuple[int, ...]]:
        """The times that are shown, when all samples have one value."""
        cuts = [(id(part.block), part.low, part.high) for part in one.parts]
        more = [(id(part.block), part.low, part.high) for part in other.parts]
        key = (*cuts, None, *more, one.stale_ms, other.stale_ms)
        if key not in self.known:
            picked = _pick(_samples(one), _samples(other))
            block = TimeBlock([at for at, number in picked if number is not None])
            stale = tuple(at for at, number in picked if number is None)
            self.known[key] = (block, stale)
        return self.known[key]


def _constant(parts: Sequence[BlockSamples]) -> float | None:
    values = {part.value if isinstance(part, ConstantSamples) else None for part in parts}
    return values.pop() if len(values) == 1 else None


def _samples(series: WindowSeries) -> list[Sample]:
    """Samples and staleness markers in order: to the querier a marker is a sample like others."""
    samples: list[Sample] = list(zip(series.timestamps_ms, series.numbers, strict=True))
    if series.stale_ms:
        samples += [(at, None) for at in series.stale_ms]
        samples.sort(key=lambda sample: sample[0])
    return samples


def _pick(left: list[Sample], right: list[Sample]) -> list[Sample]:
    """The samples that the querier shows of two replicas."""
    picked: list[Sample] = []
    left_times, right_times = [at for at, _ in left], [at for at, _ in right]
    last: int | None = None
    left_penalty = right_penalty = 0
    i = j = 0
    while True:
        if last is not None:
            i = bisect_left(left_times, last + 1 + left_penalty, i)
            j = bisect_left(right_times, last + 1 + right_penalty, j)
        if i == len(left) and j == len(right):
            return picked
        use_left = j == len(right) or (i < len(left) and left_times[i] <= right_times[j])
        chosen = left[i] if use_left else right[j]
        both_go_on = i < len(left) and j < len(right)
        penalty = INITIAL_PENALTY_MS if last is None else 2 * (chosen[0] - last)
        if use_left:
            left_penalty, right_penalty = 0, penalty if both_go_on else right_penalty
        else:
            right_penalty, left_penalty = 0, penalty if both_go_on else left_penalty
        last = chosen[0]
        picked.append(chosen)
