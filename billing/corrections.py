"""Corrections: what a closed period should have come to, against what was billed for it so far.

Put here: the difference of two countings as lines, and how it is sealed.
Not here: counting again (`warehouse.build`), or the steps of a recount (`recount`).

Billed so far is everything on every document: the original lines, corrections of them, corrections
of those, voids, and corrections that are recorded and wait for their invoice. So counting the same
twice corrects nothing the second time, and original plus corrections is the recounted truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from billing.invoice import line_entry
from billing.lines import Line, LineKind
from billing.sealing import Document
from billing.usage import Charge, ChargeKey
from domain.billing_period import BillingPeriod
from domain.money import Money, require_creditable
from domain.tenant import BelongsTo

SCHEMA = "gpu-ledger/corrections/1"


@dataclass(frozen=True, slots=True)
class Billed:
    """What stands on documents for one charge, all of them added up."""

    device_seconds: int = 0
    nanos: int = 0
    ended_at: datetime | None = None
    rate_nanos_per_hour: int = 0

    def __add__(self, line: Line) -> Billed:
        return Billed(
            self.device_seconds + line.device_seconds,
            self.nanos + line.cost_nanos,
            line.ended_at,
            line.rate_nanos_per_hour,
        )


def billed_so_far(lines: Iterable[Line], period: BillingPeriod) -> dict[ChargeKey, Billed]:
    """What was billed for use in a period, on whatever document it stands."""
    billed: defaultdict[ChargeKey, Billed] = defaultdict(Billed)
    for line in lines:
        if line.charge_period == period.name:
            billed[line.key] += line
    return dict(billed)


def left_of(billed: Mapping[ChargeKey, Billed], charge: ChargeKey) -> int:
    """What stands of a charge: with its corrections, less what was credited."""
    credit = replace(charge, credited=True)
    return sum(billed[key].nanos for key in (charge, credit) if key in billed)


def corrections_of(
    period: BillingPeriod,
    billed: Mapping[ChargeKey, Billed],
    recounted: Iterable[Charge],
    reason: str,
    currency: str,
    originals: Mapping[str, str],
) -> list[Line]:
    """One line per charge of a tenant that is not what was billed, in order of the charges.

    `originals` says which document each tenant has for the period.
    """
    charges = {c.key: c for c in recounted if c.key.belongs_to is BelongsTo.TENANT}
    _require_credits_within(charges, currency)
    lines: list[Line] = []
    for key in sorted({*charges, *billed}):
        line = _correction(period, key, billed.get(key, Billed()), charges.get(key), reason)
        if line.device_seconds or line.cost_nanos:
            lines.append(replace(line, refers_to=originals.get(key.tenant, "")))
    return lines


def corrections_document(
    period: BillingPeriod,
    currency: str,
    lines: Iterable[Line],
    basis_sha256: str,
    reason: str,
    amendments: Iterable[Mapping[str, str]],
) -> Document:
    """The corrections of one recount, ready to be sealed."""
    return {
        "schema": SCHEMA,
        "corrects_period": period.name,
        "currency": currency,
        "basis_sha256": basis_sha256,
        "reason": reason,
        "amendments": [dict(amendment) for amendment in amendments],
        "lines": [{"tenant": line.key.tenant, **line_entry(line, {}, 0)} for line in lines],
    }


def _correction(
    period: BillingPeriod, key: ChargeKey, before: Billed, after: Charge | None, reason: str
) -> Line:
    seconds = after.device_seconds if after else 0
    nanos = after.cost_nanos if after else 0
    ended_at = after.ended_at if after else before.ended_at
    return Line(
        number=0,
        kind=LineKind.CORRECTION,
        charge_period=period.name,
        key=key,
        ended_at=ended_at or period.ended_at,
        rate_nanos_per_hour=after.rate_nanos_per_hour if after else before.rate_nanos_per_hour,
        device_seconds=seconds - before.device_seconds,
        cost_nanos=nanos - before.nanos,
        reason=reason,
        seconds_before=before.device_seconds,
        nanos_before=before.nanos,
    )


def _require_credits_within(charges: Mapping[ChargeKey, Charge], currency: str) -> None:
    """No credit is larger than its charge as it is counted now."""
    for key, credit in charges.items():
        if key.credited and currency:
            charge = charges.get(key.charge)
            require_creditable(
                Money(-credit.cost_nanos, currency),
                Money(charge.cost_nanos if charge else 0, currency),
                (),
                (),
                f"a credit for {key.tenant}, {key.gpu_class} {key.mig_profile}",
            )
