"""The rows of derived files with labels of series and with instants.

Put here: reading the Parquet of samples in tests.
Not here: writing it (`ingestion.thanos.runs`, which is tested).

Keys of series differ from file to file, so rows are compared by the labels of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from ingestion.evidence.landing import Landing
from warehouse.derived_files import DerivedFolder

Row = dict[str, Any]
OFFSETS = {"first_offset_ms": "first_sampled_at", "last_offset_ms": "last_sampled_at"}


def rows_of(runs: Path, cluster_id: str, attempt_ids: Iterable[str], table: str) -> list[Row]:
    """The rows of a table of samples, in the order of the files."""
    folder = DerivedFolder.of(runs, "thanos", cluster_id)
    names = list(attempt_ids)
    labels = {row["series_key"]: _labels(row) for row in _read(folder, names, "series")}
    return [_meant(row, labels) for row in _read(folder, names, table)]


def rows_landed(landing: Landing, runs: Path, cluster_id: str, table: str) -> list[Row]:
    """The rows of every landed attempt."""
    names = [attempt.attempt_id for attempt in landing.attempts(cluster_id)]
    return rows_of(runs, cluster_id, names, table)


def _read(folder: DerivedFolder, names: list[str], table: str) -> list[Row]:
    return [row for path in folder.files(names, table) for row in pq.read_table(path).to_pylist()]


def _labels(row: Row) -> tuple[tuple[str, str], ...]:
    labels = dict(row["labels"])
    if row["uid"] is not None:
        uid = row["uid"]
        labels["uid"] = str(uid if isinstance(uid, UUID) else UUID(bytes=uid))
    if row["pod"] is not None:
        labels["pod"] = row["pod"]
    return tuple(sorted(labels.items()))


def _meant(row: Row, labels: dict[int, tuple[tuple[str, str], ...]]) -> Row:
    found = {name: row[name] for name in row if name not in ("series_key", "uid", "pod", *OFFSETS)}
    found["labels"] = labels[row["series_key"]]
    for offset, name in OFFSETS.items():
        if offset in row:
            found[name] = row["hour_started_at"] + timedelta(milliseconds=row[offset])
    return found
