"""The gate: only a period that passed its check is billed or corrected.

Put here: the refusal, with the blocking findings, their hours and amounts, and the next commands.
Not here: the check (`quality`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from domain.billing_period import BillingPeriod
from domain.errors import NotBillable
from domain.findings import CheckResult, Finding
from domain.money import format_estimate

UNMEASURED_GAP, GAP_PREFIX = "GAP-001", "GAP-"
"""The finding of an unmeasured gap, and the prefix of all findings about gaps."""

FINDINGS_NAMED = 20
"""Findings in a refusal; `gpu-ledger check` lists all of them."""


class PeriodNotBillable(NotBillable):
    """A finding or a missing check blocks the close."""

    code = "CLOSE-001"

    def __init__(self, check_result: CheckResult, currency: str) -> None:
        self.check_result = check_result
        period, blocking = check_result.period, check_result.blocking
        named = [f"{f.code} {f.where}: {f.seen}" for f in blocking[:FINDINGS_NAMED]]
        named += [f"check {name} was not executed" for name in check_result.missing_checks]
        more = len(blocking) - FINDINGS_NAMED
        named += [f"and {more} more findings"] if more > 0 else []
        super().__init__(
            where=f"period {period}",
            seen=f"{len(blocking)} blocking finding{'s' * (len(blocking) != 1)}; "
            f"{_hours_and_amounts(blocking, currency)}\n    " + "\n    ".join(named),
            why="amounts cannot be verified while findings block the close; nothing was recorded",
            remedy="; ".join(
                f"`{command}` {purpose}"
                for command, purpose in next_commands(period, blocking, check_result.missing_checks)
            ),
        )


def next_commands(
    period: BillingPeriod, blocking: Sequence[Finding], missing_checks: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The commands for blocking findings, each with its purpose."""
    codes = {finding.code for finding in blocking}
    if any(code.startswith(GAP_PREFIX) for code in codes):
        yield f"gpu-ledger gaps {period}", "prints the command that backfills or accepts each gap"
    # `gpu-ledger gaps` prints the whole remedy of an unmeasured gap, `check` that of the others.
    if others := sorted(codes - {UNMEASURED_GAP}):
        yield f"gpu-ledger check {period}", f"lists the remedy of {', '.join(others)}"
    if missing_checks:
        yield f"gpu-ledger refresh --period {period}", "rebuilds the facts that the checks read"


def require_billable(check_result: CheckResult, currency: str) -> None:
    """Refuse a period that did not pass; called before rendering, and again before recording."""
    if not check_result.billable:
        raise PeriodNotBillable(check_result, currency)


def _hours_and_amounts(findings: Iterable[Finding], currency: str) -> str:
    intervals = {
        (f.cluster_id, f.hour_started_at, f.hour_ended_at)
        for f in findings
        if f.hour_started_at and f.hour_ended_at
    }
    hours = sum(int((end - start).total_seconds()) // 3600 for _, start, end in intervals)
    nanos = sum(finding.affected_nanos for finding in findings)
    amount = f", about {format_estimate(nanos, currency)}" if currency else ""
    return f"{hours} {'hour' if hours == 1 else 'hours'}{amount}"
