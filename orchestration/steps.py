"""The steps of the line: ask, build, judge, close. The command line and Dagster call these.

Put here: which stage is called with what, and in which order.
Not here: any rule of a stage, options and printing (`orchestration.cli`), schedules (`assets/`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.errors import LedgerError
from domain.interval import HOUR, Interval
from orchestration import ledger, standing
from orchestration.asking import Wanted, ask, ask_all
from orchestration.open_home import OpenHome, holder

if TYPE_CHECKING:
    from billing.close import CloseResult
    from domain.findings import Judgement
    from ingestion.manifest import Attempt
    from warehouse.build import BuildResult

Progress = Callable[[int, int, str], None]


def pull(
    opened: OpenHome,
    hours: Interval,
    *,
    clusters: Sequence[str] = (),
    sources: Sequence[Source] = (),
    only_debts: bool = True,
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Ask for every expected hour in `hours`; by default only for those not yet complete.

    Errors of clusters are put into the list, if there is one; else the first is raised.
    """
    todo = [
        Wanted(cluster_id, source, window, f"{cluster_id} {source.value} {window.started_at:%d %b}")
        for cluster_id, source, window in ledger.askable(
            opened, hours, clusters, sources, again=not only_debts
        )
    ]
    return ask_all(opened, todo, progress, errors)


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What counting again came to: what was asked again for it, and what was not answered."""

    differing_count: int  # hours of which a server now has another number of samples
    attempts: tuple[Attempt, ...]
    unanswered: Mapping[str, str]  # "<cluster> <metric>": why


def recheck(
    opened: OpenHome,
    hours: Interval,
    *,
    clusters: Sequence[str] = (),
    progress: Progress | None = None,
) -> Rechecked:
    """Let the servers count their samples again, and ask for the hours that differ."""
    from ingestion.hours import hour_ledger
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

    Derived files that are missing are made again from the landing first; those of days that will
    not change any more are put together afterwards, here or by whoever does without `compacting`.
    """
    from ingestion.rebuild import heal
    from quality.dbt_checks import record_dbt_tests
    from warehouse.build import build_period

    heal(opened.landing, opened.home.runs, progress)
    # Before the build: what lands meanwhile makes the facts old, whether or not it was read.
    evidence = standing.evidence_sha256(opened, period)
    build = build_period(
        opened.home,
        period,
        opened.decisions,
        closed_periods=opened.record.closed_periods(),
        progress=progress,
    )
    record_dbt_tests(opened.home, build)
    standing.note_built(opened.home, period, evidence, build.facts_sha256)
    if compacting:
        compact(opened)
    return build


def compact(opened: OpenHome) -> None:
    """Put together the derived files of days that will not change any more."""
    from ingestion.rebuild import compact_settled

    compact_settled(opened.landing, opened.home.runs, opened.clock.now())


def judge(opened: OpenHome, period: BillingPeriod) -> Judgement:
    """Judge the facts that are in the warehouse, when they are those that were counted."""
    from quality.run import judge as judge_period

    _heal(opened, period)
    judgement = judge_period(opened.home, period, opened.decisions, opened.clock)
    standing.note_judged(opened.home, judgement, opened.clock.now())
    return judgement


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


def _heal(opened: OpenHome, period: BillingPeriod) -> None:
    """Count again what was cut out of the warehouse, lost with its log, or edited in it.

    The facts of a closed period were sealed with it; nothing is decided by this copy any more.
    """
    from warehouse.switched import WarehouseLost, require_intact

    if period.name in opened.record.closed_periods():
        return
    try:
        require_intact(opened.home, period.name, deep=True)
    except WarehouseLost:
        refresh(opened, period)


def close(opened: OpenHome, period: BillingPeriod, *, dry_run: bool) -> CloseResult:
    """Close a period on facts judged again in the same step; or show what that would do."""
    from billing.close import close_period
    from orchestration.publishing import model_page

    return close_period(
        opened.home,
        period,
        opened.decisions,
        lambda: judge(opened, period),
        opened.clock,
        dry_run=dry_run,
        holder=holder(),
        model_pages=lambda: model_page(opened.home),
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
