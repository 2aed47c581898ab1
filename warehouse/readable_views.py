"""Views of the published copy in hours and currency units, with the names of clusters.

Put here: how a column of a table becomes one of its view.
Not here: the tables (`dbt/`, `billing.record_tables`, `quality.check_tables`), or writing the copy
(`publish`).

A view has the name and the rows of its table. `_seconds` become `_hours`, rounded to 10⁻⁶;
unit-seconds of shares become `_card_hours`; `_nanos` become exact amounts of the currency; a
cluster's ID is preceded by its name. Exact sums of hours are made of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

SCHEMA = "readable"
_HOURS = "cast({of} / 3600 as decimal(20, 6))"
_CARD_HOURS = "cast({of} / share_denominator / 3600 as decimal(20, 6))"
_UNITS = "cast({of} as decimal(28, 0)) * cast(0.000000001 as decimal(10, 9))"


def create_views(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[tuple[str, str], Mapping[str, str]]
) -> None:
    """Create a view of each table in the current database.

    `tables` has the columns of each schema and table, with their descriptions.
    """
    connection.execute(f"create schema {SCHEMA}")
    names = "select cluster_id, max(cluster_name) as cluster_name from main.dim_clusters"
    if ("main", "dim_clusters") not in tables:  # a warehouse of some tables only
        names = "select '' as cluster_id, '' as cluster_name where false"
    for (schema, table), described in tables.items():
        columns = _columns(described)
        selected = ", ".join(f"{value} as {name}" for name, value, _ in columns)
        joined = "left join names using (cluster_id)" if "cluster_id" in described else ""
        connection.execute(
            f"create view {SCHEMA}.{table} as with names as ({names} group by cluster_id)"
            f" select {selected} from {schema}.{table} as facts {joined}"
        )
        connection.execute(
            f"comment on view {SCHEMA}.{table} is "
            f"'{schema}.{table} in hours and currency units, with the names of clusters.'"
        )
        for name, _, description in columns:
            text = description.replace("'", "''")
            connection.execute(f"comment on column {SCHEMA}.{table}.{name} is '{text}'")


def _columns(described: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, value and description of each column of the view."""
    columns: list[tuple[str, str, str]] = []
    for name, description in described.items():
        of = f"facts.{name}"
        if name == "cluster_id" and "cluster_name" not in described:
            columns.append(("cluster_name", "names.cluster_name", "Name of the cluster."))
        if name.endswith("_share_seconds"):
            name = f"{name.removesuffix('_share_seconds')}_card_hours"
            of, description = _CARD_HOURS.format(of=of), f"{description} In hours of whole cards."
        elif name.endswith("_seconds"):
            name = f"{name.removesuffix('_seconds')}_hours"
            of, description = _HOURS.format(of=of), f"{description} In hours."
        elif "_nanos" in name:
            name = name.replace("_nanos", "")
            of, description = _UNITS.format(of=of), f"{description} In currency units."
        columns.append((name, of, description))
    return columns
