"""The steps of the line: ask, build, check, close. The command line and Dagster call these.

Put here: which stage is called with what, and in which order.
Not here: any rule of a stage, options and printing (`orchestration.cli`), schedules (`assets/`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions, Source, edited_since, unsigned_since
from domain.errors import LedgerError
from domain.interval import HOUR, Interval
from orchestration import ledger, standing
from orchestration.asking import Wanted, ask, ask_all
from orchestration.open_home import OpenHome, holder

if TYPE_CHECKING:
    from billing.close import CloseResult
    from billing.record import Record
    from billing.sealed_facts import SealedPeriod
    from domain.decisions import ClosedDecisionEdited, PriceChangeNeedsSecondName
    from domain.findings import CheckResult
    from ingestion.evidence.chain_heads import ChainHead
    from ingestion.evidence.hour_ledger import DueWindow
    from ingestion.evidence.landing import Landing, LandingReport
    from quality.run import Also
    from warehouse.build import BuildResult
    from warehouse.manifest import Attempt

Progress = Callable[[int, int, str], None]


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
    """Ask for every expected hour in `hours`; by default only for those not yet complete.

    Errors of clusters are put into the list, if there is one; else the first is raised.
    """
    todo = [
        Wanted(cluster_id, source, window, f"{cluster_id} {source.value} {window.started_at:%d %b}")
        for cluster_id, source, window in ledger.askable(
            opened, hours, clusters, sources, again=not only_due
        )
    ]
    return ask_all(opened, todo, progress, errors)


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What counting again came to: what was asked again for it, and what was not answered."""

    differing_count: int  # hours of which a server now has another number of samples
    attempts: tuple[Attempt, ...]
    unanswered: Mapping[str, str]  # "<cluster> <metric>": why


def pull_due_hours(
    opened: OpenHome,
    due: Sequence[DueWindow],
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Query the due windows in order, two clusters at a time; errors as in `ask_all`."""
    todo = [
        Wanted(one.cluster_id, one.source, one.window, f"{one.cluster_id} {one.source} {one.why}")
        for one in due
    ]
    return ask_all(opened, todo, progress, errors)


def recheck(
    opened: OpenHome,
    hours: Interval,
    *,
    clusters: Sequence[str] = (),
    progress: Progress | None = None,
) -> Rechecked:
    """Let the servers count their samples again, and ask for the hours that differ."""
    from ingestion.evidence.hour_ledger import hour_ledger
    from ingestion.thanos.recheck import recheck as count_again

    todo = ledger.askable(opened, hours, clusters, [Source.THANOS], again=True)
    landed = opened.landing.attempts(source=Source.THANOS)
    attempts: list[Attempt] = []
    unanswered: dict[str, str] = {}
    differing_count = 0
    for number, (cluster_id, source, window) in enumerate(todo):
        if progress:
            progress(number, len(todo), f"{cluster_id} {window.started_at:%d %b}")
        how = opened.thanos_source(cluster_id, window.started_at)
        if how is None or _is_away(unanswered, cluster_id):
            continue
        expected = [(cluster_id, source, hour) for hour in window.hours()]
        found = count_again(how, window, hour_ledger(expected, landed))
        unanswered |= {f"{cluster_id} {metric}": why for metric, why in found.unanswered.items()}
        differing_count += len(found.hours)
        for again in _neighbours(found.hours):
            attempt = ask(opened, cluster_id, source, again)
            attempts += [attempt] if attempt else []
    if progress:
        progress(len(todo), len(todo), "")
    return Rechecked(differing_count, tuple(attempts), unanswered)


def refresh(
    opened: OpenHome,
    period: BillingPeriod,
    progress: Progress | None = None,
    *,
    compacting: bool = True,
) -> BuildResult:
    """Rebuild a period's facts, whole, and write down what its tests said.

    A closed one is refused, unless its facts are lost: then it is counted again from what its close
    sealed, to the very same facts. Derived files that are missing, or not as they were written,
    are made again from the landing first; those of days that will not change any more are put
    together afterwards, here or by whoever does without `compacting`.
    """
    from quality.dbt_checks import record_dbt_tests
    from warehouse.build import build_period

    closed = opened.record.closed_periods()
    sealed = _sealed_and_lost(opened, period) if period.name in closed else None
    have_derived_files(opened, period, progress)
    # Before the build: what lands meanwhile makes the facts old, whether or not it was read.
    evidence = standing.evidence_sha256(opened, period)
    if not opened.home.warehouse_path.is_file():
        standing.forget_builds(opened.home)
    build = build_period(
        opened.home,
        period,
        sealed.decisions if sealed else opened.decisions,
        closed_periods=closed,
        sealed=sealed.facts if sealed else None,
        also=record_dbt_tests,
        progress=progress,
    )
    standing.note_built(opened.home, period, evidence, build.facts_sha256)
    if sealed:
        _check(opened, period, sealed.decisions)
    if compacting:
        compact(opened)
    return build


def have_derived_files(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> None:
    """What a period is counted from, as it was written; else made again from the landing."""
    from ingestion.rebuild import repair_runs
    from warehouse.raw_evidence import hours_taken

    repair_runs(opened.landing, opened.home.runs, progress, hours_taken(period))


def _sealed_and_lost(opened: OpenHome, period: BillingPeriod) -> SealedPeriod:
    """What a closed period is counted again from; raises PeriodIsClosed while its facts are there.

    What was written down of them may be lost, too: the close sealed their hash.
    """
    from billing.sealed_facts import sealed_period
    from warehouse.build import PeriodIsClosed
    from warehouse.switched import find_again

    sealed = sealed_period(opened.record, opened.home.landing_store(), period)
    if find_again(opened.home, period.name, sealed.facts.facts_sha256):
        raise PeriodIsClosed(period)
    return sealed


def refreshable(opened: OpenHome) -> list[BillingPeriod]:
    """What is refreshed when nobody names a period: every open one that anything landed of.

    Where nothing did, the newest open one; nothing where nothing is measured.
    """
    periods = ledger.open_periods(opened)
    with_evidence = [
        period
        for period in periods
        if any(entry.responses for entry in ledger.ledger(opened, period.interval))
    ]
    return with_evidence or periods[-1:]


def compact(opened: OpenHome) -> None:
    """Put together the derived files of days that will not change any more."""
    from ingestion.rebuild import compact_settled

    compact_settled(opened.landing, opened.home.runs, opened.clock.now())


def check_period(opened: OpenHome, period: BillingPeriod, also: Also | None = None) -> CheckResult:
    """Check the facts of a period; facts that are not as counted are counted again first.

    The end of each chain of manifests is compared with the end at the last check.
    `also`: reads the checked facts, on the connection of the check.
    """
    from ingestion.evidence.chain_heads import heads_of, keep_heads, require_kept_heads
    from warehouse.build import PeriodIsClosed
    from warehouse.switched import WarehouseLost

    landing, record = opened.landing.store, opened.record.store
    require_kept_heads(landing, record)
    heads = heads_of(landing)
    have_facts(opened, period, deep=False)  # the check itself compares their hash
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
    from quality.run import check_period as check_facts_of

    check_result = check_facts_of(opened.home, period, decisions, opened.clock, edits, also)
    standing.note_checked(opened.home, check_result, opened.clock.now())
    return check_result


@dataclass(frozen=True, slots=True)
class SinceClosed:
    """How the decision tables differ from what closed periods were billed by."""

    edits: tuple[ClosedDecisionEdited, ...]
    prices: tuple[PriceChangeNeedsSecondName, ...]  # in the period that is looked at


def compare_with_closed(opened: OpenHome, period: BillingPeriod | None = None) -> SinceClosed:
    """Compare the tables with the sealed copy of every closed period, and prices with the last.

    `period`: the month whose prices are compared with those of the last one that closed before it;
    without it, the month after the last closed one.
    """
    from billing.basis import sealed_copies

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
    return SinceClosed(tuple(edits), tuple(prices))


def count_before_close(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> Rechecked:
    """Ask for what arrived late in a period that is about to close, and count that in.

    A closed period is left alone: evidence for it is added by people, and becomes corrections.
    """
    if period.name in opened.record.closed_periods():
        return Rechecked(0, (), {})
    found = recheck(opened, period.interval, progress=progress)
    if found.attempts:
        refresh(opened, period, progress)
    return found


def have_facts(opened: OpenHome, period: BillingPeriod, *, deep: bool = True) -> None:
    """Count facts again that were cut out of the warehouse or lost with its log.

    `deep` also finds edited facts, by their hash. Facts without a note of their hash, and missing
    facts of a closed period, are counted again as well. An open period without facts stays so.
    """
    from warehouse.build import PeriodIsClosed
    from warehouse.switched import WarehouseLost, periods_in, require_intact, switched_periods

    was_counted = period.name in switched_periods(opened.home)
    is_there = period.name in periods_in(opened.home)
    if not (was_counted or is_there or period.name in opened.record.closed_periods()):
        return
    try:
        require_intact(opened.home, period.name, deep=deep)
        if was_counted and is_there:
            return
    except WarehouseLost:
        pass
    with contextlib.suppress(PeriodIsClosed):  # they are there after all: those that were sealed
        refresh(opened, period)


def verify_landing(
    landing: Landing, record: Record, heads: Sequence[ChainHead] = ()
) -> LandingReport:
    """Read a landing again, and compare it with what others wrote down about it.

    Those are the heads of the last check, the heads of a source, and the closed months, which
    sealed the hashes of the answers that they stand on.
    """
    from billing.retention import lost_evidence
    from ingestion.evidence.chain_heads import changed_since, kept_heads

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
        except LedgerError as unreadable:  # a damaged record is named beside the others
            found.append(unreadable)
    return replace(report, problems=(*report.problems, *found))


def close(
    opened: OpenHome, period: BillingPeriod, *, dry_run: bool, facts_sha256: str | None = None
) -> CloseResult:
    """Close a period on facts checked again in the same step; or show what that would do.

    What is sealed is what the facts were counted from: where an answer has landed since, or
    something was decided, they are counted again first.
    """
    from billing.close import close_period
    from billing.grounds import FactsReader
    from orchestration.publishing import model_page

    reader = FactsReader(period)

    def checked() -> CheckResult:
        if standing.needs_build(opened, period):
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


def _is_away(unanswered: Mapping[str, str], cluster_id: str) -> bool:
    """Whether a cluster's server answered nothing before; its other days would wait in vain."""
    return any(name.startswith(f"{cluster_id} ") for name in unanswered)


def _neighbours(hours: Sequence[datetime]) -> list[Interval]:
    """Hours in order, joined where they follow each other; never more than were counted at once."""
    joined: list[Interval] = []
    for hour in hours:
        if joined and joined[-1].ended_at == hour:
            joined[-1] = Interval(joined[-1].started_at, hour + HOUR)
        else:
            joined.append(Interval(hour, hour + HOUR))
    return joined
