"""The derived files under runs/, made again from the landing: some that are missing, or all.

Put here: which attempts lack their files, throwing away what is derived, and making it again.
Not here: how one attempt is decoded (`ingestion.thanos.replay`, `ingestion.kubernetes`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from domain.decisions.rows import Source
from ingestion.compaction import compact, finish
from ingestion.derived import sweep
from ingestion.landing import Landing
from ingestion.manifest import Attempt

Progress = Callable[[int, int, str], None]
Replay = Callable[[Landing, Path, Attempt], None]
HasRuns = Callable[[Path, Attempt], bool]


@dataclass(frozen=True, slots=True)
class Rebuilder:
    """How one witness's attempts become derived files."""

    replay: Replay
    has_runs: HasRuns
    tables: tuple[str, ...]


def rebuilders() -> Mapping[Source, Rebuilder]:
    from ingestion.kubernetes import replay as journal
    from ingestion.kubernetes.tables import TABLES
    from ingestion.thanos.replay import replay
    from ingestion.thanos.runs import KINDS, has_runs

    return {
        Source.THANOS: Rebuilder(replay, has_runs, KINDS),
        Source.KUBERNETES: Rebuilder(journal.replay, journal.has_tables, tuple(TABLES)),
    }


def rebuild(
    landing: Landing,
    home_runs: Path,
    progress: Progress | None = None,
    missing_only: bool = False,
) -> int:
    """Make the derived files again; the number of attempts that were decoded.

    With `missing_only` files that are there stay: what a crash between manifest and files needs.
    """
    by_source = rebuilders()
    sweep(home_runs)
    finish(home_runs)
    attempts = [attempt for attempt in landing.attempts() if attempt.source in by_source]
    if missing_only:
        attempts = [a for a in attempts if not by_source[a.source].has_runs(home_runs, a)]
    else:
        for source in by_source:
            shutil.rmtree(home_runs / source.value, ignore_errors=True)
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
    tables = {source: rebuilder.tables for source, rebuilder in rebuilders().items()}
    return compact(landing, home_runs, now, tables, progress)
