"""The derived Parquet of an attempt: runs, series and telemetry, under the attempt's own name.

Put here: the columns of these files, and how they get onto the disk whole.
Not here: what is in them (`ingestion.thanos.decode`, `ingestion.thanos.telemetry`), how those of a
day become one (`ingestion.thanos.days`), or which of several attempts counts (`dbt/`).

Everything here can be thrown away: `gpu-ledger rebuild` makes the same content from the landing.

Small by their shape: a series is a number, its labels stand once beside it, in the order of metric
and pod, so that alike stands beside alike; a pod's UID is 16 bytes; times are offsets into the
hour, which are the same for every series of a scrape and every hour that has no change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ingestion.catalogue import POD_LABELS_METRIC
from ingestion.columns import (
    constant,
    maps,
    milliseconds,
    named,
    numbers,
    repeated,
    sixteen_bytes,
    texts,
)
from ingestion.derived import write_note, write_parquet
from ingestion.manifest import Attempt
from ingestion.thanos.decode import Runs
from ingestion.thanos.series import Series
from ingestion.thanos.telemetry import DeviceHours, readings_of
from warehouse.derived import DerivedFolder
from warehouse.derived_notes import Note

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("runs", "series", "telemetry")

KEYS_PER_FILE = 1 << 32
"""Series of an attempt or day that can be numbered; its sequence, times this, comes before."""


EAGER_SERIES = 1000
"""From so many on, a metric's columns are made at once: fewer cost less together with others."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Series in their order, of one metric or of several small ones, and their columns."""

    series: list[Series]
    uid: pa.Array
    pod: pa.Array
    labels: pa.Array


_Counts = Sequence[tuple[str, int]]


class SeriesBlocks:
    """The series of an attempt, made into columns as soon as the metrics they are of are complete.

    What a server takes its time for can be waited for meanwhile.
    """

    def __init__(self, pod_labels: Sequence[str], eager_series: int = EAGER_SERIES) -> None:
        self._eager_series = eager_series
        self._allowed = {f"label_{sanitised(label)}" for label in pod_labels}
        self._by_metric: dict[str, list[Series]] = {}
        self._made: dict[str, _Block] = {}

    def add(self, parts: Sequence[Runs | DeviceHours]) -> None:
        """Take every series that has a row, each once."""
        used: defaultdict[str, list[Series]] = defaultdict(list)
        for part in parts:
            for place in np.flatnonzero(np.bincount(part.series_index)).tolist():
                one = part.series[place]
                used[one.metric].append(one)
        for metric, series in used.items():
            series += self._by_metric.get(metric, ())
            # A metric may come in several parts, each of which has the same series.
            once = {one.series_id: one for one in series}.values()
            ordered = self._by_metric[metric] = sorted(once, key=_place_of)
            if len(ordered) >= self._eager_series:
                self._made[metric] = self._block(ordered)

    def _block(self, series: list[Series]) -> _Block:
        kept: list[tuple[Sequence[str], Sequence[str]]] = [
            _kept_labels(one, self._allowed)
            if one.metric == POD_LABELS_METRIC
            else (one.names, one.texts)
            for one in series
        ]
        return _Block(
            series,
            sixteen_bytes([one.uuid for one in series]),
            texts([one.pod for one in series]),
            maps([names for names, _ in kept], [words for _, words in kept]),
        )

    def counts(self) -> list[tuple[str, int]]:
        """How many series each metric has, in the order of metrics."""
        return [(metric, len(self._by_metric[metric])) for metric in sorted(self._by_metric)]

    def in_order(self) -> list[_Block]:
        """By metric; with those of a metric, the whole order is that of `_place_of`."""
        found: list[_Block] = []
        small: list[Series] = []
        for metric in sorted(self._by_metric):
            if metric not in self._made:
                small += self._by_metric[metric]
                continue
            found += [self._block(small)] if small else []
            found.append(self._made[metric])
            small = []
        return [*found, self._block(small)]


def write_runs(
    home_runs: Path,
    attempt: Attempt,
    parts: Sequence[Runs],
    telemetry: DeviceHours,
    blocks: SeriesBlocks,
) -> None:
    """Write the three files of an attempt, each whole or not at all, and note their hashes.

    `blocks` has the series of the parts; those of the telemetry are added here.
    """
    folder = DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)
    blocks.add([telemetry])
    ordered = blocks.in_order()
    series = [one for block in ordered for one in block.series]
    first_key = attempt.sequence * KEYS_PER_FILE
    every = range(first_key, first_key + len(series))
    keys = dict(zip([one.series_id for one in series], every, strict=True))
    tables: dict[str, Callable[[], pa.Table]] = {
        "runs": lambda: _runs_table(attempt, parts, blocks.counts(), keys),
        "series": lambda: _series_table(attempt, blocks.counts(), ordered, first_key),
        "telemetry": lambda: _telemetry_table(attempt, telemetry, keys),
    }
    with ThreadPoolExecutor(max_workers=1) as beside:
        # One is compressed while the next is made.
        written = {
            kind: beside.submit(
                write_parquet, folder.loose(attempt.attempt_id, kind), tables[kind]()
            )
            for kind in KINDS
        }
        hashes = {kind: one.result() for kind, one in written.items()}
    write_note(folder, attempt.attempt_id, Note((attempt.attempt_id,), hashes))


def _place_of(series: Series) -> tuple[str, str, str]:
    return series.pod or "", series.uid, series.series_id


def _runs_table(
    attempt: Attempt, parts: Sequence[Runs], counts: _Counts, keys: Mapping[str, int]
) -> pa.Table:
    import pyarrow as pa

    values = sorted({text for part in parts for text in part.values})
    metrics = [metric for metric, _ in counts]
    key, hour, first, last, count, value = _columns(parts, values, keys)
    order = np.lexsort((value, first, key))  # the text of a value last: it never depends on chance
    metric_of = np.repeat(np.arange(len(counts)), [count for _, count in counts])
    return pa.table(
        {
            "cluster_id": constant(attempt.cluster_id, len(order)),
            "attempt_id": constant(attempt.attempt_id, len(order)),
            "hour_started_at": milliseconds(hour[order]),
            "metric": named(metric_of[key[order] % KEYS_PER_FILE], metrics),
            "series_key": numbers(key[order]),
            "first_offset_ms": numbers((first - hour)[order].astype(np.int32)),
            "last_offset_ms": numbers((last - hour)[order].astype(np.int32)),
            "sample_count": numbers(count[order].astype(np.int32)),
            "sample_value": named(value[order], values),
        }
    )


def _columns(
    parts: Sequence[Runs], texts: Sequence[str], keys: Mapping[str, int]
) -> tuple[NDArray[np.int64], ...]:
    """Key, hour, first, last, count, and the value by its place among the texts."""
    place_of = {text: place for place, text in enumerate(texts)}
    found: list[list[NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in range(6)]
    for part in parts:
        # A series without a run inside the hours has no key, and no row that would need it.
        key = np.array([keys.get(one.series_id, -1) for one in part.series], np.int64)
        value = np.array([place_of[text] for text in part.values], np.int64)
        columns = (
            key[part.series_index],
            part.hour_ms,
            part.reaches_from_ms,
            part.reaches_until_ms,
            part.sample_count,
            value[part.value_index],
        )
        for into, column in zip(found, columns, strict=True):
            into.append(column)
    return tuple(np.concatenate(pieces) for pieces in found)


def _series_table(
    attempt: Attempt, counts: _Counts, blocks: Sequence[_Block], first_key: int
) -> pa.Table:
    import pyarrow as pa

    series_count = sum(count for _, count in counts)
    columns = {
        "cluster_id": constant(attempt.cluster_id, series_count),
        "attempt_id": constant(attempt.attempt_id, series_count),
        "series_key": numbers(np.arange(first_key, first_key + series_count, dtype=np.int64)),
        "metric": repeated([([metric], count) for metric, count in counts]),
    }
    for name in ("uid", "pod", "labels"):
        pieces = [getattr(block, name) for block in blocks]
        columns[name] = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    return pa.table(columns)


def _kept_labels(series: Series, allowed: set[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Of a pod's own labels only those on the allow-list, and all that are not its own."""
    kept = [
        (name, text)
        for name, text in zip(series.names, series.texts, strict=True)
        if not name.startswith("label_") or name in allowed
    ]
    return [name for name, _ in kept], [text for _, text in kept]


def sanitised(label: str) -> str:
    """As kube-state-metrics writes a label's name."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in label)


def _telemetry_table(attempt: Attempt, rows: DeviceHours, keys: Mapping[str, int]) -> pa.Table:
    import pyarrow as pa

    # A series without a row has no key.
    key = np.array([keys.get(one.series_id, -1) for one in rows.series], np.int64)[
        rows.series_index
    ]
    order = np.lexsort((rows.hour_ms, key))
    metrics = [one.metric for one in rows.series]
    readings = readings_of(rows)
    return pa.table(
        {
            "cluster_id": constant(attempt.cluster_id, len(rows)),
            "attempt_id": constant(attempt.attempt_id, len(rows)),
            "hour_started_at": milliseconds(rows.hour_ms[order]),
            "metric": named(rows.series_index[order], metrics).dictionary_decode(),
            "series_key": numbers(key[order]),
            "reading": texts([readings.reading[row] for row in order.tolist()]),
            "sample_count": numbers(rows.sample_count[order]),
            "average_value": numbers(readings.average_value[order]),
            "maximum_value": numbers(readings.maximum_value[order]),
        }
    )
