"""Decodes a landed attempt of a journal into lifecycle tables; the same bytes give the same tables.

Put here: reading the segments of an attempt in order, dropping repeated observations, and writing
the tables.
Not here: the rows of a line (`lifecycle_rows`), or any check of it (dbt and `quality`).

Two collectors of one cluster each write their observations: an observation is one per (uid,
resource version, deleted), whichever collector made it first, and an interval watched by either is
watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa

from domain.interval import union
from ingestion.evidence.landing import Landing
from ingestion.evidence.parquet_files import write_note, write_parquet
from ingestion.kubernetes.journal import parse_lines
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.lifecycle_rows import Known, Row, rows_of
from ingestion.kubernetes.lifecycle_tables import TABLES, filled
from ingestion.kubernetes.pull import list_complete, watched_intervals
from warehouse.derived_files import DerivedFilesNote, DerivedFolder
from warehouse.manifest import Attempt, Outcome, QueryResponse

# Rows whose content does not change between observations are written once.
_DISTINCT_TABLES = ("pod_requests",)


def write_lifecycle(landing: Landing, home_runs: Path, attempt: Attempt) -> None:
    """Decode the segments of an attempt, and write its lifecycle tables."""
    folder = DerivedFolder.of(home_runs, attempt.source.value, attempt.cluster_id)
    hashes = {
        table: write_parquet(folder.loose(attempt.attempt_id, table), [content])
        for table, content in decode(attempt, landing).items()
    }
    write_note(folder, attempt.attempt_id, DerivedFilesNote((attempt.attempt_id,), hashes))


def decode(attempt: Attempt, landing: Landing) -> dict[str, pa.Table]:
    """Every lifecycle table of one attempt, with or without rows."""
    rows = decode_rows(attempt, landing)
    return {table: filled(table, attempt, rows[table]) for table in TABLES}


def decode_rows(attempt: Attempt, landing: Landing) -> dict[str, list[Row]]:
    """The rows of every table, in the journal's order."""
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    known: Known = {}
    for hour, lines in _hours(attempt, landing):
        for line, content in _without_repeats(lines):
            for table, row in rows_of(line, content, known):
                rows[table].append(row)
        rows["coverage"] += _coverage(hour, lines)
    for table in _DISTINCT_TABLES:
        rows[table] = list({tuple(row.items()): row for row in rows[table]}.values())
    return rows


def _hours(attempt: Attempt, landing: Landing) -> Iterator[tuple[datetime, list[Line]]]:
    """The lines hour by hour: those of a day would be gigabytes in a large cluster."""
    segments: dict[datetime, list[QueryResponse]] = {}
    for answer in attempt.answers:
        if answer.sha256 and answer.window is not None and answer.outcome is Outcome.OK:
            segments.setdefault(answer.window.started_at, []).append(answer)
    for hour in sorted(segments):
        bodies = ((one.query, landing.read_body(one.sha256)) for one in segments[hour])
        lines = [line for key, body in bodies for line in parse_lines(key, body)]
        yield hour, sorted(lines, key=_order)


def _order(line: Line) -> tuple[int, str]:
    """By position; of two collectors' lines with one position, by time."""
    return line["position"], line["at"]


def _without_repeats(lines: Iterable[Line]) -> Iterator[tuple[Line, bytes]]:
    """Without observations of the same version of the same object; with each object's text."""
    said: set[tuple[str, str, bytes, bool, str | bool]] = set()
    for line in lines:
        content = b""
        if line["line"] == "object":
            meta = line["object"]["metadata"]
            gone = line["via"] in ("deleted", "gone")
            # Each list is a separate observation: an object in it existed during the gap before.
            listed_at = line["at"] if line["via"] == "list" else line["via"] == "hourly_list"
            # With the content: after a store was set back, a version can mean another content.
            content = msgspec.json.encode(line["object"], order="sorted")
            key = (line["resource"], meta.get("uid", ""), content, gone, listed_at)
            if key in said:
                continue
            said.add(key)
        yield line, content


def _coverage(hour: datetime, lines: list[Line]) -> Iterator[Row]:
    complete = list_complete(lines)
    for interval in union(watched_intervals(hour, lines)):
        yield {
            "hour_started_at": hour,
            "watched_from": interval.started_at,
            "watched_until": interval.ended_at,
            "list_complete": complete,
        }
