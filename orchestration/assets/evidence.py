"""The raw assets: per cluster the hours of its samples and of its journal.

Put here: asking inside a Dagster run, and saying per hour what came of it, where it is looked for.
Not here: asking itself (`orchestration.steps`), what an hour shows (`assets.hour_events`).

Each hour of a run gets its own event: a materialization when its answer was whole, an observation
with the reason when it was not. Then the run fails, so that exactly those hours are red. A run of
the checks alone asks nothing, and says of hours that were asked elsewhere what is wrong with them.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice

import dagster as dg

from domain.decisions import Cluster, Source
from orchestration import mirror, steps
from orchestration.assets.hour_events import (
    HourEvent,
    attempt_events,
    evidence_keys,
    hour_event,
)
from orchestration.checks import (
    EvidenceKeys,
    evidence_result,
    evidence_specs,
    evidence_states,
    open_entries,
)
from orchestration.open_home import OpenHome
from orchestration.partitions import hour_name, hours_since, window_of
from orchestration.resources import GivenHome, failing_in_words
from orchestration.tags import tag_run
from warehouse.manifest import Attempt

GROUP = "ingest"
OWNERS = ["team:platform"]
HOURS_NAMED = 24
WORDS = {
    Source.THANOS: "What Thanos said about each hour, landed byte for byte.",
    Source.KUBERNETES: "The hours of the collector's journal, landed byte for byte.",
}


def evidence_assets(clusters: Sequence[Cluster]) -> list[dg.AssetsDefinition]:
    """The raw assets of every cluster: a pair, or the one source that is expected of it."""
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
        description=f"{WORDS[source]} Cluster {rows[-1].cluster_name} ({cluster_id}).",
        partitions_def=hours_since(
            measured[0].valid_from, None if None in ends else max(end for end in ends if end)
        ),
        group_name=GROUP,
        owners=OWNERS,
        kinds={"prometheus" if source is Source.THANOS else "kubernetes"},
        skippable=True,
    )

    # The checks are part of it: a check apart is skipped just when an hour was not whole.
    @dg.multi_asset(
        name="__".join(key.path),
        specs=[spec],
        check_specs=evidence_specs(key),
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def evidence(
        context: dg.AssetExecutionContext, ledger_home: GivenHome
    ) -> Iterator[dg.AssetCheckResult]:
        keys = {(cluster_id, source): key}
        with failing_in_words():
            opened = ledger_home.open()
            bad = _asked(context, opened, keys) if context.selected_asset_keys else []
            entries = open_entries(opened)
            untold = mirror.unreported_hours(context.instance, entries, (cluster_id, source), key)
            for entry, response in islice(untold, mirror.HOURS_AT_ONCE):
                context.log_event(hour_event(opened, key, entry, response))
            for state in evidence_states(opened, entries, keys):
                if state.asset_check_key in context.selected_asset_check_keys:
                    yield evidence_result(state)
        fail_where_not_whole(bad)

    return evidence


def _asked(context: dg.AssetExecutionContext, opened: OpenHome, keys: EvidenceKeys) -> list[str]:
    """Ask one source for the hours of the run, and show them; those that are not whole."""
    window = window_of(context)
    tag_run(context, window.started_at)
    [(cluster_id, source)] = keys
    attempts = steps.pull(opened, window, clusters=[cluster_id], sources=[source], only_due=False)
    return report(context, opened, keys, attempts)


def report(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    opened: OpenHome,
    keys: EvidenceKeys,
    attempts: Sequence[Attempt],
) -> list[str]:
    """Log what each hour shows; the hours that are not whole, in words."""
    bad: list[str] = []
    for attempt in attempts:
        key = keys[attempt.cluster_id, attempt.source]
        said: dict[datetime, HourEvent] = {}
        for hour, event in attempt_events(opened, key, attempt):
            context.log_event(event)
            said[hour] = event
        bad += [
            f"{key.to_user_string()} {hour_name(hour)}: {event.description}"
            for hour, event in said.items()
            if isinstance(event, dg.AssetObservation)
        ]
    return bad


def fail_where_not_whole(bad: Sequence[str]) -> None:
    """Fail the run, so that hours without a materialization are red."""
    if bad:
        more = [f"and {len(bad) - HOURS_NAMED} more"] if len(bad) > HOURS_NAMED else []
        raise dg.Failure(
            description="\n".join(
                [
                    f"{len(bad)} hours are not whole. The observation in each of them says what "
                    "was expected, and what to run next.",
                    *bad[:HOURS_NAMED],
                    *more,
                ]
            ),
            allow_retries=False,
        )
