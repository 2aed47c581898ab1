"""How each period stands: which evidence its facts were built from, and what checking them said.

Put here: two small files per period beside the builds, and whether they are still true.
Not here: building and checking (`orchestration.steps`).

Schedules, sensors and pages look here, so that nobody has to open the warehouse while another
process writes it. Both files are notes: without them a period is simply built and checked again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.billing_period import BillingPeriod
from domain.identity import sha256
from domain.interval import HOUR, Interval, format_instant
from orchestration import ledger
from orchestration.open_home import OpenHome
from warehouse.home import Home
from warehouse.project import project_sha256
from warehouse.store import reading, write_whole

if TYPE_CHECKING:
    from domain.findings import CheckResult

NOTE_IS_MADE_AGAIN = "delete it: the next refresh and check of the period write it again"

FINDINGS_KEPT = 100
"""Blocking findings that the note names; the check's own tables hold all of them."""


@dataclass(frozen=True, slots=True)
class Built:
    """The facts of a period, and the evidence and decisions that they were built from."""

    evidence_sha256: str
    facts_sha256: str


@dataclass(frozen=True, slots=True)
class Against:
    """One finding that stands against a close."""

    code: str
    where: str
    seen: str
    what_to_do: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What checking the facts of a period said."""

    evidence_sha256: str
    facts_sha256: str
    checked_at: str
    billable: bool
    blocking_count: int
    counts: Mapping[str, int]  # findings by name, blocking or not
    against: tuple[Against, ...]
    missing_checks: tuple[str, ...]


def evidence_sha256(opened: OpenHome, period: BillingPeriod) -> str:
    """Changes with every attempt that speaks of the period, with every decision and every model."""
    reached = Interval(period.started_at - HOUR, period.ended_at + HOUR)
    chains = sorted(
        {
            (row.cluster_id, source)
            for row in opened.decisions.clusters
            for source in row.expected_sources
        }
    )
    window = ledger.open_window(opened)
    since = min(window.started_at, period.started_at) if window else period.started_at
    attempts = [
        attempt.attempt_id
        for cluster_id, source in chains
        for attempt in ledger.attempts_since(opened.landing, cluster_id, source, since)
        if attempt.window.overlaps(reached)
    ]
    return sha256(
        {
            "attempts": sorted(attempts),
            "decisions": opened.decisions.sha256,
            "models": project_sha256(),
        }
    )


def built(home: Home, period: BillingPeriod) -> Built | None:
    """The note about the facts that are in the warehouse; None when they are not."""
    path = _path(home, period, "built")
    value = _read(path) if home.warehouse_path.is_file() else None
    with reading(str(path), NOTE_IS_MADE_AGAIN):
        return Built(**value) if value else None


def checked(home: Home, period: BillingPeriod) -> Checked | None:
    path = _path(home, period, "checked")
    value = _read(path)
    if value is None:
        return None
    with reading(str(path), NOTE_IS_MADE_AGAIN):
        against = tuple(Against(**entry) for entry in value.pop("against"))
        missing_checks = tuple(value.pop("missing_checks"))
        return Checked(**value, against=against, missing_checks=missing_checks)


def note_built(home: Home, period: BillingPeriod, evidence: str, facts: str) -> None:
    _write(_path(home, period, "built"), asdict(Built(evidence, facts)))


def forget_builds(home: Home) -> None:
    """Nothing that was built is in the warehouse any more: there is none."""
    for path in home.build.glob("*.built.json"):
        path.unlink(missing_ok=True)


def note_checked(home: Home, check_result: CheckResult, checked_at: datetime) -> None:
    """Keep what a check of the facts in the warehouse said."""
    stands = built(home, check_result.period)
    note = Checked(
        evidence_sha256=stands.evidence_sha256 if stands else "",
        facts_sha256=check_result.facts_sha256,
        checked_at=format_instant(checked_at.replace(microsecond=0)),
        billable=check_result.billable,
        blocking_count=len(check_result.blocking),
        counts=dict(sorted(Counter(finding.name for finding in check_result.findings).items())),
        against=tuple(
            Against(finding.code, finding.where, finding.seen, finding.what_to_do)
            for finding in check_result.blocking[:FINDINGS_KEPT]
        ),
        missing_checks=check_result.missing_checks,
    )
    _write(_path(home, check_result.period, "checked"), asdict(note))


def needs_build(opened: OpenHome, period: BillingPeriod) -> bool:
    """Whether evidence, decisions or models are other than those the facts were built from."""
    note = built(opened.home, period)
    return note is None or note.evidence_sha256 != evidence_sha256(opened, period)


def needs_check(home: Home, period: BillingPeriod) -> bool:
    """Whether there are facts that nobody has checked as they are now."""
    facts, check_result = built(home, period), checked(home, period)
    if facts is None:
        return False
    return check_result is None or (check_result.evidence_sha256, check_result.facts_sha256) != (
        facts.evidence_sha256,
        facts.facts_sha256,
    )


def _path(home: Home, period: BillingPeriod, kind: str) -> Path:
    return home.build / f"{period.name}.{kind}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return None
    with reading(str(path), NOTE_IS_MADE_AGAIN):
        return dict(json.loads(body))


def _write(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())
