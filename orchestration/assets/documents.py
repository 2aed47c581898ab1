"""Judgement and drafts as assets; closing as a job, because a person decides it.

Put here: the last steps of the line inside Dagster.
Not here: rules of judgement (`quality`), or closing (`billing`).

A blocking check blocks only inside its own run, so nothing rests on it: a close judges again by
itself, on the very facts that it seals.
"""

# No `from __future__ import annotations` here: Dagster reads the types of an op's parameters.
from collections.abc import Iterator

import dagster as dg

from domain.billing_period import BillingPeriod
from domain.findings import Finding, Judgement
from orchestration import steps
from orchestration.assets.facts import POOL, model_key
from orchestration.partitions import period_of
from orchestration.resources import LedgerHome

JUDGEMENT = dg.AssetKey(["billing", "judgement"])
DRAFTS = dg.AssetKey(["billing", "invoice_drafts"])
CHECK = "period_may_be_billed"
FINDINGS_SHOWN = 50


def judgement_asset(partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=JUDGEMENT,
        deps=[model_key("fct_charges"), model_key("fct_coverage"), model_key("fct_pod_hours")],
        partitions_def=partitions,
        group_name="billing",
        description="Whether the period may be billed, and everything that stands against it.",
        check_specs=[
            dg.AssetCheckSpec(
                CHECK,
                asset=JUDGEMENT,
                blocking=True,
                description="No finding blocks, and every required check ran on rows.",
            )
        ],
        pool=POOL,
    )
    def judgement(
        context: dg.AssetExecutionContext, ledger_home: LedgerHome
    ) -> Iterator[dg.MaterializeResult[None]]:
        judged = steps.judge(ledger_home.open(), period_of(context))
        yield dg.MaterializeResult(
            metadata={
                "facts_sha256": judged.facts_sha256,
                "findings": dg.MetadataValue.md(findings_table(judged)),
            },
            check_results=[
                dg.AssetCheckResult(
                    check_name=CHECK,
                    passed=judged.billable,
                    metadata={"blocking findings": len(judged.blocking)},
                )
            ],
        )

    return judgement


def drafts_asset(partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    @dg.asset(
        key=DRAFTS,
        deps=[JUDGEMENT],
        partitions_def=partitions,
        group_name="billing",
        description="The invoices that closing the period would issue now; nothing is issued.",
        pool=POOL,
    )
    def invoice_drafts(
        context: dg.AssetExecutionContext, ledger_home: LedgerHome
    ) -> dg.MaterializeResult[None]:
        result = steps.close(ledger_home.open(), period_of(context), dry_run=True)
        lines = [
            f"| {d.number} | {d.tenant} | {d.billed_nanos / 10**9:.2f} |" for d in result.invoices
        ]
        table = "\n".join(["| invoice | tenant | amount |", "|---|---|---:|", *lines])
        return dg.MaterializeResult(
            metadata={"dagster/row_count": len(lines), "drafts": dg.MetadataValue.md(table)}
        )

    return invoice_drafts


class ClosePeriod(dg.Config):
    """Which period, and whether to really close it."""

    period: str
    issue: bool = False


@dg.op(pool=POOL, description="Close a billing period; a dry run unless `issue` is true.")
def close_one_period(
    context: dg.OpExecutionContext, config: ClosePeriod, ledger_home: LedgerHome
) -> None:
    period = BillingPeriod(config.period)
    result = steps.close(ledger_home.open(), period, dry_run=not config.issue)
    for document in result.invoices:
        context.log.info(f"{document.number} {document.tenant}")
    context.log.info("closed" if result.closed else "a dry run: nothing was issued")


@dg.job(description="Close a billing period: judge it again, issue its invoices. Dry by default.")
def close_period() -> None:
    close_one_period()


def findings_table(judged: Judgement) -> str:
    """The findings as Markdown, blocking ones first."""
    rows = [_row(finding) for finding in judged.findings[:FINDINGS_SHOWN]]
    more = len(judged.findings) - FINDINGS_SHOWN
    end = [f"and {more} more: `gpu-ledger judge {judged.period}`"] if more > 0 else []
    return "\n".join(["| code | blocks | where | seen |", "|---|---|---|---|", *rows, *end])


def _row(finding: Finding) -> str:
    cells = (finding.code, "yes" if finding.blocks else "no", finding.where, finding.seen)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
