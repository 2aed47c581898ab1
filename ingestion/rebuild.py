"""The derived files under runs/, made again from the landing: some that are missing, or all.

Put here: which attempts lack their files, throwing away what is derived, and making it again.
Not here: how one attempt is decoded (`ingestion.thanos.replay`, `ingestion.kubernetes`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from domain.decisions.rows import Source
from ingestion.compaction import compact, dissolve_broken_days, finish
from ingestion.derived import SETTLED_ZSTD_LEVEL, Derivation, remove_other_layouts, sweep
from ingestion.landing import Landing
from ingestion.manifest import Attempt
from warehouse.derived import DerivedFolder, alone_with

Progress = Callable[[int, int, str], None]


def derivations() -> Mapping[Source, Derivation]:
    from ingestion.kubernetes import replay as journal
    from ingestion.kubernetes.tables import TABLES
    from ingestion.thanos.days import under_one_numbering
    from ingestion.thanos.replay import replay
    from ingestion.thanos.runs import KINDS

    return {
        Source.THANOS: Derivation(replay, KINDS, under_one_numbering, SETTLED_ZSTD_LEVEL),
        Source.KUBERNETES: Derivation(journal.replay, tuple(TABLES)),
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
    with alone_with(home_runs):
        sweep(home_runs)
    if missing_only:
        return heal(landing, home_runs, progress)
    by_source = derivations()
    attempts = [attempt for attempt in landing.attempts() if attempt.source in by_source]
    with alone_with(home_runs):
        for source in by_source:
            shutil.rmtree(home_runs / source.value, ignore_errors=True)
        return _decode(landing, home_runs, attempts, progress)


def heal(landing: Landing, home_runs: Path, progress: Progress | None = None) -> int:
    """Make the derived files that are not there; others may be pulling meanwhile.

    A build begins with it: what was deleted, or what a crash left out, needs nobody to notice.
    """
    with alone_with(home_runs):
        remove_other_layouts(home_runs)
        finish(home_runs)
        dissolve_broken_days(home_runs, derivations())
        return _decode(landing, home_runs, _without_files(landing, home_runs), progress)


def _without_files(landing: Landing, home_runs: Path) -> list[Attempt]:
    """The attempts of which a derived file is missing."""
    missing = []
    for source, derivation in derivations().items():
        folders: dict[str, set[str]] = {}
        for attempt in landing.attempts(source=source):
            cluster_id = attempt.cluster_id
            if cluster_id not in folders:
                folder = DerivedFolder.of(home_runs, source.value, cluster_id)
                folders[cluster_id] = folder.whole(derivation.tables)
            if attempt.attempt_id not in folders[cluster_id]:
                missing.append(attempt)
    return missing


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
    with alone_with(home_runs):
        return compact(landing, home_runs, now, derivations(), progress)
