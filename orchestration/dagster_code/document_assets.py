"""Drafts and documents as assets. A person decides to close, so the close itself is a job.

Put here: the assets of documents, and the metadata of a close.
Not here: the check (`check_assets`), closing (`billing`), or the job (`jobs`).

A blocking check blocks only inside its own run, so nothing relies on it: a close checks the facts
that it seals.
"""

# No `from __future__ import annotations` here: Dagster reads the types of an op's parameters.
from collections.abc import Sequence

import dagster as dg

from billing.close import CloseResult, DocumentSummary
from billing.gate import next_commands
from domain.billing_period import BillingPeriod
from domain.interval import format_instant
from domain.money import format_nanos, minor_unit_digits
from orchestration import steps
from orchestration.dagster_code.asset_checks import findings_table
from orchestration.dagster_code.check_assets import CHECK_RESULT, CHECKED_FACTS, GROUP
from orchestration.dagster_code.hour_events import evidence_keys
from orchestration.dagster_code.model_assets import OWNERS, POOL, model_key
from orchestration.dagster_code.partitions import period_of
from orchestration.dagster_code.resources import HomeParameter, report_errors
from orchestration.dagster_code.run_tags import tag_run
from orchestration.dagster_code.ui_links import close_link, command_cell
from orchestration.open_home import OpenHome

DRAFTS = dg.AssetKey(["billing", "invoice_drafts"])
INVOICES = dg.AssetKey(["billing", "invoices"])
REPORTS = dg.AssetKey(["billing", "reports"])


def drafts_asset(partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    # It depends on the facts and not on their check: a blocking check would prevent the drafts
    # that show the amount concerned. Drafting checks the facts as well.
    @dg.asset(
        key=DRAFTS,
        deps=[model_key(name) for name in CHECKED_FACTS],
        partitions_def=partitions,
        group_name=GROUP,
        owners=OWNERS,
        kinds={"python"},
        description="Drafts of the period's invoices, and the blocking findings. Nothing is "
        "issued.",
        pool=POOL,
    )
    def invoice_drafts(
        context: dg.AssetExecutionContext, ledger_home: HomeParameter
    ) -> dg.MaterializeResult[None]:
        period = period_of(context)
        tag_run(context, period)
        with report_errors():
            opened = ledger_home.open()
            result = steps.close(opened, period, dry_run=True)
        return dg.MaterializeResult(metadata=close_metadata(opened, period, result))

    return invoice_drafts


def document_specs(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetSpec]:
    """The assets that the job `close_period` materializes."""
    return [
        dg.AssetSpec(
            key,
            deps=[CHECK_RESULT, DRAFTS],
            partitions_def=partitions,
            group_name=GROUP,
            owners=OWNERS,
            kinds=kinds,
            description=description,
        )
        for key, kinds, description in (
            (INVOICES, {"pdf", "csv"}, "The issued invoices, written by the job close_period."),
            (REPORTS, {"csv"}, "FOCUS files and the bundle of a closed period, from its record."),
        )
    ]


def close_metadata(
    opened: OpenHome, period: BillingPeriod, result: CloseResult
) -> dict[str, dg.MetadataValue]:
    """The invoices of a close or of a dry run, the blocking findings, and the next command."""
    return {
        "dagster/row_count": dg.MetadataValue.int(len(result.invoices)),
        "closed": dg.MetadataValue.bool(result.closed),
        "facts_sha256": dg.MetadataValue.text(result.facts_sha256),
        "may be closed from": dg.MetadataValue.text(format_instant(result.closes_from)),
        "total": dg.MetadataValue.text(str(result.total) if result.total else "no prices"),
        "invoices": dg.MetadataValue.md(
            invoice_table(result.invoices, result.total.currency if result.total else "")
        ),
        "blocking findings": dg.MetadataValue.md(_blocking_text(opened, result)),
        "next command": dg.MetadataValue.md(_next_command(opened, period, result)),
    }


def invoice_table(invoices: Sequence[DocumentSummary], currency: str) -> str:
    """Invoices with their amounts, in all digits of the currency; no amounts without prices."""
    digits = minor_unit_digits(currency) if currency else 0
    amounts = [format_nanos(d.billed_nanos, digits) if currency else "" for d in invoices]
    rows = [
        f"| {d.number} | {d.tenant} | {amount} |"
        for d, amount in zip(invoices, amounts, strict=True)
    ]
    return "\n".join(["| invoice | tenant | amount |", "|---|---|---:|", *rows])


def _blocking_text(opened: OpenHome, result: CloseResult) -> str:
    missing = [f"- the check `{name}` was not executed" for name in result.missing_checks]
    if not result.refused_by and not missing:
        return "None."
    keys = evidence_keys(opened.decisions.clusters)
    return "\n".join([findings_table(result.refused_by, keys), *missing])


def _next_command(opened: OpenHome, period: BillingPeriod, result: CloseResult) -> str:
    if result.closed:
        return f"None: {period} is closed."
    if result.refused_by or result.missing_checks:
        commands = next_commands(period, result.refused_by, result.missing_checks)
        return "\n\n".join(
            f"This {effect}:\n{command_cell(opened, cmd)}" for cmd, effect in commands
        )
    return (
        f"From {format_instant(result.closes_from)} on, launch "
        f"[close_period with `issue: true`]({close_link(period, result.facts_sha256)}), or:\n"
        f"{command_cell(opened, f'gpu-ledger close {period} --issue')}"
    )
