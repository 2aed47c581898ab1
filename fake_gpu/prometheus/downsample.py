"""Samples as Thanos keeps them when the raw ones are gone: one value per window.

Put here: windows, the values that a function reads from them, and the response to a query of raw
samples.
Not here: when this happens (`answer_faults`).

A window ends one millisecond before a multiple of the resolution; its sample is written there, the
last one of a series at its last raw sample. Plain selectors read the mean of the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from fake_gpu.prometheus.series import TimeBlock, VaryingSamples, WindowSeries


def downsampled(
    series: WindowSeries, from_ms: int, until_ms: int, resolution_ms: int, function: str
) -> WindowSeries:
    """The series with its samples of a half-open time replaced by one per window."""
    samples = list(zip(series.timestamps_ms, series.numbers, strict=True))
    inside = [sample for sample in samples if from_ms <= sample[0] < until_ms]
    if not inside:
        return series
    coarse = {at: number for at, number in samples if not from_ms <= at < until_ms}
    last_ms = inside[-1][0]
    for window, members in groupby(inside, key=lambda sample: sample[0] // resolution_ms):
        end_ms = min((window + 1) * resolution_ms - 1, last_ms)
        coarse[end_ms] = _read([number for _, number in members], function)
    times = sorted(coarse)
    block = TimeBlock(times)
    part = VaryingSamples(block, 0, len(times), [coarse[at] for at in times])
    return WindowSeries(series.label_set, (part,), series.stale_ms)


def without(series: WindowSeries, from_ms: int, until_ms: int) -> WindowSeries:
    """The series without its samples of a half-open time; itself where it has none there."""
    if not any(from_ms <= at < until_ms for at in series.timestamps_ms):
        return series
    before, after = series.clipped(-(1 << 62), from_ms - 1), series.clipped(until_ms, 1 << 62)
    parts = (*before.parts, *after.parts)
    return WindowSeries(series.label_set, parts, (*before.stale_ms, *after.stale_ms))


def _read(numbers: Iterable[float], function: str) -> float:
    listed = list(numbers)
    if function.startswith("max_"):
        return max(listed)
    if function.startswith("min_"):
        return min(listed)
    if function.startswith("count_"):
        return float(len(listed))
    return sum(listed) / len(listed)
