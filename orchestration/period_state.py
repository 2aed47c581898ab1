"""The state of each period: evidence of its facts, result of its check, obstacles to a close.

Put here: two small files per period beside the builds, and whether they are current.
Not here: building and checking (`orchestration.steps`), or closing (`billing.close`), which checks
again and does not rely on these files.

Schedules, sensors and web pages read these files, because the warehouse cannot be opened while
another process writes it. Without them a period is built and checked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from billing.close import closes_from
from domain.billing_period import BillingPeriod
from domain.findings import CheckResult
from domain.identity import sha256
from domain.interval import HOUR, Interval, format_instant
from orchestration import open_hours
from orchestration.open_home import OpenHome
from warehouse.home import Home
from warehouse.project import project_sha256
from warehouse.store import reading, write_whole

REMEDY = "delete it: the next refresh and check of the period write it again"

FINDINGS_KEPT = 100
"""Blocking findings in the file; the tables in the warehouse have all of them."""

READY_TO_CLOSE = "ready: nothing blocks the close"


class BuiltState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a period, and the evidence and decisions that they were built from."""

    evidence_sha256: str
    facts_sha256: str


class BlockingFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding that blocks the close."""

    code: str
    where: str
    seen: str
    what_to_do: str


class CheckedState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of checking the facts of a period."""

    evidence_sha256: str
    facts_sha256: str
    checked_at: str
    billable: bool
    blocking_count: int
    counts: Mapping[str, int]  # findings by name, blocking or not
    blocking: tuple[BlockingFinding, ...]
    missing_checks: tuple[str, ...]


State = TypeVar("State", BuiltState, CheckedState)


def evidence_sha256(opened: OpenHome, period: BillingPeriod) -> str:
    """Changes with every attempt that concerns the period, every decision and every model."""
    reached = Interval(period.started_at - HOUR, period.ended_at + HOUR)
    chains = sorted(
        {
            (row.cluster_id, source)
            for row in opened.decisions.clusters
            for source in row.expected_sources
        }
    )
    window = open_hours.open_window(opened)
    since = min(window.started_at, period.started_at) if window else period.started_at
    attempts = [
        attempt.attempt_id
        for cluster_id, source in chains
        for attempt in open_hours.attempts_since(opened.landing, cluster_id, source, since)
        if attempt.window.overlaps(reached)
    ]
    return sha256(
        {
            "attempts": sorted(attempts),
            "decisions": opened.decisions.sha256,
            "models": project_sha256(),
        }
    )


def built_state(home: Home, period: BillingPeriod) -> BuiltState | None:
    """The state of the facts that are in the warehouse; None when there are none."""
    if not home.warehouse_path.is_file():
        return None
    return _read(_path(home, period, "built"), BuiltState)


def checked_state(home: Home, period: BillingPeriod) -> CheckedState | None:
    """The result of the last check of a period; None before the first one."""
    return _read(_path(home, period, "checked"), CheckedState)


def write_built_state(home: Home, period: BillingPeriod, evidence: str, facts: str) -> None:
    _write(_path(home, period, "built"), BuiltState(evidence, facts))


def remove_built_states(home: Home) -> None:
    """Remove the state of every period, because the warehouse that had their facts is gone."""
    for path in home.build.glob("*.built.json"):
        path.unlink(missing_ok=True)


def write_checked_state(home: Home, check_result: CheckResult, checked_at: datetime) -> None:
    """Write the result of a check of the facts in the warehouse."""
    facts = built_state(home, check_result.period)
    state = CheckedState(
        evidence_sha256=facts.evidence_sha256 if facts else "",
        facts_sha256=check_result.facts_sha256,
        checked_at=format_instant(checked_at.replace(microsecond=0)),
        billable=check_result.billable,
        blocking_count=len(check_result.blocking),
        counts=dict(sorted(Counter(finding.name for finding in check_result.findings).items())),
        blocking=tuple(
            BlockingFinding(finding.code, finding.where, finding.seen, finding.what_to_do)
            for finding in check_result.blocking[:FINDINGS_KEPT]
        ),
        missing_checks=check_result.missing_checks,
    )
    _write(_path(home, check_result.period, "checked"), state)


def needs_build(opened: OpenHome, period: BillingPeriod) -> bool:
    """Whether evidence, decisions or models have changed since the facts were built."""
    state = built_state(opened.home, period)
    return state is None or state.evidence_sha256 != evidence_sha256(opened, period)


def needs_check(home: Home, period: BillingPeriod) -> bool:
    """Whether there are facts that were not checked since they were built."""
    facts, checked = built_state(home, period), checked_state(home, period)
    if facts is None:
        return False
    return checked is None or (checked.evidence_sha256, checked.facts_sha256) != (
        facts.evidence_sha256,
        facts.facts_sha256,
    )


def closable_periods(opened: OpenHome) -> list[BillingPeriod]:
    """The open periods whose grace time is over, the oldest first."""
    now = opened.clock.now()
    return [p for p in open_hours.open_periods(opened) if closes_from(p, opened.decisions) <= now]


def close_obstacles(opened: OpenHome, period: BillingPeriod) -> str:
    """`READY_TO_CLOSE`, or a sentence with the reasons why the period cannot be closed now."""
    state = checked_state(opened.home, period)
    if state is None:
        return "not checked yet"
    if needs_build(opened, period) or needs_check(opened.home, period):
        return f"checked at {state.checked_at}, and changed since"
    if state.billable:
        return READY_TO_CLOSE
    named = "; ".join(f"{entry.code} {entry.where}: {entry.seen}" for entry in state.blocking[:5])
    missing = ", ".join(f"the check {name} was not executed" for name in state.missing_checks)
    return "; ".join(part for part in (named, missing) if part)


def close_proposal(opened: OpenHome) -> str:
    """The reasons why no month is closed now, and the command that closes each ready one."""
    lines = []
    for period in open_hours.open_periods(opened):
        until = closes_from(period, opened.decisions)
        if until > opened.clock.now():
            lines.append(f"{period}: its grace time ends at {format_instant(until)}.")
            continue
        obstacles = close_obstacles(opened, period)
        command = f"gpu-ledger close {period} --issue {opened.option}"
        how = f" To close it: {command}" if obstacles == READY_TO_CLOSE else ""
        lines.append(f"{period}: {obstacles}.{how}")
    if not opened.settings.close_on_schedule:
        lines.append("close_on_schedule is off: close the month manually.")
    return " ".join(lines)


def _path(home: Home, period: BillingPeriod, kind: str) -> Path:
    return home.build / f"{period.name}.{kind}.json"


def _read(path: Path, kind: type[State]) -> State | None:
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return None
    with reading(str(path), REMEDY):
        return msgspec.json.decode(body, type=kind)


def _write(path: Path, state: BuiltState | CheckedState) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")
