"""From the body of an answer to runs, without an object per sample.

Put here: the series dictionary, values decoded once per distinct text, runs cut at holes and
hours.
Not here: what makes an answer usable (`ingestion.thanos.answer`), or files
(`ingestion.thanos.runs`).

All series of one scrape share their timestamps, and an allocation rarely changes: the text
`[[t,"1"],…]` repeats from series to series. So each distinct text is decoded once, and each
distinct label set is decoded once for as long as the dictionary lives.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.identity import sha256
from domain.interval import Interval
from ingestion.thanos.answer import RawSeries

if TYPE_CHECKING:
    import pyarrow

SERIES_LIMIT = 400_000
"""Label sets remembered at once; beyond it the dictionary starts again instead of growing."""

HOUR_MS = 3_600_000

_NO_TIMES: NDArray[np.int64] = np.empty(0, np.int64)
_NO_VALUES: NDArray[np.int32] = np.empty(0, np.int32)
_SAMPLE_TEXT = re.compile(r"[-+0-9.eEinfaNI]+")
_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])
_LABELS = msgspec.json.Decoder(dict[str, str])


class MalformedSeries(ValueError):
    """A series inside a valid envelope that is not the protocol; names what is wrong."""


@dataclass(frozen=True, slots=True)
class Series:
    """A label set without replica labels, under its stable name."""

    series_id: str
    metric: str
    labels: dict[str, str]  # without __name__


class SeriesDictionary:
    """Raw label bytes → series, remembered from answer to answer."""

    def __init__(self, replica_labels: Sequence[str], limit: int = SERIES_LIMIT) -> None:
        self._replica_labels = frozenset(replica_labels)
        self._limit = limit
        self._by_bytes: dict[bytes, Series] = {}

    def find(self, raw_labels: bytes) -> Series:
        series = self._by_bytes.get(raw_labels)
        if series is None:
            if len(self._by_bytes) >= self._limit:
                self._by_bytes.clear()
            series = self._by_bytes[raw_labels] = self._decoded(raw_labels)
        return series

    def _decoded(self, raw_labels: bytes) -> Series:
        try:
            labels = _LABELS.decode(raw_labels)
        except msgspec.MsgspecError as cause:
            raise MalformedSeries(f"labels: {cause}") from None
        for name in self._replica_labels & labels.keys():
            del labels[name]
        series_id = sha256(labels)[:32]
        return Series(series_id, labels.pop("__name__", ""), labels)


@dataclass(frozen=True, slots=True)
class Look:
    """The stretch that counts, half-open in milliseconds, and when neighbours are apart."""

    started_ms: int
    ended_ms: int
    hole_ms: int  # 1.5 intervals: neighbours further apart have a missed scrape between them
    asked_from_ms: int  # the overlap asked for on both sides; samples beyond it are nonsense
    asked_until_ms: int

    @classmethod
    def at(cls, window: Interval, sample_interval_seconds: int) -> Look:
        """The look at a window whose server samples at that interval."""
        started_ms = int(window.started_at.timestamp()) * 1000
        ended_ms = int(window.ended_at.timestamp()) * 1000
        interval_ms = sample_interval_seconds * 1000
        return cls(
            started_ms,
            ended_ms,
            interval_ms * 3 // 2,
            started_ms - interval_ms,
            ended_ms + interval_ms,
        )


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as columns, ordered by series, hour and time. `values` holds each text once."""

    series: list[Series]
    values: list[str]
    series_index: NDArray[np.int32]
    hour_ms: NDArray[np.int64]
    first_ms: NDArray[np.int64]
    last_ms: NDArray[np.int64]
    sample_count: NDArray[np.int64]
    value_index: NDArray[np.int32]
    facts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.series_index)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Python's garbage collector off: it walks every new object, and costs two to four times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def decode_runs(raw: Sequence[RawSeries], dictionary: SeriesDictionary, look: Look) -> Runs:
    """The runs of an answer's series inside the look; replicas of one series united."""
    with collector_paused():
        texts: dict[bytes, int] = {}
        texts_by_series: dict[str, tuple[int, ...]] = {}
        series_by_id: dict[str, Series] = {}
        histogram_count = 0
        for one in raw:
            series = dictionary.find(bytes(one.metric))
            text = texts.setdefault(bytes(one.values), len(texts))
            before = texts_by_series.get(series.series_id)
            if before is None:
                texts_by_series[series.series_id] = (text,)
                series_by_id[series.series_id] = series
            elif text not in before:
                texts_by_series[series.series_id] = tuple(sorted((*before, text)))
            histogram_count += bool(bytes(one.histograms))
        samples = _decoded_samples(list(texts))
        unions = {pair: place for place, pair in enumerate(dict.fromkeys(texts_by_series.values()))}
        united, facts = _united(samples, list(unions), look)
        chosen = sorted(texts_by_series)
        union_of_series = np.fromiter(
            (unions[texts_by_series[one]] for one in chosen), np.int64, len(chosen)
        )
        facts["replica_series"] = len(raw) - len(chosen)
        facts["histogram_series"] = histogram_count
        return _spread(
            _cut_into_runs(united, look), [series_by_id[i] for i in chosen], union_of_series, facts
        )


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of many texts, one after the other: owner[i] is the text of sample i."""

    owner_count: int
    owner: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    value: NDArray[np.int32]
    values: list[str]


def _decoded_samples(texts: list[bytes]) -> _Samples:
    """Decode every distinct text at once; compact texts by a CSV reader, others one by one."""
    lines = [text[2:-2].replace(b"],[", b"\n") for text in texts]
    counts = [line.count(b"\n") + 1 if line else 0 for line in lines]
    body = b"\n".join(line for line in lines if line) + b"\n"
    compact = all(
        text == b"[]" or (text.startswith(b"[[") and text.endswith(b"]]") and line)
        for text, line in zip(texts, lines, strict=True)
    )
    # Two quotes a sample and no escapes: no value can hide a separator.
    if compact and b"\\" not in body and body.count(b'"') == 2 * sum(counts):
        pairs = _read_pairs(body) if sum(counts) else (_NO_TIMES, _NO_VALUES, [])
        if pairs is not None and pairs[0].size == sum(counts):
            return _Samples(len(texts), np.repeat(np.arange(len(texts)), counts), *pairs)
    return _decoded_one_by_one(texts)


def _read_pairs(
    body: bytes,
) -> tuple[NDArray[np.int64], NDArray[np.int32], list[str]] | None:
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(
            BytesIO(body),
            read_options=csv.ReadOptions(
                column_names=["t", "v"], use_threads=False, block_size=max(len(body), 1)
            ),
            convert_options=csv.ConvertOptions(
                column_types={"t": pa.float64(), "v": pa.dictionary(pa.int32(), pa.string())},
                null_values=[],
            ),
        )
    except pa.ArrowInvalid:
        return None
    column: pyarrow.DictionaryArray = table.column("v").combine_chunks()
    values: list[str] = column.dictionary.to_pylist()
    if not all(_SAMPLE_TEXT.fullmatch(value) for value in values):
        return None
    times = np.rint(table.column("t").to_numpy() * 1000.0).astype(np.int64)
    return times, column.indices.to_numpy(), values


def _decoded_one_by_one(texts: list[bytes]) -> _Samples:
    owners: list[int] = []
    times: list[int] = []
    indices: list[int] = []
    values: dict[str, int] = {}
    for place, text in enumerate(texts):
        try:
            pairs = _PAIRS.decode(text)
        except msgspec.MsgspecError as cause:
            raise MalformedSeries(f"values: {cause}") from None
        for time_seconds, value in pairs:
            owners.append(place)
            times.append(round(time_seconds * 1000.0))
            indices.append(values.setdefault(value, len(values)))
    return _Samples(
        len(texts),
        np.array(owners, np.int64),
        np.array(times, np.int64),
        np.array(indices, np.int32),
        list(values),
    )


def _united(
    samples: _Samples, unions: list[tuple[int, ...]], look: Look
) -> tuple[_Samples, dict[str, int]]:
    """Samples by union of texts (one text each, unless there are replicas), clipped and in order.

    The same timestamp with the same value counts once; with another value both stay, counted.
    """
    bounds = np.searchsorted(samples.owner, np.arange(samples.owner_count + 1))
    texts = np.fromiter((text for union in unions for text in union), np.int64)
    lengths = bounds[texts + 1] - bounds[texts]
    owner = np.repeat(np.repeat(np.arange(len(unions)), [len(u) for u in unions]), lengths)
    pick = _ranges(bounds[texts], lengths)
    time_ms, value = samples.time_ms[pick], samples.value[pick]

    outside = (time_ms < look.asked_from_ms) | (time_ms > look.asked_until_ms)
    inside = (time_ms >= look.started_ms) & (time_ms < look.ended_ms)
    facts = {"samples_outside_the_question": int(outside.sum())}
    owner, time_ms, value = owner[inside], time_ms[inside], value[inside]
    same_owner = owner[1:] == owner[:-1]
    if (same_owner & (time_ms[1:] <= time_ms[:-1])).any():
        order = np.lexsort((value, time_ms, owner))
        owner, time_ms, value = owner[order], time_ms[order], value[order]
        same_time = (owner[1:] == owner[:-1]) & (time_ms[1:] == time_ms[:-1])
        again = same_time & (value[1:] == value[:-1])
        facts["contradicting_samples"] = int((same_time & ~again).sum())
        keep = np.concatenate(([True], ~again))
        owner, time_ms, value = owner[keep], time_ms[keep], value[keep]
    return _Samples(len(unions), owner, time_ms, value, samples.values), facts


def _cut_into_runs(samples: _Samples, look: Look) -> tuple[_Samples, NDArray[Any], NDArray[Any]]:
    """First sample of each run (as samples), the last time, and the number of samples."""
    owner, time_ms, value = samples.owner, samples.time_ms, samples.value
    if not owner.size:
        return samples, _NO_TIMES, _NO_TIMES
    new = np.empty(owner.size, bool)
    new[0] = True
    new[1:] = (
        (owner[1:] != owner[:-1])
        | (value[1:] != value[:-1])
        | (time_ms[1:] - time_ms[:-1] > look.hole_ms)
        | (time_ms[1:] // HOUR_MS != time_ms[:-1] // HOUR_MS)
    )
    first = np.flatnonzero(new)
    last = np.append(first[1:], owner.size) - 1
    begins = _Samples(
        samples.owner_count, owner[first], time_ms[first], value[first], samples.values
    )
    return begins, time_ms[last], last - first + 1


def _spread(
    runs: tuple[_Samples, NDArray[Any], NDArray[Any]],
    series: list[Series],
    union_of_series: NDArray[np.int64],
    facts: dict[str, int],
) -> Runs:
    """Give every series the runs of its union."""
    begins, last_ms, sample_count = runs
    bounds = np.searchsorted(begins.owner, np.arange(begins.owner_count + 1))
    starts, lengths = bounds[union_of_series], np.diff(bounds)[union_of_series]
    pick = _ranges(starts, lengths)
    first_ms = begins.time_ms[pick]
    return Runs(
        series=series,
        values=begins.values,
        series_index=np.repeat(np.arange(len(series), dtype=np.int32), lengths),
        hour_ms=first_ms // HOUR_MS * HOUR_MS,
        first_ms=first_ms,
        last_ms=last_ms[pick],
        sample_count=sample_count[pick],
        value_index=begins.value[pick],
        facts=facts,
    )


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[s, s+1, …, s+n-1] for every start and length, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    picked: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths)
    return picked
