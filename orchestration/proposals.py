"""Which months could be closed now, and in words what stands against each of them.

Put here: looking at how periods stand.
Not here: closing (`billing.close`), which checks again by itself and rests on nothing said here.
"""

from __future__ import annotations

from domain.billing_period import BillingPeriod
from domain.interval import format_instant
from orchestration import ledger, standing
from orchestration.commands import on_a_line
from orchestration.open_home import OpenHome

CLEAN = "clean: nothing stands against it"


def over(opened: OpenHome) -> list[BillingPeriod]:
    """The open periods whose grace time is over, the oldest first."""
    from billing.close import closes_from

    now = opened.clock.now()
    return [p for p in ledger.open_periods(opened) if closes_from(p, opened.decisions) <= now]


def stands_against(opened: OpenHome, period: BillingPeriod) -> str:
    """Whether a period is clean, or what stands against closing it."""
    note = standing.checked(opened.home, period)
    if note is None:
        return "nobody has checked it"
    if standing.needs_build(opened, period) or standing.needs_check(opened.home, period):
        return f"it was checked at {note.checked_at}, and has changed since"
    if note.billable:
        return CLEAN
    named = "; ".join(f"{entry.code} {entry.where}: {entry.seen}" for entry in note.against[:5])
    missing = ", ".join(f"the check {name} was not executed" for name in note.missing_checks)
    return "; ".join(part for part in (named, missing) if part)


def in_words(opened: OpenHome) -> str:
    """Why no month is closed now, and what would close it."""
    from billing.close import closes_from

    lines = []
    for period in ledger.open_periods(opened):
        until = closes_from(period, opened.decisions)
        if until > opened.clock.now():
            lines.append(f"{period}: its grace time ends at {format_instant(until)}.")
            continue
        stands = stands_against(opened, period)
        command = on_a_line(opened, f"gpu-ledger close {period} --issue")
        how = f" To close it: {command}" if stands == CLEAN else ""
        lines.append(f"{period}: {stands}.{how}")
    if not opened.settings.close_on_schedule:
        lines.append("close_on_schedule is off: a person closes.")
    return " ".join(lines)
