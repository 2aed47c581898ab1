"""One `gpu-ledger up` on a home at a time.

Put here: the lock that it holds, and refusing where another one holds it.
Not here: the processes that hold it (`orchestration.pages`), or their runs (`launching`).

The lock is held as long as any of the processes lives that were started with it: a daemon that
outlived its `up` goes on launching runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domain.errors import WrongUse
from warehouse.file_lock import try_lock
from warehouse.store import reading

LOCK = "up.lock"


class AlreadyUp(WrongUse):
    """Another `up` has this home."""

    code = "UP-003"

    def __init__(self, lock: Path, url: str, processes: list[int]) -> None:
        self.url = url
        numbers = " ".join(map(str, processes))
        super().__init__(
            where=str(lock),
            seen=f"this home is up already: {url}, processes {numbers}",
            why="a second one would take the runs of the first for lost, and end them",
            remedy=f"open {url}; or stop it, and start again: kill {numbers}",
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """The lock of a home, held by this process and by those that are given `descriptor`."""

    descriptor: int
    url: str

    def name(self, processes: Mapping[str, int]) -> None:
        """Say in the lock who holds it, for whoever is refused."""
        said = {"url": self.url, "processes": {"up": os.getpid(), **processes}}
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, (json.dumps(said) + "\n").encode(), 0)


@contextmanager
def lock_home(folder: Path, url: str) -> Iterator[Hold]:
    """Lock Dagster's folder of a home; raises AlreadyUp while another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, folder / LOCK)
        hold = Hold(descriptor, url)
        hold.name({})
        yield hold
    finally:
        os.close(descriptor)


def require_down(folder: Path) -> None:
    """Refuse where an `up` has this folder."""
    if (folder / LOCK).is_file():
        descriptor = os.open(folder / LOCK, os.O_RDWR)
        try:
            _take(descriptor, folder / LOCK)
        finally:
            os.close(descriptor)


def shown_at(folder: Path) -> str:
    """Where the pages are of a home that is up; empty where it is not."""
    try:
        require_down(folder)
    except AlreadyUp as up:
        return up.url
    return ""


def _take(descriptor: int, lock: Path) -> None:
    if not try_lock(descriptor):
        said = _said(lock)
        raise AlreadyUp(lock, said.get("url", ""), [*said.get("processes", {}).values()])


def _said(lock: Path) -> dict[str, Any]:
    """Nothing, in the instant between taking the lock and naming its holders."""
    text = lock.read_bytes()
    with reading(str(lock), "end the running `gpu-ledger up` by hand, then delete this file"):
        return dict(json.loads(text)) if text else {}
