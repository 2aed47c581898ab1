"""Assembles the definitions: every asset, check, job, schedule and sensor of one home.

Put here: the list.
Not here: the definitions themselves (the modules beside this one).
"""

from __future__ import annotations

import dagster as dg

from domain.decisions.problems import InvalidDecision
from orchestration.dagster_code.check_assets import check_assets
from orchestration.dagster_code.document_assets import document_specs, drafts_asset
from orchestration.dagster_code.evidence_assets import evidence_assets
from orchestration.dagster_code.hour_events import evidence_keys
from orchestration.dagster_code.jobs import JOBS, asset_jobs
from orchestration.dagster_code.model_assets import decisions_spec, model_assets
from orchestration.dagster_code.model_graph import prepared_graph
from orchestration.dagster_code.partitions import periods_since
from orchestration.dagster_code.resources import LedgerHome, home_from_environment
from orchestration.dagster_code.schedules import hour_schedules, period_schedules
from orchestration.dagster_code.sensors import hours_due_sensor, period_sensors


def build_defs(ledger_home: LedgerHome | None = None) -> dg.Definitions:
    """The definitions of the given home, by default of the one that the environment names."""
    resource = ledger_home or home_from_environment()
    opened = resource.open()
    clusters = opened.decisions.clusters
    if not clusters:
        raise InvalidDecision(
            where=f"{resource.path}/decisions/clusters.csv",
            seen="0 clusters",
            why="assets and partitions follow from the clusters that are measured",
            remedy="add a row per cluster, then reload the code location",
        )
    keys = evidence_keys(clusters)
    evidence = evidence_assets(clusters)
    graph = prepared_graph(opened.home)
    periods = periods_since(min(row.valid_from for row in clusters))
    jobs = {job.name: job for job in asset_jobs()}
    return dg.Definitions(
        assets=[
            decisions_spec(),
            *evidence,
            model_assets(graph, keys, periods),
            check_assets(graph, keys, periods),
            drafts_asset(periods),
            *document_specs(periods),
        ],
        jobs=[*JOBS, *jobs.values()],
        schedules=[*hour_schedules(), *period_schedules(jobs)],
        sensors=[hours_due_sensor(evidence, keys), *period_sensors(jobs)],
        resources={"ledger_home": resource},
        # One process per run: its steps run in sequence, and a start takes longer than most steps.
        executor=dg.in_process_executor,
    )
