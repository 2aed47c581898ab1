"""Named counts of oddities in a response, hour by hour. Facts, without an assessment.

Put here: facts from one attempt's series and the hours before it.
Not here: consequences (`quality`), or the outcome of an attempt (`ingestion.thanos.pull`).

A store that failed, or one of several receivers that share the series, removes series without a
warning. So the whole set of series is the sentinel: a series that ends while another one of its pod
continues has a gap, not an end; and many that end at one scrape are accepted only when seen twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np
from numpy.typing import NDArray

from domain.interval import HOUR, Interval
from ingestion.evidence.hour_ledger import (
    DOWN_SAMPLED,
    EARLY_ENDINGS,
    INCOMPLETE_PODS,
    MASS_ENDINGS,
)
from ingestion.metric_catalogue import device_metrics, lasting_metrics, metrics_of_all_pods
from ingestion.thanos.decode import HOUR_MS, DecodeWindow, Runs
from ingestion.thanos.series import Names, SeriesIdentity

MASS_COUNT = 3
"""Two pods that end together are a small workload; a second query for three costs little."""

MASS_SHARE_PERCENT = 20
"""The share of a metric's series from which endings at one scrape are a mass."""

AVERAGES_MS = 300_000
"""The finest resolution of a Thanos compactor. A window of it, or of a coarser one, ends a
millisecond before a multiple of this: there its average stands, whenever the target was scraped."""

CLUSTER_LABELS = ("clusterID", "cluster")

HourFacts = dict[datetime, dict[str, int]]

_WHOLE_NUMBER = re.compile(r"\d+(\.0+)?|[1-9](\.\d+)?e\+\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Lifetimes:
    """The lasting series inside the window, as columns."""

    metric: NDArray[np.int64]  # a number for each name, here and below
    pod: NDArray[np.int64]  # -1: of no pod
    first_ms: NDArray[np.int64]
    last_ms: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _PodRows:
    """The runs of the metrics that every pod has, as columns."""

    metric: NDArray[np.int64]
    pod: NDArray[np.int64]
    hour_ms: NDArray[np.int64]
    is_long: NDArray[np.bool_]  # too long for a partial scrape


def hourly_facts(
    parts: Sequence[Runs], hours: Sequence[datetime], sample_interval_seconds: int
) -> HourFacts:
    """Facts by hour, of a window's hours in their order; zeros are left out."""
    window = DecodeWindow.at(Interval(hours[0], hours[-1] + HOUR), sample_interval_seconds)
    lifetimes = _lifetimes(parts)
    found = {int(hour.timestamp()) * 1000: Counter[str]() for hour in hours}
    early = _early_endings(lifetimes, [*found], window)
    incomplete = _incomplete_pods(_pod_rows(parts, window), window)
    averaged = _targets_of_averages(parts)
    for place, (hour_ms, facts) in enumerate(found.items()):
        facts[MASS_ENDINGS] = _mass_endings(lifetimes, hour_ms, window)
        facts[EARLY_ENDINGS] = early[place]
        facts[INCOMPLETE_PODS] = incomplete[place]
        facts[DOWN_SAMPLED] = averaged.get(hour_ms, 0)
    for hour_ms, name, count in _values(parts):
        found[hour_ms][name] += count
    return {
        hour: {name: count for name, count in facts.items() if count}
        for hour, facts in zip(hours, found.values(), strict=True)
    }


def attempt_facts(parts: Sequence[Runs]) -> dict[str, int]:
    """Facts of the whole attempt: from decoding, and which clusters the series say they are of."""
    facts: Counter[str] = Counter()
    clusters: set[tuple[str, ...]] = set()
    for part in parts:
        facts.update(part.facts)
        for names, same in groupby(part.series, key=attrgetter("names")):
            clusters |= _clusters_named(names, same)
    if len(clusters) > 1:
        facts["clusters_in_the_answer"] = len(clusters)
    return {name: count for name, count in sorted(facts.items()) if count}


def _clusters_named(names: Names, series: Iterable[SeriesIdentity]) -> set[tuple[str, ...]]:
    """The values of both labels, "" where there is none, of series that have the same names."""
    places = [names.index(name) for name in CLUSTER_LABELS if name in names]
    if len(places) < len(CLUSTER_LABELS):
        return {tuple([one.text(name) for name in CLUSTER_LABELS]) for one in series}
    taken = itemgetter(*places)
    return {taken(one.texts) for one in series}


def mass_absence(before: Mapping[str, tuple[int, int]], now: Mapping[str, tuple[int, int]]) -> int:
    """How many series of one lasting metric are gone since the hour before, if it is a mass."""
    gone = [
        before[metric][0] - now.get(metric, (0, 0))[0]
        for metric in lasting_metrics() & before.keys()
        if _is_mass(before[metric][0] - now.get(metric, (0, 0))[0], before[metric][0])
    ]
    return max(gone, default=0)


def _is_mass(count: int, out_of: int) -> bool:
    return count >= MASS_COUNT and count * 100 >= out_of * MASS_SHARE_PERCENT


def _lifetimes(parts: Sequence[Runs]) -> _Lifetimes:
    number_of = {metric: number for number, metric in enumerate(sorted(lasting_metrics()))}
    rows: dict[str, int] = {}
    pods: dict[str, int] = {"": -1}
    columns: list[tuple[NDArray[np.int64], ...]] = [(np.empty(0, np.int64),) * 5]
    for part in parts:
        # Runs are in the order of series and time: a series' first row starts it, its last ends it.
        starts = np.flatnonzero(np.diff(part.series_index, prepend=-1))
        ends = np.append(starts[1:], len(part)) - 1
        every = part.series_index[starts]
        metric = _numbered(part, number_of)[part.metric_index][every]
        lasts = np.flatnonzero(metric >= 0)
        wanted = [part.series[place] for place in every[lasts].tolist()]
        row = np.array([rows.setdefault(one.series_id, len(rows)) for one in wanted], np.int64)
        pod = np.array([pods.setdefault(one.uid, len(pods)) for one in wanted], np.int64)
        first_ms, last_ms = part.first_ms[starts[lasts]], part.last_ms[ends[lasts]]
        columns.append((row, metric[lasts], pod, first_ms, last_ms))
    row, metric, pod, first_ms, last_ms = (np.concatenate(p) for p in zip(*columns, strict=True))
    if len(rows) == len(row):
        return _Lifetimes(metric, pod, first_ms, last_ms)
    # A window that was split has a part of the series in each.
    begins = np.full(len(rows), np.iinfo(np.int64).max)
    over = np.zeros(len(rows), np.int64)
    np.minimum.at(begins, row, first_ms)
    np.maximum.at(over, row, last_ms)
    _, one_of_each = np.unique(row, return_index=True)
    return _Lifetimes(metric[one_of_each], pod[one_of_each], begins, over)


def _numbered(part: Runs, number_of: Mapping[str, int]) -> NDArray[np.int64]:
    """The numbers of a part's metrics; -1 for a metric that is not used here."""
    return np.array([number_of.get(name, -1) for name in part.metrics], np.int64)


def _mass_endings(lifetimes: _Lifetimes, hour_ms: int, window: DecodeWindow) -> int:
    """The most series of one metric that ended at one scrape of the hour, if it is a mass."""
    ended = (
        (lifetimes.last_ms >= hour_ms)
        & (lifetimes.last_ms < hour_ms + HOUR_MS)
        # After a later one, no further sample is due inside the window.
        & (lifetimes.last_ms + window.gap_ms < window.ended_ms)
    )
    if np.count_nonzero(ended) < MASS_COUNT:
        return 0
    there = np.bincount(
        lifetimes.metric[(lifetimes.first_ms < hour_ms + HOUR_MS) & (lifetimes.last_ms >= hour_ms)]
    )
    together = np.stack((lifetimes.metric[ended], lifetimes.last_ms[ended]))
    (metrics, _), counts = np.unique(together, axis=1, return_counts=True)
    masses = [
        count
        for count, out_of in zip(counts.tolist(), there[metrics].tolist(), strict=True)
        if _is_mass(count, out_of)
    ]
    return max(masses, default=0)


def _early_endings(
    lifetimes: _Lifetimes, hours_ms: Sequence[int], window: DecodeWindow
) -> list[int]:
    """By hour, series that have ended in it while another series of their pod continues."""
    of_pods = lifetimes.pod >= 0
    pod, last_ms = lifetimes.pod[of_pods], lifetimes.last_ms[of_pods]
    last_of_pod = np.zeros(int(pod.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last_of_pod, pod, last_ms)
    goes_on_until = last_of_pod[pod]
    is_early = goes_on_until - last_ms > window.gap_ms
    last_ms, goes_on_until = last_ms[is_early], goes_on_until[is_early]
    return [
        int(((last_ms < hour_ms + HOUR_MS) & (goes_on_until >= hour_ms)).sum())
        for hour_ms in hours_ms
    ]


def _pod_rows(parts: Sequence[Runs], window: DecodeWindow) -> _PodRows:
    number_of = {metric: number for number, metric in enumerate(sorted(metrics_of_all_pods()))}
    pods: dict[str, int] = {"": -1}
    columns: list[tuple[NDArray[np.int64], ...]] = [(np.empty(0, np.int64),) * 4]
    for part in parts:
        metric = _numbered(part, number_of)[part.metric_index]
        pod = np.array([pods.setdefault(one.uid, len(pods)) for one in part.series], np.int64)
        rows = np.flatnonzero(((metric >= 0) & (pod >= 0))[part.series_index])
        of_series = part.series_index[rows]
        lasted_ms = part.last_ms[rows] - part.first_ms[rows]
        columns.append((metric[of_series], pod[of_series], part.hour_ms[rows], lasted_ms))
    found = [np.concatenate(pieces) for pieces in zip(*columns, strict=True)]
    return _PodRows(found[0], found[1], found[2], found[3] >= window.gap_ms)


def _incomplete_pods(rows: _PodRows, window: DecodeWindow) -> list[int]:
    """By hour, pods that lack a metric of every pod, while other pods of the cluster have it.

    Receivers share series by a hash of their labels: without one of them some pods lack their phase
    and others their owner. A pod seen for less than 1.5 intervals may be a partial scrape.
    """
    hour = (rows.hour_ms - window.started_ms) // HOUR_MS
    hour_count = (window.ended_ms - window.started_ms) // HOUR_MS
    shape = (hour_count, int(rows.metric.max(initial=-1)) + 1, int(rows.pod.max(initial=-1)) + 1)
    there, long_seen = np.zeros(shape, bool), np.zeros((shape[0], shape[2]), bool)
    there[hour, rows.metric, rows.pod] = True
    long_seen[hour[rows.is_long], rows.pod[rows.is_long]] = True
    cluster_has = there.any(axis=2, keepdims=True)
    lacking = (cluster_has & ~there).any(axis=1) & long_seen
    counts: list[int] = lacking.sum(axis=1).tolist()
    return counts


def _targets_of_averages(parts: Sequence[Runs]) -> Counter[int]:
    """By hour, targets whose samples are at the ends of 5-minute windows, unless by coincidence.

    One target in 300,000 is scraped at that millisecond; two of one cluster never are.
    """
    every: set[tuple[int, str]] = set()
    averaged: set[tuple[int, str]] = set()
    for part in parts:
        health = np.array([name == "up" for name in part.metrics], bool)[part.metric_index]
        for row in np.flatnonzero(health[part.series_index]).tolist():
            key = int(part.hour_ms[row]), part.series[part.series_index[row]].series_id
            every.add(key)
            if not (
                (part.first_ms[row] + 1) % AVERAGES_MS or (part.last_ms[row] + 1) % AVERAGES_MS
            ):
                averaged.add(key)
    counts, of_all = (Counter(hour for hour, _ in keys) for keys in (averaged, every))
    return Counter({hour: n for hour, n in counts.items() if n > 1 or n == of_all[hour]})


def _values(parts: Sequence[Runs]) -> Iterator[tuple[int, str, int]]:
    """Samples whose value is no number of devices, or shows a target that is down."""
    counted = device_metrics()
    for part in parts:
        odd = np.array([not _WHOLE_NUMBER.fullmatch(value) for value in part.values], bool)
        down = np.array([value != "1" for value in part.values], bool)
        devices = np.array([name in counted for name in part.metrics], bool)[part.metric_index]
        targets = np.array([name == "up" for name in part.metrics], bool)[part.metric_index]
        for name, values, series in (
            ("unusable_samples", odd, devices),
            ("failed_scrapes", down, targets),
        ):
            rows = np.flatnonzero(values[part.value_index] & series[part.series_index])
            for row in rows:
                yield int(part.hour_ms[row]), name, int(part.sample_count[row])
