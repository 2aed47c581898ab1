"""Dagster's event log in SQLite, as it is, but with its files held between two events.

Put here: how the log's files are opened, and that what comes together is written together.
Not here: what is written, and how it is read: all of that is Dagster's.

A backfill says two things about every hour: that it is planned, and what came of it. For each of
them Dagster's own class opens two files, prepares every statement anew, and waits for the disk
twice: 24 ms an hour, more than asking the sources takes. Held, it is 4 ms.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

# Its only place: nothing public of Dagster tells how its files are opened. The version is pinned,
# and a test compares what both classes write.
from dagster._core.storage.event_log.sqlite import sqlite_event_log as stock
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

if TYPE_CHECKING:
    from dagster import EventLogEntry

INDEX = stock.INDEX_SHARD_NAME

RUNS_HELD = 8
"""Files of runs that are held; the daemon and the pages look at many, one after the other."""

SHOWN_AFTER_SECONDS = 1.0
"""How long the pages of a run may not know of an event: nobody reads faster."""


class HeldEventLog(stock.SqliteEventLogStorage):
    """The same tables in the same files: either class reads what the other one wrote."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._begun: dict[str, Connection] = {}
        self._shown: dict[str, float] = {}
        self._to_show: dict[str, threading.Timer] = {}
        self._holding = False
        self._turn = threading.RLock()
        super().__init__(base_dir, inst_data)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> HeldEventLog:
        return cls(inst_data=inst_data, **config_value)

    def store_event(self, event: EventLogEntry) -> None:
        with self._turn:
            held, self._holding = self._holding, True
            try:
                super().store_event(event)
            finally:
                self._holding = held
            self._show(event)

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Events that come together are one transaction of each file, all of them or none."""
        with ExitStack() as files:
            for shard in (*sorted({event.run_id for event in events}), INDEX):
                files.enter_context(self._connect(shard))
            super().store_event_batch(events)

    def _show(self, event: EventLogEntry) -> None:
        """Close the file of a run, if that is due: its pages look whether it has changed.

        While anybody has it open, only the log beside it changes; that is why reading closes it,
        too. What a run ends with is shown at once.
        """
        run, now = event.run_id, time.monotonic()
        ends = event.is_dagster_event and event.get_dagster_event().is_job_event
        due = now - self._shown.get(run, -SHOWN_AFTER_SECONDS) >= SHOWN_AFTER_SECONDS
        if run not in self._begun and (ends or due):
            self._close(run)
        elif run not in self._to_show:
            # It may be the last one for long, as when a step begins.
            timer = threading.Timer(SHOWN_AFTER_SECONDS, self._close, [run])
            timer.daemon = True
            self._to_show[run] = timer
            timer.start()

    def _close(self, run: str) -> None:
        with self._turn:
            if timer := self._to_show.pop(run, None):
                timer.cancel()
            if engine := self._engines.get(run):
                engine.dispose()
                self._shown[run] = time.monotonic()

    def wipe(self) -> None:
        super().wipe()
        self._let_go()

    def dispose(self) -> None:
        super().dispose()
        self._let_go()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._turn:
            if shard in self._begun:
                yield self._begun[shard]
                return
            with self._engine(shard).begin() as connection:
                self._begun[shard] = connection
                try:
                    yield connection
                finally:
                    del self._begun[shard]
            if shard != INDEX and not self._holding:
                self._engine(shard).dispose()

    def _engine(self, shard: str) -> Engine:
        """What is prepared belongs to an engine: one for each file, not one for each event."""
        if shard not in self._engines:
            self._engines[shard] = self._made(shard)
            runs = [name for name in self._engines if name != INDEX]
            for name in runs[:-RUNS_HELD]:
                self._engines.pop(name).dispose()
                self._shown.pop(name, None)
        return self._engines[shard]

    def _made(self, shard: str) -> Engine:
        engine = create_engine(
            self.conn_string_for_shard(shard),
            poolclass=QueuePool,
            connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS},
        )
        event.listen(engine, "connect", _without_waiting_for_the_disk)
        self._initdb(engine)
        return engine

    def _let_go(self) -> None:
        with self._turn:
            for timer in self._to_show.values():
                timer.cancel()
            self._to_show.clear()
            for engine in self._engines.values():
                engine.dispose()
            self._engines.clear()


def _without_waiting_for_the_disk(connection: Any, _: Any) -> None:
    """Where the power fails, the last events may be forgotten; no file breaks, and the hour ledger
    knows what landed."""
    connection.execute("pragma synchronous = normal")
