"""From the body of a response to runs, without an object per sample.

Put here: the series dictionary, merged replicas, runs cut at gaps and hours.
Not here: whether a response is usable (`ingestion.thanos.response`), names of series
(`ingestion.thanos.series`), the text of samples (`ingestion.thanos.sample_columns`), or files
(`ingestion.thanos.runs`).

All series of one scrape share their timestamps, and an allocation rarely changes: the text
`[[t,"1"],…]` repeats from series to series. So each distinct text is decoded once, and each
distinct label set is decoded once for as long as the dictionary lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from clients.json_text import NOT_JSON, labels_of
from domain.interval import Interval
from ingestion.thanos.response import NO_HISTOGRAMS, RawSeries
from ingestion.thanos.sample_columns import (
    MalformedSeries,
    Samples,
    Text,
    decode_texts,
    join_samples,
)
from ingestion.thanos.series import Names, SeriesIdentity

SAMPLES_OUTSIDE = "samples_outside_the_question"
"""The fact that a response had this many samples before or after the queried time."""

SERIES_LIMIT = 100_000
"""Label sets remembered at once, about a kilobyte each: several hours of a large cluster. Beyond
it the dictionary starts again instead of growing."""

AT_ONCE_BYTES = 1 << 20
"""Texts that are decoded together: about 40,000 samples. Their columns take several times the bytes
of the texts, and the runs of them next to nothing."""

HOUR_MS = 3_600_000

_NOTHING: NDArray[np.int64] = np.empty(0, np.int64)


class SeriesDictionary:
    """Raw label bytes → a number for the series, remembered from response to response."""

    def __init__(self, replica_labels: Sequence[str], limit: int = SERIES_LIMIT) -> None:
        self._replica_labels = frozenset(replica_labels)
        self._limit = limit
        self._number_by_bytes: dict[bytes, int] = {}
        self._number_by_id: dict[str, int] = {}
        self._names: dict[Names, Names] = {}
        self._series: list[SeriesIdentity] = []
        self._metric_of: list[int] = []
        self._metrics: dict[str, int] = {}  # of the catalogue, so it stays small

    def numbers(self, raw: Sequence[RawSeries]) -> list[int]:
        """The numbers of a response's series; replicas of one series have one number."""
        if len(self._number_by_bytes) > self._limit:
            self._number_by_bytes.clear()
            self._number_by_id.clear()
            self._series.clear()
            self._metric_of.clear()
        known = self._number_by_bytes
        found = []
        for one in raw:
            labels = bytes(one.metric)
            number = known.get(labels)
            if number is None:
                number = known[labels] = self._learned(labels)
            found.append(number)
        return found

    def series(self, number: int) -> SeriesIdentity:
        return self._series[number]

    def metrics(self, numbers: Sequence[int]) -> tuple[list[str], NDArray[np.int64]]:
        """The metrics of these series: every name once, and which series has which."""
        metric_of = self._metric_of
        places = np.array([metric_of[number] for number in numbers], np.int64)
        return list(self._metrics), places

    def _learned(self, raw_labels: bytes) -> int:
        series = self._decoded(raw_labels)
        number = self._number_by_id.setdefault(series.series_id, len(self._series))
        if number == len(self._series):
            self._series.append(series)
            metric = self._metrics.setdefault(series.metric, len(self._metrics))
            self._metric_of.append(metric)
        return number

    def _decoded(self, raw_labels: bytes) -> SeriesIdentity:
        try:
            labels = labels_of(raw_labels)
        except NOT_JSON as cause:
            raise MalformedSeries(f"labels: {cause}") from None
        for name in self._replica_labels & labels.keys():
            del labels[name]
        return SeriesIdentity.of(labels, self._names)


@dataclass(frozen=True, slots=True)
class DecodeWindow:
    """The interval whose samples count, half-open in milliseconds, and the smallest gap."""

    started_ms: int
    ended_ms: int
    gap_ms: int  # 1.5 intervals: a scrape is missing between neighbours that are further apart
    queried_from_ms: int  # the overlap that is queried on both sides; samples beyond it are invalid
    queried_until_ms: int

    @classmethod
    def at(cls, window: Interval, sample_interval_seconds: int) -> DecodeWindow:
        """The decode window of a query window, by the server's sampling interval."""
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

    def contains(self, time_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which samples lie inside, and are counted."""
        return (time_ms >= self.started_ms) & (time_ms < self.ended_ms)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as columns, by series and time. `values` and `metrics` have each text once.

    `metrics` may have names of other responses; `metric_index` has an entry per series.
    """

    series: list[SeriesIdentity]
    metrics: list[str]
    metric_index: NDArray[np.int64]
    values: list[str]
    series_index: NDArray[np.int32]
    hour_ms: NDArray[np.int64]
    first_ms: NDArray[np.int64]
    last_ms: NDArray[np.int64]
    # Like first_ms and last_ms, or the time of the neighbour in another hour with the same value.
    reaches_from_ms: NDArray[np.int64]
    reaches_until_ms: NDArray[np.int64]
    sample_count: NDArray[np.int64]
    value_index: NDArray[np.int64]
    facts: dict[str, int] = field(default_factory=dict)
    # Samples by metric and hour before replicas were united; empty when there are no replicas.
    raw_counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.series_index)


def decode_runs(
    raw: Sequence[RawSeries],
    dictionary: SeriesDictionary,
    window: DecodeWindow,
    at_once_bytes: int = AT_ONCE_BYTES,
) -> Runs:
    """The runs of a response's series inside the window; replicas of one series merged."""
    numbers = dictionary.numbers(raw)
    texts, text_of = _distinct_texts(raw)
    chosen, unions, union_of_series = _unions(numbers, text_of, len(texts))
    counts = _TextCounts(len(texts), window) if len(chosen) < len(raw) else None
    some_at_once = _some_at_once(texts, unions, at_once_bytes)
    cut, facts = _all_cut_into_runs(texts, some_at_once, window, counts)
    facts["replica_series"] = len(raw) - len(chosen)
    facts["histogram_series"] = sum(one.histograms is not NO_HISTOGRAMS for one in raw)
    series = [dictionary.series(number) for number in chosen]
    runs = _spread(cut, series, dictionary.metrics(chosen), union_of_series, facts)
    if counts is not None:
        runs.raw_counts.update(counts.by_metric(text_of, dictionary.metrics(numbers)))
    return runs


def _distinct_texts(raw: Sequence[RawSeries]) -> tuple[list[msgspec.Raw], list[int]]:
    """Each distinct values text once, and which series has which.

    Texts are compared by their hash and not copied: together they may be as large as the body.
    """
    places: dict[int, int] = {}  # by hash
    texts: list[msgspec.Raw] = []
    found: list[int] = []
    for one in raw:
        place = places.setdefault(hash(bytes(one.values)), len(texts))
        if place == len(texts) or texts[place] != one.values:
            place = len(texts)  # another text with the same hash may stand in the list twice
            texts.append(one.values)
        found.append(place)
    return texts, found


class _TextCounts:
    """Samples by text and hour, before replicas are merged: the counts of the server itself."""

    def __init__(self, text_count: int, window: DecodeWindow) -> None:
        self._window = window
        self._hour_count = (window.ended_ms - window.started_ms) // HOUR_MS
        self._of_text = np.zeros((text_count, self._hour_count), np.int64)

    def note(self, samples: Samples, texts: Sequence[int]) -> None:
        """Count the samples of these texts; a text may come again."""
        inside = self._window.contains(samples.time_ms)
        hours = (samples.time_ms[inside] - self._window.started_ms) // HOUR_MS
        cells = samples.owner[inside] * self._hour_count + hours
        found = np.bincount(cells, minlength=samples.owner_count * self._hour_count)
        self._of_text[np.array(texts, np.int64)] = found.reshape(samples.owner_count, -1)

    def by_metric(self, text_of: list[int], metrics: Metrics) -> dict[tuple[str, int], int]:
        """By metric and hour, every replica counted."""
        found: dict[tuple[str, int], int] = {}
        names, places = metrics
        text_of_series = np.array(text_of, np.int64)
        for metric in np.unique(places).tolist():
            texts = text_of_series[places == metric]
            for hour, count in enumerate(self._of_text[texts].sum(axis=0).tolist()):
                found[(names[metric], self._window.started_ms + hour * HOUR_MS)] = count
        return found


Metrics = tuple[list[str], NDArray[np.int64]]
"""Names, and which series has which."""

Unions = list[tuple[int, ...]]
"""Texts that together are one series: a single one, unless there are replicas."""


def _unions(
    numbers: list[int], text_of: list[int], text_count: int
) -> tuple[list[int], Unions, NDArray[np.int64]]:
    """The distinct series, the distinct unions of texts, and which series has which."""
    if len(set(numbers)) == len(numbers):
        alone: Unions = [(text,) for text in range(text_count)]
        return numbers, alone, np.array(text_of, np.int64)
    texts_by_series: dict[int, tuple[int, ...]] = {}
    for number, text in zip(numbers, text_of, strict=True):
        before = texts_by_series.get(number, ())
        if text not in before:
            texts_by_series[number] = tuple(sorted((*before, text)))
    unions = {union: place for place, union in enumerate(dict.fromkeys(texts_by_series.values()))}
    union_of_series = [unions[union] for union in texts_by_series.values()]
    return list(texts_by_series), list(unions), np.array(union_of_series, np.int64)


CutRuns = tuple[Samples, NDArray[Any]]
"""The first sample of each run (as samples); the last time, the number of samples, and from when
until when it reaches, a column each."""


def _all_cut_into_runs(
    texts: Sequence[Text],
    some_at_once: Iterable[tuple[list[int], Unions]],
    window: DecodeWindow,
    counts: _TextCounts | None,
) -> tuple[CutRuns, dict[str, int]]:
    """The runs of every union, some unions after the other (see AT_ONCE_BYTES)."""
    facts: Counter[str] = Counter()
    parts: list[CutRuns] = []
    for chosen, some in some_at_once:
        samples = decode_texts([texts[text] for text in chosen])
        if counts is not None:
            counts.note(samples, chosen)
        united, met = _united(samples, some, window)
        facts.update(met)
        parts.append(_cut_into_runs(united, window))
    return (parts[0] if len(parts) == 1 else _join_runs(parts)), dict(facts)


def _some_at_once(
    texts: Sequence[Text], unions: Unions, at_once_bytes: int
) -> Iterator[tuple[list[int], Unions]]:
    """Unions whose texts are decoded at once: which texts, and the unions by their places there."""
    places: dict[int, int] = {}
    some: Unions = []
    size = 0
    for union in unions:
        if size > at_once_bytes:
            yield list(places), some
            places, some, size = {}, [], 0
        for text in union:
            if text not in places:
                places[text] = len(places)
                size += len(texts[text])
        some.append(tuple([places[text] for text in union]))
    yield list(places), some


def _join_runs(parts: Sequence[CutRuns]) -> CutRuns:
    begins = join_samples([begin for begin, _ in parts])
    return begins, np.concatenate([rest for _, rest in parts])


def _united(
    samples: Samples, unions: Unions, window: DecodeWindow
) -> tuple[Samples, dict[str, int]]:
    """Samples by union of texts (one text each, unless there are replicas), as queried, in order.

    The same timestamp with the same value counts once; with another value both stay, counted.
    """
    bounds = np.searchsorted(samples.owner, np.arange(samples.owner_count + 1))
    texts = np.fromiter((text for union in unions for text in union), np.int64)
    lengths = bounds[texts + 1] - bounds[texts]
    owner = np.repeat(np.repeat(np.arange(len(unions)), [len(u) for u in unions]), lengths)
    pick = _ranges(bounds[texts], lengths)
    time_ms, value = samples.time_ms[pick], samples.value[pick]

    queried = (time_ms >= window.queried_from_ms) & (time_ms <= window.queried_until_ms)
    facts = {SAMPLES_OUTSIDE: int((~queried).sum())}
    owner, time_ms, value = owner[queried], time_ms[queried], value[queried]
    same_owner = owner[1:] == owner[:-1]
    if (same_owner & (time_ms[1:] <= time_ms[:-1])).any():
        # Contradicting samples are sorted by text, so that the order of replicas has no effect.
        rank = np.argsort(np.argsort(np.array(samples.values, dtype=object)))
        order = np.lexsort((rank[value], time_ms, owner))
        owner, time_ms, value = owner[order], time_ms[order], value[order]
        same_time = (owner[1:] == owner[:-1]) & (time_ms[1:] == time_ms[:-1])
        again = same_time & (value[1:] == value[:-1])
        inside = window.contains(time_ms[1:])
        facts["contradicting_samples"] = int((same_time & ~again & inside).sum())
        keep = np.concatenate(([True], ~again))
        owner, time_ms, value = owner[keep], time_ms[keep], value[keep]
    return Samples(len(unions), owner, time_ms, value, samples.values), facts


def _cut_into_runs(samples: Samples, window: DecodeWindow) -> CutRuns:
    """Runs of the window's hours; each may reach to its neighbour beyond its hour.

    A neighbour with the same value proves the time up to the edge of the hour, whether or not the
    hour beyond it is ever queried. It is not counted.
    """
    owner, time_ms, value = samples.owner, samples.time_ms, samples.value
    if not owner.size:
        return samples, np.empty((0, 4), np.int64)
    goes_on = np.zeros(owner.size, bool)
    goes_on[1:] = (
        (owner[1:] == owner[:-1])
        & (value[1:] == value[:-1])
        & (time_ms[1:] - time_ms[:-1] <= window.gap_ms)
    )
    hour_ms = time_ms // HOUR_MS * HOUR_MS
    new = ~goes_on
    new[1:] |= hour_ms[1:] != hour_ms[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], owner.size) - 1
    # The overlap that is queried is one interval long, whichever hours are queried together.
    overlap_ms = window.queried_until_ms - window.ended_ms
    before, after = np.maximum(first - 1, 0), np.minimum(last + 1, owner.size - 1)
    is_before = goes_on[first] & (time_ms[before] >= hour_ms[first] - overlap_ms)
    is_after = (last < owner.size - 1) & goes_on[after]
    is_after &= time_ms[after] <= hour_ms[last] + HOUR_MS + overlap_ms
    columns = (
        time_ms[last],
        last - first + 1,
        np.where(is_before, time_ms[before], time_ms[first]),
        np.where(is_after, time_ms[after], time_ms[last]),
    )
    inside = window.contains(time_ms[first])
    first = first[inside]
    begins = Samples(
        samples.owner_count, owner[first], time_ms[first], value[first], samples.values
    )
    return begins, np.stack(columns, axis=1)[inside]


def _spread(
    runs: CutRuns,
    series: list[SeriesIdentity],
    metrics: Metrics,
    union_of_series: NDArray[np.int64],
    facts: dict[str, int],
) -> Runs:
    """Give every series the runs of its union."""
    begins, rest = runs
    bounds = np.searchsorted(begins.owner, np.arange(begins.owner_count + 1))
    starts, lengths = bounds[union_of_series], np.diff(bounds)[union_of_series]
    pick = _ranges(starts, lengths)
    first_ms = begins.time_ms[pick]
    return Runs(
        series=series,
        metrics=metrics[0],
        metric_index=metrics[1],
        values=begins.values,
        series_index=np.repeat(np.arange(len(series), dtype=np.int32), lengths),
        hour_ms=first_ms // HOUR_MS * HOUR_MS,
        first_ms=first_ms,
        last_ms=rest[pick, 0],
        reaches_from_ms=rest[pick, 2],
        reaches_until_ms=rest[pick, 3],
        sample_count=rest[pick, 1],
        value_index=begins.value[pick],
        facts=facts,
    )


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[s, s+1, …, s+n-1] for every start and length, one after the other."""
    offsets = np.cumsum(lengths) - lengths
    picked: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths)
    return picked
