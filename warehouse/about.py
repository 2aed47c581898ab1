"""The description that a published copy contains: its periods, their completeness, their
findings.

Put here: its two small tables, read from the warehouse and from the notes of the last switch.
Not here: writing the copy (`warehouse.publish`), or checking (`quality`).

An hour is complete when its coverage status is complete, waived or not expected; before a check,
when its last attempt was ok. A closed period is complete as it was sealed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import duckdb

from warehouse.connection import connected
from warehouse.content_hash import period_sha256, row_counts, table_sha256
from warehouse.home import Home
from warehouse.switched import switched_periods

ESTIMATED, FINAL = "estimated", "final"


@dataclass(frozen=True, slots=True)
class AboutPeriod:
    """One period in the file: its completeness, amounts and findings."""

    billing_period: str
    amounts: str  # estimated or final
    data_complete_to: datetime
    counted_until: datetime
    facts_sha256: str
    finding_count: int | None  # None: these facts were not checked
    blocking_count: int | None


@dataclass(frozen=True, slots=True)
class About:
    """The description of a published file."""

    published_at: datetime
    data_complete_to: datetime
    code_version: str
    rates_version: str
    decisions_sha256: str
    open_finding_count: int
    periods: tuple[AboutPeriod, ...] = ()


def read_about(
    home: Home,
    closed_periods: Collection[str],
    published_at: datetime,
    code_version: str,
    decisions_sha256: str,
) -> About | None:
    """The description of the present warehouse; None for an empty one."""
    if not home.warehouse_path.is_file():
        return None
    noted = switched_periods(home)
    with connected(home.warehouse_path, read_only=True) as connection:
        counts = row_counts(connection)
        for name in noted.keys() & counts.keys():
            noted[name].require_counts(home.warehouse_path, name, counts[name])
        periods = tuple(
            _period(
                connection,
                name,
                noted[name].facts_sha256 if name in noted else period_sha256(connection, name),
                name in closed_periods,
            )
            for name in counts
        )
        rates = table_sha256(connection, "marts", "dim_rates") if periods else ""
    if not periods:
        return None
    incomplete = [one for one in periods if one.data_complete_to < one.counted_until]
    reaches = incomplete[0] if incomplete else periods[-1]
    return About(
        published_at=published_at,
        data_complete_to=reaches.data_complete_to,
        code_version=code_version,
        rates_version=f"rates-{rates[:16]}",
        decisions_sha256=decisions_sha256,
        open_finding_count=sum(
            one.finding_count or 0 for one in periods if one.amounts == ESTIMATED
        ),
        periods=periods,
    )


_REACH = """
    select coalesce(max(hour_started_at) + interval 1 hour, min_start)
    from (select min(hour_started_at) as min_start from marts.dim_hours where billing_period = $p)
    left join marts.fct_coverage
        on fct_coverage.billing_period = $p and fct_coverage.outcome <> 'not_asked'
    group by min_start
"""
_FIRST_INCOMPLETE = "select min(hour_started_at) from marts.fct_coverage where {where}"
_UNCHECKED = "billing_period = $p and outcome <> 'ok'"
_CHECKED = """
    billing_period = $p and (cluster_id, source, hour_started_at) in (
        select (cluster_id, source, hour_started_at) from quality.coverage_statuses
        where billing_period = $p and state in ('missing', 'degraded')
    )
"""


def _period(
    connection: duckdb.DuckDBPyConnection, name: str, facts_sha256: str, closed: bool
) -> AboutPeriod:
    checked = _check(connection, name, facts_sha256)
    [(reach,)] = connection.execute(_REACH, {"p": name}).fetchall()
    where = _CHECKED if checked else _UNCHECKED
    [(gap,)] = connection.execute(_FIRST_INCOMPLETE.format(where=where), {"p": name}).fetchall()
    return AboutPeriod(
        billing_period=name,
        amounts=FINAL if closed else ESTIMATED,
        data_complete_to=reach if closed or gap is None else gap,
        counted_until=reach,
        facts_sha256=facts_sha256,
        finding_count=checked[0] if checked else None,
        blocking_count=checked[1] if checked else None,
    )


def _check(
    connection: duckdb.DuckDBPyConnection, name: str, facts_sha256: str
) -> tuple[int, int] | None:
    """Counts of findings, if these facts were checked."""
    [(exists,)] = connection.execute(
        "select count(*) from duckdb_tables() where schema_name = 'quality' "
        "and table_name = 'check_results'"
    ).fetchall()
    if not exists:
        return None
    rows = connection.execute(
        "select finding_count, blocking_count from quality.check_results "
        "where billing_period = $p and facts_sha256 = $facts",
        {"p": name, "facts": facts_sha256},
    ).fetchall()
    return (int(rows[0][0]), int(rows[0][1])) if rows else None
