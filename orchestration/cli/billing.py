"""`gpu-ledger close`, `void` and `invoice`: documents that never change.

Put here: the commands for documents.
Not here: closing and rendering (`billing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from billing.close import CloseResult, DocumentSummary
from billing.documents_folder import render_documents
from billing.events import DocumentStatus, NumberedDocument
from billing.gate import next_commands
from billing.record import Record
from billing.rendering.text import invoice_text
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import ready_until
from domain.interval import format_instant
from domain.money import format_nanos, minor_unit_digits
from orchestration.cli.output import (
    emit,
    emit_document,
    emit_result,
    home_option,
    output_option,
    progress,
)
from orchestration.cli.time_arguments import (
    NEWEST_CLOSED,
    OLDEST_OPEN,
    period_argument,
    period_or_newest_closed,
    period_or_oldest_open,
)
from orchestration.open_home import OpenHome, holder
from orchestration.publishing import snapshot
from orchestration.steps import close as close_period
from orchestration.steps import recheck_before_close

CLOSE_EPILOG = """\b
Examples:
  gpu-ledger close                         the oldest open month: documents, blocking findings
  gpu-ledger close 2026-10 --issue         close; this can only be corrected, not undone
  gpu-ledger close 2026-10 --recheck       a dry run that includes late samples
"""


@click.command(epilog=CLOSE_EPILOG)
@period_argument(OLDEST_OPEN)
@click.option(
    "--dry-run/--issue", default=True, show_default=True, help="Print the documents only, or close."
)
@click.option(
    "--recheck/--no-recheck",
    default=None,
    help="Compare sample counts with the store first, and include samples that arrived late "
    "(by default with --issue).",
)
@home_option
@output_option
def close(
    period: BillingPeriod | None, dry_run: bool, recheck: bool | None, home_path: Path, output: str
) -> int:
    """Close PERIOD and issue its invoices. The default is a dry run.

    The facts are checked again in the same step. The exit code is 1 if a finding blocks the close.
    """
    opened = OpenHome.at(home_path)
    period = period_or_oldest_open(opened, period)
    if recheck if recheck is not None else not dry_run:
        _recheck(opened, period)
    with progress("Checking" if dry_run else "Closing"):
        result = close_period(opened, period, dry_run=dry_run)
    rows = [
        {
            "invoice": document.number,
            "tenant": document.tenant,
            "billed": _amount(document.billed_nanos, result),
            "since_last_look": _difference(document, result),
            "currency": result.total.currency if result.total else "",
            "sha256": document.sha256,
        }
        for document in result.invoices
    ]
    if output == "json":
        emit_document(
            {
                "period": period.name,
                "closed": result.closed,
                "invoices": rows,
                "refused_by": [f"{f.code} {f.where}: {f.seen}" for f in result.refused_by],
                "missing_checks": list(result.missing_checks),
            }
        )
    else:
        last = "sha256" if result.closed else "since_last_look"
        names = ["invoice", "tenant", "billed", "currency", last]
        emit(rows, output, names, empty=f"No invoice: no tenant used a device in {period}.")
    if result.total:
        click.echo(
            f"Together {_amount(result.total.nanos, result)} {result.total.currency}.", err=True
        )
    for finding in result.refused_by:
        click.echo(f"blocking: {finding.code} {finding.where}: {finding.seen}", err=True)
    for name in result.missing_checks:
        click.echo(f"blocking: the check {name} was not executed", err=True)
    for command, effect in next_commands(period, result.refused_by, result.missing_checks):
        click.echo(f"`{command}` {effect}.", err=True)
    if result.closed:
        if result.closed_by != holder():
            click.echo(f"Another command had closed {period}: {result.closed_by}.", err=True)
        click.echo(
            f"{period} is closed; documents in {opened.home.documents / period.name}", err=True
        )
        snapshot(opened)
    else:
        _print_measured_until(opened, result)
        click.echo("Nothing was issued: this was a dry run.", err=True)
    return 1 if result.refused_by or result.missing_checks else 0


def _print_measured_until(opened: OpenHome, result: CloseResult) -> None:
    """State until when a month that is not over is measured."""
    now = opened.clock.now()
    if now < result.period.ended_at:
        click.echo(
            f"{result.period} is not over: it ends at {format_instant(result.period.ended_at)} and "
            f"can be closed from {format_instant(result.closes_from)}. The amounts are those until "
            f"{format_instant(ready_until(now))} at the latest.",
            err=True,
        )


def _recheck(opened: OpenHome, period: BillingPeriod) -> None:
    """Compare sample counts; a store that does not respond does not stop the close."""
    with progress("Comparing counts") as report:
        found = recheck_before_close(opened, period, report)
    for name, why in sorted(found.unanswered.items()):
        click.echo(f"Not compared: {name}: {why}", err=True)
    if found.differing_count:
        click.echo(f"{found.differing_count} hours differed and were pulled again.", err=True)


def _amount(nanos: int, result: CloseResult) -> str:
    return format_nanos(nanos, minor_unit_digits(result.total.currency)) if result.total else ""


def _difference(document: DocumentSummary, result: CloseResult) -> str:
    """The difference to the estimate of the previous dry run; empty without one."""
    if document.estimated_nanos is None:
        return ""
    return _amount(document.billed_nanos - document.estimated_nanos, result)


VOID_EPILOG = """\b
Examples:
  gpu-ledger void INV-000007 --reason "billed to the wrong party"
"""


@click.command(epilog=VOID_EPILOG)
@click.argument("number")
@click.option("--reason", required=True, help="Reason, printed on the void.")
@home_option
@output_option
def void(number: str, reason: str, home_path: Path, output: str) -> None:
    """Void the document NUMBER by a new document in the open period.

    This cannot be undone. `gpu-ledger recount` finds the right amount.
    """
    opened = OpenHome.at(home_path)
    issued = void_document(opened.home, number, reason, opened.clock, holder=holder())
    render_documents(opened.home, BillingPeriod(issued.period))
    folder = opened.home.documents / issued.period
    emit_result(
        {
            "number": issued.number,
            "voids": number,
            "period": issued.period,
            "sha256": issued.sha256,
            "folder": str(folder),
        },
        output,
        f"{issued.number} voids {number}; its document is in {folder}.",
    )
    snapshot(opened)


def _document_row(
    issued: NumberedDocument, record: Record, status: DocumentStatus
) -> Mapping[str, str]:
    """The row of a document in the list."""
    sealed = record.sealed(issued.sha256)
    currency = str(sealed["currency"])
    return {
        "number": issued.number,
        "document": str(sealed["document"]),
        "tenant": str(sealed["tenant"]),
        "status": status.value,
        "billed": str(sealed["total_billed_cost"]) if currency else "",
        "currency": currency,
        "sha256": issued.sha256,
    }


INVOICE_EPILOG = """\b
Examples:
  gpu-ledger invoice 2026-10                      the invoices of a month
  gpu-ledger invoice 2026-10 --number INV-000001
"""


@click.command(epilog=INVOICE_EPILOG)
@period_argument(NEWEST_CLOSED)
@click.option("--number", help="Number of the document to print from its sealed record.")
@home_option
@output_option
def invoice(period: BillingPeriod | None, number: str | None, home_path: Path, output: str) -> int:
    """List the documents of PERIOD, or print one from its sealed record."""
    opened = OpenHome.at(home_path)
    period, record = period_or_newest_closed(opened, period), opened.record
    issued = record.invoices(period.name)
    if number is None:
        ledger = record.ledger()
        listed = [_document_row(one, record, ledger.status(one.number)) for one in issued]
        look = f"`gpu-ledger close {period}` shows the documents that a close would issue"
        emit(listed, output, empty=f"Nothing was issued for {period}; {look}.")
        return 0
    for document in issued:
        if document.number == number:
            if output == "json":
                emit_document(record.sealed(document.sha256))
            else:
                click.echo(invoice_text(record.sealed(document.sha256), document.sha256), nl=False)
            return 0
    known = ", ".join(document.number for document in issued) or "none"
    raise click.UsageError(f"{period} has no document {number}; it has: {known}")
