"""Compaction: the derived files of a day become one file per table, a thirtieth of the number.

Put here: which days are compacted, and how, so that an interruption loses nothing.
Not here: the names of files (`warehouse.derived_files`), or their content.

The order: write the tables of the day under hidden names; write the note (from here on the day
counts as compacted); remove the files of the attempts; rename the hidden files. A hidden name has a
mark of its attempts, and only files with the mark of the note are renamed. `finish` completes an
interrupted compaction; it runs first.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from domain.decisions.rows import Source
from domain.identity import sha256
from ingestion.evidence.landing import Landing
from ingestion.evidence.parquet_files import Derivation, write_note, write_parquet
from warehouse.derived_files import (
    DAYS_NOTES,
    DerivedFilesNote,
    DerivedFolder,
    day_of,
    read_note,
    sha256_of_file,
)
from warehouse.manifest import Attempt

SETTLED_AFTER = timedelta(hours=50)
"""An hour is queried for the last time 26 hours after its end; a day has 24 of them."""

Progress = Callable[[int, int, str], None]


def compact(
    landing: Landing,
    home_runs: Path,
    now: datetime,
    derivations: Mapping[Source, Derivation],
    progress: Progress | None = None,
) -> int:
    """Compact every settled day that has loose files; the number of days that were written.

    A day with a changed file is skipped; the next repair makes it again.
    """
    days = _loose_days(landing, home_runs, now, derivations)
    written_count = 0
    for done, ((source, cluster_id, day), attempts) in enumerate(sorted(days.items())):
        if progress:
            progress(done, len(days), f"{cluster_id} {source.value} {day}")
        folder = DerivedFolder.of(home_runs, source.value, cluster_id)
        names = [attempt.attempt_id for attempt in attempts]  # in the order of their sequence
        if _as_noted(folder, day, names, derivations[source].tables):
            _compact_day(folder, day, names, derivations[source])
            written_count += 1
    return written_count


def finish(home_runs: Path) -> None:
    """Complete a compaction that was interrupted."""
    for index in sorted(home_runs.glob(f"*/*/{DAYS_NOTES}")):
        if (note := read_note(index)) is not None:
            _switch(DerivedFolder(index.parent), day_of(index), note.attempt_ids)


def dissolve_broken_days(home_runs: Path, derivations: Mapping[Source, Derivation]) -> list[Path]:
    """Forget each day with a deleted file or an unreadable note; its attempts are made again.

    Returns the unreadable notes.
    """
    unread = []
    for source, derivation in derivations.items():
        for index in sorted(home_runs.glob(f"{source.value}/*/{DAYS_NOTES}")):
            folder, day = DerivedFolder(index.parent), day_of(index)
            unread += [index] if read_note(index) is None else []
            daily = [folder.daily(day, table) for table in derivation.tables]
            if index in unread or not all(path.is_file() for path in daily):
                folder.forget(day.isoformat(), derivation.tables)
    return unread


def _loose_days(
    landing: Landing, home_runs: Path, now: datetime, derivations: Mapping[Source, Derivation]
) -> dict[tuple[Source, str, date], list[Attempt]]:
    """The attempts of every settled day of which at least one has files of its own."""
    finish(home_runs)
    days: defaultdict[tuple[Source, str, date], list[Attempt]] = defaultdict(list)
    for attempt in landing.attempts():
        day = attempt.window.started_at.astimezone(UTC).date()
        settled = datetime(day.year, day.month, day.day, tzinfo=UTC) + SETTLED_AFTER <= now
        if settled and attempt.source in derivations:
            days[(attempt.source, attempt.cluster_id, day)].append(attempt)
    return {
        key: attempts
        for key, attempts in days.items()
        if _is_loose(
            DerivedFolder.of(home_runs, key[0].value, key[1]), attempts, derivations[key[0]].tables
        )
    }


def _is_loose(folder: DerivedFolder, attempts: Iterable[Attempt], tables: Sequence[str]) -> bool:
    """Whether an attempt has files of its own, and none of the files of the day is missing."""
    names = [attempt.attempt_id for attempt in attempts]
    loose = any(folder.loose(name, table).is_file() for name in names for table in tables)
    return loose and folder.whole(tables).issuperset(names)


def _as_noted(
    folder: DerivedFolder, day: date, names: Sequence[str], tables: Sequence[str]
) -> bool:
    """Whether the files are as noted; compacting a changed file would give it a valid hash."""
    compacted = folder.compacted()
    parts = {day.isoformat() if name in compacted else name for name in names}
    return not any(folder.changed(part, tables) for part in parts)


def _compact_day(
    folder: DerivedFolder, day: date, names: Sequence[str], derivation: Derivation
) -> None:
    hidden = {
        table: folder.path / f".{day.isoformat()}.{table}.{_mark(names)}"
        for table in derivation.tables
    }
    loose = {table: folder.loose(names[0], table) for table in derivation.tables}
    if (
        len(names) == 1
        and derivation.keeps_a_single_attempt
        and all(path.is_file() for path in loose.values())
    ):
        for table, path in hidden.items():
            path.unlink(missing_ok=True)  # of an earlier try
            os.link(loose[table], path)
        hashes = {table: sha256_of_file(path) for table, path in hidden.items()}
    else:
        merged = {table: _merged(folder, day, names, table) for table in derivation.tables}
        hashes = {
            table: write_parquet(hidden[table], [rows], derivation.settled_level)
            for table, rows in derivation.put_together(merged).items()
        }
    write_note(folder, day.isoformat(), DerivedFilesNote(tuple(names), hashes))
    _switch(folder, day, names)


def _switch(folder: DerivedFolder, day: date, names: Sequence[str]) -> None:
    """Remove loose files of the attempts in a day's note, and rename its hidden files."""
    for name in names:
        for path in folder.path.glob(f"{name}.*"):
            path.unlink()
    for hidden in sorted(folder.path.glob(f".{day.isoformat()}.*.*")):
        _, _, table, mark = hidden.name.split(".", 3)
        if mark == _mark(names):
            os.replace(hidden, folder.daily(day, table))
        else:
            hidden.unlink()


def _mark(names: Sequence[str]) -> str:
    return f"{sha256(list(names))[:16]}-compacted"


def _merged(folder: DerivedFolder, day: date, names: Sequence[str], table: str) -> pa.Table:
    """The rows of the day's attempts in the order of the attempts, each attempt's in its own."""
    before = folder.daily(day, table)
    old = pq.ParquetFile(before).read() if before.is_file() else None
    pieces = []
    for name in names:
        loose = folder.loose(name, table)
        if loose.is_file():
            pieces.append(pq.ParquetFile(loose).read())
        elif old is not None:
            pieces.append(old.filter(pc.equal(old.column("attempt_id"), name)))
    return pa.concat_tables(pieces)
