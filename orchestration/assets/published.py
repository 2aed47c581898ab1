"""The published copy as an asset: what analysts and the portal read follows the facts.

Put here: publishing inside a Dagster run.
Not here: what is published (`orchestration.publishing`), or the facts (`assets.facts`).
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
import dagster as dg

from orchestration import publishing
from orchestration.assets.facts import OWNERS, POOL, model_key
from orchestration.model_graph import ModelGraph
from orchestration.partitions import period_of
from orchestration.resources import GivenHome, failing_in_words
from orchestration.tags import tag_run

PUBLISHED = dg.AssetKey("published")


def published_asset(
    graph: ModelGraph, partitions: dg.PartitionsDefinition[str]
) -> dg.AssetsDefinition:
    # In the group of the facts: whatever rebuilds a period publishes it as well.
    @dg.asset(
        key=PUBLISHED,
        deps=[model_key(model.name) for model in graph.models if model.layer == "marts"],
        partitions_def=partitions,
        group_name="facts",
        owners=OWNERS,
        kinds={"duckdb", "parquet"},
        description="The copy of all marts that readers open, made anew after a period's facts; "
        "it says how far it is complete and what is open.",
        pool=POOL,
    )
    def published(
        context: dg.AssetExecutionContext, ledger_home: GivenHome
    ) -> dg.MaterializeResult[None]:
        tag_run(context, period_of(context))
        with failing_in_words():
            made = publishing.publish(ledger_home.open())
        return dg.MaterializeResult(
            metadata={
                "file": dg.MetadataValue.path(str(made.latest_path)),
                "parquet": dg.MetadataValue.path(str(made.parquet_folder)),
                "tables": made.table_count,
            }
        )

    return published
