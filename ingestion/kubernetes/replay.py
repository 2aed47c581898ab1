"""A landed journal attempt as Parquet files: made after landing, and made again from the bytes.

Put here: where an attempt's lifecycle files lie, and writing them.
Not here: what is in them (`lifecycle`, `tables`).
"""

from __future__ import annotations

from pathlib import Path

from ingestion.derived import write_parquet
from ingestion.kubernetes.lifecycle import decode
from ingestion.kubernetes.tables import TABLES
from ingestion.landing import Landing
from ingestion.manifest import Attempt


def replay(landing: Landing, home_runs: Path, attempt: Attempt) -> None:
    """Write every lifecycle table of an attempt; what is there already is written again."""
    for table, content in decode(attempt, landing).items():
        _path(home_runs, attempt, table).parent.mkdir(parents=True, exist_ok=True)
        write_parquet(_path(home_runs, attempt, table), content)


def has_tables(home_runs: Path, attempt: Attempt) -> bool:
    return all(_path(home_runs, attempt, table).is_file() for table in TABLES)


def _path(home_runs: Path, attempt: Attempt, table: str) -> Path:
    folder = home_runs / "kubernetes" / attempt.cluster_id
    return folder / f"{attempt.attempt_id}.{table}.parquet"
