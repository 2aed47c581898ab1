"""Findings, coverage statuses and check results: the output of `quality`, the input of `billing`.

Put here: the values that cross from check to close, so that neither imports the other.
Not here: the kinds of findings and their conditions (`quality.finding_catalogue`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from domain.billing_period import BillingPeriod


class Remedy(StrEnum):
    """The kind of remedy of a finding."""

    BACKFILL = "backfill"  # a later query can return the evidence
    NONE = "none"  # the finding needs no action
    CORRECT = "correct"  # correct the cause, or record a decision


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A named fact that something is wrong, in the four parts of every message."""

    code: str  # GAP-001; one page each in docs/
    name: str  # samples_missing: the name of the check that raises it
    where: str  # cluster, hour, pod or tenant, in words
    seen: str  # both numbers and the difference
    why: str
    what_to_do: str
    blocks: bool
    remedy: Remedy
    cluster_id: str = ""
    tenant: str = ""
    hour_started_at: datetime | None = None
    hour_ended_at: datetime | None = None  # findings of neighbouring hours may be joined
    affected_seconds: int = 0
    affected_nanos: int = 0


class CoverageState(StrEnum):
    COMPLETE = "complete"
    DEGRADED = "degraded"
    MISSING = "missing"
    WAIVED = "waived"
    NOT_EXPECTED = "not_expected"


@dataclass(frozen=True, slots=True, order=True)
class CoverageStatus:
    """The check on one (cluster, source, hour)."""

    cluster_id: str
    source: str
    hour_started_at: datetime
    state: CoverageState
    reason: str
    expected_count: int
    seen_count: int
    first_missing_at: datetime | None = None  # None also where only the reason is known


@dataclass(frozen=True, slots=True)
class Check:
    """One named check that ran: the number of evaluated rows, and of those that failed."""

    name: str
    evaluated_row_count: int
    failed_row_count: int
    result: str = ""  # canonical JSON of a suite's own result, kept as evidence

    @property
    def passed(self) -> bool:
        return self.evaluated_row_count > 0 and self.failed_row_count == 0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a period may be billed, with all findings and checks."""

    period: BillingPeriod
    facts_sha256: str  # of the very facts that were checked
    findings: tuple[Finding, ...] = ()
    coverage_statuses: tuple[CoverageStatus, ...] = ()
    checks: tuple[Check, ...] = ()
    missing_checks: tuple[str, ...] = field(default=())  # required, but not executed on any row

    @property
    def blocking(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.blocks)

    @property
    def billable(self) -> bool:
        return not self.blocking and not self.missing_checks and all(c.passed for c in self.checks)
