"""Asset checks: the findings of a period, and the hours of a source.

Put here: the checks, and their results.
Not here: any rule (`quality`, `ingestion.evidence.hour_ledger`), or dbt's tests (`model_assets`).

A check has the name of its finding, and blocks if the finding does. Nothing relies on Dagster's
blocking: a close checks the facts again.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg

from domain.decisions import Source
from domain.findings import CheckResult, Finding
from domain.interval import format_instant
from ingestion.evidence.hour_ledger import HourEntry, is_ready
from orchestration import open_hours
from orchestration.dagster_code.hour_events import EvidenceKeys, gap_table, table_cell
from orchestration.dagster_code.partitions import hour_name
from orchestration.dagster_code.ui_links import partition_link
from orchestration.open_home import OpenHome
from orchestration.open_hours import is_complete
from quality.checks import ALWAYS
from quality.finding_catalogue import CATALOGUE

MAY_BE_BILLED = "period_may_be_billed"
HOURS_COMPLETE = "hours_are_complete"
HOURS_FRESH = "hours_are_fresh"

HOURS_BEHIND_LIMIT = 1
"""One hour may fail and be queried again. After two in a row the check fails."""

FINDINGS_SHOWN = 50
OWN_CHECKS = [name for name in ALWAYS if not name.startswith("dbt_")]
"""The required checks that are not dbt tests; they include the Great Expectations suites."""

SOURCE_OF = {"samples_missing": Source.THANOS, "journal_missing": Source.KUBERNETES}


def period_check_specs(asset: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """One check per finding of the catalogue, one per required check, and one for all of them."""
    specs = [
        dg.AssetCheckSpec(
            MAY_BE_BILLED,
            asset=asset,
            blocking=True,
            description="No finding blocks the close, and each required check evaluated rows.",
        )
    ]
    specs += [
        dg.AssetCheckSpec(
            kind.name,
            asset=asset,
            blocking=kind.blocks,
            description=f"The period has no finding {kind.code}. Its meaning: {kind.means}",
        )
        for kind in CATALOGUE.values()
    ]
    specs += [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            blocking=True,
            description="A required check: it must run and evaluate at least one row.",
        )
        for name in OWN_CHECKS
    ]
    return specs


def period_check_results(
    asset: dg.AssetKey, result: CheckResult, evidence: EvidenceKeys
) -> Iterator[dg.AssetCheckResult]:
    """The result of checking a period, one event per check."""
    yield dg.AssetCheckResult(
        asset_key=asset,
        check_name=MAY_BE_BILLED,
        passed=result.billable,
        metadata={
            "blocking findings": len(result.blocking),
            "checks not executed": ", ".join(result.missing_checks) or "none",
            "findings": dg.MetadataValue.md(findings_table(result.findings, evidence)),
        },
    )
    for kind in CATALOGUE.values():
        findings = [finding for finding in result.findings if finding.name == kind.name]
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=kind.name,
            passed=not findings,
            severity=dg.AssetCheckSeverity.ERROR if kind.blocks else dg.AssetCheckSeverity.WARN,
            metadata={
                "code": kind.code,
                "found": len(findings),
                "findings": dg.MetadataValue.md(
                    findings_table(findings, evidence) if findings else "None."
                ),
            },
        )
    executed = {check.name: check for check in result.checks}
    for name in OWN_CHECKS:
        check = executed.get(name)
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=name,
            passed=check is not None and check.passed,
            metadata={
                "rows evaluated": check.evaluated_row_count if check else 0,
                "rows failed": check.failed_row_count if check else 0,
            },
        )


def findings_table(findings: Sequence[Finding], evidence: EvidenceKeys) -> str:
    """Findings as Markdown, blocking ones first, each with a link to its first hour."""
    rows = [_row(finding, evidence) for finding in findings[:FINDINGS_SHOWN]]
    more = len(findings) - FINDINGS_SHOWN
    rows += [f"| and {more} more | | | | |"] if more > 0 else []
    head = ["| code | blocks | where | seen | remedy |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _row(finding: Finding, evidence: EvidenceKeys) -> str:
    blocks = "yes" if finding.blocks else "no"
    cells = (finding.code, blocks, finding.where, finding.seen, finding.what_to_do)
    code, blocks, where, seen, remedy = map(table_cell, cells)
    where = " ".join([where, *_hour_links(finding, evidence)])
    return f"| {code} | {blocks} | {where} | {seen} | {remedy} |"


def _hour_links(finding: Finding, evidence: EvidenceKeys) -> Iterator[str]:
    """Links to the first hour of a finding, of the source that lacks it or of both."""
    sources = [SOURCE_OF[finding.name]] if finding.name in SOURCE_OF else [*Source]
    for source in sources:
        key = evidence.get((finding.cluster_id, source))
        if key is not None and finding.hour_started_at is not None:
            yield f"[{key.path[-1]}]({partition_link(key, finding.hour_started_at)})"


def evidence_check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The two checks of a raw asset."""
    return [
        dg.AssetCheckSpec(
            HOURS_COMPLETE,
            asset=key,
            description="Each hour that is over in an open period has a complete response.",
        ),
        dg.AssetCheckSpec(
            HOURS_FRESH,
            asset=key,
            description="One of the two newest hours that are over has a complete response.",
        ),
    ]


def evidence_evaluations(
    opened: OpenHome, entries: Sequence[HourEntry], keys: EvidenceKeys
) -> list[dg.AssetCheckEvaluation]:
    """The results of the two checks of each source, from its hours."""
    now = opened.clock.now()
    evaluations = []
    for (cluster_id, source), key in keys.items():
        due = [
            entry
            for entry in entries
            if (entry.cluster_id, entry.source) == (cluster_id, source) and is_ready(entry, now)
        ]
        evaluations += [
            _evaluate_completeness(opened, key, due, now),
            _evaluate_freshness(key, due),
        ]
    return evaluations


def _evaluate_completeness(
    opened: OpenHome, key: dg.AssetKey, due: Sequence[HourEntry], now: datetime
) -> dg.AssetCheckEvaluation:
    incomplete = [entry for entry in due if not is_complete(entry)]
    backfillable = {
        entry.hour_started_at: entry.backfillable(
            now, open_hours.retention_days(opened, entry.cluster_id)
        )
        for entry in incomplete
    }
    backfillable_count = sum(backfillable.values())
    metadata: dict[str, dg.MetadataValue] = {
        "hours expected": dg.MetadataValue.int(len(due)),
        "hours incomplete": dg.MetadataValue.int(len(incomplete)),
        "hours that can be backfilled": dg.MetadataValue.int(backfillable_count),
    }
    if incomplete:
        metadata["hours"] = dg.MetadataValue.md(gap_table(key, incomplete, backfillable))
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=HOURS_COMPLETE,
        passed=not incomplete,
        # A gap that cannot be backfilled is a warning here; the check of the period may block.
        severity=dg.AssetCheckSeverity.ERROR if backfillable_count else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _evaluate_freshness(key: dg.AssetKey, due: Sequence[HourEntry]) -> dg.AssetCheckEvaluation:
    behind = 0
    for entry in reversed(due):
        if is_complete(entry):
            break
        behind += 1
    newest = due[len(due) - behind - 1] if behind < len(due) else None
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=HOURS_FRESH,
        passed=behind <= HOURS_BEHIND_LIMIT,
        metadata={
            "hours behind": dg.MetadataValue.int(behind),
            "newest complete hour": dg.MetadataValue.text(
                hour_name(newest.hour_started_at) if newest else "none"
            ),
            "newest hour due": dg.MetadataValue.text(
                format_instant(due[-1].hour_started_at) if due else "none"
            ),
        },
    )
