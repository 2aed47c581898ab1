"""Assembling the definitions: every asset, check, job, schedule and sensor of one home.

Put here: the list.
Not here: what any of them does (`orchestration.assets`).
"""

from __future__ import annotations

import dagster as dg

from domain.errors import WrongUse
from orchestration.assets.checked import checked_assets
from orchestration.assets.documents import document_specs, drafts_asset
from orchestration.assets.evidence import evidence_assets
from orchestration.assets.facts import decisions_spec, facts_assets
from orchestration.assets.hour_events import evidence_keys
from orchestration.jobs import JOBS, asset_jobs
from orchestration.model_graph import prepared_graph
from orchestration.partitions import periods_since
from orchestration.resources import LedgerHome, home_from_environment, started_at
from orchestration.schedules import hour_schedules, period_schedules
from orchestration.sensors import hours_due_sensor, period_sensors


class NothingMeasured(WrongUse):
    """The home measures no cluster, so there is nothing to schedule."""

    code = "HOME-011"

    def __init__(self, home: str) -> None:
        super().__init__(
            where=f"{home}/decisions/clusters.csv",
            seen="0 clusters",
            why="assets and partitions follow from the clusters that are measured",
            remedy="add a row per cluster, then reload the code location",
        )


def build_defs(ledger_home: LedgerHome | None = None) -> dg.Definitions:
    """The definitions of the home that the environment names, or of the one given."""
    resource = ledger_home or home_from_environment()
    opened = resource.open()
    clusters = opened.decisions.clusters
    if not clusters:
        raise NothingMeasured(resource.path)
    keys = evidence_keys(clusters)
    evidence = evidence_assets(clusters)
    graph = prepared_graph(opened.home)
    periods = periods_since(started_at(opened))
    jobs = {job.name: job for job in asset_jobs()}
    return dg.Definitions(
        assets=[
            decisions_spec(),
            *evidence,
            facts_assets(graph, keys, periods),
            checked_assets(graph, keys, periods),
            drafts_asset(periods),
            *document_specs(periods),
        ],
        jobs=[*JOBS, *jobs.values()],
        schedules=[*hour_schedules(), *period_schedules(jobs)],
        sensors=[hours_due_sensor(evidence, keys), *period_sensors(jobs)],
        resources={"ledger_home": resource},
        # One process per run: its steps follow each other, and a start costs more than most steps.
        executor=dg.in_process_executor,
    )
