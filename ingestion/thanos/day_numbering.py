"""The samples of a settled day under one numbering: every series once, similar ones adjacent.

Put here: merging the three tables of a day's attempts.
Not here: the files (`ingestion.evidence.compaction`), or the columns (`ingestion.thanos.runs`).

Each attempt numbers its series itself. In the tables of a day equal series get one number, in the
order of metric and pod, and the runs are sorted by it: the tables do not depend on the number of
attempts in which the day was pulled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ingestion.thanos.runs import KEYS_PER_FILE

_PART, _ITEM = b"\xfe", b"\xff"
"""Separators: bytes that no UTF-8 text contains."""


def renumber_series(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The day's tables, with every series once; of its attempts the earliest is kept."""
    series = tables["series"]
    if not series.num_rows:
        return tables
    columns = {name: series.column(name) for name in ("series_key", "metric", "pod")}
    listed = pl.DataFrame(pa.table({**columns, "identity": _identities(series)})).with_row_index()
    first_key = listed.select(pl.min("series_key")).item() // KEYS_PER_FILE * KEYS_PER_FILE
    numbered = (
        listed.unique("identity", keep="first", maintain_order=True)
        .sort("metric", "pod", "identity", nulls_last=True)
        .with_columns(new_key=first_key + pl.int_range(pl.len()))
    )
    key_of_each = listed.join(numbered.select("identity", "new_key"), on="identity", how="left")
    keys = (key_of_each["series_key"], key_of_each["new_key"])
    return {
        "series": _with_keys(series.take(numbered["index"].to_numpy()), numbered["new_key"]),
        "runs": _renumbered(
            tables["runs"],
            keys,
            ["series_key", "hour_started_at", "first_offset_ms", "attempt_id", "sample_value"],
        ),
        "telemetry": _renumbered(
            tables["telemetry"], keys, ["series_key", "hour_started_at", "attempt_id"]
        ),
    }


def _identities(series: pa.Table) -> Any:
    """The identity of each series: metric, pod and labels, as bytes."""
    labels = series.column("labels").combine_chunks()
    parts = [series.column(name).combine_chunks() for name in ("metric", "pod")]
    parts = [pc.fill_null(part, "").cast(pa.binary()) for part in parts]
    for texts in (labels.keys, labels.items):
        lists = pa.ListArray.from_arrays(labels.offsets, texts.cast(pa.binary()))
        parts.append(pc.binary_join(lists, _ITEM))
    uid = series.column("uid").combine_chunks()
    uid = uid.storage if isinstance(uid, pa.ExtensionArray) else uid
    parts.append(pc.fill_null(uid.cast(pa.binary()), b""))  # the last: any byte may be in it
    return pc.binary_join_element_wise(*parts, _PART)


def _renumbered(
    table: pa.Table, keys: tuple[pl.Series, pl.Series], order: Sequence[str]
) -> pa.Table:
    old_keys, new_keys = keys
    fresh = _with_keys(
        table, pl.Series(table.column("series_key")).replace_strict(old_keys, new_keys)
    )
    return fresh.take(pc.sort_indices(fresh, [(name, "ascending") for name in order]))


def _with_keys(table: pa.Table, keys: pl.Series) -> pa.Table:
    place = table.column_names.index("series_key")
    return table.set_column(place, "series_key", keys.to_arrow())
