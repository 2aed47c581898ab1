"""A landed journal attempt as Parquet files: made after landing, and made again from the bytes.

Put here: where an attempt's lifecycle files lie, and writing them.
Not here: what is in them (`lifecycle`, `tables`).
"""

from __future__ import annotations

from pathlib import Path

from ingestion.derived import write_note, write_parquet
from ingestion.kubernetes.lifecycle import decode
from ingestion.landing import Landing
from ingestion.manifest import Attempt
from warehouse.derived import DerivedFolder
from warehouse.derived_notes import Note


def replay(landing: Landing, home_runs: Path, attempt: Attempt) -> None:
    """Write every lifecycle table of an attempt; what is there already is written again."""
    folder = _folder(home_runs, attempt)
    hashes = {
        table: write_parquet(folder.loose(attempt.attempt_id, table), content)
        for table, content in decode(attempt, landing).items()
    }
    write_note(folder, attempt.attempt_id, Note((attempt.attempt_id,), hashes))


def _folder(home_runs: Path, attempt: Attempt) -> DerivedFolder:
    return DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)
