"""The grounds of a close or a recount, read from where they are: facts, evidence, product facts.

Put here: reading the very facts that were checked, and putting their basis together; an edge.
Not here: what the basis looks like when it is sealed (`basis`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from billing.basis import Basis
from billing.capacity_reader import read_provider_facts
from billing.reader import read_evidence, read_usage
from billing.statement import ProviderFacts
from billing.usage import Usage, only_currency
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from domain.errors import CheckFailed
from domain.findings import CheckResult
from domain.money import CurrenciesDiffer
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.project import seed_text

if TYPE_CHECKING:
    import duckdb

PRODUCT_FACTS = ("gpu_products", "mig_profiles")
LIBRARIES = ("duckdb", "dbt-core")


class FactsChangedSinceCheck(CheckFailed):
    """The facts that would be sealed are not those that were checked."""

    code = "CLOSE-003"

    def __init__(self, period: BillingPeriod, checked: str, found: str) -> None:
        super().__init__(
            where=f"period {period}",
            seen=f"facts with hash {checked or '(none given)'} were checked, and the facts now "
            f"have hash {found}",
            why="only facts that were checked and shown may be billed; nothing was recorded",
            remedy="let other commands end and do a dry run; then close the facts that it shows",
        )


@dataclass(frozen=True, slots=True)
class Grounds:
    """What documents are made of."""

    basis: Basis
    usage: Usage
    provider: ProviderFacts


class FactsReader:
    """Reads the facts that a close needs, on the connection on which they are checked."""

    def __init__(self, period: BillingPeriod) -> None:
        self.period = period
        self._read: dict[str, tuple[Usage, ProviderFacts]] = {}

    def __call__(self, connection: duckdb.DuckDBPyConnection, check_result: CheckResult) -> None:
        self._read = {check_result.facts_sha256: _read(connection, self.period, check_result)}

    def facts_of(self, check_result: CheckResult) -> tuple[Usage, ProviderFacts] | None:
        """The facts with the hash of the check; None if no check has read them."""
        return self._read.get(check_result.facts_sha256)


def read_grounds(
    home: Home,
    facts_path: Path,
    period: BillingPeriod,
    decisions: Decisions,
    check_result: CheckResult,
    reader: FactsReader | None = None,
) -> Grounds:
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
    return Grounds(basis, usage, provider)


def product_facts() -> dict[str, str]:
    """The shipped tables of products, by file name, as they are now."""
    return {f"{name}.csv": seed_text(name) for name in PRODUCT_FACTS}


def _read_checked(
    facts_path: Path, period: BillingPeriod, check_result: CheckResult
) -> tuple[Usage, ProviderFacts]:
    """Read the facts on the connection on which their hash is compared."""
    with connected(facts_path, read_only=True) as connection:
        found = period_sha256(connection, period.name)
        if found != check_result.facts_sha256:
            raise FactsChangedSinceCheck(period, check_result.facts_sha256, found)
        return _read(connection, period, check_result)


def _read(
    connection: duckdb.DuckDBPyConnection, period: BillingPeriod, check_result: CheckResult
) -> tuple[Usage, ProviderFacts]:
    usage = read_usage(connection, period)
    return usage, read_provider_facts(connection, period, usage, check_result.coverage_statuses)


def _currency(decisions: Decisions, period: BillingPeriod, usage: Usage) -> str:
    """The currency of the period's documents; empty without a price list."""
    rates = decisions.valid_in(period.interval).rates
    if not rates:
        return ""
    decided = decisions.currency(period.ended_at - timedelta(seconds=1)) or rates[0].currency
    used = only_currency(usage.charges) or decided
    if used != decided:
        raise CurrenciesDiffer(decided, used, f"the charges of period {period}")
    return decided
