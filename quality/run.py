"""The check of a period: reads the marts, evaluates all rules, and records the result.

Put here: the order of the steps.
Not here: the rules (`coverage`, `reconciliation`, `checks`, `suites`, `causes`, `unknowns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.clock import Clock, ready_until
from domain.decisions import Decisions
from domain.errors import LedgerError, TemporarilyUnavailable
from domain.findings import Check, CheckResult, CoverageState, CoverageStatus, Finding
from domain.interval import HOUR, Interval
from quality import checked_facts
from quality.causes import (
    device_use_findings,
    explain_hour,
    refused_gaps,
    twice_reported_findings,
    unseen_metric_findings,
)
from quality.check_tables import write_check_result
from quality.checks import (
    ONE_STATUS_PER_HOUR,
    WITH_ROWS,
    check_of,
    check_prices,
    read_dbt_checks,
    required_checks,
    sum_findings,
)
from quality.coverage import (
    JOURNAL,
    SAMPLES,
    Expectation,
    GapReport,
    UseByHour,
    coverage_statuses,
    gap_reports,
    gaps_of_hours,
    pod_gap_reports,
)
from quality.finding_catalogue import CATALOGUE
from quality.gap_findings import gap_findings
from quality.reconciliation import DifferenceLimits, limit_findings, segment_findings
from quality.suites import run_suites
from quality.unknowns import (
    budget_findings,
    contradiction_findings,
    edited_decision_findings,
    price_change_findings,
    recreated_uid_findings,
    unknown_device_findings,
    unpriced_findings,
)
from warehouse.connection import connected, writing
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.switched import intact_sha256, require_intact

if TYPE_CHECKING:
    import duckdb


Also = Callable[["duckdb.DuckDBPyConnection", CheckResult], None]


class FactsMissing(TemporarilyUnavailable):
    """The period's facts are not in the warehouse."""

    code = "FACTS-001"

    def __init__(self, home: Home, period: BillingPeriod) -> None:
        super().__init__(
            where=f"{home.warehouse_path}, period {period}",
            seen="no facts of this period",
            why="only facts can be checked, and only checked facts can be billed",
            remedy=f"gpu-ledger refresh --period {period}",
        )


def check_period(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    clock: Clock,
    edits: Sequence[LedgerError] = (),
    also: Also | None = None,
) -> CheckResult:
    """Check the facts in the warehouse and record the result; raises WarehouseLost for other facts.

    `edits`: the differences of the decision tables from the copies of closed periods.
    `also`: reads the checked facts, on the connection of the check.
    """
    if not home.warehouse_path.is_file():
        raise FactsMissing(home, period)
    with writing(home) as connection:
        if not checked_facts.has_period(connection, period.name):
            raise FactsMissing(home, period)
        facts_sha256 = intact_sha256(connection, home, period.name)
        check_result = check_facts(connection, period, decisions, clock, edits, facts_sha256)
        write_check_result(connection, check_result, clock.now())
        if also is not None:
            also(connection, check_result)
    return check_result


def check_facts(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    decisions: Decisions,
    clock: Clock,
    edits: Sequence[LedgerError] = (),
    facts_sha256: str = "",
) -> CheckResult:
    """The check of the facts behind a connection; nothing is written.

    `facts_sha256`: the hash of these facts, if the caller has it.
    """
    due = due_time(period, clock)
    expectations = expectations_of(decisions, due)
    coverage = checked_facts.read_coverage(connection, period.name)
    intervals = checked_facts.read_missing_intervals(connection, period.name)
    checked = tuple(
        coverage_statuses(expectations, coverage, decisions.accepted_gaps, due, intervals)
    )
    facts_sha256 = facts_sha256 or period_sha256(connection, period.name)
    checks, broken = _checks(connection, period, checked, facts_sha256)
    required = required_checks(checked_facts.row_counts(connection, period.name, WITH_ROWS))
    findings = [
        *_findings(connection, period, decisions, expectations, clock),
        *broken,
        *edited_decision_findings(edits),
        *_check_findings(checks, required),
    ]
    executed = {check.name for check in checks if check.evaluated_row_count}
    return CheckResult(
        period=period,
        facts_sha256=facts_sha256,
        findings=tuple(sorted(findings, key=_order)),
        coverage_statuses=checked,
        checks=tuple(sorted(checks, key=lambda check: check.name)),
        missing_checks=tuple(name for name in required if name not in executed),
    )


def due_time(period: BillingPeriod, clock: Clock) -> Interval:
    """The time of a period in which evidence is due; an open period has only its past hours."""
    until = min(ready_until(clock.now()), period.ended_at)
    return Interval(period.started_at, max(until, period.started_at))


def expectations_of(decisions: Decisions, window: Interval) -> list[Expectation]:
    """The measured time of each cluster, and its sources."""
    return [
        Expectation(
            row.cluster_id, piece, frozenset(source.value for source in row.expected_sources)
        )
        for piece, row in decisions.measured(window)
    ]


def limits_of(decisions: Decisions, window: Interval) -> DifferenceLimits:
    """The strictest version of each limit that holds in the window."""
    instants = [window.started_at, *decisions.cut_points(window)]
    return DifferenceLimits(
        one_source=min(decisions.one_source_limit(instant) for instant in instants),
        uncertainty=min(decisions.uncertainty_limit(instant) for instant in instants),
    )


def read_gap_reports(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    decisions: Decisions,
    clock: Clock,
) -> list[GapReport]:
    """Every gap of the period, whether or not it blocks."""
    due = due_time(period, clock)
    expectations = expectations_of(decisions, due)
    coverage = checked_facts.read_coverage(connection, period.name)
    metrics = checked_facts.read_metric_hours(connection, period.name)
    gaps = gaps_of_hours(
        expectations,
        coverage,
        due,
        lambda row: explain_hour(row, metrics),
        checked_facts.read_missing_intervals(connection, period.name),
    )
    measured = decisions.measured(period.interval)
    intervals = {row.cluster_id: row.sample_interval_seconds for _, row in measured}
    refused = checked_facts.read_refused_samples(connection, period.name)
    gaps += refused_gaps(expectations, refused, intervals)
    seen = {(row.cluster_id, row.hour_started_at) for row in coverage if row.seen_count}
    use_by_hour = UseByHour(checked_facts.read_hour_use(connection, period.name), seen)
    reports = gap_reports(expectations, gaps, decisions.accepted_gaps, use_by_hour)
    return reports + pod_gap_reports(coverage)


def _findings(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    decisions: Decisions,
    expectations: list[Expectation],
    clock: Clock,
) -> Iterator[Finding]:
    window, name = period.interval, period.name
    reports = read_gap_reports(connection, period, decisions, clock)
    currency = decisions.currency(window.ended_at - timedelta(seconds=1)) or ""
    yield from gap_findings(reports, currency)
    metrics = checked_facts.read_metric_hours(connection, name)
    yield from unseen_metric_findings(expectations, metrics)
    yield from device_use_findings(checked_facts.read_device_use(connection, name))
    yield from twice_reported_findings(checked_facts.read_duplicate_readings(connection, name))
    both = frozenset(e.cluster_id for e in expectations if {SAMPLES, JOURNAL} <= e.sources)
    yield from segment_findings(
        checked_facts.read_segments(connection, name), decisions.accepted_gaps
    )
    uses = checked_facts.read_tenant_use(connection, name, both)
    yield from limit_findings(uses, limits_of(decisions, window))
    unpriced = checked_facts.read_unpriced_use(connection, name)
    yield from unpriced_findings(unpriced, has_price_list=bool(decisions.rates))
    yield from unknown_device_findings(checked_facts.read_unknown_devices(connection, name))
    yield from price_change_findings(decisions.valid_in(window).problems)
    yield from recreated_uid_findings(checked_facts.read_recreated_namespaces(connection, name))
    yield from budget_findings(checked_facts.read_budgets_not_counted(connection, name))
    yield from contradiction_findings(checked_facts.read_contradictions(connection, name))


def _checks(
    connection: duckdb.DuckDBPyConnection,
    period: BillingPeriod,
    checked: tuple[CoverageStatus, ...],
    facts_sha256: str,
) -> tuple[list[Check], list[Finding]]:
    expected = [v for v in checked if v.state is not CoverageState.NOT_EXPECTED]
    places = {(v.cluster_id, v.source, v.hour_started_at) for v in expected}
    checks = [
        Check(ONE_STATUS_PER_HOUR, len(expected), len(expected) - len(places)),
        check_prices(checked_facts.read_charges(connection, period.name)),
        *run_suites(connection, period.name),
        *_relevant(read_dbt_checks(connection, period.name, facts_sha256)),
    ]
    findings: list[Finding] = []
    for name, comparisons in checked_facts.read_comparisons(connection, period.name).items():
        checks.append(check_of(name, comparisons))
        findings += sum_findings(name, comparisons)
    return checks, findings


def _relevant(checks: Iterable[Check]) -> Iterator[Check]:
    """The checks with a row or a failure; a required check that is left out counts as missing."""
    return (c for c in checks if c.evaluated_row_count or c.failed_row_count)


def _check_findings(checks: Iterable[Check], required: Iterable[str]) -> Iterator[Finding]:
    """The findings of failed checks and of required checks that were not executed."""
    by_name = {check.name: check for check in checks}
    for name in sorted({*by_name, *required}):
        check = by_name.get(name, Check(name, 0, 0))
        if check.failed_row_count:
            yield CATALOGUE["check_failed"].finding(
                where=f"check {name}",
                seen=f"{check.failed_row_count} of {check.evaluated_row_count} rows failed",
            )
        elif not check.evaluated_row_count:
            yield CATALOGUE["check_not_executed"].finding(
                where=f"check {name}", seen="0 rows evaluated, at least 1 is required"
            )


def _order(finding: Finding) -> tuple[bool, str, str, str]:
    """Blocking findings first, then by code and place."""
    return (not finding.blocks, finding.code, finding.where, finding.seen)


def list_gaps(
    home: Home, period: BillingPeriod, decisions: Decisions, clock: Clock
) -> list[GapReport]:
    """The gaps of a period as `gpu-ledger gaps` shows them; nothing is checked or written."""
    if not home.warehouse_path.is_file():
        raise FactsMissing(home, period)
    require_intact(home, period.name)
    with connected(home.warehouse_path, read_only=True) as connection:
        if not checked_facts.has_period(connection, period.name):
            raise FactsMissing(home, period)
        return [
            replace(report, pods=checked_facts.read_pods(connection, period.name, *_around(report)))
            for report in read_gap_reports(connection, period, decisions, clock)
        ]


def _around(report: GapReport) -> tuple[str, Interval]:
    """The cluster of a gap, and its time with the hour before, whose pods probably ran in it."""
    hours = report.hours
    return report.cluster_id, Interval(hours.started_at - HOUR, hours.ended_at)
