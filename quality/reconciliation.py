"""The findings of reconciliation: disputed segments, unseen segments, and exceeded limits.

Put here: the finding of each segment, and the two limits of a tenant's use with only one source.
Not here: the method of a segment (`int_allocations_reconciled`), or its consequence (the table
`reconciliation_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from domain.decisions.rows import AcceptedGap
from domain.findings import Finding
from domain.interval import Interval
from quality.coverage import hours_around
from quality.finding_catalogue import CATALOGUE
from quality.gap_findings import spelled
from warehouse.reconciliation_rules import ReconciliationRule, rules_for


@dataclass(frozen=True, slots=True, order=True)
class ReconciledSegment:
    """Neighbouring pod-hours of one pod, device and method, joined."""

    cluster_id: str
    tenant: str
    pod_uid: str
    pod_name: str
    resource: str
    method: str
    method_reason: str
    interval: Interval
    device_seconds: int
    nanos: int
    statements: str = ""  # the contradicting statements, if the evidence contradicts itself


@dataclass(frozen=True, slots=True)
class TenantUse:
    """A tenant's weighted seconds in the period, in all and with only one source."""

    tenant: str
    weighted_seconds: Fraction
    one_source_seconds: Fraction  # in gaps of the samples, with only the journal
    uncertain_seconds: Fraction  # of starts and ends with only samples, if a journal is expected


@dataclass(frozen=True, slots=True)
class DifferenceLimits:
    """Shares of a tenant's weighted seconds; dated policies."""

    one_source: Fraction = Fraction(5, 100)
    uncertainty: Fraction = Fraction(5, 1000)


def segment_findings(
    segments: Sequence[ReconciledSegment], accepted: Sequence[AcceptedGap]
) -> list[Finding]:
    """The findings of segments whose rule names one."""
    return [
        _finding(rule, segment, accepted)
        for segment in sorted(segments)
        for rule in rules_for(segment.method, segment.method_reason)[:1]
        if rule.finding
    ]


def limit_findings(uses: Sequence[TenantUse], limits: DifferenceLimits) -> list[Finding]:
    """Tenants whose use with only one source exceeds a limit of the policies."""
    findings = []
    for use in sorted(uses, key=lambda u: u.tenant):
        pairs = (
            ("one_source_limit_exceeded", use.one_source_seconds, limits.one_source),
            ("uncertainty_limit_exceeded", use.uncertain_seconds, limits.uncertainty),
        )
        for name, seconds, limit in pairs:
            # A limit of 1 accepts everything: the uncertainty of a short pod can exceed its time.
            if limit < 1 and seconds > limit * use.weighted_seconds:
                findings.append(_over_limit(name, use, seconds, limit))
    return findings


_ACCEPTING = frozenset({"bill_lifecycle", "bill_samples", "bill_nothing", "waive"})


def _finding(
    rule: ReconciliationRule, segment: ReconciledSegment, accepted: Iterable[AcceptedGap]
) -> Finding:
    decision = _acceptance(segment, accepted) if rule.blocks_close == "true" else None
    name = "dispute_accepted" if decision else rule.finding
    by = f"; {decision.treatment} by {decision.decided_by}" if decision else ""
    hours = hours_around(segment.interval)
    return CATALOGUE[name].finding(
        where=f"cluster {segment.cluster_id}, pod {segment.tenant}/{segment.pod_name} "
        f"({segment.pod_uid}), {spelled(segment.interval)}",
        seen=f"{rule.finding_text}{segment.statements and f', {segment.statements}'}: "
        f"{segment.device_seconds} device seconds of {segment.resource}{by}",
        cluster_id=segment.cluster_id,
        tenant=segment.tenant,
        started_at=hours.started_at,
        ended_at=hours.ended_at,
        seconds=segment.device_seconds,
        nanos=segment.nanos,
    )


def _acceptance(segment: ReconciledSegment, accepted: Iterable[AcceptedGap]) -> AcceptedGap | None:
    for decision in accepted:
        if (
            decision.cluster_id == segment.cluster_id
            and decision.pod_uid in ("", segment.pod_uid)
            and decision.treatment in _ACCEPTING
            and decision.interval.started_at <= segment.interval.started_at
            and segment.interval.ended_at <= decision.interval.ended_at
        ):
            return decision
    return None


def _over_limit(name: str, use: TenantUse, seconds: Fraction, limit: Fraction) -> Finding:
    return CATALOGUE[name].finding(
        where=f"tenant {use.tenant}",
        seen=f"{_share(seconds, use.weighted_seconds)} of its weighted seconds "
        f"({round(seconds)} of {round(use.weighted_seconds)}), limit {_percent(limit)}",
        tenant=use.tenant,
        seconds=round(seconds),
    )


def _share(part: Fraction, whole: Fraction) -> str:
    return _percent(part / whole) if whole else "all"


def _percent(share: Fraction) -> str:
    thousandths = round(share * 100_000)
    return f"{thousandths // 1000}.{thousandths % 1000:03} %"
