"""The derived Parquet files of an attempt: runs, series and telemetry.

Put here: the columns of these files, and writing them.
Not here: decoding (`ingestion.thanos.decode`, `ingestion.thanos.telemetry`), the files of a settled
day (`ingestion.thanos.day_numbering`), or which of several attempts counts (`dbt/`).

Everything here can be deleted: `gpu-ledger rebuild` makes the same content from the landing.

The files are small: a series is a number in all tables, and its labels stand once beside it, in
the order of metric and pod, so that similar rows are neighbours; a pod's UID has 16 bytes; times
are offsets into the hour, equal for all series of a scrape and all hours without a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingestion.evidence.parquet_files import write_note, write_parquet
from ingestion.metric_catalogue import POD_LABELS_METRIC
from ingestion.thanos.decode import Runs
from ingestion.thanos.series import SeriesIdentity
from ingestion.thanos.telemetry import DeviceHours, readings_of
from warehouse.derived_files import DerivedFilesNote, DerivedFolder
from warehouse.manifest import Attempt

KINDS = ("runs", "series", "telemetry")

KEYS_PER_FILE = 1 << 32
"""Series of an attempt or day that can be numbered; its sequence, times this, comes before."""

TELEMETRY_ROWS_AT_ONCE = 1 << 18
"""Rows of a row group: a day of 3,000 cards has a million, as many columns of it need 100 MB."""

_Keys = Mapping[str, int]


def write_runs(
    home_runs: Path,
    attempt: Attempt,
    parts: Sequence[Runs],
    telemetry: DeviceHours,
    pod_labels: Sequence[str],
) -> None:
    """Write the three files of an attempt, each whole or not at all, and note their hashes.

    Of the labels of pods only `pod_labels` are written.
    """
    folder = DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)
    series = ordered_series([*parts, telemetry])
    first_key = attempt.sequence * KEYS_PER_FILE
    keys = {one.series_id: first_key + place for place, one in enumerate(series)}
    tables: dict[str, Callable[[], Iterable[pa.Table]]] = {  # one in memory at a time
        "runs": lambda: [_runs_table(attempt, parts, series, keys)],
        "series": lambda: [_series_table(attempt, series, first_key, pod_labels)],
        "telemetry": lambda: _telemetry_tables(attempt, telemetry, keys),
    }
    hashes = {
        kind: write_parquet(folder.loose(attempt.attempt_id, kind), table())
        for kind, table in tables.items()
    }
    write_note(folder, attempt.attempt_id, DerivedFilesNote((attempt.attempt_id,), hashes))


def ordered_series(parts: Sequence[Runs | DeviceHours]) -> list[SeriesIdentity]:
    """Every series that has a row, once, by metric, pod, UID and ID."""
    used = {
        part.series[place].series_id: part.series[place]
        for part in parts
        for place in np.unique(part.series_index).tolist()
    }
    return sorted(
        used.values(), key=lambda one: (one.metric, one.pod or "", one.uid, one.series_id)
    )


def _runs_table(
    attempt: Attempt, parts: Sequence[Runs], series: Sequence[SeriesIdentity], keys: _Keys
) -> pa.Table:
    values = sorted({text for part in parts for text in part.values})
    key, hour, first, last, count, value = _columns(parts, values, keys)
    order = np.lexsort((value, first, key))  # with the value, so that the order is determined
    metric_of = _dictionary([one.metric for one in series])
    return pa.table(
        {
            "cluster_id": _constant(attempt.cluster_id, len(order)),
            "attempt_id": _constant(attempt.attempt_id, len(order)),
            "hour_started_at": _milliseconds(hour[order]),
            "metric": metric_of.take(pa.array(key[order] % KEYS_PER_FILE)),
            "series_key": pa.array(key[order]),
            "first_offset_ms": pa.array((first - hour)[order].astype(np.int32)),
            "last_offset_ms": pa.array((last - hour)[order].astype(np.int32)),
            "sample_count": pa.array(count[order].astype(np.int32)),
            "sample_value": pa.DictionaryArray.from_arrays(
                value[order].astype(np.int32), pa.array(values, pa.string())
            ),
        }
    )


def _columns(
    parts: Sequence[Runs], values: Sequence[str], keys: _Keys
) -> tuple[NDArray[np.int64], ...]:
    """Key, hour, first, last, count, and the place of the value among the values."""
    place_of = {text: place for place, text in enumerate(values)}
    found: list[list[NDArray[np.int64]]] = [[np.empty(0, np.int64)] for _ in range(6)]
    for part in parts:
        # A series without a run in these hours has neither a key nor a row.
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
    attempt: Attempt, series: Sequence[SeriesIdentity], first_key: int, pod_labels: Sequence[str]
) -> pa.Table:
    allowed = {f"label_{sanitise_label(label)}" for label in pod_labels}
    labels = [_kept_labels(one, allowed) for one in series]
    offsets = np.cumsum([0, *(len(names) for names, _ in labels)], dtype=np.int32)
    uuids = pa.array([one.uuid for one in series], pa.binary(16))
    return pa.table(
        {
            "cluster_id": _constant(attempt.cluster_id, len(series)),
            "attempt_id": _constant(attempt.attempt_id, len(series)),
            "series_key": pa.array(np.arange(first_key, first_key + len(series), dtype=np.int64)),
            "metric": pa.array([one.metric for one in series], pa.string()),
            "uid": pa.ExtensionArray.from_storage(pa.uuid(), uuids),
            "pod": pa.array([one.pod for one in series], pa.string()),
            "labels": pa.MapArray.from_arrays(
                offsets,
                _dictionary(chain.from_iterable(names for names, _ in labels)),
                _dictionary(chain.from_iterable(texts for _, texts in labels)),
            ),
        }
    )


def _kept_labels(series: SeriesIdentity, allowed: set[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Of the labels of a pod those on the allow-list, and all labels of the exporter."""
    if series.metric != POD_LABELS_METRIC:
        return series.names, series.texts
    kept = [
        (name, text)
        for name, text in zip(series.names, series.texts, strict=True)
        if not name.startswith("label_") or name in allowed
    ]
    return [name for name, _ in kept], [text for _, text in kept]


def sanitise_label(label: str) -> str:
    """As kube-state-metrics writes a label's name."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in label)


def _telemetry_tables(attempt: Attempt, rows: DeviceHours, keys: _Keys) -> Iterator[pa.Table]:
    # A series without a row has no key.
    key_of = np.array([keys.get(one.series_id, -1) for one in rows.series], np.int64)
    order = np.lexsort((rows.hour_ms, key_of[rows.series_index]))
    metrics = _dictionary(one.metric for one in rows.series)
    for first in range(0, max(len(order), 1), TELEMETRY_ROWS_AT_ONCE):
        some = rows.taken(order[first : first + TELEMETRY_ROWS_AT_ONCE])
        readings = readings_of(some)
        yield pa.table(
            {
                "cluster_id": _constant(attempt.cluster_id, len(some)),
                "attempt_id": _constant(attempt.attempt_id, len(some)),
                "hour_started_at": _milliseconds(some.hour_ms),
                "metric": metrics.take(pa.array(some.series_index)),
                "series_key": pa.array(key_of[some.series_index]),
                "reading": pa.DictionaryArray.from_arrays(
                    readings.name_index, pa.array(readings.names, pa.string())
                ),
                "sample_count": pa.array(some.sample_count),
                "average_value": _numbers_or_null(readings.average_value),
                "maximum_value": _numbers_or_null(readings.maximum_value),
            }
        )


def _numbers_or_null(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _milliseconds(values: NDArray[np.int64]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def _constant(word: str, row_count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(row_count, np.int32), pa.array([word]))


def _dictionary(words: Iterable[str]) -> pa.Array:
    """Each distinct word once; the labels of a hundred thousand series are few words."""
    place_of: dict[str, int] = {}
    places = np.fromiter((place_of.setdefault(word, len(place_of)) for word in words), np.int32)
    return pa.DictionaryArray.from_arrays(places, pa.array(list(place_of), pa.string()))
