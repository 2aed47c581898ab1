"""Device telemetry by the hour: average, maximum and count, computed by the server.

Put here: the question per metric and function, and its answers united into one row per device-hour.
Not here: allocation, which is never asked as a function (`ingestion.thanos.pull`).

A function of several metrics, `avg_over_time({__name__=~"a|b"}[1h])`, is refused by every server,
because it drops the names that told them apart. So each metric gets its name back as a label, and
several are asked as one union; a server that does not know unions is asked one by one. The step is
an hour on whole hours, and `offset 1ms` makes a range mean `[h, h+1)` on servers whose ranges are
closed as well as on those whose ranges are left-open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.interval import HOUR, Interval
from ingestion.thanos.answer import RawSeries
from ingestion.thanos.decode import HOUR_MS, SERIES_LIMIT, Series
from ingestion.thanos.texts import MalformedSeries, Samples, decoded_texts

METRIC_LABEL = "gpu_ledger_metric"
"""Carries a metric's name through a union; never part of what is stored."""

FUNCTIONS = ("avg_over_time", "max_over_time", "count_over_time")

UNION = "*"
UNION_LIMIT = 10
"""Metrics in one union: each `or` compares with all before it, so its cost grows as a square."""

KnownSeries = dict[tuple[str, bytes], Series]
"""By the metric that was asked and the labels as they came."""

_LABELS = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True)
class DeviceHour:
    """One device (or MIG instance), one metric, one hour."""

    series: Series
    hour_ms: int
    sample_count: int
    average_value: float | None  # None when the server has no number (NaN)
    maximum_value: float | None


def telemetry_query(function: str, selectors: Mapping[str, str]) -> str:
    """One function of one metric; or of several, each under its own name (selector by metric)."""
    called = {name: f"{function}({chosen}[1h] offset 1ms)" for name, chosen in selectors.items()}
    if len(called) == 1:
        return next(iter(called.values()))
    return " or ".join(
        f'label_replace({call},"{METRIC_LABEL}","{name}","","")' for name, call in called.items()
    )


def ask_name(function: str, metrics: Sequence[str]) -> str:
    """`METRIC:function`; a union is `*:function`, as its metrics are named by their labels."""
    return f"{metrics[0] if len(metrics) == 1 else UNION}:{function}"


def range_form(query: str, window: Interval) -> dict[str, str]:
    """The form of a range query that evaluates each hour of the window once, at its end."""
    return {
        "query": query,
        "start": str(int((window.started_at + HOUR).timestamp())),
        "end": str(int(window.ended_at.timestamp())),
        "step": "3600",
    }


@dataclass(frozen=True, slots=True)
class FunctionAnswer:
    """The answer to one function: of one metric, or ("") of several, named by their label."""

    metric: str
    function: str
    series: Sequence[RawSeries]


def function_answer(ask: str, series: Sequence[RawSeries]) -> FunctionAnswer:
    """The answer to an ask, told by the ask's name."""
    metric, _, function = ask.partition(":")
    return FunctionAnswer("" if metric == UNION else metric, function, series)


def device_hours(
    answers: Iterable[FunctionAnswer],
    replica_labels: Iterable[str],
    window: Interval,
    known: KnownSeries | None = None,
) -> list[DeviceHour]:
    """Rows for the hours of the window. Of replicas the one with most samples speaks.

    The three functions have the same label sets, and so has the next hour: `known` remembers them.
    """
    dropped = frozenset(replica_labels)
    known = {} if known is None else known
    if len(known) > SERIES_LIMIT:
        known.clear()
    replicas: dict[tuple[str, bytes], int] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    read: list[tuple[str, NDArray[np.int64], Samples]] = []
    for answer in answers:
        numbers = []
        for raw in answer.series:
            name = (answer.metric, bytes(raw.metric))
            if name not in known:
                known[name] = _series(name[1], answer.metric, dropped, shared)
            numbers.append(replicas.setdefault(name, len(replicas)))
        samples = decoded_texts([bytes(raw.values) for raw in answer.series])
        read.append((answer.function, np.array(numbers, np.int64), samples))
    cells = _cells(read, len(replicas), window)
    by_series: dict[str, list[int]] = {}
    named = list(replicas)
    for name, replica in sorted(replicas.items(), key=lambda item: item[0][1]):
        by_series.setdefault(known[name].series_id, []).append(replica)
    groups = [of for _, of in sorted(by_series.items())]
    series = [known[named[of[0]]] for of in groups]
    return list(_united(cells, series, groups, int(window.started_at.timestamp()) * 1000))


@dataclass(frozen=True, slots=True)
class _Cells:
    """What the functions gave, by replica and hour; not a number where they gave none."""

    is_there: NDArray[np.bool_]
    by_function: dict[str, NDArray[np.float64]]


def _united(
    cells: _Cells, series: Sequence[Series], groups: Sequence[Sequence[int]], started_ms: int
) -> Iterator[DeviceHour]:
    """The hours of every series: first replicas of all of them, then second ones, and so on.

    Of those with the same count the one whose labels come last speaks.
    """
    shape = (len(groups), cells.is_there.shape[1])
    count, average, maximum = np.full(shape, -1.0), np.full(shape, np.nan), np.full(shape, np.nan)
    for turn in range(max(map(len, groups), default=0)):
        rows = [row for row, of in enumerate(groups) if len(of) > turn]
        its = [groups[row][turn] for row in rows]
        found = {name: values[its] for name, values in cells.by_function.items()}
        its_count = np.nan_to_num(found["count_over_time"], posinf=0.0).clip(min=0.0)
        speaks = cells.is_there[its] & (its_count >= count[rows])
        count[rows] = np.where(speaks, its_count, count[rows])
        average[rows] = np.where(speaks, found["avg_over_time"], average[rows])
        its_maximum = found["max_over_time"]
        its_maximum[~np.isfinite(its_maximum)] = np.nan
        maximum[rows] = np.fmax(maximum[rows], its_maximum)
    at, places = np.nonzero(count >= 0)
    numbers = zip(
        count[at, places].tolist(),
        average[at, places].tolist(),
        maximum[at, places].tolist(),
        strict=True,
    )
    where = zip(at.tolist(), places.tolist(), strict=True)
    for (row, place), (samples, mean, most) in zip(where, numbers, strict=True):
        yield DeviceHour(
            series[row],
            started_ms + place * HOUR_MS,
            int(samples),
            mean if math.isfinite(mean) else None,
            most if math.isfinite(most) else None,
        )


def _cells(
    read: Sequence[tuple[str, NDArray[np.int64], Samples]], replica_count: int, window: Interval
) -> _Cells:
    """A value is evaluated at its hour's end."""
    started_ms = int(window.started_at.timestamp()) * 1000
    shape = (replica_count, window.seconds // 3600)
    cells = _Cells(np.zeros(shape, bool), {name: np.full(shape, np.nan) for name in FUNCTIONS})
    for function, numbers, samples in read:
        try:
            readings = np.array([float(text) for text in samples.values], np.float64)
        except ValueError as cause:
            raise MalformedSeries(f"telemetry: {cause}") from None
        places = (samples.time_ms - HOUR_MS - started_ms) // HOUR_MS
        inside = (places >= 0) & (places < shape[1])
        replica = numbers[samples.owner[inside]]
        cells.is_there[replica, places[inside]] = True
        cells.by_function[function][replica, places[inside]] = readings[samples.value[inside]]
    return cells


def _series(
    raw_labels: bytes,
    metric: str,
    dropped: frozenset[str],
    shared: dict[tuple[str, ...], tuple[str, ...]],
) -> Series:
    try:
        labels = _LABELS.decode(raw_labels)
    except msgspec.MsgspecError as cause:
        raise MalformedSeries(f"labels: {cause}") from None
    kept = {name: text for name, text in labels.items() if name not in dropped}
    told = kept.pop(METRIC_LABEL, "")
    return Series.of({**kept, "__name__": metric or told}, shared)
