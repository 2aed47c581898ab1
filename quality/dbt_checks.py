"""dbt's data tests as named checks: kept beside the facts that they were run on.

Put here: writing the results of a build, and reading them back for the very facts they belong to.
Not here: running dbt (`warehouse.dbt_run`), or which tests are required (`required`).

Results carry the hash of the facts. After any other build they count for nothing, so a test that
was run on other facts, or not at all, is a missing check and never an old green one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from domain.findings import Check
from warehouse.dbt_run import DbtTest
from warehouse.raw_schema import insert_rows

if TYPE_CHECKING:
    import duckdb

    from warehouse.build import BuildResult

COLUMNS = {
    "billing_period": "VARCHAR",
    "facts_sha256": "VARCHAR",
    "name": "VARCHAR",
    "model": "VARCHAR",
    "status": "VARCHAR",
    "evaluated_row_count": "BIGINT",
    "failed_row_count": "BIGINT",
}


def record_dbt_tests(connection: duckdb.DuckDBPyConnection, build: BuildResult) -> None:
    """Keep what dbt found out about the facts of a build, inside the transaction that has them."""
    write_dbt_tests(connection, build.period.name, build.facts_sha256, build.dbt_results.values())


def write_dbt_tests(
    connection: duckdb.DuckDBPyConnection,
    period: str,
    facts_sha256: str,
    tests: Iterable[DbtTest],
) -> None:
    """Replace the period's results; whoever calls decides what else is one transaction with it."""
    rows = [
        {
            "billing_period": period,
            "facts_sha256": facts_sha256,
            "name": test.name,
            "model": test.model,
            "status": test.status,
            "evaluated_row_count": test.evaluated_row_count,
            "failed_row_count": test.failed_row_count,
        }
        for test in sorted(tests, key=lambda test: test.name)
    ]
    spelled = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    connection.execute("create schema if not exists quality")
    connection.execute(f"create table if not exists quality.dbt_tests ({spelled})")
    connection.execute("delete from quality.dbt_tests where billing_period = ?", [period])
    insert_rows(connection, "quality.dbt_tests", COLUMNS, rows)


def read_dbt_checks(
    connection: duckdb.DuckDBPyConnection, period: str, facts_sha256: str
) -> list[Check]:
    """The tests that ran on exactly these facts; a test that did not pass has a failed row."""
    exists = connection.execute(
        "select count(*) from information_schema.tables "
        "where table_schema = 'quality' and table_name = 'dbt_tests'"
    ).fetchall()[0][0]
    if not exists:
        return []
    rows = connection.execute(
        "select name, status, evaluated_row_count, failed_row_count from quality.dbt_tests "
        "where billing_period = ? and facts_sha256 = ? order by name",
        [period, facts_sha256],
    ).fetchall()
    return [
        Check(f"dbt_{name}", evaluated, failed if status == "pass" else max(failed, 1))
        for name, status, evaluated, failed in rows
        if status != "skipped"
    ]
