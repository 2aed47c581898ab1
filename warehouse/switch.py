"""The switch: a finished build replaces its period in the warehouse, all of it or nothing.

Put here: the one transaction, and creating or widening the warehouse's tables.
Not here: building (`warehouse.build`), or hashing (`warehouse.content_hash`).

`marts.fct_pod_hours` is a view of two tables in the schema `stored`: every distinct combination of
texts with a number, and the other columns of each row with this number. The hours of a pod have the
same texts, and a column of texts takes as long to write as all columns of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from warehouse.connection import transaction, writing
from warehouse.content_hash import columns_of_all
from warehouse.home import Home
from warehouse.switched import SwitchedPeriod, intact_periods, note, note_shape

MARTS = "marts"
STORED = "stored"
STORED_IN_TWO = frozenset({"fct_pod_hours"})
UNFINISHED = "_of_two_versions"  # exists only inside the transaction


def switch_in(
    home: Home,
    build_path: Path,
    period: BillingPeriod,
    switched: SwitchedPeriod | None = None,
    also: Callable[[duckdb.DuckDBPyConnection], None] | None = None,
) -> None:
    """Delete the period from every mart and insert the build's, in one transaction.

    In the same transaction `also` writes tables that belong to these facts. The switched facts are
    noted before another process may write.
    """
    with writing(home) as connection:
        connection.execute(f"attach '{_quoted(build_path)}' as build (read_only)")
        with transaction(connection):
            connection.execute(f"create schema if not exists {MARTS}")
            built = columns_of_all(connection, MARTS, database="build")
            kept = columns_of_all(connection, MARTS)
            # The order of columns counts too: rows are inserted by position.
            whole_tables = STORED_IN_TWO & _marts_of_type(connection, "BASE TABLE")
            others = [
                mart
                for mart in built
                if mart in whole_tables
                or list(built[mart].items()) != list(kept.get(mart, {}).items())
            ]
            whole = intact_periods(connection, home, but=period.name) if others else {}
            for mart in others:
                _reshape(connection, mart, built[mart], kept.get(mart, {}))
            for mart in built:
                _replace(connection, mart, built[mart], period)
            note_shape(connection, home, whole)
            if also is not None:
                also(connection)
        connection.execute("detach build")
        if switched is not None:
            note(home, period.name, switched)


def _replace(
    connection: duckdb.DuckDBPyConnection,
    mart: str,
    built: Mapping[str, str],
    period: BillingPeriod,
) -> None:
    own, source = "where billing_period = $period", f"build.{MARTS}.{mart}"
    parameters = {"period": period.name}
    if mart in STORED_IN_TWO:
        texts, rest = f"{STORED}.{mart}_texts", f"{STORED}.{mart}_rest"
        connection.execute(f"delete from {texts} {own}", parameters)
        # Also rows whose texts are lost: their numbers may be given again.
        known = f"select text_number from {texts}"
        connection.execute(f"delete from {rest} where text_number not in ({known})")
        _insert_in_two(connection, mart, built, source)
    else:
        connection.execute(f"delete from {MARTS}.{mart} {own}", parameters)
        connection.execute(f"insert into {MARTS}.{mart} select * from {source}")


def _insert_in_two(
    connection: duckdb.DuckDBPyConnection, mart: str, columns: Mapping[str, str], source: str
) -> None:
    texts = [name for name, kind in columns.items() if kind == "VARCHAR"]
    rest = [f"facts.{name}" for name in columns if name not in texts]
    same = " and ".join(f"facts.{name} is not distinct from texts.{name}" for name in texts)
    listed = ", ".join(texts)
    connection.execute(
        f"insert into {STORED}.{mart}_texts select row_number() over (order by {listed})"
        f" + (select coalesce(max(text_number), 0) from {STORED}.{mart}_texts), {listed}"
        f" from (select distinct {listed} from {source})"
    )
    connection.execute(
        f"insert into {STORED}.{mart}_rest select {', '.join(['text_number', *rest])}"
        f" from {source} as facts inner join {STORED}.{mart}_texts as texts on {same}"
    )


def _create_in_two(
    connection: duckdb.DuckDBPyConnection, mart: str, columns: Mapping[str, str]
) -> None:
    """Create both tables, without rows, and the view of them."""
    connection.execute(f"create schema if not exists {STORED}")
    texts = {name: kind for name, kind in columns.items() if kind == "VARCHAR"}
    rest = {name: kind for name, kind in columns.items() if name not in texts}
    for table, named in (("texts", texts), ("rest", rest)):
        spelled = ", ".join(f"{name} {kind}" for name, kind in named.items())
        connection.execute(f"create table {STORED}.{mart}_{table} (text_number bigint, {spelled})")
    connection.execute(
        f"create view {MARTS}.{mart} as select {', '.join(columns)} from {STORED}.{mart}_rest"
        f" inner join {STORED}.{mart}_texts using (text_number)"
    )


def _reshape(
    connection: duckdb.DuckDBPyConnection,
    mart: str,
    built: Mapping[str, str],
    kept: Mapping[str, str],
) -> None:
    """Give a mart the columns of the build, and keep every row of every period.

    Another version of the code counted them, and a closed period is never counted again: new
    columns are NULL, and a value that does not fit its new type stops the switch.
    """
    spelled = ", ".join(
        f"cast({name if name in kept else 'null'} as {kind}) as {name}"
        for name, kind in built.items()
    )
    rows = (
        f"select {spelled} from {MARTS}.{mart}" if kept else f"select * from build.{MARTS}.{mart}"
    )
    connection.execute(
        f"create table {MARTS}.{mart}{UNFINISHED} as {rows}{'' if kept else ' where false'}"
    )
    is_view = mart in _marts_of_type(connection, "VIEW")
    connection.execute(f"drop {'view' if is_view else 'table'} if exists {MARTS}.{mart}")
    if mart in STORED_IN_TWO:
        for table in ("texts", "rest"):
            connection.execute(f"drop table if exists {STORED}.{mart}_{table}")
        _create_in_two(connection, mart, built)
        _insert_in_two(connection, mart, built, f"{MARTS}.{mart}{UNFINISHED}")
        connection.execute(f"drop table {MARTS}.{mart}{UNFINISHED}")
    else:
        connection.execute(f"alter table {MARTS}.{mart}{UNFINISHED} rename to {mart}")


def _marts_of_type(connection: duckdb.DuckDBPyConnection, kind: str) -> set[str]:
    rows = connection.execute(
        "select table_name from information_schema.tables where table_type = $kind "
        "and table_catalog = current_database() and table_schema = $schema",
        {"kind": kind, "schema": MARTS},
    ).fetchall()
    return {row[0] for row in rows}


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
