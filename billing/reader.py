"""What a period's documents are made of, read from the marts; an edge.

Put here: turning the rows of `sql/*.sql` into usage, and manifests into the hashes of evidence.
Not here: the statements (`sql`), or what documents make of the usage.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from billing.usage import Charge, ChargeKey, PodUse, Usage, WorkloadDay, WorkloadLabels
from domain.billing_period import BillingPeriod
from domain.tenant import BelongsTo
from warehouse.attempt_hours import attempt_hours, inside
from warehouse.sql_files import statement
from warehouse.store import Store

if TYPE_CHECKING:
    import duckdb

_KEY_LENGTH = 10
"""The columns of a charge's key come first in each statement."""


def read_usage(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> Usage:
    """Charges, workload-days and pods of a period. Use that costs nothing is read as well."""
    connection.execute(statement(__file__, "charged_use"), {"period": period.name})
    return Usage(
        (
            *(_charge(row, credited=False) for row in _rows(connection, "charges", period)),
            *(_charge(row, credited=True) for row in _rows(connection, "credits", period)),
        ),
        tuple(_workload_day(row) for row in _rows(connection, "workload_days", period)),
        tuple(_pod(row) for row in _rows(connection, "pods", period)),
        tuple(
            WorkloadLabels(tenant, cluster, kind, name, tuple((row[4], row[5]) for row in rows))
            for (tenant, cluster, kind, name), rows in groupby(
                _rows(connection, "workload_labels", period), key=lambda row: row[:4]
            )
        ),
    )


def read_evidence(landing: Store, period: BillingPeriod) -> dict[str, dict[str, list[str]]]:
    """Cluster → source → hashes of all answers about hours of the period, sorted.

    Hashes of answers, not of attempts: an attempt's hash depends on what was asked before it.
    """
    hashes: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for hour in inside(attempt_hours(landing), period.interval):
        if hour.usable:
            hashes[hour.cluster_id][hour.source].update(hour.row["answer_sha256s"])
    return {
        cluster: {source: sorted(hashes[cluster][source]) for source in sorted(hashes[cluster])}
        for cluster in sorted(hashes)
    }


def _charge(row: tuple[Any, ...], credited: bool) -> Charge:
    ended_at, rate, currency, seconds, cost = row[_KEY_LENGTH:]
    return Charge(
        key=_key(row, credited),
        ended_at=_utc(ended_at),
        rate_nanos_per_hour=int(rate),
        currency=currency,
        device_seconds=int(seconds),
        cost_nanos=int(cost),
    )


def _workload_day(row: tuple[Any, ...]) -> WorkloadDay:
    credited, day, kind, name, seconds, cost = row[_KEY_LENGTH:]
    return WorkloadDay(_key(row, credited), day, kind, name, int(seconds), int(cost))


def _pod(row: tuple[Any, ...]) -> PodUse:
    credited, uid, name, node, resource, *rest = row[_KEY_LENGTH:]
    kind, workload, method, count, first, last, seconds, uncertain, cost = rest
    return PodUse(
        key=_key(row, credited),
        pod_uid=uid,
        pod_name=name,
        node_name=node,
        resource=resource,
        workload_kind=kind,
        workload_name=workload,
        method=method,
        device_count=int(count),
        first_started_at=_utc(first),
        last_ended_at=_utc(last),
        device_seconds=int(seconds),
        uncertain_device_seconds=int(uncertain),
        cost_nanos=int(cost),
    )


def _key(row: tuple[Any, ...], credited: bool) -> ChargeKey:
    tenant, belongs_to, gpu_class, profile, cluster, *weight, policy, rate, start = row[
        :_KEY_LENGTH
    ]
    return ChargeKey(
        tenant=tenant,
        belongs_to=BelongsTo(belongs_to),
        gpu_class=gpu_class,
        mig_profile=profile,
        cluster_id=cluster,
        weight=Fraction(*weight),
        weight_policy=policy,
        started_at=_utc(start),
        rate_id=rate,
        credited=credited,
    )


def _rows(
    connection: duckdb.DuckDBPyConnection, name: str, period: BillingPeriod
) -> list[tuple[Any, ...]]:
    return connection.execute(statement(__file__, name), {"period": period.name}).fetchall()


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)
