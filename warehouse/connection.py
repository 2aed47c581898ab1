"""The only place that opens DuckDB: UTC, bounded memory and threads, patient with a lock.

Put here: opening a database file, its errors, and the lock for the one process that writes the
warehouse of a home.
Not here: the content (`warehouse.raw_schema`, `dbt/`), or the writer of a record
(`warehouse.lease`).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from domain.errors import CheckFailed, TemporarilyUnavailable
from warehouse.file_lock import hold_lock
from warehouse.home import Home
from warehouse.store import StoreUnusable

MEMORY_LIMIT = "480MB"
"""With the memory of Python and dbt, the refresh of a month of 3,400 GPUs stays below 1 GiB; larger
operations spill to disk."""

THREAD_LIMIT = 4
"""Beyond four the counting of one month gains nothing that is worth the memory of each thread."""

LOCK_WAIT_SECONDS = 30.0
"""A switch of the largest month takes seconds; a longer lock belongs to another writer."""

_LOCK_POLL_SECONDS = 0.1

_FULL = ("No space left", "File too large", "Disk quota exceeded")
"""Messages of the operating system within DuckDB's messages."""


class WarehouseInUse(TemporarilyUnavailable):
    """Another process has the file open."""

    code = "LOCK-001"

    def __init__(
        self, path: Path, waited_seconds: float, cause: str, instead: str = "run this one again"
    ) -> None:
        self.waited_seconds = waited_seconds
        self.cause = cause
        super().__init__(
            where=str(path),
            seen=f"locked by another process for more than {waited_seconds:g} s ({cause})",
            why="DuckDB lets one process write and no other one read; nothing was changed",
            remedy=f"let the other command end, and {instead}",
        )


class WarehouseUnreadable(CheckFailed):
    """The file is there and DuckDB cannot open it."""

    code = "WARE-002"

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            where=str(path),
            seen=f"DuckDB cannot open it: {cause}",
            why="the warehouse is only a copy; landing, decisions and record are complete",
            remedy=f"move {path.name} and its .wal away, then run `gpu-ledger refresh` per period",
        )


def connect(
    path: Path | str,
    *,
    read_only: bool = False,
    outside_sql: bool = False,
    wait_seconds: float = LOCK_WAIT_SECONDS,
    memory_limit: str = MEMORY_LIMIT,
    spill_folder: Path | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a database file (or `:memory:`), waiting for its lock.

    Intermediate results that exceed the memory limit are written beside the file, or into
    `spill_folder`.

    `outside_sql` is for connections that run SQL of a user: they can neither read nor write files
    of this machine, and cannot change that setting.
    """

    config = _settings(memory_limit)
    if spill_folder is not None:
        config["temp_directory"] = str(spill_folder)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=config)
            break
        except duckdb.IOException as cause:
            if "lock" not in str(cause):
                raise WarehouseUnreadable(Path(path), _first_line(cause)) from cause
            if time.monotonic() >= deadline:
                raise WarehouseInUse(Path(path), wait_seconds, _first_line(cause)) from cause
            time.sleep(_LOCK_POLL_SECONDS)
        except duckdb.Error as cause:
            raise WarehouseUnreadable(Path(path), _first_line(cause)) from cause
    connection.execute("set global TimeZone = 'UTC'")  # also of cursors that are made of it
    if outside_sql:
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
    return connection


@contextmanager
def connected(path: Path | str, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that is closed at the end, however the work ends."""

    connection = connect(path, read_only=read_only)
    try:
        yield connection
    except duckdb.Error as cause:
        said = _first_line(cause)
        require_room(path, said)
        damaged = (duckdb.IOException, duckdb.FatalException, duckdb.SerializationException)
        if isinstance(cause, damaged):
            raise WarehouseUnreadable(Path(path), said) from cause
        raise
    finally:
        connection.close()


@contextmanager
def lock_warehouse(home: Home, wait_seconds: float = LOCK_WAIT_SECONDS) -> Iterator[None]:
    """No other process writes the warehouse of a home, or makes the copy that readers open."""
    cause = "another command writes it, or copies it for readers"
    path = home.warehouse_path
    lock = path.with_name(f".{path.stem}_in_use")
    with hold_lock(lock, wait_seconds, lambda: WarehouseInUse(path, wait_seconds, cause)):
        yield


@contextmanager
def writing(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    """The warehouse, opened by its one writer: every statement that writes into it passes here."""
    with lock_warehouse(home), connected(home.warehouse_path) as connection:
        yield connection


def require_room(path: Path | str, said: str) -> None:
    """Raise StoreUnusable where DuckDB failed because the disk is full, or its quota used up."""
    if any(full in said for full in _FULL):
        raise StoreUnusable(str(path), "write", OSError(errno.ENOSPC, said))


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of it or nothing."""
    connection.execute("begin transaction")
    try:
        yield
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def settings() -> dict[str, str | int]:
    """The bounds that every connection has, also dbt's."""
    return {
        "memory_limit": MEMORY_LIMIT,
        "threads": thread_count(),
        "preserve_insertion_order": "false",
    }


def thread_count() -> int:
    """Threads for one database: the machine's, up to the limit."""

    return min(THREAD_LIMIT, os.cpu_count() or 1)


def _settings(memory_limit: str) -> dict[str, str | bool | int | float | list[str]]:
    return {
        name: str(value) for name, value in (settings() | {"memory_limit": memory_limit}).items()
    }


def _first_line(cause: Exception) -> str:
    return str(cause).splitlines()[0]
