"""The check of a period as an asset, and the copy for readers, which is made of checked facts.

Put here: checking and publishing inside a Dagster run.
Not here: the rules of a check (`quality`), or the parts of the copy (`orchestration.publishing`).

The copy contains the result of the check, so it is made after it. A finding that blocks a close
does not block the copy: readers need a month with an open gap, and the copy names the gap. If a
check fails or was not executed, numbers may contradict each other, and the previous copy is kept.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator

import dagster as dg

from domain.findings import CheckResult
from orchestration import publishing, steps
from orchestration.dagster_code.asset_checks import (
    findings_table,
    period_check_results,
    period_check_specs,
)
from orchestration.dagster_code.hour_events import EvidenceKeys, coverage_observations
from orchestration.dagster_code.model_assets import OWNERS, POOL, model_key
from orchestration.dagster_code.model_graph import ModelGraph
from orchestration.dagster_code.partitions import period_of
from orchestration.dagster_code.resources import HomeParameter, report_errors
from orchestration.dagster_code.run_tags import tag_run
from orchestration.open_home import OpenHome

GROUP = "billing"
CHECK_RESULT = dg.AssetKey(["billing", "check"])
PUBLISHED = dg.AssetKey("published")
CHECKED_FACTS = ("fct_charges", "fct_coverage", "fct_pod_hours")


def check_assets(
    graph: ModelGraph, evidence: EvidenceKeys, partitions: dg.PartitionsDefinition[str]
) -> dg.AssetsDefinition:
    # One step for both assets: a finding that blocks a close would block a second step, the copy.
    @dg.multi_asset(
        name="check_and_publish",
        specs=list(_specs(graph, partitions)),
        check_specs=period_check_specs(CHECK_RESULT),
        pool=POOL,
    )
    def check_and_publish(
        context: dg.AssetExecutionContext, ledger_home: HomeParameter
    ) -> Iterator[dg.MaterializeResult[None]]:
        period = period_of(context)
        tag_run(context, period)
        with report_errors():
            opened = ledger_home.open()
            result = steps.check_period(opened, period)
            for event in coverage_observations(context.instance, opened, evidence, result):
                context.log_event(event)
        yield dg.MaterializeResult(
            asset_key=CHECK_RESULT,
            metadata={
                "billable": result.billable,
                "facts_sha256": result.facts_sha256,
                "dagster/row_count": len(result.findings),
                "findings": dg.MetadataValue.md(findings_table(result.findings, evidence)),
            },
            check_results=list(period_check_results(CHECK_RESULT, result, evidence)),
        )
        if failed := failed_checks(result):
            context.log.warning(
                f"Not published; the previous copy is kept. Failed checks: {', '.join(failed)}"
            )
            return
        with report_errors():
            yield _publish(opened)

    return check_and_publish


def failed_checks(result: CheckResult) -> list[str]:
    """The checks that failed or were not executed: the numbers may contradict each other."""
    failed = [check.name for check in result.checks if check.failed_row_count]
    return sorted({*failed, *result.missing_checks})


def _specs(graph: ModelGraph, partitions: dg.PartitionsDefinition[str]) -> Iterator[dg.AssetSpec]:
    yield dg.AssetSpec(
        CHECK_RESULT,
        deps=[model_key(name) for name in CHECKED_FACTS],
        description="The result of the check (billable, or blocked by findings) and all findings.",
        partitions_def=partitions,
        group_name=GROUP,
        owners=OWNERS,
        kinds={"python", "great_expectations"},
    )
    yield dg.AssetSpec(
        PUBLISHED,
        deps=[
            CHECK_RESULT,
            *(model_key(model.name) for model in graph.models if model.layer == "marts"),
        ],
        description="A copy of all marts for readers. A check of a period replaces it, unless a "
        "required check failed or was not executed. Its table `about` has the time until which "
        "data is complete.",
        partitions_def=partitions,
        group_name=GROUP,
        owners=OWNERS,
        kinds={"duckdb", "parquet"},
        skippable=True,
    )


def _publish(opened: OpenHome) -> dg.MaterializeResult[None]:
    copy = publishing.publish(opened)
    return dg.MaterializeResult(
        asset_key=PUBLISHED,
        metadata={
            "file": dg.MetadataValue.path(str(copy.latest_path)),
            "parquet": dg.MetadataValue.path(str(copy.parquet_folder)),
            "tables": copy.table_count,
        },
    )
