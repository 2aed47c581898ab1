"""The plugin by which dbt-duckdb gives the models the functions that are written in Python.

Put here: the hook that dbt calls when it opens a database.
Not here: the functions (`warehouse.placement`), or the profile that names this module
(`warehouse.dbt_run`).
"""

from __future__ import annotations

import duckdb
from dbt.adapters.duckdb.plugins import BasePlugin

from warehouse.placement import register


class Plugin(BasePlugin):
    """The name by which dbt-duckdb looks for it."""

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        register(conn)
