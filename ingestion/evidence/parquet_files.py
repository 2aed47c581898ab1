"""Derived Parquet files: a file is complete, or it does not exist.

Put here: writing a derived file, and the parts of a derivation that each source defines.
Not here: the content (`ingestion.thanos.runs`, `ingestion.kubernetes.journal_decoder`).

No fsync: after a loss of power a missing derived file is made again from the landing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingestion.evidence.landing import Landing
from warehouse.derived_files import LAYOUT, DerivedFilesNote, DerivedFolder, sha256_of_file
from warehouse.manifest import Attempt
from warehouse.store import StoreUnusable

_UNFINISHED = ".unfinished"

ZSTD_LEVEL = 3
"""For files that are compacted within days; a higher level would slow every pull."""

SETTLED_ZSTD_LEVEL = 12
"""For samples that are kept: a tenth smaller than level 9, five times faster than level 19."""

PAGE_BYTES = 1 << 26
"""One page per column of a row group, so that zstd finds repetitions across metrics."""

_ENCODINGS = {
    "series_key": "DELTA_BINARY_PACKED",
    "hour_started_at": "PLAIN",
    "first_offset_ms": "PLAIN",
    "last_offset_ms": "PLAIN",
    "sample_count": "PLAIN",
    "uid": "PLAIN",
    "pod": "PLAIN",
}
"""For tables of samples: whole bytes repeat, bit-packed indices of a dictionary do not."""

_SOUGHT = ("hour_started_at", "metric", "series_key")
"""Only these columns have statistics: no query filters by the others."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How one source's attempts become derived files, and those of a settled day become one."""

    replay: Callable[[Landing, Path, Attempt], None]
    tables: tuple[str, ...]
    put_together: Callable[[dict[str, pa.Table]], dict[str, pa.Table]] = dict
    settled_level: int = ZSTD_LEVEL

    @property
    def keeps_a_single_attempt(self) -> bool:
        """Whether a day of one attempt would be written exactly as the attempt was."""
        return self.put_together is dict and self.settled_level == ZSTD_LEVEL


def write_parquet(path: Path, tables: Iterable[pa.Table], level: int = ZSTD_LEVEL) -> str:
    """A Parquet file under its name, once it is whole; its hash, which is noted beside it.

    The file has the rows of all tables, of which there is at least one, each in its own row group.
    """
    rest = iter(tables)
    table = next(rest)
    layout = _layout(table) if "series_key" in table.column_names else {}
    kind: dict[str, Any] = {"compression": "zstd", "compression_level": level, **layout}
    with _unfinished(path) as unfinished:
        with pq.ParquetWriter(unfinished, table.schema, **kind) as writer:
            while table is not None:
                writer.write_table(table)
                table = next(rest, None)
        return sha256_of_file(unfinished)


def write_note(folder: DerivedFolder, name: str, note: DerivedFilesNote) -> None:
    """Write the note of an attempt or a day: from here on its files count as made."""
    with _unfinished(folder.note(name)) as unfinished:
        unfinished.write_bytes(note.text())


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A temporary path whose file gets its name when the block ends."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{_UNFINISHED}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        os.replace(unfinished, path)
    except OSError as cause:
        raise StoreUnusable(str(path.parent), f"write {path.name}", cause) from cause
    finally:
        unfinished.unlink(missing_ok=True)


def _layout(table: pa.Table) -> dict[str, Any]:
    """How a table of samples is laid out."""
    names = [name for name in table.column_names if name not in _ENCODINGS and name != "labels"]
    if "labels" in table.column_names:
        names += ["labels.key_value.key", "labels.key_value.value"]
    there = {name: how for name, how in _ENCODINGS.items() if name in table.column_names}
    return {
        "use_dictionary": names,
        "column_encoding": there,
        "data_page_size": PAGE_BYTES,
        "write_statistics": [name for name in _SOUGHT if name in table.column_names],
        "store_schema": False,
    }


def remove_other_layouts(home_runs: Path) -> None:
    """Remove derived files that are laid out as another version did."""
    for path in home_runs.glob("*/*/*"):
        if path.suffix in (".parquet", ".json") and f".{LAYOUT}." not in path.name:
            path.unlink(missing_ok=True)


def sweep(home_runs: Path) -> int:
    """Remove unfinished files of interrupted writers; only under the lock of the derived files."""
    left = list(home_runs.rglob(f".*{_UNFINISHED}"))
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)
