"""The steps of the line: ask, build, judge, close. The command line and Dagster call these.

Put here: which stage is called with what, and in which order.
Not here: any rule of a stage, options and printing (`orchestration.cli`), schedules (`assets/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval
from ingestion.manifest import WINDOW_HOURS_LIMIT
from orchestration import ledger, standing
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
) -> list[Attempt]:
    """Ask for every expected hour in `hours`; by default only for those not yet complete."""
    todo = list(_windows(opened, hours, clusters, sources, only_debts))
    attempts = []
    for number, (cluster_id, source, window) in enumerate(todo):
        if progress:
            progress(number, len(todo), f"{cluster_id} {source.value} {window.started_at:%d %b}")
        attempt = ask(opened, cluster_id, source, window)
        if attempt is not None:
            attempts.append(attempt)
    if progress:
        progress(len(todo), len(todo), "")
    return attempts


def ask(opened: OpenHome, cluster_id: str, source: Source, window: Interval) -> Attempt | None:
    """One attempt; None where this source of this cluster is not configured."""
    if source is Source.THANOS:
        from ingestion.thanos.pull import pull_hours

        how = opened.thanos_source(cluster_id, window.started_at)
        if how is None:
            return None
        return pull_hours(how, window, opened.landing, opened.home.runs, opened.clock)
    from ingestion.kubernetes.pull import pull_hours as pull_journal
    from ingestion.kubernetes.replay import replay

    spool = opened.spool(cluster_id)
    attempt = pull_journal(cluster_id, window, spool, opened.landing, opened.clock)
    replay(opened.landing, opened.home.runs, attempt)
    return attempt


def refresh(
    opened: OpenHome, period: BillingPeriod, progress: Progress | None = None
) -> BuildResult:
    """Rebuild a period's facts, whole, and write down what its tests said."""
    from quality.dbt_checks import record_dbt_tests
    from warehouse.build import build_period

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
    return build


def judge(opened: OpenHome, period: BillingPeriod) -> Judgement:
    """Judge the facts that are in the warehouse."""
    from quality.run import judge as judge_period

    judgement = judge_period(opened.home, period, opened.decisions, opened.clock)
    standing.note_judged(opened.home, judgement, opened.clock.now())
    return judgement


def close(opened: OpenHome, period: BillingPeriod, *, dry_run: bool) -> CloseResult:
    """Close a period on facts judged again in the same step; or show what that would do."""
    from billing.close import close_period

    return close_period(
        opened.home,
        period,
        opened.decisions,
        lambda: judge(opened, period),
        opened.clock,
        dry_run=dry_run,
        holder=holder(),
    )


def _windows(
    opened: OpenHome,
    hours: Interval,
    clusters: Sequence[str],
    sources: Sequence[Source],
    only_debts: bool,
) -> Iterator[tuple[str, Source, Interval]]:
    """Neighbouring hours of one cluster, source and sampling, at most a day at once."""
    done = _complete_hours(opened) if only_debts else frozenset()
    wanted = sorted(
        (cluster_id, source, hour)
        for cluster_id, source, hour in opened.decisions.expected_hours(hours)
        if (not clusters or cluster_id in clusters)
        and (not sources or source in sources)
        and (cluster_id, source.value, hour) not in done
        and hour + HOUR <= opened.clock.now()
    )
    for (cluster_id, source), group in groupby(wanted, key=lambda entry: entry[:2]):
        edges = frozenset(
            at for edge_of, at in ledger.sampling_edges(opened) if edge_of == cluster_id
        )
        for window in _runs_of_hours([hour for _, _, hour in group], edges):
            yield cluster_id, source, window


def _runs_of_hours(hours: Sequence[datetime], edges: frozenset[datetime]) -> Iterator[Interval]:
    """Neighbouring hours joined, at most a day at once, and never over a change of sampling."""
    run: list[datetime] = []
    for hour in hours:
        if run and (hour != run[-1] + HOUR or len(run) == WINDOW_HOURS_LIMIT or hour in edges):
            yield Interval(run[0], run[-1] + HOUR)
            run = []
        run.append(hour)
    if run:
        yield Interval(run[0], run[-1] + HOUR)


def _complete_hours(opened: OpenHome) -> frozenset[tuple[str, str, datetime]]:
    """Hours for which an attempt brought everything that it asked for."""
    return frozenset(
        (attempt.cluster_id, attempt.source.value, hour.hour)
        for attempt in opened.landing.attempts()
        for hour in attempt.hours
        if hour.outcome.value == "ok"
    )
