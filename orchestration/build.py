"""Assembling the definitions: every asset, job and resource of one home.

Put here: the list.
Not here: what any of them does (`orchestration.assets`).
"""

from __future__ import annotations

import dagster as dg

from domain.errors import WrongUse
from orchestration.assets.documents import close_period, drafts_asset, judgement_asset
from orchestration.assets.evidence import evidence_assets
from orchestration.assets.facts import facts_assets
from orchestration.model_graph import prepared_graph
from orchestration.partitions import periods_since
from orchestration.resources import LedgerHome, home_from_environment, started_at


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
    evidence = [asset for cluster in clusters for asset in evidence_assets(cluster)]
    periods = periods_since(started_at(opened))
    keys = [asset.key for asset in evidence]
    return dg.Definitions(
        assets=[
            *evidence,
            facts_assets(prepared_graph(opened.home), keys, periods),
            judgement_asset(periods),
            drafts_asset(periods),
        ],
        jobs=[
            dg.define_asset_job(
                "pull_hours",
                selection=dg.AssetSelection.assets(*keys),
                description="Ask the witnesses for hours, and land what they say.",
            ),
            dg.define_asset_job(
                "refresh_period",
                selection=dg.AssetSelection.groups("warehouse", "facts"),
                description="Rebuild one period's facts, whole.",
            ),
            close_period,
        ],
        resources={"ledger_home": resource},
    )
