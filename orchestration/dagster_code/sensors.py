"""Sensors: due hours, facts older than their evidence, facts without a current check.

Put here: conditions, and run requests to Dagster.
Not here: which hours are due (`orchestration.open_hours`), which facts are outdated
(`orchestration.period_state`).

Every sensor decides from the home which runs to request, not from its own history. A cursor only
prevents repeated check results and limits the wait for pulls in progress. If the Dagster database
is lost, no hour is lost; while a run is in progress, its hours are not requested again.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import dagster as dg

from domain.billing_period import BillingPeriod
from domain.clock import SystemClock
from domain.interval import HOUR, Interval, format_instant, parse_instant, require_aware
from ingestion.evidence.hour_ledger import DueWindow, HourEntry
from orchestration import open_hours, period_state
from orchestration.dagster_code.asset_checks import HOURS_COMPLETE, evidence_evaluations
from orchestration.dagster_code.hour_events import (
    EvidenceKeys,
    unreported_complete_hours,
    unreported_incomplete_hours,
)
from orchestration.dagster_code.instance import RUN_SECONDS_LIMIT
from orchestration.dagster_code.jobs import (
    DueHours,
    PullHours,
    choose_windows,
    pull_configured_hours,
    pull_due,
    pull_due_hours,
    pull_hours,
)
from orchestration.dagster_code.partitions import hour_name, hour_of_name
from orchestration.dagster_code.resources import HomeParameter
from orchestration.dagster_code.run_tags import (
    PERIOD,
    PRIORITY,
    RANGE_END,
    RANGE_START,
    REQUESTED_BY,
)

HOURS_SECONDS = 600
"""Interval between two readings of the hours; the live hour has its own schedule."""

FACTS_SECONDS = 120
"""Interval between two readings of the facts' state: two small files per open period."""

REQUESTS_LIMIT = 40
"""Maximum number of run requests of one evaluation, of at most a day each; the others stay due."""

EVENTS_LIMIT = 200
"""Maximum number of events of one evaluation. On PostgreSQL an event takes 18 ms, and an evaluation
has a limit of one minute."""

WAIT_FOR_HOURS = timedelta(hours=1)
"""The longest time for which pulls in progress delay a rebuild of facts."""

LIVE_PRIORITY, OLD_PRIORITY = "10", "1"

WHY, UNREPORTED = "why", "report hours that were pulled outside of Dagster"
"""The tag with the reason of a run, and its value for a run of checks only."""

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
RUNS_LIMIT = 5000

SILENCE_LIMIT = timedelta(seconds=RUN_SECONDS_LIMIT)
"""A started run without an update counts as in progress for this long; after it Dagster ends the
run. A queued run always counts."""


def hours_due_sensor(evidence: Sequence[dg.AssetsDefinition], keys: EvidenceKeys) -> Any:
    """Request runs for all due hours, and report landed hours in their partitions."""
    partitions = {asset.key: asset.partitions_def for asset in evidence}
    assets = {
        place: (key, definition)
        for place, key in keys.items()
        if (definition := partitions[key]) is not None
    }

    @dg.sensor(
        name="hours_due",
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=HOURS_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts runs that pull the due hours (expected hours without a complete "
        "response): first the newest hour of each source, then the others, the oldest first.",
    )
    def hours_due(
        context: dg.SensorEvaluationContext, ledger_home: HomeParameter
    ) -> dg.SensorResult:
        # In this order: an hour that lands between the two readings is in the second one.
        in_progress = hours_in_progress(context.instance, keys)
        requested = due_in_progress(context.instance)
        opened = ledger_home.open()
        entries = open_hours.open_entries(opened)
        last_passed: dict[str, bool] = json.loads(context.cursor or "{}")
        landed = unreported_complete_hours(opened, context.instance, entries, assets)
        states = {
            f"{state.asset_key.to_user_string()} {state.check_name}": state
            for state in evidence_evaluations(opened, entries, keys)
        }
        changed = [s for name, s in states.items() if last_passed.get(name) is not s.passed]
        due_windows = [w for w in open_hours.due_windows(opened, entries) if not requested(w)]
        pulls = run_requests(due_windows, keys, in_progress)
        checks = _check_requests(context.instance, entries, keys, in_progress)
        requests = [*pulls[:REQUESTS_LIMIT], *checks]
        passed = {name: state.passed for name, state in states.items()}
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None
            if requests
            else "No hour is due, or runs for all due hours are in progress.",
            asset_events=[*islice(landed, EVENTS_LIMIT), *changed],
            cursor=json.dumps(passed, sort_keys=True),
        )

    return hours_due


def run_requests(
    due_windows: Sequence[DueWindow],
    keys: EvidenceKeys,
    in_progress: Mapping[dg.AssetKey, set[datetime]],
) -> list[dg.RunRequest]:
    """One run per window: the sources with the same due hours are queried together."""
    by_window: dict[tuple[bool, Interval], list[tuple[dg.AssetKey, DueWindow]]] = {}
    for due in due_windows:
        key = keys.get((due.cluster_id, due.source))
        # A cluster that is newer than the loaded definitions is pulled by the jobs.
        if key is None or in_progress.get(key, set()) & set(due.window.hours()):
            continue
        by_window.setdefault((due.is_live, due.window), []).append((key, due))
    return [_request(window, is_live, due) for (is_live, window), due in by_window.items()]


def _request(
    window: Interval, is_live: bool, due: Sequence[tuple[dg.AssetKey, DueWindow]]
) -> dg.RunRequest:
    return dg.RunRequest(
        asset_selection=[key for key, _ in due],
        tags={
            RANGE_START: hour_name(window.started_at),
            RANGE_END: hour_name(window.ended_at - HOUR),
            PRIORITY: LIVE_PRIORITY if is_live else OLD_PRIORITY,
            PERIOD: BillingPeriod.containing(window.started_at).name,
            REQUESTED_BY: "hours_due",
            WHY: "; ".join(sorted({one.why.value for _, one in due})),
        },
    )


def _check_requests(
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    keys: EvidenceKeys,
    in_progress: Mapping[dg.AssetKey, set[datetime]],
) -> list[dg.RunRequest]:
    """A run of checks for sources with an incomplete hour that is not reported.

    A second run waits until the first has ended.
    """
    unreported = [
        key
        for place, key in keys.items()
        if any(
            unreported_incomplete_hours(
                instance, entries, place, key, in_progress.get(key, frozenset())
            )
        )
    ]
    if not unreported or any(run.tags.get(WHY) == UNREPORTED for run in runs_in_progress(instance)):
        return []
    return [
        dg.RunRequest(
            asset_selection=[],
            asset_check_keys=[dg.AssetCheckKey(key, HOURS_COMPLETE) for key in unreported],
            tags={REQUESTED_BY: "hours_due", PRIORITY: LIVE_PRIORITY, WHY: UNREPORTED},
        )
    ]


def hours_in_progress(
    instance: dg.DagsterInstance, keys: EvidenceKeys
) -> dict[dg.AssetKey, set[datetime]]:
    """The hours of runs that have not ended."""
    in_progress: dict[dg.AssetKey, set[datetime]] = {}
    everything = set(keys.values())
    for run in runs_in_progress(instance):
        first = run.tags.get(RANGE_START) or run.tags.get("dagster/partition", "")
        last = run.tags.get(RANGE_END) or first
        for key in everything & set(run.asset_selection or ()):
            if first:
                window = Interval(hour_of_name(first), hour_of_name(last) + HOUR)
                in_progress.setdefault(key, set()).update(window.hours())
    return in_progress


def due_in_progress(instance: dg.DagsterInstance) -> Callable[[DueWindow], bool]:
    """A predicate: whether a job in progress pulls a due window. Its run has no tags with hours."""
    kinds: set[DueHours] = set()
    ranges: list[PullHours] = []
    for run in runs_in_progress(instance):
        ops: Any = run.run_config.get("ops", {})
        if run.job_name == pull_due_hours.name:
            given = ops.get(pull_due.name, {}).get("config", {})
            kinds.add(DueHours[given.get("hours", DueHours.ALL.name)])
        elif run.job_name == pull_hours.name:
            ranges.append(PullHours(**ops[pull_configured_hours.name]["config"]))
    return lambda due: (
        any(choose_windows([due], hours) for hours in kinds)
        or any(one.includes(due) for one in ranges)
    )


def runs_in_progress(
    instance: dg.DagsterInstance, job_name: str | None = None
) -> list[dg.DagsterRun]:
    """The runs that have not ended and may still be running.

    Dagster's times are compared with the machine's clock, not with the ledger's.
    """
    filters = dg.RunsFilter(job_name=job_name, statuses=UNFINISHED)
    silent_since = SystemClock().now() - SILENCE_LIMIT
    return [
        record.dagster_run
        for record in instance.get_run_records(filters, limit=RUNS_LIMIT)
        if record.dagster_run.status is dg.DagsterRunStatus.QUEUED
        or require_aware(record.update_timestamp.replace(tzinfo=UTC)) > silent_since
    ]


def period_sensors(jobs: Mapping[str, Any]) -> list[Any]:
    """Sensors that rebuild facts after new evidence, and check new facts."""

    @dg.sensor(
        name="facts_outdated",
        job=jobs["refresh_period"],
        minimum_interval_seconds=FACTS_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Rebuilds a period's facts when hours, decisions or models have changed.",
    )
    def facts_outdated(
        context: dg.SensorEvaluationContext, ledger_home: HomeParameter
    ) -> dg.SensorResult:
        opened = ledger_home.open()
        behind = [p for p in open_hours.open_periods(opened) if period_state.needs_build(opened, p)]
        free = _periods_without_runs(context.instance, behind, ("refresh_period", "draft_period"))
        waiting_since = _parse_cursor(context.cursor) if behind else None
        now = opened.clock.now().replace(microsecond=0)
        if free and _hours_in_progress(context.instance):
            waiting_since = waiting_since or now
            if now - waiting_since < WAIT_FOR_HOURS:
                return dg.SensorResult(
                    skip_reason=f"Pulls are in progress; {_names(free)} will be rebuilt later.",
                    cursor=format_instant(waiting_since),
                )
        return dg.SensorResult(
            run_requests=[period_request(period, "facts_outdated") for period in free],
            skip_reason=None
            if free
            else f"A run for {_names(behind)} is in progress."
            if behind
            else "All facts are up to date.",
            cursor="-",
        )

    @dg.sensor(
        name="facts_unchecked",
        job=jobs["check_period"],
        minimum_interval_seconds=FACTS_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Checks facts that have not been checked since they were built.",
    )
    def facts_unchecked(
        context: dg.SensorEvaluationContext, ledger_home: HomeParameter
    ) -> dg.SensorResult:
        opened = ledger_home.open()
        periods = open_hours.open_periods(opened)
        unchecked = [
            period
            for period in periods
            if period_state.needs_check(opened.home, period)
            and not period_state.needs_build(opened, period)
        ]
        writers = ("refresh_period", "draft_period", "check_period")
        free = _periods_without_runs(context.instance, unchecked, writers)
        return dg.SensorResult(
            run_requests=[period_request(period, "facts_unchecked") for period in free],
            skip_reason=None if free else period_state.close_proposal(opened),
        )

    return [facts_outdated, facts_unchecked]


def period_request(period: BillingPeriod, requested_by: str) -> dg.RunRequest:
    return dg.RunRequest(
        partition_key=period.name, tags={PERIOD: period.name, REQUESTED_BY: requested_by}
    )


def _periods_without_runs(
    instance: dg.DagsterInstance, periods: Sequence[BillingPeriod], jobs: Sequence[str]
) -> list[BillingPeriod]:
    """The periods for which none of these jobs is in progress."""
    in_progress = {
        run.tags.get("dagster/partition") for job in jobs for run in runs_in_progress(instance, job)
    }
    return [period for period in periods if period.name not in in_progress]


def _hours_in_progress(instance: dg.DagsterInstance) -> bool:
    runs = runs_in_progress(instance)
    jobs = {pull_hours.name, pull_due_hours.name}
    return any(RANGE_START in run.tags or run.job_name in jobs for run in runs)


def _names(periods: Sequence[BillingPeriod]) -> str:
    return ", ".join(period.name for period in periods)


def _parse_cursor(cursor: str | None) -> datetime | None:
    return parse_instant(cursor) if cursor and cursor != "-" else None
