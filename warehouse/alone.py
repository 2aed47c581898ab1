"""Being the only process that does something: a lock of the operating system, in a file of its own.

Put here: taking it, waiting for it, and the one writer of a warehouse.
Not here: what is done under it, or the lease of a record (`warehouse.lease`), whose writers may be
on several machines and need a number that shows who was overtaken.

Such a lock ends with its process, however that ends: nobody waits for the dead.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from domain.errors import LedgerError
from warehouse.connection import LOCK_WAIT_SECONDS, WarehouseInUse, connected
from warehouse.home import Home
from warehouse.store import make_folder

if TYPE_CHECKING:
    import duckdb

_POLL_SECONDS = 0.1


@contextmanager
def alone(path: Path, wait_seconds: float, refused: Callable[[], LedgerError]) -> Iterator[None]:
    """Hold the lock in `path`; raises what `refused` makes when another process keeps it."""
    make_folder(path.parent)
    deadline = time.monotonic() + wait_seconds
    with path.open("wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise refused() from None
                time.sleep(_POLL_SECONDS)
        yield


@contextmanager
def only_writer(home: Home, wait_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """Nobody else writes the warehouse of a home, or makes the copy of it that readers open."""
    cause = "another command writes it, or copies it for readers"
    path = home.warehouse_path
    lock = path.with_name(f".{path.stem}_in_use")
    with alone(lock, wait_seconds, lambda: WarehouseInUse(path, wait_seconds, cause)):
        yield


@contextmanager
def writing(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """The warehouse, opened by its one writer: everything that is written into it passes here."""
    with only_writer(home), connected(home.warehouse_path) as connection:
        yield connection
