"""Named counts of what looks odd in an answer, hour by hour. Facts, never judgements.

Put here: what can be seen from one attempt's series and the hours before it.
Not here: what follows from it (`quality`), or the outcome of an attempt (`ingestion.thanos.pull`).

A store that died, or one of several receivers that share the series, takes series away without a
word. So the whole set of series is the sentinel: a series that ends while another one of its pod
goes on has a hole, not an end; and many that end at one scrape are not believed until seen twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from domain.interval import HOUR, Interval
from ingestion.catalogue import device_metrics, lasting_metrics, metrics_of_every_pod
from ingestion.hours import EARLY_ENDINGS, INCOMPLETE_PODS, MASS_ENDINGS
from ingestion.thanos.decode import HOUR_MS, Look, Runs, Series

MASS_COUNT = 3
"""Two pods that end together are a small workload; asking once more for three costs little."""

MASS_SHARE_PERCENT = 20
"""The share of a metric's series from which endings at one scrape are a mass."""

_WHOLE_NUMBER = re.compile(r"\d+(\.0+)?|[1-9](\.\d+)?e\+\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Life:
    """One lasting series inside the look: its hours, and its first and last sample."""

    series: Series
    first_ms: int
    last_ms: int


def hourly_facts(
    parts: Sequence[Runs], hours: Sequence[datetime], sample_interval_seconds: int
) -> dict[datetime, dict[str, int]]:
    """Facts by hour, of a window's hours in their order; what is zero is left out."""
    look = Look.at(Interval(hours[0], hours[-1] + HOUR), sample_interval_seconds)
    lives = list(_lives(parts))
    found = {int(hour.timestamp()) * 1000: Counter[str]() for hour in hours}
    for hour_ms, facts in found.items():
        facts[MASS_ENDINGS] = _mass_endings(lives, hour_ms, look)
        facts[EARLY_ENDINGS] = _ending_early(lives, hour_ms, look)
        facts[INCOMPLETE_PODS] = _incomplete_pods(parts, hour_ms, look)
    for hour_ms, name, count in _values(parts):
        found[hour_ms][name] += count
    return {
        hour: {name: count for name, count in facts.items() if count}
        for hour, facts in zip(hours, found.values(), strict=True)
    }


def look_facts(parts: Sequence[Runs]) -> dict[str, int]:
    """Facts of the whole attempt: from decoding, and which clusters the series say they are of."""
    facts: Counter[str] = Counter()
    clusters: set[tuple[str, str]] = set()
    for part in parts:
        facts.update(part.facts)
        for one in part.series:
            clusters.add((one.labels.get("clusterID", ""), one.labels.get("cluster", "")))
    if len(clusters) > 1:
        facts["clusters_in_the_answer"] = len(clusters)
    return {name: count for name, count in sorted(facts.items()) if count}


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


def _lives(parts: Sequence[Runs]) -> Iterator[_Life]:
    wanted = lasting_metrics()
    found: dict[str, _Life] = {}
    for part in parts:
        if not len(part):
            continue
        # Runs are in the order of series and time: a series' first row starts it, its last ends it.
        starts = np.flatnonzero(np.diff(part.series_index, prepend=-1))
        ends = np.append(starts[1:], len(part)) - 1
        for place, start, end in zip(part.series_index[starts], starts, ends, strict=True):
            series = part.series[place]
            if series.metric not in wanted:
                continue
            first_ms, last_ms = int(part.first_ms[start]), int(part.last_ms[end])
            before = found.get(series.series_id)
            if before is not None:  # a window that was split has a part of the series in each
                first_ms = min(first_ms, before.first_ms)
                last_ms = max(last_ms, before.last_ms)
            found[series.series_id] = _Life(series, first_ms, last_ms)
    yield from found.values()


def _mass_endings(lives: Sequence[_Life], hour_ms: int, look: Look) -> int:
    """The most series of one metric that ended at one scrape of the hour, if it is a mass."""
    there = Counter(
        life.series.metric
        for life in lives
        if life.first_ms < hour_ms + HOUR_MS and life.last_ms >= hour_ms
    )
    ended = Counter(
        (life.series.metric, life.last_ms)
        for life in lives
        if hour_ms <= life.last_ms < hour_ms + HOUR_MS
        # Later than that, the next sample is not due inside the look.
        and life.last_ms + look.hole_ms < look.ended_ms
    )
    masses = [count for (metric, _), count in ended.items() if _is_mass(count, there[metric])]
    return max(masses, default=0)


def _ending_early(lives: Sequence[_Life], hour_ms: int, look: Look) -> int:
    """Series that are over in this hour although another one of their pod goes on in it."""
    last_of_pod: dict[str, int] = {}
    for life in lives:
        if uid := life.series.labels.get("uid"):
            last_of_pod[uid] = max(last_of_pod.get(uid, 0), life.last_ms)
    return sum(
        life.last_ms < hour_ms + HOUR_MS
        and last_of_pod.get(life.series.labels.get("uid", ""), 0) - life.last_ms > look.hole_ms
        and last_of_pod[life.series.labels["uid"]] >= hour_ms
        for life in lives
    )


def _incomplete_pods(parts: Sequence[Runs], hour_ms: int, look: Look) -> int:
    """Pods that lack a metric which every pod has, although the cluster has it in this hour.

    Receivers share series by a hash of their labels: one that is gone takes the phase of some pods
    and the owner of others. A pod seen for less than an interval and a half may be a partial round.
    """
    seen: dict[str, set[str]] = {metric: set() for metric in metrics_of_every_pod()}
    long_seen: set[str] = set()
    for part in parts:
        for row in np.flatnonzero(part.hour_ms == hour_ms).tolist():
            one = part.series[part.series_index[row]]
            if one.metric in seen and (uid := one.labels.get("uid")):
                seen[one.metric].add(uid)
                if part.last_ms[row] - part.first_ms[row] >= look.hole_ms:
                    long_seen.add(uid)
    there = [pods for pods in seen.values() if pods]
    return len({uid for pods in there for uid in long_seen - pods})


def _values(parts: Sequence[Runs]) -> Iterator[tuple[int, str, int]]:
    """Samples whose value cannot be meant: not a number of devices, or a target that is down."""
    counted = device_metrics()
    for part in parts:
        odd = np.array([not _WHOLE_NUMBER.fullmatch(value) for value in part.values], bool)
        zero = np.array([value == "0" for value in part.values], bool)
        devices = np.array([one.metric in counted for one in part.series], bool)
        targets = np.array([one.metric == "up" for one in part.series], bool)
        for name, values, series in (
            ("unusable_samples", odd, devices),
            ("failed_scrapes", zero, targets),
        ):
            rows = np.flatnonzero(values[part.value_index] & series[part.series_index])
            for row in rows:
                yield int(part.hour_ms[row]), name, int(part.sample_count[row])
