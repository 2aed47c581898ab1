"""Sensors: hours that are owed, facts that are behind their evidence, facts that nobody judged.

Put here: looking, and asking Dagster for runs.
Not here: what is owed (`orchestration.ledger`) or old (`orchestration.standing`).

Every sensor looks at the home and not at its own past: a cursor is a hint, and no run is ever
promised by a key. So nothing is lost when Dagster's memory is, and nothing is asked for twice while
a run for it is on its way.
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
from ingestion.hours import Debt, HourEntry
from orchestration import ledger, mirror, standing
from orchestration.assets.facts import EvidenceKeys
from orchestration.checks import HOURS_WHOLE, evidence_states, open_entries
from orchestration.dagster_home import RUN_SECONDS_LIMIT
from orchestration.jobs import (
    Asked,
    PullHours,
    chosen,
    pay_debts,
    pull_hours,
    pull_these_hours,
    reconcile_hours,
)
from orchestration.partitions import hour_name, hour_of_name
from orchestration.proposals import in_words
from orchestration.resources import GivenHome
from orchestration.tags import PERIOD, PRIORITY, RANGE_END, RANGE_START, REQUESTED_BY

LOOK_SECONDS = 600
"""Between two looks at the hour ledger; the live hour has its own schedule."""

FACTS_SECONDS = 120
"""Between two looks at the facts: reading two small files per open period."""

REQUESTS_LIMIT = 40
"""Runs that one look asks for, of up to a day each; the rest is owed at the next look, too."""

EVENTS_LIMIT = 200
"""Events that one look writes: 18 ms each on PostgreSQL, and a look may take a minute."""

WAIT_FOR_HOURS = timedelta(hours=1)
"""Facts wait for hours that are on their way, but no longer than this: a queue may be endless."""

LIVE_PRIORITY, OLD_PRIORITY = "10", "1"

WHY, UNTOLD = "why", "say what is wrong with hours that were asked elsewhere"
"""The tag of a run that says why it is, and what it says of a run that asks nothing."""

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
RUNS_LIMIT = 5000

BELIEVED = timedelta(seconds=RUN_SECONDS_LIMIT)
"""How long a run is believed to be alive that nobody ended: Dagster itself ends it then. A queued
one is always believed."""


def hours_owed_sensor(evidence: Sequence[dg.AssetsDefinition], keys: EvidenceKeys) -> Any:
    """Ask for every hour that is owed; show in the strips what the ledger knows."""
    partitions = {asset.key: asset.partitions_def for asset in evidence}
    assets = {
        place: (key, definition)
        for place, key in keys.items()
        if (definition := partitions[key]) is not None
    }

    @dg.sensor(
        name="hours_owed",
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for every hour that is owed, the live one first, then the oldest.",
    )
    def hours_owed(context: dg.SensorEvaluationContext, ledger_home: GivenHome) -> dg.SensorResult:
        # In this order: an hour that lands between the two looks is seen by the second.
        busy = hours_on_their_way(context.instance, keys)
        paid = debts_on_their_way(context.instance)
        opened = ledger_home.open()
        entries = open_entries(opened)
        hint = _Hint.read(context.cursor)
        news = mirror.whole_hours(opened, context.instance, entries, assets)
        states = {
            f"{state.asset_key.to_user_string()} {state.check_name}": state
            for state in evidence_states(opened, entries, keys)
        }
        changed = [s for name, s in states.items() if hint.passed.get(name) is not s.passed]
        todo = [debt for debt in ledger.owed_of(opened, entries) if not paid(debt)]
        owed = run_requests(todo, keys, busy)
        requests = [*owed[:REQUESTS_LIMIT], *_told(context.instance, entries, keys, busy)]
        hint.passed = {name: state.passed for name, state in states.items()}
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else "Nothing is owed that is not on its way.",
            asset_events=[*islice(news, EVENTS_LIMIT), *changed],
            cursor=hint.written(),
        )

    return hours_owed


def run_requests(
    todo: Sequence[Debt], keys: EvidenceKeys, busy: Mapping[dg.AssetKey, set[datetime]]
) -> list[dg.RunRequest]:
    """One run per window: all witnesses that owe the same hours are asked together."""
    by_window: dict[tuple[bool, Interval], list[tuple[dg.AssetKey, Debt]]] = {}
    for debt in todo:
        key = keys.get((debt.cluster_id, debt.source))
        # A cluster that was decided on after the definitions were loaded is asked by the jobs.
        if key is None or busy.get(key, set()) & set(debt.window.hours()):
            continue
        by_window.setdefault((debt.is_live, debt.window), []).append((key, debt))
    return [_request(window, is_live, asked) for (is_live, window), asked in by_window.items()]


def _request(
    window: Interval, is_live: bool, asked: Sequence[tuple[dg.AssetKey, Debt]]
) -> dg.RunRequest:
    return dg.RunRequest(
        asset_selection=[key for key, _ in asked],
        tags={
            RANGE_START: hour_name(window.started_at),
            RANGE_END: hour_name(window.ended_at - HOUR),
            PRIORITY: LIVE_PRIORITY if is_live else OLD_PRIORITY,
            PERIOD: BillingPeriod.containing(window.started_at).name,
            REQUESTED_BY: "hours_owed",
            WHY: "; ".join(sorted({debt.why.value for _, debt in asked})),
        },
    )


def _told(
    instance: dg.DagsterInstance,
    entries: Sequence[HourEntry],
    keys: EvidenceKeys,
    busy: Mapping[dg.AssetKey, set[datetime]],
) -> list[dg.RunRequest]:
    """A run of checks, for witnesses whose strips do not yet say what is wrong with an hour.

    A second one waits until the first has ended.
    """
    silent = [
        key
        for place, key in keys.items()
        if any(mirror.untold_hours(instance, entries, place, key, busy.get(key, frozenset())))
    ]
    if not silent or any(run.tags.get(WHY) == UNTOLD for run in runs_on_their_way(instance)):
        return []
    return [
        dg.RunRequest(
            asset_selection=[],
            asset_check_keys=[dg.AssetCheckKey(key, HOURS_WHOLE) for key in silent],
            tags={REQUESTED_BY: "hours_owed", PRIORITY: LIVE_PRIORITY, WHY: UNTOLD},
        )
    ]


def hours_on_their_way(
    instance: dg.DagsterInstance, keys: EvidenceKeys
) -> dict[dg.AssetKey, set[datetime]]:
    """The hours that runs ask for which have not ended yet."""
    busy: dict[dg.AssetKey, set[datetime]] = {}
    everything = set(keys.values())
    for run in runs_on_their_way(instance):
        first = run.tags.get(RANGE_START) or run.tags.get("dagster/partition", "")
        last = run.tags.get(RANGE_END) or first
        for key in everything & set(run.asset_selection or ()):
            if first:
                window = Interval(hour_of_name(first), hour_of_name(last) + HOUR)
                busy.setdefault(key, set()).update(window.hours())
    return busy


def debts_on_their_way(instance: dg.DagsterInstance) -> Callable[[Debt], bool]:
    """Whether a job that is on its way asks for a debt: such a run has no hours among its tags."""
    kinds: set[Asked] = set()
    spans: list[PullHours] = []
    for run in runs_on_their_way(instance):
        ops: Any = run.run_config.get("ops", {})
        if run.job_name == reconcile_hours.name:
            given = ops.get(pay_debts.name, {}).get("config", {})
            kinds.add(Asked[given.get("asked", Asked.EVERYTHING.name)])
        elif run.job_name == pull_hours.name:
            spans.append(PullHours(**ops[pull_these_hours.name]["config"]))
    return lambda debt: (
        any(chosen([debt], asked) for asked in kinds) or any(span.asks_for(debt) for span in spans)
    )


def runs_on_their_way(
    instance: dg.DagsterInstance, job_name: str | None = None
) -> list[dg.DagsterRun]:
    """The runs that have not ended and may still be alive.

    Dagster's own times are compared with the machine's, in whatever time the ledger lives.
    """
    filters = dg.RunsFilter(job_name=job_name, statuses=UNFINISHED)
    silent_since = SystemClock().now() - BELIEVED
    return [
        record.dagster_run
        for record in instance.get_run_records(filters, limit=RUNS_LIMIT)
        if record.dagster_run.status is dg.DagsterRunStatus.QUEUED
        or require_aware(record.update_timestamp.replace(tzinfo=UTC)) > silent_since
    ]


def period_sensors(jobs: Mapping[str, Any]) -> list[Any]:
    """Facts follow their evidence; judgement follows the facts."""

    @dg.sensor(
        name="facts_behind",
        job=jobs["refresh_period"],
        minimum_interval_seconds=FACTS_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Rebuilds a period's facts when hours, decisions or models have changed.",
    )
    def facts_behind(
        context: dg.SensorEvaluationContext, ledger_home: GivenHome
    ) -> dg.SensorResult:
        opened = ledger_home.open()
        behind = [p for p in ledger.open_periods(opened) if standing.needs_build(opened, p)]
        free = _without_runs(context.instance, behind, ("refresh_period", "draft_period"))
        waiting_since = _instant(context.cursor) if behind else None
        now = opened.clock.now().replace(microsecond=0)
        if free and _hours_are_asked(context.instance):
            waiting_since = waiting_since or now
            if now - waiting_since < WAIT_FOR_HOURS:
                return dg.SensorResult(
                    skip_reason=f"Hours are on their way; {_named(free)} will be rebuilt then.",
                    cursor=format_instant(waiting_since),
                )
        return dg.SensorResult(
            run_requests=[_of_period(period, "facts_behind") for period in free],
            skip_reason=None if free else f"Nothing to do: {_named(behind) or 'none'} is behind.",
            cursor="-",
        )

    @dg.sensor(
        name="findings",
        job=jobs["judge_period"],
        minimum_interval_seconds=FACTS_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Judges facts that nobody has judged as they are; says what stands against.",
    )
    def findings(context: dg.SensorEvaluationContext, ledger_home: GivenHome) -> dg.SensorResult:
        opened = ledger_home.open()
        periods = ledger.open_periods(opened)
        todo = [
            period
            for period in periods
            if standing.needs_judgement(opened.home, period)
            and not standing.needs_build(opened, period)
        ]
        writers = ("refresh_period", "draft_period", "judge_period")
        free = _without_runs(context.instance, todo, writers)
        return dg.SensorResult(
            run_requests=[_of_period(period, "findings") for period in free],
            skip_reason=None if free else in_words(opened),
        )

    return [facts_behind, findings]


def _of_period(period: BillingPeriod, requested_by: str) -> dg.RunRequest:
    return dg.RunRequest(
        partition_key=period.name, tags={PERIOD: period.name, REQUESTED_BY: requested_by}
    )


def _without_runs(
    instance: dg.DagsterInstance, periods: Sequence[BillingPeriod], jobs: Sequence[str]
) -> list[BillingPeriod]:
    """The periods for which none of these jobs is on its way."""
    on_their_way = {
        run.tags.get("dagster/partition")
        for job in jobs
        for run in runs_on_their_way(instance, job)
    }
    return [period for period in periods if period.name not in on_their_way]


def _hours_are_asked(instance: dg.DagsterInstance) -> bool:
    runs = runs_on_their_way(instance)
    jobs = {pull_hours.name, reconcile_hours.name}
    return any(RANGE_START in run.tags or run.job_name in jobs for run in runs)


def _named(periods: Sequence[BillingPeriod]) -> str:
    return ", ".join(period.name for period in periods)


def _instant(cursor: str | None) -> datetime | None:
    return parse_instant(cursor) if cursor and cursor != "-" else None


class _Hint:
    """What the last look remembers. Lost, it costs events that say again what was said."""

    def __init__(self, passed: dict[str, bool]) -> None:
        self.passed = passed

    @classmethod
    def read(cls, cursor: str | None) -> "_Hint":
        value = json.loads(cursor) if cursor else {}
        return cls(value.get("passed", {}))

    def written(self) -> str:
        return json.dumps({"passed": self.passed}, sort_keys=True)
