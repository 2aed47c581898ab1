"""Facts that were opened for reading, in the published copy or in the warehouse itself.

Put here: the choice between the two files, and their periods.
Not here: any query on them (the modules beside this one).

The published copy is read while it has the facts that were last switched in: reading it holds no
lock for which the pipeline would wait. Otherwise the warehouse is read. The numbers are the same in
both, and a period that lacks rows is not read: an amount without them would look as final as any
other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from domain.billing_period import BillingPeriod
from domain.errors import TemporarilyUnavailable
from domain.interval import Interval
from warehouse.connection import WarehouseInUse, connect
from warehouse.content_hash import row_counts
from warehouse.home import Home
from warehouse.publish import MAIN, newest_version
from warehouse.switch import MARTS
from warehouse.switched import SwitchedPeriod, periods_in, switched_periods

Row = dict[str, Any]


class NoFactsYet(TemporarilyUnavailable):
    """No facts of the requested period."""

    code = "FACTS-001"

    def __init__(self, where: str, periods: tuple[str, ...], wanted: str) -> None:
        there = ", ".join(periods) or "none"
        super().__init__(
            where=where,
            seen=f"no facts of {wanted or 'any period'}; periods with facts: {there}",
            why="this period has not been computed; an empty result would look like zero usage",
            remedy=f"gpu-ledger refresh --period {wanted}" if wanted else "gpu-ledger refresh",
        )


class FactsOfAnotherVersion(TemporarilyUnavailable):
    """Facts were counted by a version of the code that had other tables or columns."""

    code = "FACTS-001"

    def __init__(self, where: str, periods: tuple[str, ...], cause: str) -> None:
        super().__init__(
            where=where,
            seen=f"facts of another version of the code: {cause}",
            why="the query needs a table or column that these facts do not have",
            remedy=f"gpu-ledger refresh --period {periods[-1] if periods else '2026-10'}, "
            "then gpu-ledger publish",
        )


Result = tuple[list[str], list[tuple[Any, ...]]]
"""The names of columns, and rows."""


class RememberedResults:
    """Results of statements on a file that does not change, so that the next request for them needs
    no query. Safe for several threads. All are forgotten when they have too many rows."""

    def __init__(self, rows_limit: int) -> None:
        self._rows_limit = rows_limit
        self._results: dict[tuple[str, str], Result] = {}
        self._row_count = 0
        self._lock = threading.Lock()

    def result(
        self, statement: str, parameters: Mapping[str, object], run: Callable[[], Result]
    ) -> Result:
        """The remembered result, or the one of `run`."""
        key = (statement, repr(parameters))
        found = self._results.get(key)
        if found is None:
            found = run()
            size = len(found[1]) + 1
            with self._lock:
                if self._row_count + size > self._rows_limit:
                    self._results.clear()
                    self._row_count = 0
                if size <= self._rows_limit:
                    self._results[key] = found
                    self._row_count += size
        return found


@dataclass(frozen=True, slots=True)
class Facts:
    """Marts behind an open connection; tables are named without a schema."""

    connection: duckdb.DuckDBPyConnection
    path: Path
    periods: tuple[str, ...]
    newest_name: str = ""  # empty: the last one
    left_out: tuple[str, ...] = ()  # names of clusters whose rows the reader may not see
    remembered: RememberedResults | None = None

    def rows(self, statement: str, parameters: Mapping[str, object] | None = None) -> list[Row]:
        """The rows of a query, as dictionaries, in its order; raises FactsOfAnotherVersion."""

        given = dict(parameters or {})
        if self.remembered is None:
            names, found = self._run(statement, given)
        else:
            names, found = self.remembered.result(
                statement, given, lambda: self._run(statement, given)
            )
        return [dict(zip(names, row, strict=True)) for row in found]

    def _run(self, statement: str, parameters: dict[str, object]) -> Result:
        try:
            found = self.connection.execute(statement, parameters)
        except (duckdb.CatalogException, duckdb.BinderException) as cause:
            # Queries belong to the project: a table or column that the file lacks was added later.
            said = str(cause).splitlines()[0]
            raise FactsOfAnotherVersion(str(self.path), self.periods, said) from cause
        return [column[0] for column in found.description or ()], found.fetchall()

    def require(self, window: Interval) -> tuple[str, ...]:
        """The periods that a window touches; raises NoFactsYet when one was never counted."""
        wanted = []
        period = BillingPeriod.containing(window.started_at)
        while period.started_at < window.ended_at:
            wanted.append(period.name)
            period = period.next()
        for name in wanted:
            if name not in self.periods:
                raise NoFactsYet(str(self.path), self.periods, name)
        return tuple(wanted)

    @property
    def newest(self) -> BillingPeriod:
        return BillingPeriod(self.newest_name or self.periods[-1])


@contextmanager
def open_facts(home: Home, wanted: str = "") -> Iterator[Facts]:
    """The facts of a home; raises NoFactsYet without any, WarehouseLost where rows are missing.

    `wanted` is the requested period, if any.
    """
    noted = switched_periods(home)
    with _opened(home, noted, wanted) as (connection, path, schema):
        found = row_counts(connection, schema)
        for period, counts in found.items():
            if period in noted:
                noted[period].require_counts(path, period, counts)
        if not found or (wanted and wanted not in found):
            raise NoFactsYet(str(path), tuple(found), wanted)
        connection.execute(f"use {schema}")
        yield Facts(connection, path, tuple(found), _newest(found))


def newest_period(home: Home) -> BillingPeriod:
    """The newest period in the warehouse of which any hour was due; raises NoFactsYet."""
    found = periods_in(home)
    if not found:
        raise NoFactsYet(str(home.warehouse_path), (), "")
    return BillingPeriod(_newest(found))


def _newest(found: Mapping[str, Mapping[str, int]]) -> str:
    """The newest period with any due hour, if there is one."""
    due = [period for period, counts in found.items() if counts.get("fct_coverage")]
    return (due or list(found))[-1]


@contextmanager
def _opened(
    home: Home, noted: Mapping[str, SwitchedPeriod], wanted: str
) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path, str]]:
    """The copy, if it has the facts that were last switched in; else the warehouse."""
    copy = newest_version(home)
    connection = _copied(copy, noted) if copy and noted else None
    if copy and connection:
        with connection:
            yield connection, copy, MAIN
        return
    if not home.warehouse_path.is_file():
        raise NoFactsYet(str(home.warehouse_path), (), wanted)
    try:
        connection = connect(home.warehouse_path, read_only=True, outside_sql=True)
    except WarehouseInUse as busy:
        instead = (
            f"ask again; {copy} is not locked, and has what was counted before"
            if copy
            else "run `gpu-ledger publish`: the copy that it makes is never locked, and there is "
            "none yet"
        )
        raise WarehouseInUse(
            home.warehouse_path, busy.waited_seconds, busy.cause, instead
        ) from busy
    with connection:
        yield connection, home.warehouse_path, MARTS


def _copied(path: Path, noted: Mapping[str, SwitchedPeriod]) -> duckdb.DuckDBPyConnection | None:
    """The opened copy, if it has exactly the facts that were switched in."""

    connection = connect(path, read_only=True, outside_sql=True)
    try:
        told = connection.execute("select billing_period, facts_sha256 from about_periods")
        if dict(told.fetchall()) == {name: one.facts_sha256 for name, one in noted.items()}:
            return connection
    except duckdb.CatalogException:
        pass  # an earlier version of the code wrote this copy, and it says nothing of its periods
    connection.close()
    return None
