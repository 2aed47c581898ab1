"""The gate: nothing is issued, and nothing corrected, that was not checked billable.

Put here: the one refusal, with what stands against it in hours and amounts, and what helps.
Not here: what is billable (`domain.findings.Check`, made by `quality`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from domain.billing_period import BillingPeriod
from domain.errors import NotBillable
from domain.findings import CheckResult, Finding
from domain.money import format_estimate

GAP, OF_GAPS = "GAP-001", "GAP-"
"""The finding of a gap that blocks by itself, and all that gaps lead to, such as passed limits."""

FINDINGS_NAMED = 20
"""Findings that a refusal names; more than a screen is read in `gpu-ledger check`."""


class PeriodNotBillable(NotBillable):
    """Check says no."""

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
            seen=f"{len(blocking)} blocking: {_hours_and_amounts(blocking, currency)}\n    "
            + "\n    ".join(named),
            why="blocking findings mean that amounts are not proved; nothing was recorded",
            remedy="; ".join(
                f"`{command}` {told}"
                for command, told in what_helps(period, blocking, check_result.missing_checks)
            ),
        )


def what_helps(
    period: BillingPeriod, blocking: Sequence[Finding], missing_checks: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The commands that help with blocking findings, each with its purpose."""
    codes = {finding.code for finding in blocking}
    if any(code.startswith(OF_GAPS) for code in codes):
        yield f"gpu-ledger gaps {period}", "prints the command that backfills or accepts each gap"
    if others := sorted(codes - {GAP}):
        yield f"gpu-ledger check {period}", f"lists the remedy of {', '.join(others)}"
    if missing_checks:
        yield f"gpu-ledger refresh --period {period}", "rebuilds the facts that the checks read"


def require_billable(check_result: CheckResult, currency: str) -> None:
    """Asked before a close, so that it need not render; and again by whoever writes the record."""
    if not check_result.billable:
        raise PeriodNotBillable(check_result, currency)


def _hours_and_amounts(findings: Iterable[Finding], currency: str) -> str:
    spans = {
        (f.cluster_id, f.hour_started_at, f.hour_ended_at)
        for f in findings
        if f.hour_started_at and f.hour_ended_at
    }
    hours = sum(int((end - start).total_seconds()) // 3600 for _, start, end in spans)
    nanos = sum(finding.affected_nanos for finding in findings)
    amount = f", about {format_estimate(nanos, currency)}" if currency else ""
    return f"{hours} {'hour' if hours == 1 else 'hours'}{amount}"
