"""The decisions as raw tables: dated, and resolved for the names in the evidence.

Put here: decisions as rows, cut to a period. `domain` resolves each name once (the tenant of a
namespace, the price of a device), and SQL does not repeat it.
Not here: reading the tables (`domain.decisions`), or classifying devices
(`warehouse.device_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import duckdb

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from domain.decisions.price_tables import budget_columns
from domain.decisions.rows import ClusterRole, PolicyName, Source, TableName
from domain.interval import Interval
from warehouse.raw_schema import create_table

Row = Mapping[str, Any]

CUTTING_TABLES = (
    TableName.TENANTS,
    TableName.RATES,
    TableName.OUTAGES,
    TableName.POLICIES,
)
"""A change in these tables splits an hour."""


def create_raw_decisions(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    decisions: Decisions,
    closed_periods: Iterable[str],
) -> None:
    """Create the tables of decisions, with prices for the classes in the table `device_kinds`."""
    window = period.interval
    tables: dict[str, Iterable[Row]] = {
        "parameters": [_parameters(period, decisions)],
        "closed_periods": [{"billing_period": name} for name in sorted(closed_periods)],
        "clusters": _clusters(decisions),
        "tenant_intervals": _tenant_intervals(decisions, _namespaces(connection), window),
        "rates": _rates(decisions),
        "rate_intervals": _rate_intervals(decisions, _priced_keys(connection, decisions), window),
        "budgets": _budgets(decisions, period),
        "outages": _outages(decisions, window),
        "accepted_gaps": _accepted_gaps(decisions, window),
        "policies": _policies(decisions, window),
        "cut_points": [{"cut_at": cut} for cut in decisions.cut_points(window, CUTTING_TABLES)],
    }
    for table, rows in tables.items():
        create_table(connection, table, rows)


def _parameters(period: BillingPeriod, decisions: Decisions) -> Row:
    return {
        "billing_period": period.name,
        "period_started_at": period.started_at,
        "period_ended_at": period.ended_at,
        "currency": decisions.currency(period.started_at) or "",
        "decisions_sha256": decisions.sha256,
    }


def _clusters(decisions: Decisions) -> Iterator[Row]:
    for row in decisions.clusters:
        yield {
            "cluster_id": row.cluster_id,
            "cluster_name": row.cluster_name,
            "valid_from": row.valid_from,
            "valid_until": row.valid_until,
            "expects_samples": row.expects(Source.THANOS),
            "expects_journal": row.expects(Source.KUBERNETES),
            "sample_interval_seconds": row.sample_interval_seconds,
            "scrape_interval_seconds": row.scrape_interval_seconds,
            "is_hub": row.role is ClusterRole.HUB,
        }


def _namespaces(connection: duckdb.DuckDBPyConnection) -> list[str]:
    found = connection.execute(
        "select distinct namespace from raw.kubernetes_pod_observations where namespace <> '' "
        "union select distinct labels['namespace'] from raw.thanos_series "
        "where metric like 'kube_%' and coalesce(labels['namespace'], '') <> '' order by 1"
    ).fetchall()
    return [row[0] for row in found]


def _tenant_intervals(
    decisions: Decisions, namespaces: Iterable[str], window: Interval
) -> Iterator[Row]:
    for namespace in namespaces:
        for piece, belongs_to in decisions.ownership.spans(namespace, window):
            yield {"namespace": namespace, "belongs_to": belongs_to.value, **_valid(piece)}


def _rates(decisions: Decisions) -> Iterator[Row]:
    for rate in decisions.rates:
        yield {
            "rate_id": rate.rate_id,
            "cluster_id": rate.cluster_id,
            "gpu_class": rate.gpu_class,
            "mig_profile": rate.mig_profile,
            "currency": rate.currency,
            "rate_nanos_per_hour": rate.rate_nanos_per_hour,
            "valid_from": rate.valid_from,
            "valid_until": rate.valid_until,
            "reason": rate.reason,
        }


def _priced_keys(
    connection: duckdb.DuckDBPyConnection, decisions: Decisions
) -> list[tuple[str, str, str]]:
    kinds = connection.execute(
        "select distinct gpu_class, mig_profile from raw.device_kinds "
        "where unclassified_reason = '' order by all"
    ).fetchall()
    clusters = sorted({row.cluster_id for row in decisions.clusters})
    return [(cluster_id, *kind) for cluster_id in clusters for kind in kinds]


def _rate_intervals(
    decisions: Decisions, keys: Iterable[tuple[str, str, str]], window: Interval
) -> Iterator[Row]:
    for cluster_id, gpu_class, mig_profile in keys:
        spans = decisions.price_list.spans(cluster_id, gpu_class, mig_profile, window)
        for piece, rate in spans:
            if rate is not None:
                yield {
                    "cluster_id": cluster_id,
                    "gpu_class": gpu_class,
                    "mig_profile": mig_profile,
                    "rate_id": rate.rate_id,
                    "prices_profile": rate.mig_profile != "whole",
                    "currency": rate.currency,
                    "rate_nanos_per_hour": rate.rate_nanos_per_hour,
                    **_valid(piece),
                }


def _budgets(decisions: Decisions, period: BillingPeriod) -> Iterator[Row]:
    for budget in decisions.budgets_of(period):
        yield {"tenant": budget.tenant, "budget_name": budget.name, **budget_columns(budget)}


def _outages(decisions: Decisions, window: Interval) -> Iterator[Row]:
    """Overlapping outages of a cluster, node or pod are joined, with the reasons of all of them."""
    for cluster_id in sorted({row.cluster_id for row in decisions.clusters}):
        rows = [row for row in decisions.outages if row.cluster_id in ("", cluster_id)]
        for scope in sorted({(row.node_name, row.pod_uid) for row in rows}):
            for piece in decisions.outage_intervals(cluster_id, window, *scope):
                reasons = {
                    f"{row.reason} ({row.decided_by})"
                    for row in rows
                    if (row.node_name, row.pod_uid) == scope and row.validity.clipped_to(piece)
                }
                yield {
                    "cluster_id": cluster_id,
                    "node_name": scope[0],
                    "pod_uid": scope[1],
                    "started_at": piece.started_at,
                    "ended_at": piece.ended_at,
                    "reason": "; ".join(sorted(reasons)),
                }


def _accepted_gaps(decisions: Decisions, window: Interval) -> Iterator[Row]:
    for gap in decisions.accepted_gaps:
        if gap.interval.overlaps(window):
            yield {
                "cluster_id": gap.cluster_id,
                "source": gap.source.value,
                "started_at": gap.started_at,
                "ended_at": gap.ended_at,
                "treatment": gap.treatment.value,
                "pod_uid": gap.pod_uid,
                "reason": gap.reason,
                "decided_by": gap.decided_by,
            }


def _policies(decisions: Decisions, window: Interval) -> Iterator[Row]:
    names = [name for name in PolicyName if name is not PolicyName.CURRENCY]
    for piece in window.split_at(decisions.cut_points(window, [TableName.POLICIES])):
        for name in names:
            policy = decisions.policy(name, piece.started_at)
            yield _policy(name.value, policy.version, policy.value, piece)
        # There is no default currency: without a policy it is that of the rates.
        currency = decisions.currency(piece.started_at) or ""
        yield _policy(PolicyName.CURRENCY.value, "", currency, piece)


def _policy(name: str, version: str, value: str, piece: Interval) -> Row:
    return {"policy": name, "policy_version": version, "policy_value": value, **_valid(piece)}


def _valid(piece: Interval) -> dict[str, datetime]:
    return {"valid_from": piece.started_at, "valid_until": piece.ended_at}
