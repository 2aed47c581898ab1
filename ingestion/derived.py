"""Derived Parquet files: written whole, or not at all.

Put here: how a derived file gets onto the disk.
Not here: what is in it (`ingestion.thanos.runs`, `ingestion.kubernetes.replay`).

No fsync: a derived file that a loss of power takes away is made again from the landing.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

from warehouse.store import StoreUnusable

if TYPE_CHECKING:
    import pyarrow as pa

_UNFINISHED = ".unfinished"

ZSTD_LEVEL = 3
"""Parquet's own default for zstd; higher levels save a few percent of what is small already."""


def write_parquet(path: Path, table: pa.Table) -> None:
    """A Parquet file under its name, once it is whole."""
    import pyarrow.parquet as pq

    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{_UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, unfinished, compression="zstd", compression_level=ZSTD_LEVEL)
        os.replace(unfinished, path)
    except OSError as cause:
        raise StoreUnusable(str(path.parent), f"write {path.name}", cause) from cause
    finally:
        unfinished.unlink(missing_ok=True)


def sweep(home_runs: Path) -> int:
    """Remove what killed writers left; only while nobody else writes there."""
    left = list(home_runs.rglob(f".*{_UNFINISHED}"))
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)
