"""Device telemetry by the hour: average, maximum and count, computed by the server.

Put here: the query per metric and function, and its responses merged into one row per device-hour.
Not here: allocation, which is never queried as a function (`ingestion.thanos.pull`).

A function of several metrics, `avg_over_time({__name__=~"a|b"}[1h])`, is refused by every server,
because it drops the names of the metrics. So each metric gets its name back as a label, and several
are queried as one union; a server without unions gets one query per metric. The step is an hour on
whole hours, and `offset 1ms` makes a range mean `[h, h+1)` on servers whose ranges are closed as
well as on those whose ranges are left-open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.json_text import NOT_JSON, labels_of
from domain.interval import HOUR, Interval
from ingestion.metric_catalogue import MOST_READING, READING_UNITS, TELEMETRY_ENTRIES
from ingestion.thanos.decode import HOUR_MS, SERIES_LIMIT
from ingestion.thanos.response import RawSeries
from ingestion.thanos.sample_columns import MalformedSeries, decode_texts
from ingestion.thanos.series import Names, SeriesIdentity, SharedLabels

METRIC_LABEL = "gpu_ledger_metric"
"""Carries a metric's name through a union; never stored."""

FUNCTIONS = ("avg_over_time", "max_over_time", "count_over_time")

UNION = "*"
UNION_LIMIT = 10
"""Metrics in one union: each `or` compares with all before it, so its cost grows as a square."""

SERIES_AT_ONCE = 2_000
"""Series whose values are decoded together, to limit the memory; each has 24 values at most."""

COUNT_LIMIT = 2**31 - 1
"""Samples of one hour: a larger count does not fit into the table."""

_ENTRIES = {entry.metric: entry for entry in TELEMETRY_ENTRIES}

KnownSeries = dict[tuple[str, bytes], SeriesIdentity]
"""By metric and by the bytes of the other labels, which several metrics share."""

_MARK = f'"{METRIC_LABEL}":"'.encode()


@dataclass(frozen=True, slots=True)
class DeviceHour:
    """One device (or MIG instance), one metric, one hour."""

    series: SeriesIdentity
    hour_ms: int
    sample_count: int
    average_value: float | None  # None when the server has no number (NaN)
    maximum_value: float | None


@dataclass(frozen=True, slots=True)
class DeviceHours:
    """Rows of device-hours as columns; a missing number is NaN."""

    series: list[SeriesIdentity]
    series_index: NDArray[np.int64]
    hour_ms: NDArray[np.int64]
    sample_count: NDArray[np.int32]
    average_value: NDArray[np.float64]
    maximum_value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.series_index)

    def taken(self, places: NDArray[np.int64]) -> DeviceHours:
        """The rows at these places, in their order."""
        return DeviceHours(
            self.series,
            self.series_index[places],
            self.hour_ms[places],
            self.sample_count[places],
            self.average_value[places],
            self.maximum_value[places],
        )

    def __iter__(self) -> Iterator[DeviceHour]:
        for row, place in enumerate(self.series_index.tolist()):
            mean, most = float(self.average_value[row]), float(self.maximum_value[row])
            yield DeviceHour(
                self.series[place],
                int(self.hour_ms[row]),
                int(self.sample_count[row]),
                None if math.isnan(mean) else mean,
                None if math.isnan(most) else most,
            )


@dataclass(frozen=True, slots=True)
class Readings:
    """Device-hours by reading: one name and unit for all exporters and versions.

    A row without a reading ("") is of no use to facts, and keeps the value of the response.
    """

    names: list[str]
    name_index: NDArray[np.int32]  # of each row, into `names`
    average_value: NDArray[np.float64]
    maximum_value: NDArray[np.float64]


def readings_of(rows: DeviceHours) -> Readings:
    """The rows under the catalogue's names and units."""
    used, place = np.unique(rows.series_index, return_inverse=True)
    known = [_reading_of(rows.series[series]) for series in used.tolist()]
    names = ["", *sorted({name for name, _, _ in known} - {""})]
    index = np.array([names.index(name) for name, _, _ in known], np.int32)[place]
    divisors = np.array([divisor for _, divisor, _ in known], np.float64)[place]
    average, maximum = rows.average_value / divisors, rows.maximum_value / divisors
    limits = np.array([limit for _, _, limit in known], np.float64)[place]
    refused = (average < 0) | (maximum > limits)
    return Readings(
        names,
        np.where(refused, np.int32(0), index),
        np.where(refused, rows.average_value, average),
        np.where(refused, rows.maximum_value, maximum),
    )


def _reading_of(series: SeriesIdentity) -> tuple[str, float, float]:
    """The reading of a series, by how much its values are divided, and the largest possible."""
    entry = _ENTRIES.get(series.metric)
    if entry is None or not entry.reading or (entry.of_cards_only and _is_part_of_card(series)):
        return "", 1, math.inf
    return entry.reading, READING_UNITS[entry.unit], MOST_READING.get(entry.unit, math.inf)


def _is_part_of_card(series: SeriesIdentity) -> bool:
    """A MIG instance, or a partition of an AMD card other than the first.

    A reading that such a device cannot give is 0 with some exporters, and absent with others.
    """
    return bool(series.text("GPU_I_ID")) or series.text("gpu_partition_id") not in ("", "0")


def telemetry_query(function: str, selectors: Mapping[str, str], of_union: bool = False) -> str:
    """One function of one metric; or of several, each under its own name (selector by metric)."""
    called = {name: f"{function}({chosen}[1h] offset 1ms)" for name, chosen in selectors.items()}
    if len(called) == 1 and not of_union:
        return next(iter(called.values()))
    return " or ".join(
        f'label_replace({call},"{METRIC_LABEL}","{name}","","")' for name, call in called.items()
    )


def query_name(function: str, metrics: Sequence[str], of_union: bool = False) -> str:
    """`METRIC:function`; a union is `*:function`, as its metrics are named by their labels."""
    return f"{metrics[0] if len(metrics) == 1 and not of_union else UNION}:{function}"


def range_form(query: str, window: Interval) -> dict[str, str]:
    """The form of a range query that evaluates each hour of the window once, at its end."""
    return {
        "query": query,
        "start": str(int((window.started_at + HOUR).timestamp())),
        "end": str(int(window.ended_at.timestamp())),
        "step": "3600",
    }


@dataclass(frozen=True, slots=True)
class FunctionResponse:
    """The response to one function: of one metric, or ("") of several, named by their label."""

    metric: str
    function: str
    series: Sequence[RawSeries]


def function_response(ask: str, series: Sequence[RawSeries]) -> FunctionResponse:
    """The response to a query, by the query's name."""
    metric, _, function = ask.partition(":")
    return FunctionResponse("" if metric == UNION else metric, function, series)


def device_hours(
    answers: Iterable[FunctionResponse],
    replica_labels: Iterable[str],
    window: Interval,
    known: KnownSeries | None = None,
) -> DeviceHours:
    """Rows for the hours of the window. Of replicas the one with most samples counts."""
    reading = DeviceReading(replica_labels, window, known)
    for answer in answers:
        reading.add(answer)
    return reading.rows()


class DeviceReading:
    """Decodes the responses to functions one after the other.

    The three functions have the same label sets, and so has the next hour: `known` caches them.
    """

    def __init__(
        self,
        replica_labels: Iterable[str],
        window: Interval,
        known: KnownSeries | None = None,
    ) -> None:
        known = {} if known is None else known
        if len(known) > SERIES_LIMIT:
            known.clear()
        self._learned = _Learned(known, frozenset(replica_labels))
        self._replicas: dict[tuple[str, bytes], int] = {}
        self._series: list[SeriesIdentity] = []  # of each replica
        self._started_ms = int(window.started_at.timestamp()) * 1000
        self._hour_count = window.seconds // 3600
        self._cells = _Cells.of(0, self._hour_count)

    def add(self, answer: FunctionResponse) -> None:
        """Raises MalformedSeries; earlier responses stay."""
        numbers = []
        for raw in answer.series:
            labels = bytes(raw.metric)
            name = self._learned.name(answer.metric, labels)
            number = self._replicas.get(name)
            if number is None:
                self._series.append(self._learned.series(name, labels))
                number = self._replicas[name] = len(self._replicas)
            numbers.append(number)
        replica = np.array(numbers, np.int64)
        self._cells = self._cells.with_room_for(len(self._replicas))
        for first in range(0, len(answer.series), SERIES_AT_ONCE):
            some = answer.series[first : first + SERIES_AT_ONCE]
            samples = decode_texts([raw.values for raw in some])
            try:
                readings = np.array([float(text) for text in samples.values], np.float64)
            except ValueError as cause:
                raise MalformedSeries(f"telemetry: {cause}") from None
            # A value is evaluated at its hour's end.
            places = (samples.time_ms - HOUR_MS - self._started_ms) // HOUR_MS
            inside = (places >= 0) & (places < self._hour_count)
            of_replica = replica[samples.owner[inside] + first]
            values = readings[samples.value[inside]]
            self._cells.is_there[of_replica, places[inside]] = True
            self._cells.by_function[answer.function][of_replica, places[inside]] = values

    def rows(self) -> DeviceHours:
        """The rows of all responses together; afterwards the reading is empty."""
        by_series: dict[str, list[int]] = {}
        for _, replica in sorted(self._replicas.items(), key=lambda item: item[0][1]):
            by_series.setdefault(self._series[replica].series_id, []).append(replica)
        groups = [of for _, of in sorted(by_series.items())]
        pieces = [
            _united(self._cells, groups[first : first + SERIES_AT_ONCE], first, self._started_ms)
            for first in range(0, len(groups), SERIES_AT_ONCE)
        ] or [_united(self._cells, [], 0, self._started_ms)]
        self._cells = _Cells.of(0, self._hour_count)  # as large as the columns
        columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        return DeviceHours([self._series[of[0]] for of in groups], *columns)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of the functions, by replica and hour; NaN where there is none."""

    is_there: NDArray[np.bool_]
    by_function: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, replica_count: int, hour_count: int) -> _Cells:
        shape = (replica_count, hour_count)
        return cls(np.zeros(shape, bool), {name: np.full(shape, np.nan) for name in FUNCTIONS})

    def with_room_for(self, replica_count: int) -> _Cells:
        """The same cells, and empty ones for further replicas."""
        here, hour_count = self.is_there.shape
        if replica_count <= here:
            return self
        more = _Cells.of(replica_count - here, hour_count)
        return _Cells(
            np.concatenate([self.is_there, more.is_there]),
            {
                name: np.concatenate([values, more.by_function[name]])
                for name, values in self.by_function.items()
            },
        )


def _united(
    cells: _Cells, groups: Sequence[Sequence[int]], first: int, started_ms: int
) -> tuple[NDArray[Any], ...]:
    """The hours of some series: first replicas of all of them, then second ones, and so on.

    Of replicas with the same count the one whose labels come last counts. The columns are those of
    DeviceHours; `first` is the place of the first of these series.
    """
    shape = (len(groups), cells.is_there.shape[1])
    count, average, maximum = np.full(shape, -1.0), np.full(shape, np.nan), np.full(shape, np.nan)
    for turn in range(max(map(len, groups), default=0)):
        rows = [row for row, of in enumerate(groups) if len(of) > turn]
        its = [groups[row][turn] for row in rows]
        found = {name: values[its] for name, values in cells.by_function.items()}
        its_count = np.nan_to_num(found["count_over_time"], posinf=0.0).clip(0.0, COUNT_LIMIT)
        speaks = cells.is_there[its] & (its_count >= count[rows])
        count[rows] = np.where(speaks, its_count, count[rows])
        average[rows] = np.where(speaks, found["avg_over_time"], average[rows])
        its_maximum = _finite(found["max_over_time"])
        maximum[rows] = np.fmax(maximum[rows], its_maximum)
    at, places = np.nonzero(count >= 0)
    return (
        at + first,
        started_ms + places * HOUR_MS,
        count[at, places].astype(np.int32),
        _finite(average[at, places]),
        maximum[at, places],
    )


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, np.nan)


class _Learned:
    """Series by their metric and the bytes of their labels; labels are decoded once."""

    def __init__(self, known: KnownSeries, dropped: frozenset[str]) -> None:
        self._known = known
        self._dropped = dropped
        self._texts: dict[bytes, bytes] = {}
        self._label_sets: dict[bytes, SharedLabels] = {}
        self._shared: dict[Names, Names] = {}

    def name(self, metric: str, raw: bytes) -> tuple[str, bytes]:
        """The metric, of the query or of a label in a union, and the bytes of the other labels."""
        told, rest = (metric, raw) if metric else _named_within(raw)
        return told, self._texts.setdefault(rest, rest)

    def series(self, name: tuple[str, bytes], raw: bytes) -> SeriesIdentity:
        if name not in self._known:
            told, rest = name
            if rest not in self._label_sets:
                self._label_sets[rest] = self._label_set(raw)
            self._known[name] = self._label_sets[rest].named(told)
        return self._known[name]

    def _label_set(self, raw: bytes) -> SharedLabels:
        apart = self._dropped | {METRIC_LABEL}
        kept = {name: text for name, text in _labels(raw).items() if name not in apart}
        return SharedLabels.of(kept, self._shared)


def _named_within(raw: bytes) -> tuple[str, bytes]:
    """A metric's name as a union carries it, and the rest of the labels."""
    before, mark, after = raw.partition(_MARK)
    name, end, rest = after.partition(b'"')
    if not mark or not end or b"\\" in name or not name.isascii():
        return _labels(raw).get(METRIC_LABEL, ""), raw
    return name.decode(), before + rest


def _labels(raw: bytes) -> dict[str, str]:
    try:
        return labels_of(raw)
    except NOT_JSON as cause:
        raise MalformedSeries(f"labels: {cause}") from None
