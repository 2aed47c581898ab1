"""A journal that is written and landed, and killed at its n-th step, for every n.

Put here: a collector's writer and the pull of its hours, killed at one step of the disk, and the
remaining files.
Not here: counting steps (`tests.killed_pulls`), or expectations (`tests/unit`).

Run as `python -m tests.killed_journals FOLDER`: prints one JSON line for each kill point.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from domain.clock import StoppedClock
from domain.interval import HOUR, Interval, format_instant
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal import JournalWriter, parse_lines, segments
from ingestion.kubernetes.pull import pull_hours
from tests.killed_pulls import killed_at
from warehouse.store import FolderStore

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
WINDOW = Interval(NOON, NOON + 2 * HOUR)
CLUSTER_ID = "c1"
LINES = 10
"""One segment each, over two hours."""


def write_from(home: Path, first: int) -> None:
    """Write the lines from `first` on like a collector, one segment after the other."""
    journal = JournalWriter(FolderStore(home / "spool"), CLUSTER_ID, "one", "0.1.0", first)
    for number in range(first, LINES):
        at = NOON + number * 2 * HOUR / LINES
        journal.add([{"line": "broken", "at": format_instant(at), "number": number}])
        journal.flush(at)


def land(home: Path) -> None:
    landing = Landing(FolderStore(home / "landing"))
    clock = StoppedClock(NOON + timedelta(days=1))
    pull_hours(CLUSTER_ID, WINDOW, FolderStore(home / "spool"), landing, clock)


def write_and_land(home: Path) -> None:
    write_from(home, 0)
    land(home)


def durable_lines(home: Path) -> list[int]:
    """The durable lines, as the next process reads them."""
    store = FolderStore(home / "spool")
    bodies = [parse_lines(one.key, store.read(one.key)) for one in segments(store, CLUSTER_ID)]
    return [line["number"] for lines in bodies for line in lines if line["line"] == "broken"]


def landed(home: Path) -> list[list[int]]:
    """The lines of every landed attempt."""
    landing = Landing(FolderStore(home / "landing"))
    assert landing.verify().problems == ()
    found = []
    for attempt in landing.attempts():
        bodies = [landing.read_body(answer.sha256) for answer in attempt.answers]
        lines = [line for body in bodies for line in parse_lines("landed", body)]
        found.append([line["number"] for line in lines if line["line"] == "broken"])
    return found


def main(folder: Path) -> None:
    step, died = 0, True
    while died:
        step += 1
        home = folder / str(step)
        died = killed_at(step, lambda: write_and_land(home))  # noqa: B023
        left: dict[str, Any] = {
            "died": died,
            "spooled": durable_lines(home),
            "landed": landed(home),
        }
        write_from(home, len(left["spooled"]))
        land(home)
        print(json.dumps(left | {"then": durable_lines(home), "landed_then": landed(home)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
