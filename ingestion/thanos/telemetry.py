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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from domain.interval import HOUR, Interval
from ingestion.thanos.answer import RawSeries
from ingestion.thanos.decode import HOUR_MS, SERIES_LIMIT, Series
from ingestion.thanos.texts import MalformedSeries

METRIC_LABEL = "gpu_ledger_metric"
"""Carries a metric's name through a union; never part of what is stored."""

UNION = "*"
UNION_LIMIT = 10
"""Metrics in one union: each `or` compares with all before it, so its cost grows as a square."""

KnownSeries = dict[tuple[str, bytes], Series]
"""By the metric that was asked and the labels as they came."""

_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])
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
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    found: dict[tuple[str, int], dict[bytes, dict[str, float]]] = {}
    series_by_id: dict[str, Series] = {}
    for answer in answers:
        for raw in answer.series:
            replica = bytes(raw.metric)
            series = known.get((answer.metric, replica))
            if series is None:
                series = _series(replica, answer.metric, dropped, shared)
                known[answer.metric, replica] = series
            series_by_id[series.series_id] = series
            for hour_ms, value in _hourly(raw, window):
                by_replica = found.setdefault((series.series_id, hour_ms), {})
                by_replica.setdefault(replica, {})[answer.function] = value
    return [
        _row(series_by_id[series_id], hour_ms, by_replica)
        for (series_id, hour_ms), by_replica in sorted(found.items())
    ]


def _row(
    series: Series, hour_ms: int, by_replica: Mapping[bytes, Mapping[str, float]]
) -> DeviceHour:
    _, fullest = max(
        by_replica.items(), key=lambda item: (item[1].get("count_over_time", 0.0), item[0])
    )
    maxima = [values.get("max_over_time", math.nan) for values in by_replica.values()]
    finite = [value for value in maxima if math.isfinite(value)]
    average = fullest.get("avg_over_time", math.nan)
    return DeviceHour(
        series,
        hour_ms,
        int(fullest.get("count_over_time", 0.0)),
        average if math.isfinite(average) else None,
        max(finite) if finite else None,
    )


def _hourly(raw: RawSeries, window: Interval) -> list[tuple[int, float]]:
    """The values by the start of their hour; a value is evaluated at its hour's end."""
    started_ms = int(window.started_at.timestamp()) * 1000
    ended_ms = int(window.ended_at.timestamp()) * 1000
    try:
        pairs = _PAIRS.decode(raw.values)
        found = [(round(seconds * 1000.0) - HOUR_MS, float(text)) for seconds, text in pairs]
    except (msgspec.MsgspecError, ValueError) as cause:
        raise MalformedSeries(f"telemetry: {cause}") from None
    return [pair for pair in found if started_ms <= pair[0] < ended_ms]


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
