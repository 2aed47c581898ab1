"""The lock by which only one `gpu-ledger up` runs on a home at a time.

Put here: taking the lock, and the error while another process holds it.
Not here: the processes that hold it (`orchestration.dagster_code.web_ui`).

Each process that was started with the lock holds it: a daemon that outlived its `gpu-ledger up`
still launches runs.
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
    """Another `gpu-ledger up` runs on this home."""

    code = "UP-001"

    def __init__(self, lock: Path, url: str, processes: list[int]) -> None:
        self.url = url
        numbers = " ".join(map(str, processes))
        super().__init__(
            where=str(lock),
            seen=f"this home is up already: {url}, processes {numbers}",
            why="a second one would end the runs of the first one as lost",
            remedy=f"open {url}; or stop it, and start again: kill {numbers}",
        )


@dataclass(frozen=True, slots=True)
class HomeLock:
    """The lock of a home, held by this process and by those that inherit `descriptor`."""

    descriptor: int
    url: str

    def write_holders(self, processes: Mapping[str, int]) -> None:
        """Write the holders into the lock file; the error of a refused `up` names them."""
        holders = {"url": self.url, "processes": {"up": os.getpid(), **processes}}
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, (json.dumps(holders) + "\n").encode(), 0)


@contextmanager
def lock_home(folder: Path, url: str) -> Iterator[HomeLock]:
    """Lock Dagster's folder of a home; raises AlreadyUp while another process holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _require_lock(descriptor, folder / LOCK)
        lock = HomeLock(descriptor, url)
        lock.write_holders({})
        yield lock
    finally:
        os.close(descriptor)


def require_down(folder: Path) -> None:
    """Refuse a folder whose `gpu-ledger up` is running."""
    if (folder / LOCK).is_file():
        descriptor = os.open(folder / LOCK, os.O_RDWR)
        try:
            _require_lock(descriptor, folder / LOCK)
        finally:
            os.close(descriptor)


def url_of_web_ui(folder: Path) -> str:
    """The address of the web UI of a home that is up; else empty."""
    try:
        require_down(folder)
    except AlreadyUp as up:
        return up.url
    return ""


def _require_lock(descriptor: int, lock: Path) -> None:
    if not try_lock(descriptor):
        holders = _holders(lock)
        raise AlreadyUp(lock, holders.get("url", ""), [*holders.get("processes", {}).values()])


def _holders(lock: Path) -> dict[str, Any]:
    """The holders in the lock file; none between taking the lock and writing them."""
    text = lock.read_bytes()
    with reading(str(lock), "end the running `gpu-ledger up` by hand, then delete this file"):
        return dict(json.loads(text)) if text else {}
