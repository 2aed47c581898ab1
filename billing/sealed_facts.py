"""The facts of a closed period, as far as its close sealed them: from what, and to which hash.

Put here: reading that back, so that facts that were lost are counted again and recognised.
Not here: counting them (`warehouse.build`), or what evidence that came later makes (`recount`).

Whatever was asked after the close was no part of it. What had been asked about the period's own
hours is known by the hashes of its answers, too: those are sealed. The same hash in a later asking
proves nothing, for empty answers are all alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

from billing.basis import sealed_decisions
from billing.grounds import product_facts
from billing.record import Record
from billing.retention import require_held
from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from warehouse.attempt_hours import AttemptHour
from warehouse.build import SealedFacts
from warehouse.store import Store

PRECISION = timedelta(seconds=1)
"""Of the time of a close, as it is recorded."""


@dataclass(frozen=True, slots=True)
class SealedPeriod:
    """What a closed period is counted again with, as it was at its close."""

    decisions: Decisions
    facts: SealedFacts


def sealed_period(record: Record, landing: Store, period: BillingPeriod) -> SealedPeriod:
    """What the close of a period stood on; raises EvidenceGone when answers of it are not there."""
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
        stood_on=_StoodOn(period, answers, event.recorded_at + PRECISION),
        code_version=str(basis["code_version"]),
        other_versions=tuple(_other_versions(basis)),
    )
    return SealedPeriod(sealed_decisions(basis), facts)


@dataclass(frozen=True, slots=True)
class _StoodOn:
    """Whether a close stood on an hour of an attempt."""

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
    """What counts now and did not count then."""
    then = {"gpu-ledger": str(basis["code_version"]), **basis["library_versions"]}
    for name, sealed in then.items():
        if (present := version(name)) != sealed:
            yield f"{name} {sealed} then, {present} now"
    for name, text in product_facts().items():
        if basis["product_facts"].get(name) != text:
            yield f"{name} has other rows now"
