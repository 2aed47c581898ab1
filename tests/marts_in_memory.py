"""Marts in memory, with the columns and types of their contracts: facts in a few lines of a test.

Put here: creating them; columns without a value are zero, empty or the start of the period.
Not here: expectations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.connection import connect
from warehouse.project import dbt_project_dir, read_yaml
from warehouse.reports.opened_facts import Facts

if TYPE_CHECKING:
    import duckdb

START = datetime(2026, 10, 1, tzinfo=UTC)
_EMPTY: Mapping[str, Any] = {
    "varchar": "",
    "bigint": 0,
    "boolean": False,
    "timestamp with time zone": START,
    "decimal(38,0)": Decimal(0),
}


@cache
def contracts() -> dict[str, dict[str, str]]:
    """The columns of every mart, with their types."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((dbt_project_dir() / "models" / "marts").glob("*.yml")):
        for model in read_yaml(path).get("models", []):
            if "columns" in model:
                found[model["name"]] = {c["name"]: c["data_type"] for c in model["columns"]}
    return found


def facts(
    marts: Mapping[str, Sequence[Mapping[str, Any]]], periods: Sequence[str] = ("2026-10",)
) -> Facts:
    """Open facts with these rows; a column without a contract is refused."""
    connection = connect(":memory:")
    fill(connection, "main", marts, periods)
    return Facts(connection, Path("memory"), tuple(periods))


def fill(
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    marts: Mapping[str, Sequence[Mapping[str, Any]]],
    periods: Sequence[str] = ("2026-10",),
) -> None:
    """Create every mart in a schema, with these rows."""
    known = contracts()
    assert set(marts) <= set(known), set(marts) - set(known)
    for name, columns in known.items():
        spelled = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        connection.execute(f"create table {schema}.{name} ({spelled})")
        for row in marts.get(name, ()):
            assert set(row) <= set(columns), set(row) - set(columns)
            whole = {column: _EMPTY[kind] for column, kind in columns.items()}
            whole |= {"billing_period": periods[-1], **row}
            places = ", ".join("?" * len(whole))
            connection.execute(
                f"insert into {schema}.{name} values ({places})", list(whole.values())
            )
