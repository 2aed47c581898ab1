"""The derived Parquet of an attempt: runs, series and telemetry, under the attempt's own name.

Put here: the columns of these files, and how they get onto the disk whole.
Not here: what is in them (`ingestion.thanos.decode`, `ingestion.thanos.telemetry`), or the decision
which of several attempts counts (`dbt/`).

Everything here can be thrown away: `gpu-ledger rebuild` makes the same content from the landing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ingestion.derived import write_parquet
from ingestion.manifest import Attempt
from ingestion.thanos.decode import Runs, Series
from ingestion.thanos.telemetry import DeviceHour
from warehouse.derived import DerivedFolder

if TYPE_CHECKING:
    import pyarrow as pa

POD_LABELS_METRIC = "kube_pod_labels"
KINDS = ("runs", "series", "telemetry")


def write_runs(
    home_runs: Path,
    attempt: Attempt,
    parts: Sequence[Runs],
    telemetry: Sequence[DeviceHour],
    pod_labels: Sequence[str],
) -> None:
    """Write the three files of an attempt; each whole or not at all."""
    folder = _folder(home_runs, attempt)
    tables = (
        _runs_table(attempt, parts),
        _series_table(attempt, parts, telemetry, pod_labels),
        _telemetry_table(attempt, telemetry),
    )
    for kind, table in zip(KINDS, tables, strict=True):
        write_parquet(folder.loose(attempt.attempt_id, kind), table)


def _folder(home_runs: Path, attempt: Attempt) -> DerivedFolder:
    return DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)


def _runs_table(attempt: Attempt, parts: Sequence[Runs]) -> pa.Table:
    import pyarrow as pa

    filled = [part for part in parts if len(part)]
    tables = [_part_table(attempt, part) for part in filled]
    table = pa.concat_tables(tables) if tables else _runs_schema().empty_table()
    order = [(name, "ascending") for name in ("metric", "series_id", "first_sampled_at")]
    # A text column sorts by its letters, not by the order in which a dictionary met them.
    return table.cast(_runs_schema()).sort_by([*order, ("sample_value", "ascending")])


def _part_table(attempt: Attempt, part: Runs) -> pa.Table:
    import pyarrow as pa

    row_count = len(part)
    columns: dict[str, Any] = {
        "cluster_id": _constant(attempt.cluster_id, row_count),
        "attempt_id": _constant(attempt.attempt_id, row_count),
        "hour_started_at": _times(part.hour_ms),
        "metric": _taken([one.metric for one in part.series], part.series_index),
        "series_id": _taken([one.series_id for one in part.series], part.series_index),
        "first_sampled_at": _times(part.first_ms),
        "last_sampled_at": _times(part.last_ms),
        "sample_count": pa.array(part.sample_count, pa.int64()),
        "sample_value": _taken(part.values, part.value_index),
    }
    return pa.table(columns)


def _runs_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        {
            "cluster_id": pa.string(),
            "attempt_id": pa.string(),
            "hour_started_at": pa.timestamp("ms", "UTC"),
            "metric": pa.string(),
            "series_id": pa.string(),
            "first_sampled_at": pa.timestamp("ms", "UTC"),
            "last_sampled_at": pa.timestamp("ms", "UTC"),
            "sample_count": pa.int64(),
            "sample_value": pa.string(),
        }
    )


def _series_table(
    attempt: Attempt,
    parts: Sequence[Runs],
    telemetry: Sequence[DeviceHour],
    pod_labels: Sequence[str],
) -> pa.Table:
    import pyarrow as pa

    used: dict[str, Series] = {row.series.series_id: row.series for row in telemetry}
    for part in parts:
        for place in np.unique(part.series_index):
            used[part.series[place].series_id] = part.series[place]
    chosen = sorted(used.values(), key=lambda one: (one.metric, one.series_id))
    allowed = {f"label_{_sanitised(label)}" for label in pod_labels}
    labels = [sorted(_kept_labels(one, allowed).items()) for one in chosen]
    return pa.table(
        {
            "cluster_id": _constant(attempt.cluster_id, len(chosen)),
            "attempt_id": _constant(attempt.attempt_id, len(chosen)),
            "series_id": pa.array([one.series_id for one in chosen], pa.string()),
            "metric": pa.array([one.metric for one in chosen], pa.string()),
            "labels": pa.array(labels, pa.map_(pa.string(), pa.string())),
        }
    ).cast(_series_schema())


def _series_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        {
            "cluster_id": pa.string(),
            "attempt_id": pa.string(),
            "series_id": pa.string(),
            "metric": pa.string(),
            "labels": pa.map_(pa.string(), pa.string()),
        }
    )


def _kept_labels(series: Series, allowed: set[str]) -> dict[str, str]:
    """All labels, except that of a pod's own labels only those on the allow-list are kept."""
    if series.metric != POD_LABELS_METRIC:
        return series.labels
    return {
        name: text
        for name, text in series.labels.items()
        if not name.startswith("label_") or name in allowed
    }


def _sanitised(label: str) -> str:
    """As kube-state-metrics writes a label's name."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in label)


def _telemetry_table(attempt: Attempt, rows: Sequence[DeviceHour]) -> pa.Table:
    import pyarrow as pa

    chosen = sorted(rows, key=lambda row: (row.series.metric, row.series.series_id, row.hour_ms))
    return pa.table(
        {
            "cluster_id": _constant(attempt.cluster_id, len(chosen)),
            "attempt_id": _constant(attempt.attempt_id, len(chosen)),
            "hour_started_at": _times(np.array([row.hour_ms for row in chosen], np.int64)),
            "metric": pa.array([row.series.metric for row in chosen], pa.string()),
            "series_id": pa.array([row.series.series_id for row in chosen], pa.string()),
            "sample_count": pa.array([row.sample_count for row in chosen], pa.int64()),
            "average_value": pa.array([row.average_value for row in chosen], pa.float64()),
            "maximum_value": pa.array([row.maximum_value for row in chosen], pa.float64()),
        }
    )


def _constant(text: str, row_count: int) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(text, pa.string()), row_count)


def _taken(texts: Sequence[str], indices: Any) -> Any:
    import pyarrow as pa

    return pa.array(texts, pa.string()).take(pa.array(indices))


def _times(millis: Any) -> Any:
    import pyarrow as pa

    return pa.array(millis, pa.int64()).cast(pa.timestamp("ms", "UTC"))
