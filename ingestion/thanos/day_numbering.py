"""A settled day's samples under one numbering: every series once, alike beside alike.

Put here: merging the three tables of a day's attempts.
Not here: the files (`ingestion.evidence.compaction`), or the columns (`ingestion.thanos.runs`).

Each attempt numbers its series by itself. Put together, equal series get one number, by metric and
pod, and the runs follow it: whichever attempts came one by one or at once, the tables are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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
    identity = _identities(series).dictionary_encode()
    which = identity.indices.to_numpy()
    _, earliest = np.unique(which, return_index=True)
    distinct = pa.table(
        {
            "metric": series.column("metric").take(earliest),
            "pod": series.column("pod").take(earliest),
            "identity": identity.dictionary,
        }
    )
    order = _sorted_by(distinct, ["metric", "pod", "identity"])
    first_key = int(np.min(series.column("series_key"))) // KEYS_PER_FILE * KEYS_PER_FILE
    new_keys = np.arange(first_key, first_key + len(order), dtype=np.int64)
    key_of = np.empty(len(order), np.int64)
    key_of[order] = new_keys
    old_keys = series.column("series_key").combine_chunks()
    keys = (old_keys, key_of[which])
    return {
        "series": _with_keys(series.take(earliest[order]), new_keys),
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


def _renumbered(table: pa.Table, keys: tuple[Any, Any], order: Sequence[str]) -> pa.Table:
    old_keys, new_keys = keys
    places = pc.index_in(table.column("series_key"), value_set=old_keys)
    fresh = _with_keys(table, new_keys[places.to_numpy()])
    return fresh.take(_sorted_by(fresh, order))


def _with_keys(table: pa.Table, keys: Any) -> pa.Table:
    place = table.column_names.index("series_key")
    return table.set_column(place, "series_key", pa.array(keys))


def _sorted_by(table: pa.Table, names: Sequence[str]) -> Any:
    return pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy()
