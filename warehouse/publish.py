"""The published copy: a file of marts that any process may read while the pipeline writes.

Put here: writing it aside, naming it, its comments, its views, and Parquet beside it.
Not here: the content of the marts (`dbt/`), the description in the file (`warehouse.about`), or
access to tenants (the portal).

    published/gpu-ledger-000007.duckdb     one version; open it as long as you like
    published/gpu-ledger.duckdb            the newest version, under a name that stays
    published/parquet/<mart>/<period>.parquet

A reader of DuckDB keeps seeing the file that it opened, and a process that opens the same path
twice sees the old one twice: hence a name per version, and an atomic rename for the other.

The facts are hashed in the copy itself, and compared with the hash under which they were switched
in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from warehouse.about import About
from warehouse.connection import connected, lock_warehouse, transaction
from warehouse.content_hash import columns_of, mart_names
from warehouse.home import Home
from warehouse.project import mart_descriptions
from warehouse.readable_views import create_views
from warehouse.switched import SwitchedPeriod, WarehouseLost, switched_periods

STORAGE_VERSION = "v1.0.0"
"""Readable by every DuckDB since 1.0; analysts' tools are years behind the pipeline."""

VERSIONS_KEPT = 3
"""A reader that opened the version before the last one still finds it under its name."""

NAME = "gpu-ledger"
MAIN = "main"  # the schema of the marts in the copy
BESIDE_THE_MARTS = ("record", "quality")
"""Schemas of issued documents and of findings, which are copied as they are."""
_VERSION = re.compile(rf"{NAME}-(\d{{6}})\.duckdb", re.ASCII)


@dataclass(frozen=True, slots=True)
class PublishedCopy:
    """Where the copy is."""

    path: Path
    latest_path: Path
    parquet_folder: Path
    table_count: int


def publish(home: Home, about: About, periods: Iterable[str] | None = None) -> PublishedCopy:
    """Write the next version of the copy; Parquet of `periods`, or of all that there are.

    Raises WarehouseLost if the copied facts are not the counted ones; then nothing is published.
    """
    home.published.mkdir(parents=True, exist_ok=True)
    with lock_warehouse(home):
        path = home.published / f"{NAME}-{_next_version(home.published):06}.duckdb"
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        with connected(":memory:") as connection:
            attached = _quoted(home.warehouse_path)
            connection.execute(f"attach '{attached}' as warehouse (read_only)")
            connection.execute("use warehouse")
            marts = mart_names(connection)
            _copy(connection, unfinished, marts, about)
            _require_as_counted(unfinished, home, about)
            _write_parquet(connection, home.published / "parquet", marts, periods)
        unfinished.replace(path)
        latest = home.published / f"{NAME}.duckdb"
        _point(latest, path)
        _forget_old(home.published)
    return PublishedCopy(path, latest, home.published / "parquet", len(marts))


def _require_as_counted(copy: Path, home: Home, about: About) -> None:
    """Require that the hash of each period in the copy is the hash of its rows."""
    noted = switched_periods(home)
    with connected(copy, read_only=True) as connection:
        for told in about.periods:
            counted = noted.get(told.billing_period, SwitchedPeriod(told.facts_sha256, {}))
            if counted.facts_sha256 != told.facts_sha256:
                seen = "it was counted again while it was copied"
                raise WarehouseLost(home.warehouse_path, told.billing_period, seen)
            counted.require_content(connection, home.warehouse_path, told.billing_period, MAIN)


def _copy(
    connection: duckdb.DuckDBPyConnection, path: Path, marts: Iterable[str], about: About
) -> None:
    connection.execute(
        f"attach '{_quoted(path)}' as published (storage_version '{STORAGE_VERSION}')"
    )
    descriptions = mart_descriptions()
    with transaction(connection):  # else each of hundreds of comments is written out by itself
        for mart in marts:
            connection.execute(f"create table published.{mart} as select * from marts.{mart}")
            _comment(connection, mart, descriptions.get(mart, ("", {})))
        _about(connection, about)
        for schema in BESIDE_THE_MARTS:
            _copy_schema(connection, schema)
    connection.execute("use published")
    with transaction(connection):
        create_views(connection, _described_tables(connection))
    connection.execute("use warehouse")
    connection.execute("detach published")


def _copy_schema(connection: duckdb.DuckDBPyConnection, schema: str) -> None:
    """Copy the described tables of a schema, with their comments, under the same names."""
    connection.execute(f"create schema published.{schema}")
    tables = connection.execute(
        "select table_name, comment from duckdb_tables() where comment is not null"
        " and database_name = current_database() and schema_name = $schema order by table_name",
        {"schema": schema},
    ).fetchall()
    for table, comment in tables:
        name = f"published.{schema}.{table}"
        connection.execute(f"create table {name} as select * from {schema}.{table}")
        connection.execute(f"comment on table {name} is '{_text(comment)}'")
        for column, text in _comments(connection, "warehouse", schema)[table].items():
            connection.execute(f"comment on column {name}.{column} is '{_text(text)}'")


def _described_tables(
    connection: duckdb.DuckDBPyConnection,
) -> dict[tuple[str, str], dict[str, str]]:
    """Schema and table → column → description, of every table in the copy."""
    return {
        (schema, table): columns
        for schema in (MAIN, *BESIDE_THE_MARTS)
        for table, columns in _comments(connection, "published", schema).items()
    }


def _comments(
    connection: duckdb.DuckDBPyConnection, database: str, schema: str
) -> dict[str, dict[str, str]]:
    """Table → column → comment, of a schema's tables."""
    rows = connection.execute(
        "select columns.table_name, column_name, coalesce(columns.comment, '')"
        " from duckdb_columns() as columns inner join duckdb_tables() as tables"
        " using (database_name, schema_name, table_name)"
        " where database_name = $database and schema_name = $schema"
        " order by columns.table_name, column_index",
        {"database": database, "schema": schema},
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, comment in rows:
        found.setdefault(table, {})[column] = comment
    return found


def _comment(
    connection: duckdb.DuckDBPyConnection, mart: str, described: tuple[str, Mapping[str, str]]
) -> None:
    description, columns = described
    connection.execute(f"comment on table published.{mart} is '{_text(description)}'")
    for column in columns_of(connection, "marts", mart):
        text = _text(columns.get(column, ""))
        connection.execute(f"comment on column published.{mart}.{column} is '{text}'")


_ABOUT = {
    "published_at": "When this file was written, UTC.",
    "data_complete_to": "Until when every expected hour is complete or waived, UTC.",
    "code_version": "Version of the ledger that published it.",
    "rates_version": "Changes with every price that these facts were counted with.",
    "decisions_sha256": "Hash of all decisions of the home when this file was written.",
    "open_finding_count": "Findings of periods that are not closed; `gpu-ledger check` names them.",
}
_ABOUT_PERIODS = {
    "billing_period": "The calendar month in UTC, such as 2026-10.",
    "amounts": "`final` when the period is closed, else `estimated`.",
    "data_complete_to": "Until when every expected hour is complete or waived, UTC.",
    "counted_until": "Until when the period was counted, UTC.",
    "facts_sha256": "Hash of the period's facts, as printed on invoices.",
    "finding_count": "Number of findings; empty when the facts were not checked.",
    "blocking_count": "Number of blocking findings; empty when the facts were not checked.",
}


def _about(connection: duckdb.DuckDBPyConnection, about: About) -> None:
    """Two views, so that a table in this file is always a mart."""
    _view(
        connection,
        "about",
        "The content of this file, and the time until which it is complete.",
        _ABOUT,
        [about],
    )
    comment = "The state of each period in this file."
    _view(connection, "about_periods", comment, _ABOUT_PERIODS, about.periods)


def _view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    comment: str,
    columns: Mapping[str, str],
    rows: Sequence[object],
) -> None:
    selects = [
        ", ".join(f"{_literal(getattr(row, column))} as {column}" for column in columns)
        for row in rows
    ] or [", ".join(f"null as {column}" for column in columns) + " where false"]
    selected = " union all ".join(f"select {one}" for one in selects)
    connection.execute(f"create view published.{name} as {selected}")
    connection.execute(f"comment on view published.{name} is '{_text(comment)}'")
    for column, text in columns.items():
        connection.execute(f"comment on column published.{name}.{column} is '{_text(text)}'")


def _literal(value: object) -> str:
    match value:
        case None:
            return "null::bigint"
        case datetime():
            return f"timestamptz '{value.isoformat()}'"
        case int():
            return f"{value}::bigint"
        case _:
            return f"'{_text(str(value))}'"


def _write_parquet(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    marts: Iterable[str],
    periods: Iterable[str] | None,
) -> None:
    wanted = sorted(_periods(connection) if periods is None else set(periods))
    for mart in marts:
        (folder / mart).mkdir(parents=True, exist_ok=True)
        for period in wanted:
            path = folder / mart / f"{period}.parquet"
            unfinished = path.with_name(f".{path.name}.unfinished")
            connection.execute(
                f"copy (select * from marts.{mart} where billing_period = '{_text(period)}') "
                f"to '{_quoted(unfinished)}' (format parquet, compression zstd)"
            )
            unfinished.replace(path)


def _periods(connection: duckdb.DuckDBPyConnection) -> set[str]:
    if "dim_hours" not in mart_names(connection):
        return set()
    rows = connection.execute("select distinct billing_period from marts.dim_hours").fetchall()
    return {row[0] for row in rows}


def _point(latest: Path, path: Path) -> None:
    """Give the newest version its second name, in one step."""
    unfinished = latest.with_name(f".{latest.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    os.link(path, unfinished)
    unfinished.replace(latest)


def newest_version(home: Home) -> Path | None:
    """The newest copy under its own name, which stays the same file for its readers."""
    versions = _versions(home.published) if home.published.is_dir() else {}
    return versions[max(versions)] if versions else None


def _versions(folder: Path) -> dict[int, Path]:
    found = ((_VERSION.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match}


def _next_version(folder: Path) -> int:
    return max(_versions(folder), default=0) + 1


def _forget_old(folder: Path) -> None:
    versions = _versions(folder)
    for version in sorted(versions)[:-VERSIONS_KEPT]:
        versions[version].unlink(missing_ok=True)


def _text(text: str) -> str:
    return text.replace("'", "''")


def _quoted(path: Path) -> str:
    return _text(str(path))
