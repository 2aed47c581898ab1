"""The facts of a period that documents are made of: usage, capacity and their basis.

Put here: reading the marts into values, and the basis of a close or a recount.
Not here: the form of a sealed basis (`basis`), or the documents (`invoice`, `statement`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.basis import Basis
from billing.ccsp import cluster_hours, measures, node_hours
from billing.landed_evidence import read_evidence
from billing.statement import TERMS, Capacity, ProviderFacts
from billing.usage import (
    Charge,
    ChargeKey,
    DocumentUsage,
    PodUse,
    WorkloadDay,
    WorkloadLabels,
    only_currency,
)
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from domain.errors import CheckFailed
from domain.findings import CheckResult, CoverageStatus
from domain.money import CurrenciesDiffer
from domain.tenant import BelongsTo
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.project import seed_text
from warehouse.sql_files import fetch_rows, statement

if TYPE_CHECKING:
    import duckdb

PRODUCT_FACTS = ("gpu_products", "mig_profiles")
LIBRARIES = ("duckdb", "dbt-core")

_rows = partial(fetch_rows, __file__)


class FactsChangedSinceCheck(CheckFailed):
    """The facts have changed since their check."""

    code = "CLOSE-003"

    def __init__(self, period: BillingPeriod, checked: str, found: str) -> None:
        super().__init__(
            where=f"period {period}",
            seen=f"the checked facts have the hash {checked or '(none given)'}, the present ones "
            f"{found}",
            why="only checked facts may be billed; nothing was recorded",
            remedy="wait for other commands, do a dry run, and close the facts that it shows",
        )


@dataclass(frozen=True, slots=True)
class BilledFacts:
    """The basis and the facts of a period's documents."""

    basis: Basis
    usage: DocumentUsage
    provider: ProviderFacts


class FactsReader:
    """Reads the facts of a close on the connection of their check, so they need no second hash."""

    def __init__(self, period: BillingPeriod) -> None:
        self.period = period
        self._read: dict[str, tuple[DocumentUsage, ProviderFacts]] = {}

    def __call__(self, connection: duckdb.DuckDBPyConnection, check_result: CheckResult) -> None:
        self._read = {check_result.facts_sha256: _read(connection, self.period, check_result)}

    def facts_of(self, check_result: CheckResult) -> tuple[DocumentUsage, ProviderFacts] | None:
        """The facts with the hash of the check; None if no check has read them."""
        return self._read.get(check_result.facts_sha256)


def read_grounds(
    home: Home,
    facts_path: Path,
    period: BillingPeriod,
    decisions: Decisions,
    check_result: CheckResult,
    reader: FactsReader | None = None,
) -> BilledFacts:
    """The basis and the used facts; facts other than the checked ones are refused.

    Without facts from `reader` they are read from the file, and their hash is compared.
    """
    read = reader.facts_of(check_result) if reader else None
    usage, provider = read or _read_checked(facts_path, period, check_result)
    basis = Basis(
        period=period,
        currency=_currency(decisions, period, usage),
        decisions=decisions.valid_in(period.interval),
        product_facts=product_facts(),
        evidence=read_evidence(home.landing_store(), period),
        check_result=check_result,
        code_version=version("gpu-ledger"),
        library_versions={name: version(name) for name in LIBRARIES},
    )
    return BilledFacts(basis, usage, provider)


def product_facts() -> dict[str, str]:
    """The shipped tables of products, by file name."""
    return {f"{name}.csv": seed_text(name) for name in PRODUCT_FACTS}


def _read_checked(
    facts_path: Path, period: BillingPeriod, check_result: CheckResult
) -> tuple[DocumentUsage, ProviderFacts]:
    """Read the facts on the connection on which their hash is compared."""
    with connected(facts_path, read_only=True) as connection:
        found = period_sha256(connection, period.name)
        if found != check_result.facts_sha256:
            raise FactsChangedSinceCheck(period, check_result.facts_sha256, found)
        return _read(connection, period, check_result)


def _read(
    connection: duckdb.DuckDBPyConnection, period: BillingPeriod, check_result: CheckResult
) -> tuple[DocumentUsage, ProviderFacts]:
    usage = read_usage(connection, period)
    return usage, read_provider_facts(connection, period, usage, check_result.coverage_statuses)


def _currency(decisions: Decisions, period: BillingPeriod, usage: DocumentUsage) -> str:
    """The currency of the period's documents; empty without a price list."""
    rates = decisions.valid_in(period.interval).rates
    if not rates:
        return ""
    decided = decisions.currency(period.ended_at - timedelta(seconds=1)) or rates[0].currency
    used = only_currency(usage.charges) or decided
    if used != decided:
        raise CurrenciesDiffer(decided, used, f"the charges of period {period}")
    return decided


# Usage --------------------------------------------------------------------------------------------

_KEY_LENGTH = 10
"""Each statement begins with the columns of a charge's key."""


def read_usage(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> DocumentUsage:
    """Charges, workload-days and pods of a period, including use without cost."""
    connection.execute(statement(__file__, "charged_use"), {"period": period.name})
    return DocumentUsage(
        (
            *(
                _charge(row, credited=False)
                for row in _rows(connection, "charges", period=period.name)
            ),
            *(
                _charge(row, credited=True)
                for row in _rows(connection, "credits", period=period.name)
            ),
        ),
        tuple(_workload_day(row) for row in _rows(connection, "workload_days", period=period.name)),
        tuple(_pod(row) for row in _rows(connection, "pods", period=period.name)),
        tuple(
            WorkloadLabels(tenant, cluster, kind, name, tuple((row[4], row[5]) for row in rows))
            for (tenant, cluster, kind, name), rows in groupby(
                _rows(connection, "workload_labels", period=period.name), key=lambda row: row[:4]
            )
        ),
    )


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


def _utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)


# Capacity and hours of the programme --------------------------------------------------------------


def read_provider_facts(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    usage: DocumentUsage,
    coverage_statuses: Sequence[CoverageStatus],
) -> ProviderFacts:
    """Capacity and the hours of the programme, of the facts of `usage`."""
    measured = measures(coverage_statuses)
    counted: dict[tuple[str, datetime], Any] = {
        (cluster, _utc(hour)): tuple(counts)
        for cluster, hour, *counts in _rows(connection, "cluster_hours", period=period.name)
    }
    nodes = [
        (cluster, node, _utc(hour), *rest)
        for cluster, node, hour, *rest in _rows(connection, "node_hours", period=period.name)
    ]
    own = [c for c in usage.charges if c.key.belongs_to is BelongsTo.PROVIDER]
    return ProviderFacts(
        capacity=_capacity(connection, period),
        own_charges=sorted(own),
        cluster_hours=cluster_hours(measured, counted),
        node_hours=node_hours(measured, nodes),
    )


def _capacity(connection: duckdb.DuckDBPyConnection, period: BillingPeriod) -> list[Capacity]:
    own: defaultdict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
    for cluster, gpu_class, dimension, numerator, denominator, seconds in _rows(
        connection, "own_shares", period=period.name
    ):
        own[cluster, gpu_class, dimension] += int(seconds) * Fraction(numerator, denominator)
    return [
        Capacity(
            cluster_id=cluster,
            gpu_class=gpu_class,
            dimension=dimension,
            share_denominator=unit,
            installed=int(installed),
            terms={name: int(value) for name, value in zip(TERMS, terms, strict=True)},
            overallocated=int(over),
            running_of_provider=own[cluster, gpu_class, dimension] * unit,
        )
        for cluster, gpu_class, dimension, unit, installed, over, *terms in _rows(
            connection, "capacity", period=period.name
        )
    ]
