"""The void of a document: the same lines with the other sign, in a period that is open.

Put here: the void as a document, and in which period's books it stands.
Not here: which documents can be voided (`voiding`), or writing it (`commits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from billing.events import Ledger
from billing.invoice import DocumentKind
from billing.lines import LineKind
from billing.sealing import Document
from domain.billing_period import BillingPeriod
from domain.interval import format_instant

_OF_THE_VOIDED = ("billing_period", "period_started_at", "period_ended_at", "issued_at")


def open_period_after(ledger: Ledger, period: str) -> BillingPeriod:
    """The first period after this one that is not closed."""
    closes = ledger.closes()
    candidate = BillingPeriod(period).next()
    while candidate.name in closes:
        candidate = candidate.next()
    return candidate


def negated(
    original: Mapping[str, Any],
    number: str,
    period: BillingPeriod,
    issued_at: datetime,
    reason: str,
) -> Document:
    """The void: every amount and every quantity with the other sign, to the last digit."""
    return {
        **original,
        "document": DocumentKind.VOID.value,
        "number": number,
        "billing_period": period.name,
        "period_started_at": format_instant(period.started_at),
        "period_ended_at": format_instant(period.ended_at),
        "issued_at": format_instant(issued_at),
        "total_cost": _minus(original["total_cost"]),
        "total_billed_cost": _minus(original["total_billed_cost"]),
        "tax": {**original["tax"], "amount": _minus(original["tax"]["amount"])},
        "total_payable": _minus(original["total_payable"]),
        "payment": {**original["payment"], "due_on": "", "terms": "", "bank_details": []},
        "lines": [_negated_line(line, original["number"]) for line in original["lines"]],
        "workload_days": [_negated_use(day) for day in original["workload_days"]],
        "pods": [_negated_use(pod) for pod in original["pods"]],
        "voids": original["number"],
        "voided": {name: original[name] for name in _OF_THE_VOIDED},
        "reason": reason,
    }


def _negated_line(line: Mapping[str, Any], number: str) -> Document:
    return {
        **_negated_use(line),
        "kind": LineKind.VOID.value,
        "billed_cost": _minus(line["billed_cost"]),
        "reason": f"voids line {line['line']} of {number}",
        "refers_to": number,
    }


def _negated_use(entry: Mapping[str, Any]) -> Document:
    return {**entry, "device_seconds": -entry["device_seconds"], "cost": _minus(entry["cost"])}


def _minus(amount: str) -> str:
    if not amount.strip("-0."):
        return amount
    return amount[1:] if amount.startswith("-") else f"-{amount}"
