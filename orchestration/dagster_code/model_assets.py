"""The dbt models as assets, one per model; a run rebuilds one billing period, whole.

Put here: asset specs from the prepared graph, and the events of a build.
Not here: building (`warehouse.build`), or the graph (`model_graph`).
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator, Mapping, Sequence

import dagster as dg

from domain.decisions import Source
from orchestration import steps
from orchestration.dagster_code.hour_events import EvidenceKeys
from orchestration.dagster_code.model_graph import Model, ModelGraph, ModelTest
from orchestration.dagster_code.partitions import period_of
from orchestration.dagster_code.resources import HomeParameter, report_errors
from orchestration.dagster_code.run_tags import tag_run
from orchestration.model_documentation import kept_lineage
from warehouse.build import BuildResult

POOL = "duckdb_writer"
OWNERS = ["team:billing"]
GROUP_OF_LAYER = {"staging": "warehouse", "intermediate": "warehouse", "marts": "facts"}
DECISIONS = dg.AssetKey("decisions")
SOURCES_OF = {
    "thanos": (Source.THANOS,),
    "kubernetes": (Source.KUBERNETES,),
    "landing": (Source.THANOS, Source.KUBERNETES),
    "devices": (Source.THANOS, Source.KUBERNETES),
}
"""The raw assets that a staging model reads; every other staging model reads decisions."""


def model_key(name: str) -> dg.AssetKey:
    return dg.AssetKey(["facts", name])


def decisions_spec() -> dg.AssetSpec:
    """The decision tables: people edit them, and all models depend on them."""
    return dg.AssetSpec(
        DECISIONS,
        group_name="ingest",
        owners=OWNERS,
        kinds={"csv"},
        description="The tables in decisions/: clusters, rates, tenants, accepted gaps.",
    )


def model_assets(
    graph: ModelGraph, evidence: EvidenceKeys, partitions: dg.PartitionsDefinition[str]
) -> dg.AssetsDefinition:
    """All models in one step: a period is rebuilt whole or not at all."""

    @dg.multi_asset(
        name="models_of_a_period",
        specs=[_spec(model, graph, evidence, partitions) for model in graph.models],
        check_specs=[_check_spec(test) for test in graph.tests],
        pool=POOL,
    )
    def models_of_a_period(
        context: dg.AssetExecutionContext, ledger_home: HomeParameter
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        period = period_of(context)
        tag_run(context, period)
        with report_errors():
            result = steps.refresh(ledger_home.open(), period)
        yield from build_events(graph, result)

    return models_of_a_period


def build_events(
    graph: ModelGraph, result: BuildResult
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """One event per model, and one per test with its row counts."""
    for model in graph.models:
        metadata: dict[str, str | int] = {"facts_sha256": result.facts_sha256}
        if model.name in result.row_counts:
            metadata["dagster/row_count"] = result.row_counts[model.name]
        yield dg.MaterializeResult(asset_key=model_key(model.name), metadata=metadata)
    for test in graph.tests:
        test_result = result.dbt_results.get(test.name)
        yield dg.AssetCheckResult(
            asset_key=model_key(test.model),
            check_name=test.name,
            passed=test_result is not None and test_result.passed,
            metadata={
                "status": test_result.status if test_result else "not executed",
                "rows evaluated": test_result.evaluated_row_count if test_result else 0,
                "rows failed": test_result.failed_row_count if test_result else 0,
            },
        )


def column_lineage(model: str, columns: Mapping[str, set[str]]) -> dg.TableColumnLineage:
    """The columns of other models from which each column of a model is calculated.

    The stored lineage may name columns that no longer exist; these are omitted.
    """
    lineage = kept_lineage().get(model, {}).get("columns", {})
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(model_key(parent), name)
                for parent, name in parents
                if name in columns.get(parent, ())
            ]
            for column, parents in lineage.items()
            if column in columns[model]
        }
    )


def _spec(
    model: Model,
    graph: ModelGraph,
    evidence: EvidenceKeys,
    partitions: dg.PartitionsDefinition[str],
) -> dg.AssetSpec:
    columns = [
        dg.TableColumn(column.name, column.data_type or "?", description=column.description)
        for column in model.columns
    ]
    return dg.AssetSpec(
        model_key(model.name),
        deps=[*(model_key(name) for name in model.depends_on), *_evidence_deps(model, evidence)],
        description=model.description,
        group_name=GROUP_OF_LAYER.get(model.layer, "warehouse"),
        owners=OWNERS,
        kinds={"dbt", "duckdb"},
        code_version=model.code_version,
        metadata={
            "dagster/column_schema": dg.TableSchema(columns),
            "dagster/column_lineage": column_lineage(model.name, graph.columns),
        },
        partitions_def=partitions,
    )


def _evidence_deps(model: Model, evidence: EvidenceKeys) -> Sequence[dg.AssetKey]:
    if not model.reads:
        return []
    sources = SOURCES_OF.get(model.reads, ())
    keys = [key for (_, source), key in evidence.items() if source in sources]
    return keys if sources else [DECISIONS]


def _check_spec(test: ModelTest) -> dg.AssetCheckSpec:
    """A dbt test does not block: the check of the period decides whether a failed test blocks."""
    return dg.AssetCheckSpec(
        test.name, asset=model_key(test.model), description=test.description or None
    )
