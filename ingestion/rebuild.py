"""The derived files under runs/, made again from the landing: missing or changed ones, or all.

Put here: finding attempts without their files, deleting derived files, and making them again.
Not here: how one attempt is decoded (`ingestion.thanos.redecode`, `ingestion.kubernetes`).
"""

from __future__ import annotations

import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from domain.decisions.rows import Source
from domain.interval import Interval
from ingestion.evidence.compaction import compact, dissolve_broken_days, finish
from ingestion.evidence.landing import Landing
from ingestion.evidence.parquet_files import (
    SETTLED_ZSTD_LEVEL,
    Derivation,
    remove_other_layouts,
    sweep,
)
from ingestion.kubernetes.journal_decoder import write_lifecycle
from ingestion.kubernetes.lifecycle_tables import TABLES
from ingestion.thanos.day_numbering import renumber_series
from ingestion.thanos.redecode import replay
from ingestion.thanos.runs import KINDS
from warehouse.derived_files import DerivedFolder, lock_derived_files
from warehouse.manifest import Attempt

Progress = Callable[[int, int, str], None]

MADE_AGAIN = "not as it was written (its hash is noted beside it), so made again from the landing."

_log = logging.getLogger("gpu-ledger")  # a line on stderr without further configuration


def derivations() -> Mapping[Source, Derivation]:
    return {
        Source.THANOS: Derivation(replay, KINDS, renumber_series, SETTLED_ZSTD_LEVEL),
        Source.KUBERNETES: Derivation(write_lifecycle, tuple(TABLES)),
    }


def rebuild(
    landing: Landing,
    home_runs: Path,
    progress: Progress | None = None,
    missing_only: bool = False,
) -> int:
    """Make the derived files again; the number of attempts that were decoded.

    With `missing_only` intact files stay: a crash between manifest and files needs no more.
    """
    with lock_derived_files(home_runs):
        sweep(home_runs)
    if missing_only:
        return repair_runs(landing, home_runs, progress)
    by_source = derivations()
    attempts = [attempt for attempt in landing.attempts() if attempt.source in by_source]
    with lock_derived_files(home_runs):
        for source in by_source:
            shutil.rmtree(home_runs / source.value, ignore_errors=True)
        return _decode(landing, home_runs, attempts, progress)


def repair_runs(
    landing: Landing,
    home_runs: Path,
    progress: Progress | None = None,
    taken: Mapping[Source, Interval] | None = None,
) -> int:
    """Make the derived files that are not there, or not as they were written; the attempts decoded.

    Every build starts with it: deleted and changed files, and those that a crash left out, are made
    again. Files are compared with their noted hashes; with `taken` only those of these hours. Pulls
    may run at the same time.
    """
    with lock_derived_files(home_runs):
        remove_other_layouts(home_runs)
        finish(home_runs)
        changed = dissolve_broken_days(home_runs, derivations())
        missing: list[Attempt] = []
        for source, derivation in derivations().items():
            for cluster_id, attempts in _by_cluster(landing, source).items():
                folder = DerivedFolder.of(home_runs, source.value, cluster_id)
                hours = taken[source] if taken is not None else None
                looked_at = [a for a in attempts if hours is None or a.window.overlaps(hours)]
                changed += _forget_changed(folder, looked_at, derivation.tables)
                there = folder.whole(derivation.tables)
                missing += [a for a in attempts if a.attempt_id not in there]
        count = _decode(landing, home_runs, missing, progress)
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        where = changed[0].relative_to(home_runs.parent)
        _log.warning("%s%s: %s", where, more, MADE_AGAIN)
    return count


def _by_cluster(landing: Landing, source: Source) -> dict[str, list[Attempt]]:
    found: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in landing.attempts(source=source):
        found[attempt.cluster_id].append(attempt)
    return found


def _forget_changed(
    folder: DerivedFolder, attempts: Sequence[Attempt], tables: Sequence[str]
) -> list[Path]:
    """Remove the files of every attempt or day with a changed file; the changed files."""
    there, compacted = folder.whole(tables), folder.compacted()
    ids = {attempt.attempt_id for attempt in attempts} & there
    found = []
    for name in sorted({str(compacted.get(one, one)) for one in ids}):
        changed = folder.changed(name, tables)
        if changed:
            folder.forget(name, tables)
            found += changed
    return found


def _decode(
    landing: Landing, home_runs: Path, attempts: Sequence[Attempt], progress: Progress | None
) -> int:
    by_source = derivations()
    for done, attempt in enumerate(attempts):
        if progress:
            progress(done, len(attempts), f"{attempt.cluster_id} {attempt.source.value}")
        by_source[attempt.source].replay(landing, home_runs, attempt)
    if progress and attempts:
        progress(len(attempts), len(attempts), "decoded")
    return len(attempts)


def compact_settled(
    landing: Landing, home_runs: Path, now: datetime, progress: Progress | None = None
) -> int:
    """One file per table for every day that will not change; the number of days written."""
    with lock_derived_files(home_runs):
        return compact(landing, home_runs, now, derivations(), progress)
