"""The raw assets: per cluster the hours of its samples and of its journal.

Put here: asking inside a Dagster run, and saying per hour what came of it, where it is looked for.
Not here: asking itself (`orchestration.steps`), or facts (`assets.facts`).

Each hour of a run gets its own event: a materialization when its answer was whole, an observation
with the reason when it was not. Then the run fails, so that exactly those hours are red.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg

from domain.decisions import Cluster, Source
from ingestion.manifest import Attempt, Hour, Outcome
from orchestration import steps
from orchestration.partitions import HOUR_FORMAT, hours_since, window_of
from orchestration.resources import LedgerHome

ASSET_OF_SOURCE = {Source.THANOS: "thanos_hours", Source.KUBERNETES: "kubernetes_hours"}
WORDS = {
    Source.THANOS: "What Thanos said about each hour, landed byte for byte.",
    Source.KUBERNETES: "The hours of the collector's journal, landed byte for byte.",
}


def evidence_key(cluster_name: str, source: Source) -> dg.AssetKey:
    return dg.AssetKey([_key_part(cluster_name), ASSET_OF_SOURCE[source]])


def evidence_assets(cluster: Cluster) -> list[dg.AssetsDefinition]:
    """The pair of raw assets of a cluster, or the one witness that is expected of it."""
    return [_evidence_asset(cluster, source) for source in cluster.sources]


def _evidence_asset(cluster: Cluster, source: Source) -> dg.AssetsDefinition:
    key = evidence_key(cluster.cluster_name, source)

    @dg.asset(
        key=key,
        description=f"{WORDS[source]} Cluster {cluster.cluster_name} ({cluster.cluster_id}).",
        partitions_def=hours_since(cluster.valid_from, cluster.valid_until),
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="ingest",
        kinds={"prometheus" if source is Source.THANOS else "kubernetes"},
        output_required=False,
    )
    def evidence(context: dg.AssetExecutionContext, ledger_home: LedgerHome) -> Iterator[None]:
        attempts = steps.pull(
            ledger_home.open(),
            window_of(context),
            clusters=[cluster.cluster_id],
            sources=[source],
            only_debts=False,
        )
        report(context, key, attempts)
        yield from ()

    return evidence


def report(
    context: dg.AssetExecutionContext, key: dg.AssetKey, attempts: Sequence[Attempt]
) -> None:
    """One event per hour; the run fails when any hour is not whole."""
    bad: list[str] = []
    for attempt in attempts:
        for hour in attempt.hours:
            partition = hour.hour.strftime(HOUR_FORMAT)
            if hour.outcome is Outcome.OK:
                context.log_event(_landed(key, partition, attempt, hour))
            else:
                bad.append(partition)
                context.log_event(_not_whole(key, partition, attempt, hour))
    if bad:
        raise dg.Failure(
            description=f"{len(bad)} hours are not whole: {', '.join(bad[:24])}",
            metadata={"hours": bad},
            allow_retries=False,
        )


def _landed(
    key: dg.AssetKey, partition: str, attempt: Attempt, hour: Hour
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        key,
        partition=partition,
        metadata={
            "dagster/row_count": hour.sample_count,
            "series": hour.series_count,
            "attempt": attempt.attempt_id,
            "answers": ", ".join(attempt.answer_sha256s),
        },
    )


def _not_whole(
    key: dg.AssetKey, partition: str, attempt: Attempt, hour: Hour
) -> dg.AssetObservation:
    command = (
        f"gpu-ledger pull --hours {_span(hour.hour)} --cluster {attempt.cluster_id} "
        f"--source {attempt.source.value} --again"
    )
    return dg.AssetObservation(
        key,
        partition=partition,
        metadata={
            "outcome": hour.outcome.value,
            "reason": hour.reason,
            "series": hour.series_count,
            "samples": hour.sample_count,
            "what to run next": dg.MetadataValue.md(f"```\n{command}\n```"),
        },
    )


def _span(hour: datetime) -> str:
    from domain.interval import HOUR

    return f"{hour:{HOUR_FORMAT}}..{hour + HOUR:{HOUR_FORMAT}}"


def _key_part(name: str) -> str:
    """Dagster's keys take letters, digits and underscores."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
