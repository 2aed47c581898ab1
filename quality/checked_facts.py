"""The facts that a check reads from the marts, as values.

Put here: functions that return the rows of `sql/*.sql` as values.
Not here: the statements (`sql`), findings from the values, or writing results (`run`).

Every statement aggregates inside DuckDB: the number of its rows depends on tenants and hours, not
on pod-hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from domain.decisions.rows import PolicyName
from domain.interval import HOUR, Interval
from domain.money import Money
from quality.causes import DeviceUse, DuplicateReading, MetricHour, RefusedSamples
from quality.checks import IDENTITIES, IDENTITIES_OF, Comparison, PricedCharge
from quality.coverage import HourCoverage, HourUse
from quality.reconciliation import ReconciledSegment, TenantUse
from quality.unknowns import BudgetNotCounted, Contradictions, NamespaceSeen, UnknownUse
from warehouse.reconciliation_rules import ReconciliationRule, reconciliation_rules
from warehouse.sql_files import fetch_rows

if TYPE_CHECKING:
    import duckdb

_rows = partial(fetch_rows, __file__)


def read_coverage(connection: duckdb.DuckDBPyConnection, period: str) -> list[HourCoverage]:
    return [
        HourCoverage(cluster, source, _utc(hour), *counts_and_words)
        for cluster, source, hour, *counts_and_words in _rows(connection, "coverage", period=period)
    ]


def read_hour_use(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, datetime], HourUse]:
    return {
        (cluster, _utc(hour)): HourUse(int(nanos), seconds, tuple(tenants))
        for cluster, hour, nanos, seconds, tenants in _rows(connection, "hour_use", period=period)
    }


def read_tenant_use(
    connection: duckdb.DuckDBPyConnection, period: str, with_both_sources: frozenset[str]
) -> list[TenantUse]:
    """Weighted seconds per tenant; limits apply only to clusters in `with_both_sources`."""
    sums: dict[str, list[Fraction]] = {}
    for tenant, cluster, numerator, denominator, *seconds in _rows(
        connection,
        "tenant_use",
        period=period,
        one_source_reasons=_reasons(lambda rule: rule.limit_name == PolicyName.ONE_SOURCE_LIMIT),
    ):
        weighted = [Fraction(numerator, denominator) * part for part in seconds]
        if cluster not in with_both_sources:
            weighted[1:] = [Fraction(0), Fraction(0)]
        before = sums.get(tenant, [Fraction(0)] * 3)
        sums[tenant] = [a + b for a, b in zip(before, weighted, strict=True)]
    return [TenantUse(tenant, *parts) for tenant, parts in sorted(sums.items())]


def read_segments(connection: duckdb.DuckDBPyConnection, period: str) -> list[ReconciledSegment]:
    """The segments whose rule has a finding."""
    return [
        _segment(row)
        for row in _rows(
            connection,
            "contested",
            period=period,
            finding_reasons=_reasons(lambda rule: bool(rule.finding)),
            contradictory_reasons=_reasons(lambda rule: rule.samples == "contradictory"),
        )
    ]


def read_unpriced_use(connection: duckdb.DuckDBPyConnection, period: str) -> list[UnknownUse]:
    return _uses(connection, "unpriced_use", period)


def read_unknown_devices(connection: duckdb.DuckDBPyConnection, period: str) -> list[UnknownUse]:
    return _uses(connection, "unknown_devices", period)


def read_charges(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[str, list[PricedCharge]]:
    """The charges of every cluster of the calendar; a cluster without any has an empty list."""
    charges: dict[str, list[PricedCharge]] = {}
    for cluster, rate_id, seconds, numerator, denominator, rate, cost in _rows(
        connection, "charges", period=period
    ):
        found = charges.setdefault(cluster, [])
        if rate_id is not None:
            weight = Fraction(numerator, denominator)
            found.append(PricedCharge(cluster, rate_id, seconds, weight, int(rate), int(cost)))
    return charges


def has_period(connection: duckdb.DuckDBPyConnection, period: str) -> bool:
    """Whether the period has been built, that is, its calendar has rows."""
    if not _rows(connection, "has_marts")[0][0]:
        return False
    return bool(_rows(connection, "coverage", period=period))


def row_counts(
    connection: duckdb.DuckDBPyConnection, period: str, tables: Iterable[str]
) -> dict[str, int]:
    """The number of rows of the period in each of these marts."""
    counts = {}
    for table in tables:
        counted = f"select count(*) from marts.{table} where billing_period = $period"
        counts[table] = int(connection.execute(counted, {"period": period}).fetchall()[0][0])
    return counts


def read_missing_intervals(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, str], list[Interval]]:
    """Cluster and source → the missing time, to the second."""
    found: dict[tuple[str, str], list[Interval]] = {}
    for cluster, source, first, last in _rows(connection, "gaps", period=period):
        found.setdefault((cluster, source), []).append(Interval(_utc(first), _utc(last)))
    return found


def read_metric_hours(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[tuple[str, datetime], dict[str, MetricHour]]:
    """Cluster and hour → metric → due and missing samples."""
    found: dict[tuple[str, datetime], dict[str, MetricHour]] = {}
    for cluster, hour, metric, expected, missing in _rows(
        connection, "metric_hours", period=period
    ):
        found.setdefault((cluster, _utc(hour)), {})[metric] = MetricHour(expected, missing)
    return found


def read_refused_samples(
    connection: duckdb.DuckDBPyConnection, period: str
) -> list[RefusedSamples]:
    """Samples that exist and are not counted."""
    return [
        RefusedSamples(cluster, metric, missing, invalid, _utc(first), _utc(last), *counted)
        for cluster, metric, missing, invalid, first, last, *counted in _rows(
            connection, "refused_samples", period=period
        )
    ]


def read_device_use(connection: duckdb.DuckDBPyConnection, period: str) -> list[DeviceUse]:
    """Busy devices without a pod, by node."""
    return [
        DeviceUse(cluster, node, unallocated, count, _utc(first), _utc(last) + HOUR)
        for cluster, node, unallocated, count, first, last in _rows(
            connection, "device_use", period=period
        )
    ]


def read_duplicate_readings(
    connection: duckdb.DuckDBPyConnection, period: str
) -> list[DuplicateReading]:
    return [
        DuplicateReading(cluster, node, devices, hours, _utc(first), _utc(last) + HOUR)
        for cluster, node, devices, hours, first, last in _rows(
            connection, "twice_reported", period=period
        )
    ]


def read_pods(
    connection: duckdb.DuckDBPyConnection, period: str, cluster_id: str, time: Interval
) -> tuple[str, ...]:
    """The tenants' pods of a cluster that existed in an interval, each as `tenant/name`."""
    rows = _rows(
        connection,
        "pods",
        period=period,
        cluster_id=cluster_id,
        started_at=time.started_at,
        ended_at=time.ended_at,
    )
    return tuple(name for (name,) in rows)


def read_recreated_namespaces(
    connection: duckdb.DuckDBPyConnection, period: str
) -> list[NamespaceSeen]:
    """Namespaces with use whose name had more than one UID, in the order of their UIDs' times."""
    return [
        NamespaceSeen(cluster, name, uid, _utc(first), _utc(last))
        for cluster, name, uid, first, last in _rows(
            connection, "namespaces_made_again", period=period
        )
    ]


def read_budgets_not_counted(
    connection: duckdb.DuckDBPyConnection, period: str
) -> list[BudgetNotCounted]:
    found = []
    for row in _rows(connection, "budgets_not_counted", period=period):
        cluster, tenant, name, state, reason, currency, nanos, *other = row
        other_cluster, other_currency, other_nanos = other
        found.append(
            BudgetNotCounted(
                *(cluster, tenant, name, state, reason),
                Money(int(nanos), currency) if currency else None,
                other_cluster,
                Money(int(other_nanos), other_currency) if other_currency else None,
            )
        )
    return found


def read_contradictions(connection: duckdb.DuckDBPyConnection, period: str) -> list[Contradictions]:
    return [
        Contradictions(cluster, contradiction, int(count), example, _utc(first), _utc(last))
        for cluster, contradiction, count, example, first, last in _rows(
            connection, "contradictions", period=period
        )
    ]


def read_comparisons(
    connection: duckdb.DuckDBPyConnection, period: str
) -> dict[str, list[Comparison]]:
    """Identity → both sums for each place where they must be equal."""
    comparisons: dict[str, list[Comparison]] = {name: [] for name in IDENTITIES}
    for file, names in IDENTITIES_OF.items():
        for place, *sums in _rows(connection, f"identities/{file}", period=period):
            for name, left, right in zip(names, sums[::2], sums[1::2], strict=True):
                comparisons[name].append(Comparison(place, int(left), int(right)))
    return comparisons


def _reasons(chosen: Callable[[ReconciliationRule], bool]) -> list[str]:
    """The reasons of the selected rules. Rules with other consequences have other reasons."""
    return sorted({rule.method_reason for rule in reconciliation_rules() if chosen(rule)})


def _segment(row: tuple[Any, ...]) -> ReconciledSegment:
    cluster, tenant, pod_uid, pod_name, resource, method, reason, first, last, *more = row
    seconds, nanos, statements = more
    return ReconciledSegment(
        cluster_id=cluster,
        tenant=tenant,
        pod_uid=pod_uid,
        pod_name=pod_name,
        resource=resource,
        method=method,
        method_reason=reason,
        # An accepted gap has at least one second, also for evidence of a single instant.
        interval=Interval(_utc(first), max(_utc(last), _utc(first) + timedelta(seconds=1))),
        device_seconds=int(seconds),
        nanos=int(nanos),
        statements=statements,
    )


def _uses(connection: duckdb.DuckDBPyConnection, name: str, period: str) -> list[UnknownUse]:
    return [
        UnknownUse(
            cluster, gpu_class, profile, resource, tuple(tenants), _utc(first), _utc(last), seconds
        )
        for cluster, gpu_class, profile, resource, tenants, first, last, seconds in _rows(
            connection, name, period=period
        )
    ]


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
