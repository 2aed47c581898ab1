"""Where derived files lie: one per attempt and table, or compacted to one per day and table.

Put here: the names of derived files, and finding those of given attempts.
Not here: what is in them (`ingestion`), or when days are compacted (`ingestion.compaction`).

    runs/<source>/<cluster_id>/<attempt_id>.<table>.parquet     as an attempt made it
    runs/<source>/<cluster_id>/<day>.<table>.parquet            the attempts of a day together
    runs/<source>/<cluster_id>/<day>.attempts.json              which attempts those are

A day's file may hold more attempts than were asked for; rows say which attempt they are of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DerivedFolder:
    """The derived files of one cluster and source."""

    path: Path

    @classmethod
    def of(cls, home_runs: Path, source: str, cluster_id: str) -> DerivedFolder:
        return cls(home_runs / source / cluster_id)

    def loose(self, attempt_id: str, table: str) -> Path:
        """The file of one attempt, while it is not compacted."""
        return self.path / f"{attempt_id}.{table}.parquet"

    def daily(self, day: date, table: str) -> Path:
        return self.path / f"{day.isoformat()}.{table}.parquet"

    def index(self, day: date) -> Path:
        return self.path / f"{day.isoformat()}.attempts.json"

    def compacted(self) -> dict[str, date]:
        """The day of every attempt that was compacted."""
        found: dict[str, date] = {}
        for path in sorted(self.path.glob("*.attempts.json")):
            day = date.fromisoformat(path.name.partition(".")[0])
            found |= dict.fromkeys(json.loads(path.read_text(encoding="utf-8")), day)
        return found

    def has(self, attempt_id: str, tables: Iterable[str]) -> bool:
        """Whether all tables of an attempt are there."""
        if all(self.loose(attempt_id, table).is_file() for table in tables):
            return True
        day = self.compacted().get(attempt_id)
        return day is not None and all(self.daily(day, table).is_file() for table in tables)

    def files(self, attempt_ids: Iterable[str], table: str) -> list[Path]:
        """The files that hold the given attempts' rows of a table, each once, in order."""
        compacted = self.compacted()
        paths = {
            self.daily(compacted[attempt_id], table)
            if attempt_id in compacted
            else self.loose(attempt_id, table)
            for attempt_id in attempt_ids
        }
        return sorted(path for path in paths if path.is_file())

    def present(self) -> set[str]:
        """The attempts of which there is any file."""
        loose = {path.name.partition(".")[0] for path in self.path.glob("*.parquet")}
        return loose | set(self.compacted())
