"""Asset checks: what checking said, by the names of findings; and how the hours of a source stand.

Put here: which checks there are, and turning check_results and ledgers into their results.
Not here: any rule (`quality`, `ingestion.evidence.hour_ledger`), or dbt's tests (`assets.facts`).

A check that blocks says so, and has the name of what it stands for. Nothing rests on Dagster's
blocking: a close checks again by itself.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import dagster as dg

from domain.decisions import Source
from domain.findings import CheckResult, Finding
from domain.interval import format_instant
from ingestion.evidence.hour_ledger import HourEntry, ready
from orchestration import ledger
from orchestration.assets.hour_events import gap_table, table_cell
from orchestration.links import partition_link
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name
from quality.catalogue import CATALOGUE
from quality.required import ALWAYS
from warehouse.manifest import Outcome

MAY_BE_BILLED = "period_may_be_billed"
HOURS_WHOLE = "hours_are_whole"
HOURS_FRESH = "hours_are_fresh"

HOURS_BEHIND_LIMIT = 1
"""One live hour may fail and be asked again; a second one means that asking has stopped."""

FINDINGS_SHOWN = 50
SOURCE_OF = {"samples_missing": Source.THANOS, "journal_missing": Source.KUBERNETES}
DBT = "dbt_"

EvidenceKeys = Mapping[tuple[str, Source], dg.AssetKey]


def specs_of_checks(check_result: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """One check per finding of the catalogue, one per required check, and the sum of them."""
    specs = [
        dg.AssetCheckSpec(
            MAY_BE_BILLED,
            asset=check_result,
            blocking=True,
            description="No finding blocks, and every required check ran on rows.",
        )
    ]
    specs += [
        dg.AssetCheckSpec(
            kind.name,
            asset=check_result,
            blocking=kind.blocks,
            description=f"{kind.code}: {kind.bill}",
        )
        for kind in CATALOGUE.values()
    ]
    specs += [
        dg.AssetCheckSpec(
            name, asset=check_result, blocking=True, description="Required: it has to look at rows."
        )
        for name in own_checks()
    ]
    return specs


def own_checks() -> list[str]:
    """The required checks that checking runs itself, Great Expectations suites among them."""
    return [name for name in ALWAYS if not name.startswith(DBT)]


def results_of_checks(
    asset: dg.AssetKey, checked: CheckResult, evidence: EvidenceKeys
) -> Iterator[dg.AssetCheckResult]:
    """What a check said, check by check."""
    yield dg.AssetCheckResult(
        asset_key=asset,
        check_name=MAY_BE_BILLED,
        passed=checked.billable,
        metadata={
            "blocking findings": len(checked.blocking),
            "checks not executed": ", ".join(checked.missing_checks) or "none",
            "findings": dg.MetadataValue.md(findings_table(checked.findings, evidence)),
        },
    )
    for kind in CATALOGUE.values():
        found = [finding for finding in checked.findings if finding.name == kind.name]
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=kind.name,
            passed=not found,
            severity=dg.AssetCheckSeverity.ERROR if kind.blocks else dg.AssetCheckSeverity.WARN,
            metadata={
                "code": kind.code,
                "found": len(found),
                "findings": dg.MetadataValue.md(
                    findings_table(found, evidence) if found else "None."
                ),
            },
        )
    ran = {check.name: check for check in checked.checks}
    for name in own_checks():
        check = ran.get(name)
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=name,
            passed=check is not None and check.passed,
            metadata={
                "rows looked at": check.evaluated_row_count if check else 0,
                "rows that failed": check.failed_row_count if check else 0,
            },
        )


def findings_table(findings: Sequence[Finding], evidence: EvidenceKeys) -> str:
    """Findings as Markdown, blocking ones first, each with a link to its first hour."""
    rows = [_row(finding, evidence) for finding in findings[:FINDINGS_SHOWN]]
    more = len(findings) - FINDINGS_SHOWN
    rows += [f"| and {more} more | | | | |"] if more > 0 else []
    head = ["| code | blocks | where | seen | what to do |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _row(finding: Finding, evidence: EvidenceKeys) -> str:
    blocks = "yes" if finding.blocks else "no"
    cells = (finding.code, blocks, finding.where, finding.seen, finding.what_to_do)
    code, blocks, where, seen, to_do = map(table_cell, cells)
    where = " ".join([where, *_hour_links(finding, evidence)])
    return f"| {code} | {blocks} | {where} | {seen} | {to_do} |"


def _hour_links(finding: Finding, evidence: EvidenceKeys) -> Iterator[str]:
    """To the first hour of a finding, of the source that it is about or of both."""
    sources = [SOURCE_OF[finding.name]] if finding.name in SOURCE_OF else [*Source]
    for source in sources:
        key = evidence.get((finding.cluster_id, source))
        if key is not None and finding.hour_started_at is not None:
            yield f"[{key.path[-1]}]({partition_link(key, finding.hour_started_at)})"


def evidence_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The two checks of a raw asset, from the hour ledger."""
    return [
        dg.AssetCheckSpec(
            HOURS_WHOLE,
            asset=key,
            description="Every hour that is over and not closed was answered whole.",
        ),
        dg.AssetCheckSpec(
            HOURS_FRESH,
            asset=key,
            description=f"The newest hours came in; at most {HOURS_BEHIND_LIMIT} may be behind.",
        ),
    ]


def evidence_result(state: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    """The same, as a step yields it."""
    return dg.AssetCheckResult(
        asset_key=state.asset_key,
        check_name=state.check_name,
        passed=state.passed,
        severity=state.severity,
        metadata=state.metadata,
    )


def open_entries(opened: OpenHome) -> list[HourEntry]:
    """Every hour that is looked after, with what was answered about it."""
    window = ledger.open_window(opened)
    return ledger.ledger(opened, window) if window else []


def evidence_states(
    opened: OpenHome, entries: Sequence[HourEntry], keys: EvidenceKeys
) -> list[dg.AssetCheckEvaluation]:
    """How the hours of each source stand, as evaluations of its two checks."""
    now = opened.clock.now()
    found = []
    for (cluster_id, source), key in keys.items():
        due = [
            entry
            for entry in entries
            if (entry.cluster_id, entry.source) == (cluster_id, source) and ready(entry, now)
        ]
        found += [_whole(opened, key, due, now), _fresh(key, due)]
    return found


def _whole(
    opened: OpenHome, key: dg.AssetKey, due: Sequence[HourEntry], now: datetime
) -> dg.AssetCheckEvaluation:
    bad = [entry for entry in due if not is_whole(entry)]
    backfillable = {
        entry.hour_started_at: entry.backfillable(
            now, ledger.retention_days(opened, entry.cluster_id)
        )
        for entry in bad
    }
    can_be_backfilled = sum(backfillable.values())
    metadata: dict[str, dg.MetadataValue] = {
        "hours expected": dg.MetadataValue.int(len(due)),
        "hours not whole": dg.MetadataValue.int(len(bad)),
        "of them can be backfilled": dg.MetadataValue.int(can_be_backfilled),
    }
    if bad:
        metadata["hours"] = dg.MetadataValue.md(gap_table(key, bad, backfillable))
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=HOURS_WHOLE,
        passed=not bad,
        # What cannot be backfilled is a gap for good: whether it blocks is checked, not repaired.
        severity=dg.AssetCheckSeverity.ERROR if can_be_backfilled else dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _fresh(key: dg.AssetKey, due: Sequence[HourEntry]) -> dg.AssetCheckEvaluation:
    behind = 0
    for entry in reversed(due):
        if is_whole(entry):
            break
        behind += 1
    whole = due[len(due) - behind - 1] if behind < len(due) else None
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=HOURS_FRESH,
        passed=behind <= HOURS_BEHIND_LIMIT,
        metadata={
            "hours behind": dg.MetadataValue.int(behind),
            "newest whole hour": dg.MetadataValue.text(
                hour_name(whole.hour_started_at) if whole else "none"
            ),
            "newest hour due": dg.MetadataValue.text(
                format_instant(due[-1].hour_started_at) if due else "none"
            ),
        },
    )


def is_whole(entry: HourEntry) -> bool:
    return entry.best is not None and entry.best.outcome is Outcome.OK
