"""The switch: a finished build replaces its period in the warehouse, all of it or nothing.

Put here: the one transaction, and creating or widening the warehouse's tables.
Not here: building (`warehouse.build`), or hashing (`warehouse.content_hash`).
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
            others = [m for m in built if list(built[m].items()) != list(kept.get(m, {}).items())]
            whole = intact_periods(connection, home, but=period.name) if others else {}
            for mart in others:
                _reshape(connection, mart, built[mart], kept.get(mart, {}))
            for mart in built:
                _replace(connection, mart, period)
            note_shape(connection, home, whole)
            if also is not None:
                also(connection)
        connection.execute("detach build")
        if switched is not None:
            note(home, period.name, switched)


def _replace(connection: duckdb.DuckDBPyConnection, mart: str, period: BillingPeriod) -> None:
    connection.execute(
        f"delete from {MARTS}.{mart} where billing_period = $period", {"period": period.name}
    )
    connection.execute(f"insert into {MARTS}.{mart} select * from build.{MARTS}.{mart}")


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
    connection.execute(f"drop table if exists {MARTS}.{mart}")
    connection.execute(f"alter table {MARTS}.{mart}{UNFINISHED} rename to {mart}")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
