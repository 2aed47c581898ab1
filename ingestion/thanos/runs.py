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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ingestion.catalogue import POD_LABELS_METRIC
from ingestion.columns import (
    constant,
    maps,
    milliseconds,
    named,
    numbers,
    sixteen_bytes,
    texts,
)
from ingestion.derived import write_parquet
from ingestion.manifest import Attempt
from ingestion.thanos.decode import Runs
from ingestion.thanos.series import Series
from ingestion.thanos.telemetry import DeviceHours
from warehouse.derived import DerivedFolder

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("runs", "series", "telemetry")

KEYS_PER_FILE = 1 << 32
"""Series of an attempt or day that can be numbered; its sequence, times this, comes before."""


def write_runs(
    home_runs: Path,
    attempt: Attempt,
    parts: Sequence[Runs],
    telemetry: DeviceHours,
    pod_labels: Sequence[str],
) -> None:
    """Write the three files of an attempt; each whole or not at all."""
    folder = DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)
    series = _in_order(parts, telemetry)
    first_key = attempt.sequence * KEYS_PER_FILE
    keys = {one.series_id: first_key + place for place, one in enumerate(series)}
    tables = (
        _runs_table(attempt, parts, series, keys),
        _series_table(attempt, series, first_key, pod_labels),
        _telemetry_table(attempt, telemetry, keys),
    )
    for kind, table in zip(KINDS, tables, strict=True):
        write_parquet(folder.loose(attempt.attempt_id, kind), table)


def _in_order(parts: Sequence[Runs], telemetry: DeviceHours) -> list[Series]:
    """Every series that has a row, each once, by metric and pod."""
    used: dict[str, Series] = {}
    tables: list[tuple[list[Series], NDArray[Any]]] = [(telemetry.series, telemetry.series_index)]
    tables += [(part.series, part.series_index) for part in parts]
    for series, index in tables:
        for place in np.flatnonzero(np.bincount(index)).tolist():
            used[series[place].series_id] = series[place]
    return sorted(used.values(), key=_place_of)


def _place_of(series: Series) -> tuple[str, str, str, str]:
    return series.metric, series.pod or "", series.uid, series.series_id


def _runs_table(
    attempt: Attempt, parts: Sequence[Runs], series: Sequence[Series], keys: Mapping[str, int]
) -> pa.Table:
    import pyarrow as pa

    values = sorted({text for part in parts for text in part.values})
    metrics = sorted({one.metric for one in series})
    key, hour, first, last, count, value = _columns(parts, values, keys)
    order = np.lexsort((value, first, key))  # the text of a value last: it never depends on chance
    metric_of = np.array([metrics.index(one.metric) for one in series], np.int32)
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
            part.first_ms,
            part.last_ms,
            part.sample_count,
            value[part.value_index],
        )
        for into, column in zip(found, columns, strict=True):
            into.append(column)
    return tuple(np.concatenate(pieces) for pieces in found)


def _series_table(
    attempt: Attempt, series: Sequence[Series], first_key: int, pod_labels: Sequence[str]
) -> pa.Table:
    import pyarrow as pa

    allowed = {f"label_{_sanitised(label)}" for label in pod_labels}
    kept = [
        (one.names, one.texts) if one.metric != POD_LABELS_METRIC else _kept_labels(one, allowed)
        for one in series
    ]
    return pa.table(
        {
            "cluster_id": constant(attempt.cluster_id, len(series)),
            "attempt_id": constant(attempt.attempt_id, len(series)),
            "series_key": numbers(np.arange(first_key, first_key + len(series), dtype=np.int64)),
            "metric": texts([one.metric for one in series]),
            "uid": sixteen_bytes([one.uuid for one in series]),
            "pod": texts([one.pod for one in series]),
            "labels": maps([names for names, _ in kept], [words for _, words in kept]),
        }
    )


def _kept_labels(series: Series, allowed: set[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Of a pod's own labels only those on the allow-list, and all that are not its own."""
    kept = [
        (name, text)
        for name, text in zip(series.names, series.texts, strict=True)
        if not name.startswith("label_") or name in allowed
    ]
    return [name for name, _ in kept], [text for _, text in kept]


def _sanitised(label: str) -> str:
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
    return pa.table(
        {
            "cluster_id": constant(attempt.cluster_id, len(rows)),
            "attempt_id": constant(attempt.attempt_id, len(rows)),
            "hour_started_at": milliseconds(rows.hour_ms[order]),
            "metric": named(rows.series_index[order], metrics).dictionary_decode(),
            "series_key": numbers(key[order]),
            "sample_count": numbers(rows.sample_count[order]),
            "average_value": numbers(rows.average_value[order]),
            "maximum_value": numbers(rows.maximum_value[order]),
        }
    )
