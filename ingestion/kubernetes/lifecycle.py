"""A landed attempt of a journal as lifecycle tables, the same from the same bytes for ever.

Put here: reading the segments of an attempt in their order, and dropping what was said twice.
Not here: what a line means (`rows`), or any judgement of it (dbt and `quality`).

Two collectors of one cluster each write what they see: an observation is one per (uid, resource
version, deleted), whoever made it first, and a stretch watched by either is watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from domain.interval import union
from ingestion.kubernetes.lines import Line
from ingestion.kubernetes.pull import list_complete, watched_stretches
from ingestion.kubernetes.rows import Known, Row, rows_of
from ingestion.kubernetes.spool import parse_lines
from ingestion.kubernetes.tables import TABLES, filled
from ingestion.landing import Landing
from ingestion.manifest import Attempt, Outcome

if TYPE_CHECKING:
    import pyarrow as pa

# Rows whose content does not change between observations are written once.
_DISTINCT_TABLES = ("pod_requests",)


def decode(attempt: Attempt, landing: Landing) -> dict[str, pa.Table]:
    """Every lifecycle table of one attempt; an empty table where nothing was said."""
    rows = decode_rows(attempt, landing)
    return {table: filled(table, attempt, rows[table]) for table in TABLES}


def decode_rows(attempt: Attempt, landing: Landing) -> dict[str, list[Row]]:
    """The rows of every table, in the journal's order."""
    by_hour = _lines_by_hour(attempt, landing)
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    known: Known = {}
    for hour in sorted(by_hour):
        lines = by_hour[hour]
        for line, content in _said_once(lines):
            for table, row in rows_of(line, content, known):
                rows[table].append(row)
        rows["coverage"] += _coverage(hour, lines)
    for table in _DISTINCT_TABLES:
        rows[table] = list({tuple(row.items()): row for row in rows[table]}.values())
    return rows


def _lines_by_hour(attempt: Attempt, landing: Landing) -> dict[datetime, list[Line]]:
    by_hour: dict[datetime, list[Line]] = {}
    for answer in attempt.answers:
        if not answer.sha256 or answer.window is None or answer.outcome is not Outcome.OK:
            continue
        lines = list(parse_lines(answer.query, landing.read_body(answer.sha256)))
        by_hour.setdefault(answer.window.started_at, []).extend(lines)
    for lines in by_hour.values():
        lines.sort(key=_order)
    return by_hour


def _order(line: Line) -> tuple[int, str]:
    """By position; of two collectors' lines with one position, by time."""
    return line["position"], line["at"]


def _said_once(lines: Iterable[Line]) -> Iterator[tuple[Line, bytes]]:
    """Without observations of the same version of the same object; with each object's text."""
    said: set[tuple[str, str, bytes, bool, str | bool]] = set()
    for line in lines:
        content = b""
        if line["line"] == "object":
            meta = line["object"]["metadata"]
            gone = line["via"] in ("deleted", "gone")
            # Each list is an observation of its own: what is there after a gap was there all along.
            listed_at = line["at"] if line["via"] == "list" else line["via"] == "hourly_list"
            # The content too: after a store was set back, a version comes again and means another.
            content = msgspec.json.encode(line["object"], order="sorted")
            key = (line["resource"], meta.get("uid", ""), content, gone, listed_at)
            if key in said:
                continue
            said.add(key)
        yield line, content


def _coverage(hour: datetime, lines: list[Line]) -> Iterator[Row]:
    complete = list_complete(lines)
    for stretch in union(watched_stretches(hour, lines)):
        yield {
            "hour_started_at": hour,
            "watched_from": stretch.started_at,
            "watched_until": stretch.ended_at,
            "list_complete": complete,
        }
