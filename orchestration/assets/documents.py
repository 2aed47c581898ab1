"""Drafts and documents as assets; closing itself is a job, because a person decides it.

Put here: the last steps of the line inside Dagster.
Not here: check (`assets.checked`), closing (`billing`), or the job (`orchestration.jobs`).

A blocking check blocks only inside its own run, so nothing rests on it: a close checks again by
itself, on the very facts that it seals.
"""

# No `from __future__ import annotations` here: Dagster reads the types of an op's parameters.
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from billing.gate import what_helps
from domain.billing_period import BillingPeriod
from domain.interval import format_instant
from domain.money import format_nanos, minor_unit_digits
from orchestration import steps
from orchestration.assets.checked import CHECK_RESULT, CHECKED_FACTS, GROUP
from orchestration.assets.facts import OWNERS, POOL, model_key
from orchestration.assets.hour_events import evidence_keys
from orchestration.checks import findings_table
from orchestration.commands import cell
from orchestration.links import close_link
from orchestration.open_home import OpenHome
from orchestration.partitions import period_of
from orchestration.resources import GivenHome, failing_in_words
from orchestration.tags import tag_run

if TYPE_CHECKING:
    from billing.close import CloseResult, DocumentSummary

DRAFTS = dg.AssetKey(["billing", "invoice_drafts"])
INVOICES = dg.AssetKey(["billing", "invoices"])
REPORTS = dg.AssetKey(["billing", "reports"])


def drafts_asset(partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    # It depends on facts and not on the check, whose checks would keep drafts from being made
    # just when somebody wants to see what a finding costs. Drafting checks by itself.
    @dg.asset(
        key=DRAFTS,
        deps=[model_key(name) for name in CHECKED_FACTS],
        partitions_def=partitions,
        group_name=GROUP,
        owners=OWNERS,
        kinds={"python"},
        description="The invoices that closing the period would issue now, and what stands "
        "against it; nothing is issued.",
        pool=POOL,
    )
    def invoice_drafts(
        context: dg.AssetExecutionContext, ledger_home: GivenHome
    ) -> dg.MaterializeResult[None]:
        period = period_of(context)
        tag_run(context, period)
        with failing_in_words():
            opened = ledger_home.open()
            result = steps.close(opened, period, dry_run=True)
        return dg.MaterializeResult(metadata=close_metadata(opened, period, result))

    return invoice_drafts


def document_specs(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetSpec]:
    """What only `close_period` makes: it shows here what it issued."""
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
            (INVOICES, {"pdf", "csv"}, "The sealed invoices. Issued by the job close_period."),
            (REPORTS, {"csv"}, "FOCUS files and the bundle of a closed period, from its record."),
        )
    ]


def close_metadata(
    opened: OpenHome, period: BillingPeriod, result: "CloseResult"
) -> dict[str, dg.MetadataValue]:
    """What a close issued, or would issue, and what stands against it."""
    return {
        "dagster/row_count": dg.MetadataValue.int(len(result.invoices)),
        "closed": dg.MetadataValue.bool(result.closed),
        "facts_sha256": dg.MetadataValue.text(result.facts_sha256),
        "may be closed from": dg.MetadataValue.text(format_instant(result.closes_from)),
        "total": dg.MetadataValue.text(str(result.total) if result.total else "no prices"),
        "invoices": dg.MetadataValue.md(
            invoice_table(result.invoices, result.total.currency if result.total else "")
        ),
        "what stands against it": dg.MetadataValue.md(_against(opened, result)),
        "what to run next": dg.MetadataValue.md(_proposal(opened, period, result)),
    }


def invoice_table(invoices: "Sequence[DocumentSummary]", currency: str) -> str:
    """Amounts with all their cents; none where there are no prices."""
    digits = minor_unit_digits(currency) if currency else 0
    amounts = [format_nanos(d.billed_nanos, digits) if currency else "" for d in invoices]
    rows = [
        f"| {d.number} | {d.tenant} | {amount} |"
        for d, amount in zip(invoices, amounts, strict=True)
    ]
    return "\n".join(["| invoice | tenant | amount |", "|---|---|---:|", *rows])


def _against(opened: OpenHome, result: "CloseResult") -> str:
    missing = [f"- the check `{name}` was not executed" for name in result.missing_checks]
    if not result.refused_by and not missing:
        return "Nothing."
    keys = evidence_keys(opened.decisions.clusters)
    return "\n".join([findings_table(result.refused_by, keys), *missing])


def _proposal(opened: OpenHome, period: BillingPeriod, result: "CloseResult") -> str:
    if result.closed:
        return f"Nothing: {period} is closed."
    if result.refused_by or result.missing_checks:
        helps = what_helps(period, result.refused_by, result.missing_checks)
        return "\n\n".join(f"This {told}:\n{cell(opened, command)}" for command, told in helps)
    return (
        f"From {format_instant(result.closes_from)} on, launch "
        f"[close_period with `issue: true`]({close_link(period, result.facts_sha256)}), or:\n"
        f"{cell(opened, f'gpu-ledger close {period} --issue')}"
    )
