"""A pull that is killed at its n-th step, for every n, each in a process of its own.

Put here: counting steps, killing at one, and describing the remaining files.
Not here: expectations about them (`tests/unit/test_landing_crashes`).

A step is any call that changes the disk (open for writing, write through fsync, link, rename,
remove, mkdir). A killed process runs no `finally` and flushes no buffer. Unsynced bytes may be
lost, so the file that is being synced is cut to half before the kill.

Run as `python -m tests.killed_pulls FOLDER`: prints one JSON line for each kill point.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import ingestion.evidence.landing
from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import WRITERS, Landing
from ingestion.rebuild import rebuild
from ingestion.thanos.pull import pull_hours
from tests.derived_rows import rows_of
from tests.samples_by_hand import CLUSTER, TEN, Server, in_union
from warehouse.manifest import Attempt
from warehouse.store import FolderStore

KILLED = 137
FINISHED = 0
WATCHED = frozenset({"os.mkdir", "os.link", "os.rename", "os.remove"})


def pull(home: Path) -> Attempt:
    return pull_hours(
        CLUSTER,
        Interval(TEN, TEN + timedelta(hours=1)),
        Landing(FolderStore(home / "landing")),
        home / "runs",
        StoppedClock(TEN + timedelta(days=2)),
        Server(lambda form: in_union(form, with_unions=True)).client(),
    )


class Steps:
    """Counts the steps of this process, and kills it at one of them."""

    def __init__(self, last: int) -> None:
        self._left = last

    def watch(self) -> None:
        sys.addaudithook(self._audited)
        real_fsync = os.fsync

        def fsync(descriptor: int) -> None:
            self._step(lambda: _half(descriptor))
            real_fsync(descriptor)
            self._step()

        os.fsync = fsync  # type: ignore[assignment]

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        writing = (
            event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")
        )
        if event in WATCHED or writing:
            self._step()

    def _step(self, before_death: Callable[[], None] = lambda: None) -> None:
        self._left -= 1
        if self._left == 0:
            before_death()
            os._exit(KILLED)


def _half(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
        os.ftruncate(descriptor, size // 2)


def killed_at(step: int, act: Callable[[], object], writers: int = 1) -> bool:
    """Act in a child that is killed at the step; False if it ended before."""
    child = os.fork()
    if child == 0:
        ingestion.evidence.landing.WRITERS = writers
        Steps(step).watch()
        act()
        os._exit(FINISHED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def describe_home(home: Path) -> dict[str, Any]:
    """The landing and the derived files, after missing derived files were written again."""
    landing = Landing(FolderStore(home / "landing"))
    report = landing.verify()
    rebuild(landing, home / "runs", missing_only=True)
    attempts = landing.attempts()
    return {
        "problems": [str(problem) for problem in report.problems],
        "attempts": [attempt.outcome.value for attempt in attempts],
        "sequences": [attempt.sequence for attempt in attempts],
        "runs": [rows(home, attempt) for attempt in attempts],
        "unfinished": [path.name for path in (home / "runs").rglob(".*")],
    }


def rows(home: Path, attempt: Attempt) -> list[list[str]]:
    """The rows of an attempt, without its name."""
    found = []
    for kind in ("runs", "series", "telemetry"):
        for row in rows_of(home / "runs", "c1", [attempt.attempt_id], kind):
            found.append([str(text) for name, text in row.items() if name != "attempt_id"])
    return found


def main(folder: Path) -> None:
    step = 0
    while True:
        step += 1
        home = folder / str(step)
        # With one writer the steps are the same in every run; with several they mix as in
        # production.
        writers = 1 if step % 3 else WRITERS
        died = killed_at(step, lambda: pull(home), writers)  # noqa: B023
        left = describe_home(home)
        pull(home)
        then = describe_home(home)
        print(json.dumps({"writers": writers, "died": died, "left": left, "then": then}))
        if not died:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
