"""The programme owner's report: active worker nodes and GPUs active per node, hour by hour.

Its name is from CCSP, the Red Hat Certified Cloud and Service Provider programme.

Put here: hours, each measured, partly measured or not measured; equal consecutive hours are sealed
as one entry, and written as CSV hour by hour.
Not here: how cards are counted (`fct_node_hours`, `fct_cluster_hours`).

An hour that was not measured is marked and has no number: it is never zero. A partly measured hour
has a lower bound and is marked. `how_known` is the basis of a number of cards: `by_devices` is
exact; with `capacity` and `layouts` the cards of some slices are not known, and the number is a
lower bound. A sum has the weakest basis of its parts: the last word in alphabetical order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from billing.sealing import Document
from domain.csv_text import csv_bytes
from domain.findings import CoverageState, CoverageStatus
from domain.interval import HOUR, format_instant, parse_instant

MEASURED = "measured"
PARTLY = "partly measured"
UNMEASURED = "not measured"
NOTHING = "nothing"
FLEET = "(fleet)"


@dataclass(frozen=True, slots=True, order=True)
class ReportedClusterHour:
    """One hour of one cluster; an hour that was not measured has no numbers."""

    cluster_id: str
    hour_started_at: datetime
    measured: str
    active_worker_nodes: int | None
    active_worker_nodes_max: int | None
    sum_of_node_max: int | None
    sum_of_node_max_bound: int | None
    simultaneous_max: int | None
    how_known: str | None


@dataclass(frozen=True, slots=True, order=True)
class ReportedNodeHour:
    """One hour of one node."""

    cluster_id: str
    node_name: str
    hour_started_at: datetime
    measured: str
    gpu_capacity: int
    gpu_count_max: int
    gpu_count_max_bound: int
    how_known: str


HOUR_COLUMNS = tuple(field.name for field in fields(ReportedClusterHour))
NODE_COLUMNS = tuple(field.name for field in fields(ReportedNodeHour))


def measures(coverage_statuses: Iterable[CoverageStatus]) -> dict[tuple[str, datetime], str]:
    """Whether each expected hour of a cluster was measured, partly measured or not measured."""
    states: defaultdict[tuple[str, datetime], set[CoverageState]] = defaultdict(set)
    for coverage_status in coverage_statuses:
        if coverage_status.state is not CoverageState.NOT_EXPECTED:
            states[coverage_status.cluster_id, coverage_status.hour_started_at].add(
                coverage_status.state
            )
    return {key: _measure(found) for key, found in sorted(states.items())}


def cluster_hours(
    measured: Mapping[tuple[str, datetime], str],
    counted: Mapping[tuple[str, datetime], tuple[int, int, int, int, int, str]],
) -> list[ReportedClusterHour]:
    """One row per expected hour, in order; an hour that was not measured has no count."""
    hours = []
    for (cluster, hour), measure in sorted(measured.items()):
        counts = counted.get((cluster, hour), (0, 0, 0, 0, 0, NOTHING))
        shown = (None,) * 6 if measure == UNMEASURED else counts
        hours.append(ReportedClusterHour(cluster, hour, measure, *shown))
    return hours


def node_hours(
    measured: Mapping[tuple[str, datetime], str], counted: Iterable[tuple[Any, ...]]
) -> list[ReportedNodeHour]:
    """One row per node and measured hour.

    A row of `counted` is (cluster, node, hour, capacity, largest number of active GPUs, its lower
    bound, `how_known`).
    """
    rows = []
    for cluster, node, hour, *counts in counted:
        measure = measured.get((cluster, hour), UNMEASURED)
        if measure != UNMEASURED:
            rows.append(ReportedNodeHour(cluster, node, hour, measure, *counts))
    return sorted(rows)


def sealed_runs(rows: Sequence[ReportedClusterHour] | Sequence[ReportedNodeHour]) -> list[Document]:
    """The rows, equal consecutive hours joined into one entry with the number of hours."""
    if not rows:
        return []
    names = [name for name in rows[0].__dataclass_fields__ if name != "hour_started_at"]
    values_of = attrgetter(*names)
    runs: list[Document] = []
    previous: tuple[Any, ...] = ()
    for row in rows:
        hour, values = row.hour_started_at, values_of(row)
        if (hour, values) == previous:
            runs[-1]["hours"] += 1
        else:
            entry = dict(zip(names, values, strict=True))
            runs.append({**entry, "first_hour": format_instant(hour), "hours": 1})
        previous = (hour + HOUR, values)
    return runs


def hours_csv(statement: Mapping[str, Any]) -> bytes:
    """One row per cluster and hour, and one per hour of the fleet."""
    rows = [[entry[name] for name in HOUR_COLUMNS] for entry in _each_hour(statement["ccsp_hours"])]
    ordered = sorted(rows, key=lambda row: (row[1], row[0]))
    out: list[list[Any]] = []
    for hour, group in groupby(ordered, key=lambda row: row[1]):
        clusters = list(group)
        out += clusters
        out.append([FLEET, hour, *_sum_clusters(clusters)])
    return csv_bytes(HOUR_COLUMNS, out)


def nodes_csv(statement: Mapping[str, Any]) -> bytes:
    """One row per cluster, node and hour."""
    entries = sorted(
        ([entry[name] for name in NODE_COLUMNS] for entry in _each_hour(statement["ccsp_nodes"])),
        key=lambda row: (row[2], row[0], row[1]),
    )
    return csv_bytes(NODE_COLUMNS, entries)


def _measure(states: set[CoverageState]) -> str:
    if CoverageState.COMPLETE in states:
        return MEASURED
    return PARTLY if CoverageState.DEGRADED in states else UNMEASURED


def _each_hour(runs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for run in runs:
        hour = parse_instant(run["first_hour"])
        for _ in range(run["hours"]):
            yield {**run, "hour_started_at": format_instant(hour)}
            hour += HOUR


def _sum_clusters(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Sums over clusters; a lower bound if one of them was not measured.

    The clusters' simultaneous maxima may lie at different instants, so they are not added up.
    """
    states = {row[2] for row in rows}
    known = [row for row in rows if row[2] != UNMEASURED]
    if not known:
        return [UNMEASURED, None, None, None, None, None, None]
    sums = [sum(row[place] for row in known) for place in (3, 4, 5, 6)]
    how_known = max(({row[8] for row in known} - {NOTHING}) or {NOTHING})
    return [MEASURED if states == {MEASURED} else PARTLY, *sums, None, how_known]
