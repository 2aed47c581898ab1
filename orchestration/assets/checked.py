"""Check as an asset, and the copy for readers, which is made of checked facts.

Put here: checking and publishing inside a Dagster run.
Not here: rules of check (`quality`), or what is published (`orchestration.publishing`).

The copy waits for the check, whose words it carries. It does not wait for a clean one: a month
with an open gap is read all month long, and the copy says what is open. Only where a check says
that the numbers contradict each other does the copy before it stay.
"""

# No `from __future__ import annotations` here: Dagster reads the types of parameters.
from collections.abc import Iterator

import dagster as dg

from domain.findings import CheckResult
from orchestration import publishing, steps
from orchestration.assets.facts import OWNERS, POOL, EvidenceKeys, model_key
from orchestration.assets.marks import new_marks
from orchestration.checks import findings_table, results_of_checks, specs_of_checks
from orchestration.model_graph import ModelGraph
from orchestration.open_home import OpenHome
from orchestration.partitions import period_of
from orchestration.resources import GivenHome, failing_in_words
from orchestration.tags import tag_run

GROUP = "billing"
CHECK_RESULT = dg.AssetKey(["billing", "check"])
PUBLISHED = dg.AssetKey("published")
CHECKED_FACTS = ("fct_charges", "fct_coverage", "fct_pod_hours")


def checked_assets(
    graph: ModelGraph, evidence: EvidenceKeys, partitions: dg.PartitionsDefinition[str]
) -> dg.AssetsDefinition:
    # One step: between two, a finding that blocks a close would keep the copy from its readers.
    @dg.multi_asset(
        name="check_and_publish",
        specs=list(_specs(graph, partitions)),
        check_specs=specs_of_checks(CHECK_RESULT),
        pool=POOL,
    )
    def check_and_publish(
        context: dg.AssetExecutionContext, ledger_home: GivenHome
    ) -> Iterator[dg.MaterializeResult[None]]:
        period = period_of(context)
        tag_run(context, period)
        with failing_in_words():
            opened = ledger_home.open()
            checked = steps.check_period(opened, period)
            for mark in new_marks(context.instance, opened, evidence, checked):
                context.log_event(mark)
        yield dg.MaterializeResult(
            asset_key=CHECK_RESULT,
            metadata={
                "may be billed": checked.billable,
                "facts_sha256": checked.facts_sha256,
                "dagster/row_count": len(checked.findings),
                "findings": dg.MetadataValue.md(findings_table(checked.findings, evidence)),
            },
            check_results=list(results_of_checks(CHECK_RESULT, checked, evidence)),
        )
        if broken := contradictions(checked):
            context.log.warning(f"Not published, the copy before it stays: {', '.join(broken)}")
            return
        with failing_in_words():
            yield _published(opened)

    return check_and_publish


def contradictions(checked: CheckResult) -> list[str]:
    """The checks by which these numbers contradict each other, or were not compared at all."""
    failed = [check.name for check in checked.checks if check.failed_row_count]
    return sorted({*failed, *checked.missing_checks})


def _specs(graph: ModelGraph, partitions: dg.PartitionsDefinition[str]) -> Iterator[dg.AssetSpec]:
    yield dg.AssetSpec(
        CHECK_RESULT,
        deps=[model_key(name) for name in CHECKED_FACTS],
        description="Whether the period may be billed, and everything that stands against it.",
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
        description="The copy of all marts that readers open, made anew when a period was checked; "
        "it says how far it is complete and what is open.",
        partitions_def=partitions,
        group_name=GROUP,
        owners=OWNERS,
        kinds={"duckdb", "parquet"},
        skippable=True,
    )


def _published(opened: OpenHome) -> dg.MaterializeResult[None]:
    made = publishing.publish(opened)
    return dg.MaterializeResult(
        asset_key=PUBLISHED,
        metadata={
            "file": dg.MetadataValue.path(str(made.latest_path)),
            "parquet": dg.MetadataValue.path(str(made.parquet_folder)),
            "tables": made.table_count,
        },
    )
