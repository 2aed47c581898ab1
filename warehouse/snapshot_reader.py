"""Opening snapshots for requests: read-only, locked, with limits of memory and time.

Put here: the index, open files, and the limits of a statement.
Not here: the content of a snapshot (`warehouse.snapshots`), or access to it (`portal`).
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from domain.errors import TemporarilyUnavailable
from warehouse.connection import connect
from warehouse.reports.opened_facts import Facts, RememberedResults
from warehouse.snapshots import FORMAT, INDEX

PROVIDER = ""
"""The name of the provider's snapshot; no namespace is called so."""

STATEMENT_SECONDS = 10.0
"""The longest page of a month of 10,000 GPUs takes a tenth of it."""

READERS_LIMIT = 8
"""Requests that read at a time. Others wait: many at once would exceed the time of each."""

MEMORY_LIMIT = "256MB"
OPEN_LIMIT = 16
"""Files that stay open for the next request; opening one takes 40 ms, and it holds about 10 MB."""

REMEMBERED_ROWS_LIMIT = 10_000
"""Of each open file. The page of a tenant over a month of 10,000 GPUs has 400."""


OF_NO_CLUSTER = ("dim_tenants", "periods")
"""Tables without a cluster that a reader of some clusters sees as they are."""


class SnapshotMissing(TemporarilyUnavailable):
    """There is no usable snapshot."""

    code = "PORTAL-001"

    def __init__(self, path: Path, seen: str) -> None:
        super().__init__(
            where=str(path),
            seen=seen,
            why="pages are made from snapshots only; an empty page would look like no usage",
            remedy="gpu-ledger publish",
        )


class QueryTimeout(TemporarilyUnavailable):
    """A statement on a snapshot was ended by its limit."""

    code = "PORTAL-002"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            where="the snapshot",
            seen=f"a statement took longer than {seconds:g} s and was ended",
            why="one request must not keep the others waiting",
            remedy="request a shorter time or a coarser grouping",
        )


class _Index(msgspec.Struct):
    format: int
    provider: str
    tenants: dict[str, str]


@dataclass
class _Opened:
    connection: duckdb.DuckDBPyConnection
    facts: Facts


class Snapshots:
    """The snapshots in a folder. Safe for several threads."""

    def __init__(self, folder: Path, statement_seconds: float = STATEMENT_SECONDS) -> None:
        self.folder = folder
        # The folder of snapshots may be read-only, and only this account reads rows of tenants.
        self._spill_folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-"))
        weakref.finalize(self, shutil.rmtree, self._spill_folder, ignore_errors=True)
        self._statement_seconds = statement_seconds
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        self._lock = threading.Lock()
        self._readers = threading.BoundedSemaphore(READERS_LIMIT)

    def tenants(self) -> list[str]:
        """Every tenant that has a snapshot; raises SnapshotMissing without an index."""
        return list(self._index().tenants)

    def version(self, tenant: str) -> str:
        """A name that changes with the rows of a snapshot; "" for a tenant that has none."""
        index = self._index()
        return index.provider if tenant == PROVIDER else index.tenants.get(tenant, "")

    @contextmanager
    def opened(self, tenant: str, clusters: Collection[str] | None = None) -> Iterator[Facts]:
        """The facts of one tenant, or of PROVIDER; where `clusters` is given, only theirs.

        Raises SnapshotMissing, also for a tenant that does not exist, and QueryTimeout.
        """

        name = self.version(tenant)
        if not name:
            raise SnapshotMissing(self.folder / INDEX, "it names no snapshot of this tenant")
        facts = self._facts(name)
        with self._readers:
            cursor = facts.connection.cursor()
            timer = threading.Timer(self._statement_seconds, cursor.interrupt)
            timer.start()
            try:
                left_out = () if clusters is None else _restrict(cursor, clusters)
                remembered = None if left_out else facts.remembered  # those are of all clusters
                yield replace(facts, connection=cursor, left_out=left_out, remembered=remembered)
            except duckdb.InterruptException:
                raise QueryTimeout(self._statement_seconds) from None
            finally:
                timer.cancel()
                cursor.close()

    def close(self) -> None:
        with self._lock:
            self._opened.clear()

    def _facts(self, name: str) -> Facts:
        with self._lock:
            if name in self._opened:
                self._opened.move_to_end(name)
                return self._opened[name].facts
            opened = self._open(self.folder / name)
            self._opened[name] = opened
            while len(self._opened) > OPEN_LIMIT:
                # Not closed here: a request may read it. Its last cursor keeps it open.
                self._opened.popitem(last=False)
            return opened.facts

    def _open(self, path: Path) -> _Opened:
        if not path.is_file():
            raise SnapshotMissing(path, "the index names this file, and it is not there")
        connection = connect(
            path,
            read_only=True,
            outside_sql=True,
            memory_limit=MEMORY_LIMIT,
            spill_folder=self._spill_folder / path.stem,
        )
        rows: list[Any] = connection.execute(
            "select billing_period from periods order by billing_period"
        ).fetchall()
        periods = tuple(row[0] for row in rows)
        [(newest,)] = connection.execute("select max(billing_period) from coverage").fetchall()
        remembered = RememberedResults(REMEMBERED_ROWS_LIMIT)
        return _Opened(
            connection, Facts(connection, path, periods, newest or "", remembered=remembered)
        )

    def _index(self) -> _Index:
        path = self.folder / INDEX
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_Index)
        except FileNotFoundError:
            seen = "no such file: no snapshot was written since the facts last changed"
            raise SnapshotMissing(path, seen) from None
        except (OSError, ValueError, RecursionError) as cause:
            raise SnapshotMissing(path, f"it cannot be read: {cause}") from None
        if found.format != FORMAT:
            seen = f"it has format {found.format}, and this version reads format {FORMAT}"
            raise SnapshotMissing(path, seen)
        return found


def _restrict(cursor: duckdb.DuckDBPyConnection, clusters: Collection[str]) -> tuple[str, ...]:
    """Hide the rows of other clusters from a cursor; the names of the clusters that have any.

    Views of the cursor's own take the places of the tables. Forecasts, budgets and documents are of
    all clusters together: where one cluster is left out, there are none.
    """
    [(database,)] = cursor.execute("select current_database()").fetchall()
    cursor.execute("create temp table visible as select unnest($1) as cluster_id", [list(clusters)])
    hidden = cursor.execute(
        "select distinct cluster_name from dim_clusters "
        "where cluster_id not in (from visible) order by cluster_name"
    ).fetchall()
    if not hidden:
        return ()
    tables = cursor.execute(
        "select table_name, bool_or(column_name = 'cluster_id') from duckdb_columns() "
        "where database_name = $1 and schema_name = 'main' and not internal group by table_name",
        [database],
    ).fetchall()
    for table, has_cluster in tables:
        # A view of this name in the temporary schema: the table itself needs its whole name.
        source = f'from "{database}".main.{table}'
        if has_cluster:
            source += " where cluster_id in (from visible)"
        elif table not in OF_NO_CLUSTER:
            source += " where false"
        cursor.execute(f"create temp view {table} as {source}")
    return tuple(name for [name] in hidden)
