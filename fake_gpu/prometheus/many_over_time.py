"""The four functions over many ranges of many series at once, in arrays.

Put here: the results of `over_time`, equal in each bit, for a day of all devices of a cluster.
Not here: numbers that need care (below zero, not finite, huge), which go one by one.

A mean is one operation after another, and these stay in their order: each operation is done for all
ranges of all series at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import copysign
from typing import TYPE_CHECKING

from fake_gpu.prometheus.language import Function
from fake_gpu.prometheus.over_time import Numbers, Range, over_time
from fake_gpu.prometheus.series import (
    ArraySamples,
    BlockSamples,
    ConstantSamples,
    TimeBlock,
    WindowSeries,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

# From so many ranges (of all series) on, arrays are quicker.
MANY = 96
# Numbers processed together: larger blocks do not fit into a processor's cache.
LARGEST_BATCH = 1 << 19
# Times and ranges whose places are cached: all metrics of a day use the same ones.
LARGEST_CACHE = 256
# Sums of larger ones might not be finite any more.
LARGEST_NUMBER = 1e300


Times = tuple[tuple[TimeBlock, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the ranges lie in the samples of all series with the same times."""

    counts: Integers  # samples per range that has any
    present: list[bool]  # per range
    index: Integers  # per range that has any, as many columns as the largest has samples


@dataclass
class _Batch:
    """Series whose means are taken together."""

    series: list[int] = field(default_factory=list)
    places: list[_Places] = field(default_factory=list)
    numbers: list[Floats] = field(default_factory=list)
    size: int = 0


def many_over_time(
    function: Function, found: Sequence[WindowSeries], ranges: Sequence[Range], direct_mean: bool
) -> list[Numbers]:
    """The function over every range, for each series."""
    ranges = tuple(ranges)
    if function == "count_over_time":
        return _counted(found, ranges)
    answers: list[Numbers] = [()] * len(found)
    for batch in _batches(function, found, ranges, answers, direct_mean):
        means = _means(batch, direct_mean) if function == "avg_over_time" else None
        for position, number in enumerate(batch.series):
            places = batch.places[position]
            if means is None:
                values = _extremes(function, places, batch.numbers[position])
            else:
                values = means[position]
            answers[number] = _spread(places.present, values)
    return answers


def _counted(found: Sequence[WindowSeries], ranges: tuple[Range, ...]) -> list[Numbers]:
    known: dict[Times, Numbers] = {}
    answers = []
    for series in found:
        times = _times(series)
        if times not in known:
            bounds = _bounds(times, ranges)
            known[times] = [float(high - low) if low < high else None for low, high in bounds]
        answers.append(known[times])
    return answers


def _batches(
    function: Function,
    found: Sequence[WindowSeries],
    ranges: tuple[Range, ...],
    answers: list[Numbers],
    direct_mean: bool,
) -> Iterator[_Batch]:
    """Series with plain numbers; the others are answered on the way."""
    import numpy as np

    batch = _Batch()
    level: dict[tuple[object, ...], Numbers] = {}
    for number, series in enumerate(found):
        one = series.parts[0] if len(series.parts) == 1 else None
        if isinstance(one, ConstantSamples):
            # Most series are one number all the time, and many the same one; -0 is another than 0.
            key = (one.block, one.low, one.high, one.value, copysign(1.0, one.value))
            if key not in level:
                level[key] = over_time(function, series, ranges, direct_mean)
            answers[number] = level[key]
            continue
        numbers = np.concatenate([_array(part) for part in series.parts] or [np.empty(0)])
        if not _plain(numbers):
            answers[number] = over_time(function, series, ranges, direct_mean)
            continue
        places = _places(_times(series), ranges)
        batch.series.append(number)
        batch.places.append(places)
        batch.numbers.append(numbers)
        batch.size += places.index.size
        if batch.size >= LARGEST_BATCH:
            yield batch
            batch = _Batch()
    yield batch


def _array(part: BlockSamples) -> Floats:
    import numpy as np

    if isinstance(part, ArraySamples):
        return part.array
    if isinstance(part, ConstantSamples):
        return np.full(len(part), part.value)
    return np.array(part.numbers, dtype=np.float64)


def _plain(numbers: Floats) -> bool:
    """Numbers of which sums and extremes hold no surprise; -0 is one."""
    import numpy as np

    if not len(numbers):
        return False
    return bool(numbers.max() < LARGEST_NUMBER) and not np.signbit(numbers).any()


def _times(series: WindowSeries) -> Times:
    return tuple([(part.block, part.low, part.high) for part in series.parts])


@lru_cache(maxsize=LARGEST_CACHE)
def _bounds(times: Times, ranges: tuple[Range, ...]) -> list[tuple[int, int]]:
    """The positions of each range in the samples at these times."""
    import numpy as np

    arrays = [block.times_array()[low:high] for block, low, high in times]
    joined = np.concatenate(arrays or [np.empty(0, dtype=np.int64)])
    low = joined.searchsorted([oldest for oldest, _ in ranges], side="left")
    high = joined.searchsorted([newest for _, newest in ranges], side="right")
    return list(zip(low.tolist(), high.tolist(), strict=True))


@lru_cache(maxsize=LARGEST_CACHE)
def _places(times: Times, ranges: tuple[Range, ...]) -> _Places:
    import numpy as np

    bounds = _bounds(times, ranges)
    there = [(low, high) for low, high in bounds if low < high]
    lows = np.array([low for low, _ in there], dtype=np.int64)
    counts = np.array([high - low for low, high in there], dtype=np.int64)
    columns = np.arange(int(counts.max()) if there else 0, dtype=np.int64)
    # Beyond its end a short range repeats its last sample; extremes do not mind, means stop there.
    index = lows[:, None] + np.minimum(columns[None, :], (counts - 1)[:, None])
    return _Places(counts, [low < high for low, high in bounds], index)


def _spread(present: Sequence[bool], values: Sequence[float]) -> Numbers:
    if len(values) == len(present):
        return values
    following = iter(values)
    return [next(following) if there else None for there in present]


def _extremes(function: Function, places: _Places, numbers: Floats) -> list[float]:
    if not len(places.counts):
        return []
    ranges = numbers[places.index]
    best = ranges.max(axis=1) if function == "max_over_time" else ranges.min(axis=1)
    values: list[float] = best.tolist()
    return values


def _means(batch: _Batch, direct: bool) -> list[list[float]]:
    """Of every range of every series of a batch."""
    import numpy as np

    if not batch.series:
        return []
    width = max(places.index.shape[1] for places in batch.places)
    rows = [len(places.counts) for places in batch.places]
    samples = np.zeros((width, sum(rows)))
    at = 0
    for places, numbers, count in zip(batch.places, batch.numbers, rows, strict=True):
        samples[: places.index.shape[1], at : at + count] = numbers[places.index].T
        at += count
    counts = np.concatenate([places.counts for places in batch.places])
    flat = (_direct(samples, counts) if direct else _incremental(samples, counts)).tolist()
    edges = np.cumsum([0, *rows]).tolist()
    return [flat[low:high] for low, high in pairwise(edges)]


def _incremental(samples: Floats, counts: Integers) -> Floats:
    """As Prometheus 2 takes it."""
    import numpy as np

    means = np.zeros(len(counts))
    compensations = np.zeros(len(counts))
    shortest = int(counts.min()) if len(counts) else 0
    for number, values in enumerate(samples, 1):
        increments = values / number - means / number
        results, lost = _added(means, increments)
        lost += compensations
        if number > shortest:
            ended = counts < number
            results, lost = np.where(ended, means, results), np.where(ended, compensations, lost)
        means, compensations = results, lost
    return means + compensations


def _direct(samples: Floats, counts: Integers) -> Floats:
    """As Prometheus 3 takes it, of numbers whose sum is finite."""
    import numpy as np

    totals = samples[0].copy() if len(samples) else np.zeros(len(counts))
    compensations = np.zeros(len(counts))
    shortest = int(counts.min()) if len(counts) else 0
    for number, values in enumerate(samples[1:], 2):
        results, lost = _added(totals, values)
        lost += compensations
        if number > shortest:
            ended = counts < number
            results, lost = np.where(ended, totals, results), np.where(ended, compensations, lost)
        totals, compensations = results, lost
    return totals / counts + compensations / counts


def _added(sums: Floats, more: Floats) -> tuple[Floats, Floats]:
    """The new sums, and their rounding errors."""
    import numpy as np

    results = sums + more
    larger = np.abs(sums) >= np.abs(more)
    kept = np.where(larger, sums, more)
    other = np.where(larger, more, sums)
    return results, (kept - results) + other
