"""The raw assets: for each cluster the hours of its samples and of its journal.

Put here: pulling inside a Dagster run, and the events of each hour.
Not here: the queries (`orchestration.steps`), or the content of an event (`hour_events`).

Each hour of a run has an event of its own: a materialization after a complete response, else an
observation with the reason. Then the run fails, so that exactly the incomplete hours are red. A run
of the checks alone queries nothing; it reports incomplete hours that were pulled outside Dagster.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice

import dagster as dg

from domain.decisions import Cluster, Source
from orchestration import open_hours, steps
from orchestration.dagster_code.asset_checks import (
    evidence_check_specs,
    evidence_evaluations,
)
from orchestration.dagster_code.hour_events import (
    HOURS_AT_ONCE,
    EvidenceKeys,
    HourEvent,
    attempt_events,
    evidence_keys,
    hour_event,
    unreported_incomplete_hours,
)
from orchestration.dagster_code.partitions import hour_name, hours_since, window_of
from orchestration.dagster_code.resources import HomeParameter, report_errors
from orchestration.dagster_code.run_tags import tag_run
from orchestration.open_home import OpenHome
from warehouse.manifest import Attempt

GROUP = "ingest"
OWNERS = ["team:platform"]
HOURS_NAMED = 24
DESCRIPTIONS = {
    Source.THANOS: "The responses of Thanos for each hour, landed byte for byte.",
    Source.KUBERNETES: "The hours of the collector's journal, landed byte for byte.",
}


def evidence_assets(clusters: Sequence[Cluster]) -> list[dg.AssetsDefinition]:
    """The raw assets of every cluster, one for each expected source."""
    keys = evidence_keys(clusters)
    by_cluster = sorted(clusters, key=lambda row: (row.cluster_id, row.valid_from))
    return [
        _evidence_asset(keys[cluster_id, source], cluster_id, source, list(rows))
        for cluster_id, group in groupby(by_cluster, key=lambda row: row.cluster_id)
        for rows in [list(group)]
        for source in Source
        if (cluster_id, source) in keys
    ]


def _evidence_asset(
    key: dg.AssetKey, cluster_id: str, source: Source, rows: Sequence[Cluster]
) -> dg.AssetsDefinition:
    measured = [row for row in rows if row.expects(source)]
    ends = [row.valid_until for row in measured]

    spec = dg.AssetSpec(
        key,
        description=f"{DESCRIPTIONS[source]} Cluster {rows[-1].cluster_name} ({cluster_id}).",
        partitions_def=hours_since(
            measured[0].valid_from, None if None in ends else max(end for end in ends if end)
        ),
        group_name=GROUP,
        owners=OWNERS,
        kinds={"prometheus" if source is Source.THANOS else "kubernetes"},
        skippable=True,
    )

    # The checks belong to the asset: a separate check would be skipped when an hour is incomplete.
    @dg.multi_asset(
        name="__".join(key.path),
        specs=[spec],
        check_specs=evidence_check_specs(key),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def evidence(
        context: dg.AssetExecutionContext, ledger_home: HomeParameter
    ) -> Iterator[dg.AssetCheckResult]:
        keys = {(cluster_id, source): key}
        with report_errors():
            opened = ledger_home.open()
            incomplete = _pull(context, opened, keys) if context.selected_asset_keys else []
            entries = open_hours.open_entries(opened)
            unreported = unreported_incomplete_hours(
                context.instance, entries, (cluster_id, source), key
            )
            for entry, response in islice(unreported, HOURS_AT_ONCE):
                context.log_event(hour_event(opened, key, entry, response))
            for state in evidence_evaluations(opened, entries, keys):
                if state.asset_check_key in context.selected_asset_check_keys:
                    yield dg.AssetCheckResult(
                        asset_key=state.asset_key,
                        check_name=state.check_name,
                        passed=state.passed,
                        severity=state.severity,
                        metadata=state.metadata,
                    )
        fail_if_incomplete(incomplete)

    return evidence


def _pull(context: dg.AssetExecutionContext, opened: OpenHome, keys: EvidenceKeys) -> list[str]:
    """Pull the hours of the run from one source, and report them."""
    window = window_of(context)
    tag_run(context, window.started_at)
    [(cluster_id, source)] = keys
    attempts = steps.pull(opened, window, clusters=[cluster_id], sources=[source], only_due=False)
    return report_hours(context, opened, keys, attempts)


def report_hours(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    opened: OpenHome,
    keys: EvidenceKeys,
    attempts: Sequence[Attempt],
) -> list[str]:
    """Log the event of each hour; returns a line for each incomplete hour."""
    incomplete: list[str] = []
    for attempt in attempts:
        key = keys[attempt.cluster_id, attempt.source]
        last: dict[datetime, HourEvent] = {}
        for hour, event in attempt_events(opened, key, attempt):
            context.log_event(event)
            last[hour] = event
        incomplete += [
            f"{key.to_user_string()} {hour_name(hour)}: {event.description}"
            for hour, event in last.items()
            if isinstance(event, dg.AssetObservation)
        ]
    return incomplete


def fail_if_incomplete(incomplete: Sequence[str]) -> None:
    """Fail the run, so that hours without a materialization are red."""
    if incomplete:
        left = len(incomplete) - HOURS_NAMED
        more = [f"and {left} more"] if left > 0 else []
        raise dg.Failure(
            description="\n".join(
                [
                    f"{len(incomplete)} hours are incomplete. The observation of each has the "
                    "expected and the seen values, and the next command.",
                    *incomplete[:HOURS_NAMED],
                    *more,
                ]
            ),
            allow_retries=False,
        )
