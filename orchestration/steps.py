"""The steps of the pipeline: pull, refresh, check, close, recount. All user interfaces call these.

Put here: which package is called with which arguments, and in which order.
Not here: the rules of a step, options and printing (`orchestration.cli`), schedules
(`orchestration.dagster_code`).
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from billing.basis import sealed_copies
from billing.billed_facts import FactsReader
from billing.close import CloseResult, close_period
from billing.landed_evidence import lost_evidence
from billing.record import Record
from billing.recount import RecountResult, recount_decisions, recount_period
from billing.sealed_facts import SealedPeriod, sealed_period
from domain.billing_period import BillingPeriod
from domain.decisions import (
    ClosedDecisionEdited,
    Decisions,
    PriceChangeNeedsSecondName,
    Source,
    edited_since,
    load_decisions,
    template_files,
    unsigned_since,
)
from domain.errors import LedgerError
from domain.findings import CheckResult
from domain.interval import HOUR, Interval, union
from ingestion.evidence.chain_heads import (
    ChainHead,
    changed_since,
    heads_of,
    keep_heads,
    kept_heads,
    require_kept_heads,
)
from ingestion.evidence.hour_ledger import DueWindow, hour_ledger
from ingestion.evidence.landing import Landing, LandingReport
from ingestion.rebuild import compact_settled, repair_runs
from ingestion.thanos.recheck import recheck as count_samples_again
from orchestration import open_hours, period_state
from orchestration.model_documentation import model_page
from orchestration.open_home import OpenHome, decision_files, holder
from orchestration.pull_windows import PullWindow, pull_window, pull_windows
from quality.checks import record_dbt_tests
from quality.run import Also, check_facts
from quality.run import check_period as check_facts_of
from warehouse.build import BuildResult, PeriodIsClosed, build_period
from warehouse.connection import connected
from warehouse.manifest import Attempt
from warehouse.raw_evidence import evidence_windows
from warehouse.store import write_whole
from warehouse.switched import (
    WarehouseLost,
    periods_in,
    require_intact,
    restore_note,
    switched_periods,
)

Progress = Callable[[int, int, str], None]

ACCEPTED_GAPS = "accepted_gaps.csv"


def pull(
    opened: OpenHome,
    hours: Interval,
    *,
    clusters: Sequence[str] = (),
    sources: Sequence[Source] = (),
    only_due: bool = True,
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Query the expected hours in `hours`; by default only those not yet complete.

    Errors are collected or raised as in `pull_windows`.
    """
    windows = [
        PullWindow(cluster_id, source, window, f"{cluster_id} {source} {window.started_at:%d %b}")
        for cluster_id, source, window in open_hours.windows_to_pull(
            opened, hours, clusters, sources, all_hours=not only_due
        )
    ]
    return pull_windows(opened, windows, progress, errors)


def pull_due_hours(
    opened: OpenHome,
    due: Sequence[DueWindow],
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Query the due windows in order; errors as in `pull_windows`."""
    windows = [
        PullWindow(
            one.cluster_id, one.source, one.window, f"{one.cluster_id} {one.source} {one.why}"
        )
        for one in due
    ]
    return pull_windows(opened, windows, progress, errors)


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """The result of comparing sample counts with the stores."""

    differing_count: int  # hours of which a store now has another number of samples
    attempts: tuple[Attempt, ...]  # of these hours, made again
    unanswered: Mapping[str, str]  # "<cluster> <metric>": why


def recheck(
    opened: OpenHome,
    hours: Interval,
    *,
    clusters: Sequence[str] = (),
    progress: Progress | None = None,
) -> RecheckResult:
    """Compare sample counts with the stores, and query the hours that differ."""
    windows = open_hours.windows_to_pull(opened, hours, clusters, [Source.THANOS], all_hours=True)
    landed = opened.landing.attempts(source=Source.THANOS)
    attempts: list[Attempt] = []
    unanswered: dict[str, str] = {}
    differing_count = 0
    for number, (cluster_id, source, window) in enumerate(windows):
        if progress:
            progress(number, len(windows), f"{cluster_id} {window.started_at:%d %b}")
        settings = opened.thanos_source(cluster_id, window.started_at)
        # A server that did not respond once is not queried for the other days.
        if settings is None or any(name.startswith(f"{cluster_id} ") for name in unanswered):
            continue
        expected = [(cluster_id, source, hour) for hour in window.hours()]
        found = count_samples_again(settings, window, hour_ledger(expected, landed))
        unanswered |= {f"{cluster_id} {metric}": why for metric, why in found.unanswered.items()}
        differing_count += len(found.hours)
        for part in union(Interval(hour, hour + HOUR) for hour in found.hours):
            attempt = pull_window(opened, cluster_id, source, part)
            attempts += [attempt] if attempt else []
    if progress:
        progress(len(windows), len(windows), "")
    return RecheckResult(differing_count, tuple(attempts), unanswered)


def refresh(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> BuildResult:
    """Rebuild a period's facts, whole, and record the results of its dbt tests.

    A closed period is refused, unless its facts are lost: then they are rebuilt from the evidence
    that its close sealed, and used only if they are identical. Missing or damaged derived files are
    decoded again from the landing first. Afterwards, the derived files of settled days are merged.
    """
    closed = opened.record.closed_periods()
    sealed = _sealed_if_lost(opened, period) if period.name in closed else None
    repair_derived_files(opened, period, progress)
    # Taken before the build: evidence that lands during the build makes the facts outdated.
    evidence = period_state.evidence_sha256(opened, period)
    if not opened.home.warehouse_path.is_file():
        period_state.remove_built_states(opened.home)
    build = build_period(
        opened.home,
        period,
        sealed.decisions if sealed else opened.decisions,
        closed_periods=closed,
        sealed=sealed.facts if sealed else None,
        engine=opened.settings.engine,
        also=record_dbt_tests,
        progress=progress,
    )
    period_state.write_built_state(opened.home, period, evidence, build.facts_sha256)
    if sealed:
        _check(opened, period, sealed.decisions)
    compact_settled(opened.landing, opened.home.runs, opened.clock.now())
    return build


def repair_derived_files(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> None:
    """Decode again the derived files of a period that are missing or damaged."""
    repair_runs(opened.landing, opened.home.runs, progress, evidence_windows(period))


def _sealed_if_lost(opened: OpenHome, period: BillingPeriod) -> SealedPeriod:
    """The sealed evidence of a closed period; raises PeriodIsClosed while its facts are there.

    The list of switched periods may be lost as well: the close sealed the hash of the facts.
    """
    sealed = sealed_period(opened.record, opened.home.landing_store(), period)
    if restore_note(opened.home, period.name, sealed.facts.facts_sha256):
        raise PeriodIsClosed(period)
    return sealed


def periods_to_refresh(opened: OpenHome) -> list[BillingPeriod]:
    """The periods that are refreshed by default: each open one with evidence.

    Without any evidence it is the newest open one; without a measured cluster there is none.
    """
    periods = open_hours.open_periods(opened)
    with_evidence = [
        period
        for period in periods
        if any(entry.responses for entry in open_hours.hour_entries(opened, period.interval))
    ]
    return with_evidence or periods[-1:]


def check_period(opened: OpenHome, period: BillingPeriod, also: Also | None = None) -> CheckResult:
    """Check the facts in the warehouse, and compare the evidence with that of the last check.

    Facts that were edited or lost are rebuilt first. `also` reads the checked facts, on the
    connection of the check.
    """
    landing, record = opened.landing.store, opened.record.store
    require_kept_heads(landing, record)
    heads = heads_of(landing)
    repair_facts(opened, period, deep=False)  # the check itself compares their hash
    since = compare_with_closed(opened, period)
    decisions = opened.decisions
    decisions = replace(decisions, problems=(*decisions.problems, *since.prices))
    try:
        check_result = _check(opened, period, decisions, since.edits, also)
    except WarehouseLost:
        with contextlib.suppress(PeriodIsClosed):
            refresh(opened, period)
        check_result = _check(opened, period, decisions, since.edits, also)
    keep_heads(record, heads)
    return check_result


def _check(
    opened: OpenHome,
    period: BillingPeriod,
    decisions: Decisions,
    edits: Sequence[LedgerError] = (),
    also: Also | None = None,
) -> CheckResult:
    check_result = check_facts_of(opened.home, period, decisions, opened.clock, edits, also)
    period_state.write_checked_state(opened.home, check_result, opened.clock.now())
    return check_result


@dataclass(frozen=True, slots=True)
class ChangesSinceClose:
    """The differences between the decision tables and the sealed copies of closed periods."""

    edits: tuple[ClosedDecisionEdited, ...]
    prices: tuple[PriceChangeNeedsSecondName, ...]  # of the period that is checked


def compare_with_closed(opened: OpenHome, period: BillingPeriod | None = None) -> ChangesSinceClose:
    """Compare the tables with the sealed copy of every closed period, and prices with the last.

    `period`: the month whose prices are compared with those of the last month closed before it;
    by default the month after the last closed one.
    """
    present, copies = opened.decisions, sealed_copies(opened.record)
    edits = [
        edit
        for closed, sealed in copies.items()
        for edit in edited_since(
            closed,
            sealed.rows,
            present.valid_in(closed.interval).rows,
            (a.amended_table for a in present.amendments if a.billing_period == closed),
        )
    ]
    before = [closed for closed in copies if period is None or closed.ended_at <= period.started_at]
    prices: list[PriceChangeNeedsSecondName] = []
    if before and period not in copies:
        last = before[-1]
        known = {problem.where for problem in present.problems}
        changes = unsigned_since(copies[last].rates, present.rates, last.ended_at)
        prices = [problem for problem in changes if problem.where not in known]
    return ChangesSinceClose(tuple(edits), tuple(prices))


def recheck_before_close(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> RecheckResult:
    """Recheck a period that is about to close, and rebuild its facts with late samples.

    A closed period is skipped: evidence that is added to it later becomes corrections.
    """
    if period.name in opened.record.closed_periods():
        return RecheckResult(0, (), {})
    found = recheck(opened, period.interval, progress=progress)
    if found.attempts:
        refresh(opened, period, progress)
    return found


def repair_facts(opened: OpenHome, period: BillingPeriod, *, deep: bool = True) -> None:
    """Rebuild the facts of a period that were lost from the warehouse, or edited in it.

    `deep` compares the hash of the facts, which finds edits. An open period without facts stays as
    it is.
    """
    was_built = period.name in switched_periods(opened.home)
    is_there = period.name in periods_in(opened.home)
    if not (was_built or is_there or period.name in opened.record.closed_periods()):
        return
    try:
        require_intact(opened.home, period.name, deep=deep)
        if was_built and is_there:
            return
    except WarehouseLost:
        pass
    with contextlib.suppress(PeriodIsClosed):  # the sealed facts are there
        refresh(opened, period)


def accept_gaps(opened: OpenHome, rows: Iterable[Mapping[str, str]]) -> bool:
    """Add rows to decisions/accepted_gaps.csv; returns False if all of them were there before.

    The new table is validated before it replaces the present one.
    """
    path = opened.home.decisions / ACCEPTED_GAPS
    before = path.read_text(encoding="utf-8") if path.exists() else template_files()[ACCEPTED_GAPS]
    header = next(line for line in before.splitlines() if line and not line.startswith("#"))
    columns = next(csv.reader([header]))
    added = io.StringIO()
    writer = csv.DictWriter(added, columns, restval="", lineterminator="\n")
    today = opened.clock.now().date().isoformat()
    writer.writerows({**row, "decided_on": today} for row in rows)
    after = before + ("" if before.endswith("\n") else "\n") + added.getvalue()
    files = decision_files(opened.home)
    accepted = load_decisions({**files, ACCEPTED_GAPS: after.encode()})
    if set(accepted.accepted_gaps) == set(load_decisions(files).accepted_gaps):
        return False
    write_whole(path, after.encode())
    return True


def verify_landing(
    landing: Landing, record: Record, heads: Sequence[ChainHead] = ()
) -> LandingReport:
    """Read a landing again, and compare it with earlier statements about it.

    These are the heads of the last check, heads that were stored elsewhere, and the closed months,
    which sealed the hashes of their responses.
    """
    report = landing.verify()

    def named_in(period: BillingPeriod) -> dict[str, dict[str, set[str]]]:
        named: dict[str, dict[str, set[str]]] = {}
        for attempt in report.attempts:
            if attempt.window.overlaps(period.interval):
                sources = named.setdefault(attempt.cluster_id, {})
                sources.setdefault(attempt.source.value, set()).update(attempt.answer_sha256s)
        return named

    found: list[LedgerError] = [*changed_since(landing.store, heads, "the file of --heads")]
    comparisons: tuple[Callable[[], Sequence[LedgerError]], ...] = (
        lambda: changed_since(landing.store, kept_heads(record.store), "the last check"),
        lambda: lost_evidence(landing.store.location, record, named_in),
    )
    for compare in comparisons:
        try:
            found += compare()
        except LedgerError as unreadable:  # a damaged record is one of the problems
            found.append(unreadable)
    return replace(report, problems=(*report.problems, *found))


def close(
    opened: OpenHome, period: BillingPeriod, *, dry_run: bool, facts_sha256: str | None = None
) -> CloseResult:
    """Close a period, or show the result of a close; the facts are checked in the same step.

    If evidence or decisions changed since the facts were built, they are rebuilt first.
    """
    reader = FactsReader(period)

    def checked() -> CheckResult:
        if period_state.needs_build(opened, period):
            refresh(opened, period)
        return check_period(opened, period, reader)

    return close_period(
        opened.home,
        period,
        opened.decisions,
        checked,
        opened.clock,
        dry_run=dry_run,
        holder=holder(),
        model_pages=lambda: model_page(opened.home),
        facts_sha256=facts_sha256,
        reader=reader,
    )


def recount(
    opened: OpenHome,
    period: BillingPeriod,
    *,
    dry_run: bool = True,
    progress: Progress | None = None,
) -> RecountResult:
    """Rebuild a closed period in a file of its own, with the decisions sealed at its close.

    The result has the differences to the closed facts; unless `dry_run` is set they are recorded.
    """
    repair_derived_files(opened, period, progress)
    counted_with = recount_decisions(opened.home, period, opened.decisions)
    build = build_period(
        opened.home,
        period,
        counted_with.decisions,
        closed_periods=opened.record.closed_periods(),
        destination=opened.home.build / f"{period.name}.recount.duckdb",
        engine=opened.settings.engine,
        progress=progress,
    )

    def check_build() -> CheckResult:
        """Check the new file; the check result of the warehouse does not change."""
        with connected(build.build_path) as connection:
            record_dbt_tests(connection, build)
            return check_facts(connection, build.period, counted_with.decisions, opened.clock)

    return recount_period(
        opened.home,
        period,
        counted_with,
        build.build_path,
        check_build,
        opened.clock,
        dry_run=dry_run,
        holder=holder(),
    )
