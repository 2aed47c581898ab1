"""The tables of checks in the warehouse, for readers of the published copy.

Put here: their columns, and replacing one period's rows in one transaction.
Not here: the check as billing takes it, which is a value (`domain.findings.Check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from domain.findings import CheckResult
from warehouse.connection import transaction
from warehouse.raw_schema import describe_table, insert_rows

if TYPE_CHECKING:
    import duckdb

TABLES: Mapping[str, Mapping[str, str]] = {
    "check_results": {
        "billing_period": "VARCHAR",
        "checked_at": "TIMESTAMPTZ",
        "facts_sha256": "VARCHAR",
        "is_billable": "BOOLEAN",
        "finding_count": "BIGINT",
        "blocking_count": "BIGINT",
    },
    "findings": {
        "billing_period": "VARCHAR",
        "code": "VARCHAR",
        "name": "VARCHAR",
        "blocks": "BOOLEAN",
        "remedy": "VARCHAR",
        "cluster_id": "VARCHAR",
        "tenant": "VARCHAR",
        "hour_started_at": "TIMESTAMPTZ",
        "hour_ended_at": "TIMESTAMPTZ",
        "affected_seconds": "BIGINT",
        "affected_nanos": "DECIMAL(38,0)",
        "found_where": "VARCHAR",
        "seen": "VARCHAR",
        "why": "VARCHAR",
        "what_to_do": "VARCHAR",
    },
    "coverage_statuses": {
        "billing_period": "VARCHAR",
        "cluster_id": "VARCHAR",
        "source": "VARCHAR",
        "hour_started_at": "TIMESTAMPTZ",
        "state": "VARCHAR",
        "reason": "VARCHAR",
        "expected_count": "BIGINT",
        "seen_count": "BIGINT",
    },
    "checks": {
        "billing_period": "VARCHAR",
        "name": "VARCHAR",
        "evaluated_row_count": "BIGINT",
        "failed_row_count": "BIGINT",
        "result": "VARCHAR",
        "passed": "BOOLEAN",
    },
}


DESCRIPTIONS: Mapping[str, str] = {
    "check_results": "One row per checked period: whether its facts can be billed.",
    "findings": "One row per finding of a checked period.",
    "coverage_statuses": "One row per cluster, source and hour of a checked period.",
    "checks": "One row per check of a checked period.",
}

COLUMNS: Mapping[str, str] = {
    "billing_period": "The calendar month in UTC, such as 2026-10.",
    "checked_at": "When the period was checked, UTC.",
    "facts_sha256": "Hash of the checked facts; about_periods has that of this file's facts.",
    "is_billable": "Whether no finding and no check blocks a close.",
    "finding_count": "Number of findings.",
    "blocking_count": "Number of findings that block a close.",
    "code": "Code of the finding, such as GAP-002; the documentation has a page for each.",
    "name": "Name of the finding or of the check.",
    "blocks": "Whether the finding blocks a close.",
    "remedy": "Kind of remedy.",
    "cluster_id": "The cluster's ID (UID of its kube-system namespace); '' for all clusters.",
    "tenant": "The tenant (a namespace); '' for all tenants.",
    "hour_started_at": "Start of the hour, or of the first hour of the finding, UTC.",
    "hour_ended_at": "End of the last hour of the finding, UTC, exclusive.",
    "affected_seconds": "Affected device-seconds.",
    "affected_nanos": "Affected cost in 10⁻⁹ currency units.",
    "found_where": "Place of the finding, in words.",
    "seen": "Found values, with both numbers.",
    "why": "Why it matters.",
    "what_to_do": "How to fix it.",
    "source": "`thanos` (the samples) or `kubernetes` (the lifecycle).",
    "state": "Coverage status of the hour.",
    "reason": "Reason of the coverage status.",
    "expected_count": "Expected samples, or seconds of the watch.",
    "seen_count": "Expected samples or seconds with evidence.",
    "evaluated_row_count": "Rows that the check evaluated.",
    "failed_row_count": "Rows that failed it.",
    "result": "Result of a suite as JSON; '' for any other check.",
    "passed": "Whether the check evaluated rows and none failed.",
}


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables where they are missing, each with its descriptions."""
    connection.execute("create schema if not exists quality")
    for table, columns in TABLES.items():
        spelled = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"create table if not exists quality.{table} ({spelled})")
        describe_table(connection, f"quality.{table}", DESCRIPTIONS[table], columns, COLUMNS)


def write_check_result(
    connection: duckdb.DuckDBPyConnection, check_result: CheckResult, checked_at: datetime
) -> None:
    """Replace the earlier check of this period."""
    period = check_result.period.name
    rows = _rows(check_result, checked_at)
    with transaction(connection):
        create_tables(connection)
        for table, columns in TABLES.items():
            connection.execute(f"delete from quality.{table} where billing_period = ?", [period])
            insert_rows(connection, f"quality.{table}", columns, rows[table])


def _rows(check_result: CheckResult, checked_at: datetime) -> dict[str, Iterable[dict[str, Any]]]:
    period = {"billing_period": check_result.period.name}
    return {
        "check_results": [
            {
                **period,
                "checked_at": checked_at,
                "facts_sha256": check_result.facts_sha256,
                "is_billable": check_result.billable,
                "finding_count": len(check_result.findings),
                "blocking_count": len(check_result.blocking),
            }
        ],
        "findings": [
            {**period, **_fields(finding), "remedy": finding.remedy.value}
            for finding in check_result.findings
        ],
        "coverage_statuses": [
            {**period, **_fields(coverage_status), "state": coverage_status.state.value}
            for coverage_status in check_result.coverage_statuses
        ],
        "checks": [
            {**period, **_fields(check), "passed": check.passed} for check in check_result.checks
        ],
    }


def _fields(value: Any) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if "where" in fields:
        fields["found_where"] = fields.pop("where")
    return fields
