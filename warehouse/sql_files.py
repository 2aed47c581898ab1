"""The SQL statements that Python runs, read from the files beside the module that runs them.

Put here: finding a statement by its name, and its rows.
Not here: the statements (`sql/*.sql` in `warehouse/reports`, `quality` and `billing`), the named
questions (`warehouse.reports.named_queries`), or the models (`dbt/`).

A statement over the marts is a file, so that it is linted and read like the models: sqlfluff takes
its parameters (`$period`) as placeholders. It is no dbt model when it depends on an argument, or
when its result is a value of the code and not a table for analysts.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb


@cache
def statement(module: str, name: str) -> str:
    """The text of `sql/NAME.sql` in the folder of a module, which passes its `__file__`."""
    return (Path(module).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def fetch_rows(
    module: str, connection: duckdb.DuckDBPyConnection, name: str, **parameters: object
) -> list[tuple[Any, ...]]:
    """The rows of a statement of a module."""
    return connection.execute(statement(module, name), parameters).fetchall()
