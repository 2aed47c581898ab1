"""`gpu-ledger demo`: a month of a simulated fleet, from samples to sealed invoices.

Put here: what the demo prints, and its last screen.
Not here: what it does (`orchestration.demo`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import emit, emit_document, output_option, progress

if TYPE_CHECKING:
    from orchestration.demo.story import DemoResult, Month

EPILOG = """\b
Examples:
  gpu-ledger demo                                       a month of three clusters
  gpu-ledger demo --scenario thin_line --home /tmp/l    six hours, to check with a pencil
  gpu-ledger demo --scenario my-pods.csv                your own pods, from a trace
  gpu-ledger demo --keep-running                        and then Dagster's pages, until Ctrl-C
"""


@click.command(epilog=EPILOG)
@click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-home"),
    show_default=True,
    help="Where the demo's home is made; that of an earlier demo is thrown away.",
)
@click.option(
    "--scenario",
    default="demo",
    show_default=True,
    help="A scenario's name (gpu-ledger fake list), a scenario file, or a trace of pods (.csv).",
)
@click.option(
    "--keep-running", is_flag=True, help="Leave the fleet and Dagster's pages up, until Ctrl-C."
)
@click.option("--port", default=3000, show_default=True, help="Of the pages that are kept running.")
@output_option
def demo(home_path: Path, scenario: str, keep_running: bool, port: int, output: str) -> None:
    """Show the whole way from a simulated fleet to sealed invoices.

    Serves a GPU fleet and lives through its time with a collector per cluster, asks both sources
    over HTTP, refuses to close while an hour is missing, backfills what can be backfilled, accepts
    the rest, closes, and writes invoices, the programme's report and the published copy.
    """
    from orchestration.cli.up import interrupted_quietly, require_startable, show_pages
    from orchestration.demo.story import telling

    if keep_running:
        require_startable(home_path / "dagster", "127.0.0.1", port)
    with (
        interrupted_quietly(),
        telling(
            scenario, home_path, progress, lambda text: click.echo(f"\n{text}", err=True)
        ) as told,
    ):
        show(told, output)
        if keep_running:
            from orchestration.open_home import CLOCK_VARIABLE
            from orchestration.resources import home_from_environment

            home = str(told.opened.home.path.resolve())
            os.environ |= {"GPU_LEDGER_HOME": home, CLOCK_VARIABLE: told.clock_url}
            show_pages(home_from_environment().open(), "127.0.0.1", port)


def show(told: DemoResult, output: str) -> None:
    """The last screen: what happened, where it is, what to try."""
    invoices = [row for month in told.months for row in _invoices(month)]
    if output != "table":
        _show_machines(told, invoices, output)
        return
    for month in told.months:
        click.echo()
        rows = [{k: v for k, v in row.items() if k != "period"} for row in _invoices(month)]
        closed = f"{month.period} is closed"
        emit(rows, output, title=closed, empty=f"{closed}, without an invoice.")
    period = told.months[-1].period
    refused, signed = _counts(told)
    click.echo(
        f"Summary: the close was refused {'once' if refused == 1 else f'{refused} times'}, "
        f"one hour was backfilled, {signed or 'no'} gap{'' if signed == 1 else 's'} accepted, "
        f"{len(invoices)} invoices issued.\n"
    )
    for what, where in _places(told).items():
        click.echo(f"{what + ':':<28}{where}")
    click.echo("\nTry next:")
    for command in (
        f"gpu-ledger explain {invoices[0]['invoice']} --line 1"
        if invoices
        else f"gpu-ledger check {period}",
        f"gpu-ledger gaps {period}",
        f"gpu-ledger usage --period {period}",
    ):
        click.echo(f"  {command} --home {told.opened.home.path}")
    _show_portal(told, invoices)


def _show_portal(told: DemoResult, invoices: list[dict[str, str]]) -> None:
    """How to open the portal, with a token for a tenant and for each role."""
    from portal.tokens import FILE, PROGRAMME, PROVIDER, TENANT, create_token

    home, now = told.opened.home.path, told.opened.clock.now().replace(microsecond=0)
    callers = [(TENANT, invoices[0]["tenant"])] if invoices else []
    click.echo("\nTokens for the portal:")
    for role, tenant in (*callers, (PROVIDER, ""), (PROGRAMME, "")):
        token = create_token(home / FILE, role, tenant, now)
        click.echo(f"  {f'{role} {tenant}'.strip():<20}{token}")
    click.echo(
        f"\nOpen the portal, and log in with one of them:\n  gpu-ledger portal --home {home}"
    )


def _show_machines(told: DemoResult, invoices: list[dict[str, str]], output: str) -> None:
    if output == "csv":
        emit(invoices, output)
        return
    refused, signed = _counts(told)
    emit_document(
        {
            "home": str(told.opened.home.path),
            "refused": refused,
            "signed": signed,
            "invoices": invoices,
            "places": {what: str(where) for what, where in _places(told).items()},
        }
    )


def _invoices(month: Month) -> list[dict[str, str]]:
    from domain.money import format_nanos

    return [
        {
            "period": month.period.name,
            "invoice": document.number,
            "tenant": document.tenant,
            "billed": format_nanos(document.billed_nanos, 2),
            "currency": month.result.total.currency if month.result.total else "",
        }
        for document in month.result.invoices
    ]


def _counts(told: DemoResult) -> tuple[int, int]:
    """How often a close was refused, and how much was signed for."""
    refused = sum(len(month.refusals) for month in told.months)
    return refused, sum(len(month.signed) for month in told.months)


def _places(told: DemoResult) -> dict[str, Path]:
    period = told.months[-1].period
    folder = told.opened.home.documents / period.name
    return {
        "Invoices (PDF, CSV, FOCUS)": folder,
        "The programme's report": folder / "provider",
        "For an auditor": folder / f"{period}.zip",
        "For analysts": told.published.latest_path,
        "The models' own pages": told.model_pages,
    }
