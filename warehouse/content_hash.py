"""The content of a table as one hash: independent of row order, files and machines.

Put here: the canonical text of rows, and hashes of tables and of a period's facts.
Not here: hashes of evidence (`domain.identity`), or who compares them (`quality`, `billing`).

A row is its values as text between commas; commas and backslashes inside a value are escaped, so
that no two rows share their text. A table is the hash of its sorted rows. DuckDB writes rows in any
order and its files differ from version to version: only this is compared.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from domain.identity import sha256

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 100_000
"""Rows that are held in memory at a time; a row of the widest table has about 500 bytes."""


PROVENANCE = frozenset({"attempt_id", "attempt_count"})
"""Columns that name the attempt of a fact, or count its attempts. The same evidence, pulled in
other windows or twice, is the same fact and has the same hash."""


def columns_of(
    connection: duckdb.DuckDBPyConnection, schema: str, table: str, database: str = ""
) -> dict[str, str]:
    """Column names and types, in the table's order; of an attached database when one is named."""
    return columns_of_all(connection, schema, database).get(table, {})


def columns_of_all(
    connection: duckdb.DuckDBPyConnection, schema: str, database: str = ""
) -> dict[str, dict[str, str]]:
    """The columns of all tables and views of a schema; one query for all is as fast as for one."""
    rows = connection.execute(
        "select table_name, column_name, data_type from duckdb_columns() "
        "where database_name = coalesce(nullif($database, ''), current_database()) "
        "and schema_name = $schema order by table_name, column_index",
        {"database": database, "schema": schema},
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        found.setdefault(table, {})[column] = kind
    return found


def table_sha256(
    connection: duckdb.DuckDBPyConnection, schema: str, table: str, where: str = "true"
) -> str:
    """The hash of a table's sorted canonical rows, together with its columns and their types.

    Columns about attempts are left out.
    """
    return _sha256(connection, schema, table, columns_of(connection, schema, table), where)


def _sha256(
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    table: str,
    every: Mapping[str, str],
    where: str,
) -> str:
    columns = {name: kind for name, kind in every.items() if name not in PROVENANCE}
    row = f"concat_ws(',', {', '.join(_canonical(*column) for column in columns.items())})"
    # Hashing each row first keeps the sorted data small, however wide the table is.
    query = f"select sha256({row}) as row_sha256 from {schema}.{table} where {where} order by 1"
    digest = hashlib.sha256(sha256(columns).encode())
    for batch in connection.execute(query).to_arrow_reader(BATCH_ROWS):
        digest.update(_texts(batch.column(0)))
    return digest.hexdigest()


def _texts(column: pa.Array) -> memoryview:
    """The texts of a column one after another, without a Python object for each."""
    _, offsets, texts = column.cast("large_string").buffers()
    first, last = (
        int.from_bytes(offsets[8 * place : 8 * place + 8], sys.byteorder)
        for place in (column.offset, column.offset + len(column))
    )
    return memoryview(texts)[first:last]


def mart_names(connection: duckdb.DuckDBPyConnection, schema: str = "marts") -> list[str]:
    """The tables of a schema; in `marts` a view is a mart, too."""
    rows = connection.execute(
        "select table_name from information_schema.tables "
        "where table_catalog = current_database() and table_schema = $schema "
        "and (table_type = 'BASE TABLE' or table_schema = 'marts') order by table_name",
        {"schema": schema},
    ).fetchall()
    return [row[0] for row in rows]


def row_counts(
    connection: duckdb.DuckDBPyConnection, schema: str = "marts"
) -> dict[str, dict[str, int]]:
    """Billing period → mart → number of rows, for all periods with rows, by one query."""
    counted = " union all ".join(
        f"select billing_period, '{mart}', count(*) from {schema}.{mart} group by billing_period"
        for mart in mart_names(connection, schema)
    )
    found: dict[str, dict[str, int]] = {}
    for period, mart, count in connection.execute(counted).fetchall() if counted else ():
        found.setdefault(period, {})[mart] = int(count)
    return dict(sorted(found.items()))


def period_sha256(
    connection: duckdb.DuckDBPyConnection,
    period: str,
    schema: str = "marts",
    marts: Iterable[str] | None = None,
) -> str:
    """One hash for all facts of a billing period; or for its facts in some of the marts."""
    where = f"billing_period = '{period}'"
    columns = columns_of_all(connection, schema)
    names = mart_names(connection, schema) if marts is None else marts
    return sha256(
        {
            name: _sha256(connection, schema, name, columns[name], where)
            for name in names
            if name in columns
        }
    )


_NEVER_ESCAPED = ("BIGINT", "BOOLEAN", "DATE", "DECIMAL", "HUGEINT", "INTEGER")


def _canonical(name: str, kind: str) -> str:
    r"""A value as text that no other value of its type has; `\n` is NULL."""
    text = f"epoch_us({name})::varchar" if kind.startswith("TIMESTAMP") else f"{name}::varchar"
    if not kind.startswith(("TIMESTAMP", *_NEVER_ESCAPED)) or kind.endswith("]"):
        text = rf"replace(replace({text}, '\', '\\'), ',', '\,')"
    return rf"coalesce({text}, '\n')"
