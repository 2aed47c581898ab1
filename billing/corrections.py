"""Corrections: the differences of a recount from all bills of a closed period so far.

Put here: the differences as lines, and the sealed document of them.
Not here: counting again (`warehouse.build`), or the steps of a recount (`recount`).

The bills so far are all lines of all documents: original lines, corrections, voids, and recorded
corrections without an invoice. So a second recount of the same facts has no corrections, and the
original lines plus all corrections equal the recount.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from billing.books import WithdrawnLine
from billing.invoice import line_entry
from billing.lines import Line, LineKind
from billing.sealing import Document
from billing.usage import Charge, ChargeKey
from domain.billing_period import BillingPeriod
from domain.money import format_nanos, price_nanos
from domain.tenant import BelongsTo

SCHEMA = "gpu-ledger/corrections/1"


@dataclass(frozen=True, slots=True)
class Billed:
    """The sum of all lines for one charge."""

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
    """The billed sums for use in a period, over all documents."""
    billed: defaultdict[ChargeKey, Billed] = defaultdict(Billed)
    for line in lines:
        if line.charge_period == period.name:
            billed[line.key] += line
    return dict(billed)


def remaining_nanos(billed: Mapping[ChargeKey, Billed], charge: ChargeKey) -> int:
    """The amount of a charge that is left after its corrections and credits."""
    credit = replace(charge, credited=True)
    return sum(billed[key].nanos for key in (charge, credit) if key in billed)


def corrections_of(
    period: BillingPeriod,
    books: Sequence[Line],
    withdrawn: Iterable[WithdrawnLine],
    recounted: Iterable[Charge],
    reason_of: Callable[[ChargeKey], str],
    originals: Mapping[str, str],
) -> list[Line]:
    """Lines for every charge of a tenant that differs from its bills, in order of the charges.

    A voided line is billed again with its own reason; the rest of a difference is one line.
    `originals`: tenant → the number of its document for the period.
    """
    charges = {c.key: c for c in recounted if c.key.belongs_to is BelongsTo.TENANT}
    require_credits_within(charges)
    billed = billed_so_far(books, period)
    to_bill_again = _unbilled_withdrawals(period, books, withdrawn)
    lines: list[Line] = []
    for key in sorted({*charges, *billed}):
        before, after = billed.get(key, Billed()), charges.get(key)
        reason, original = reason_of(key), originals.get(key.tenant, "")
        difference = _correction(period, key, before, after, reason, original)
        if not (difference.device_seconds or difference.cost_nanos):
            continue
        for line in to_bill_again.get(key, []) if after else []:
            lines.append(_bill_again(line, before))
            before += lines[-1]
        difference = _correction(period, key, before, after, reason, original)
        if difference.device_seconds or difference.cost_nanos:
            lines.append(difference)
    return lines


def _unbilled_withdrawals(
    period: BillingPeriod, books: Iterable[Line], withdrawn: Iterable[WithdrawnLine]
) -> dict[ChargeKey, list[WithdrawnLine]]:
    """The voided lines for use in a period that no correction has billed again."""
    again = {(line.refers_to, line.key) for line in books if line.kind is LineKind.CORRECTION}
    found: defaultdict[ChargeKey, list[WithdrawnLine]] = defaultdict(list)
    for line in withdrawn:
        key = line.line.key
        if line.line.charge_period == period.name and (line.void, key) not in again:
            found[key].append(line)
    return found


def _bill_again(withdrawn: WithdrawnLine, before: Billed) -> Line:
    line = withdrawn.line
    seconds = before.device_seconds + line.device_seconds
    cost_nanos = line.cost_nanos
    if not line.key.credited:
        # The rounded price of a line depends on the seconds before it.
        price = price_nanos(seconds, line.key.weight, line.rate_nanos_per_hour)
        cost_nanos = price - before.nanos
    again = f"billed again: {withdrawn.voided} was voided by {withdrawn.void} ({withdrawn.reason})"
    return replace(
        line,
        number=0,
        kind=LineKind.CORRECTION,
        cost_nanos=cost_nanos,
        billed_nanos=0,
        reason=f"{line.reason}; {again}" if line.reason else again,
        seconds_before=before.device_seconds,
        nanos_before=before.nanos,
        refers_to=withdrawn.void,
    )


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
    period: BillingPeriod,
    key: ChargeKey,
    before: Billed,
    after: Charge | None,
    reason: str,
    original: str,
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
        refers_to=original,
    )


def require_credits_within(charges: Mapping[ChargeKey, Charge]) -> None:
    """No credit is larger than its charge: the models guarantee it, and a bill relies on it."""
    for key, credit in charges.items():
        charge = charges.get(key.charge)
        largest = charge.cost_nanos if charge else 0
        assert not key.credited or 0 <= -credit.cost_nanos <= largest, (
            f"a credit of {format_nanos(-credit.cost_nanos)} for {key.tenant}, {key.gpu_class} "
            f"{key.mig_profile}; its charge is {format_nanos(largest)}"
        )
