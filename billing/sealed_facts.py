"""The facts of a closed period as its close sealed them: their inputs and their hash.

Put here: reading both, so that lost facts can be counted again and compared.
Not here: counting (`warehouse.build`), or the corrections of later evidence (`recount`).

Attempts after the close do not count. Attempts before it about hours of the period are recognised
by the sealed hashes of their responses as well. A hash alone is not enough: empty responses have
one hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

from billing.basis import sealed_decisions
from billing.billed_facts import product_facts
from billing.landed_evidence import require_held
from billing.record import Record
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from warehouse.attempt_hours import AttemptHour
from warehouse.build import SealedFacts
from warehouse.store import Store

PRECISION = timedelta(seconds=1)
"""The precision of the recorded time of a close."""


@dataclass(frozen=True, slots=True)
class SealedPeriod:
    """The inputs of a closed period, as at its close."""

    decisions: Decisions
    facts: SealedFacts


def sealed_period(record: Record, landing: Store, period: BillingPeriod) -> SealedPeriod:
    """The inputs of the close of a period; raises EvidenceGone if responses are missing."""
    event = record.ledger().closes()[period.name]
    basis = record.sealed(str(event.body["basis_sha256"]))
    require_held(landing, period, basis["evidence"])
    answers = {
        (cluster_id, source): frozenset(digests)
        for cluster_id, sources in basis["evidence"].items()
        for source, digests in sources.items()
    }
    facts = SealedFacts(
        facts_sha256=str(basis["facts_sha256"]),
        is_in_basis=_IsInBasis(period, answers, event.recorded_at + PRECISION),
        code_version=str(basis["code_version"]),
        other_versions=tuple(_other_versions(basis)),
    )
    return SealedPeriod(sealed_decisions(basis), facts)


@dataclass(frozen=True, slots=True)
class _IsInBasis:
    """Whether an hour of an attempt belongs to the basis of a close."""

    period: BillingPeriod
    answers: Mapping[tuple[str, str], frozenset[str]]
    until: datetime

    def __call__(self, hour: AttemptHour) -> bool:
        if hour.row["asked_at"] >= self.until:
            return False
        if not (hour.usable and self.period.interval.contains(hour.hour_started_at)):
            return True
        sealed = self.answers.get((hour.cluster_id, hour.source), frozenset())
        return sealed.issuperset(hour.row["answer_sha256s"])


def _other_versions(basis: Mapping[str, Any]) -> Iterator[str]:
    """The versions and product facts that differ from those of the close."""
    then = {"gpu-ledger": str(basis["code_version"]), **basis["library_versions"]}
    for name, sealed in then.items():
        if (present := version(name)) != sealed:
            yield f"{name} {sealed} then, {present} now"
    for name, text in product_facts().items():
        if basis["product_facts"].get(name) != text:
            yield f"{name} has other rows now"
