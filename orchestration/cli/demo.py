"""`gpu-ledger demo`: the whole way, on an estate that is not there.

Put here: what the demo prints, and its last screen.
Not here: what it does (`orchestration.demo`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import emit, progress

if TYPE_CHECKING:
    from orchestration.demo.story import Told

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
    "--keep-running", is_flag=True, help="Leave the estate and Dagster's pages up, until Ctrl-C."
)
@click.option("--port", default=3000, show_default=True, help="Of the pages that are kept running.")
def demo(home_path: Path, scenario: str, keep_running: bool, port: int) -> None:
    """Show the whole way from a fake estate to sealed invoices.

    Serves a GPU estate and lives through its time with a collector per cluster, asks both witnesses
    over HTTP, refuses to close while an hour is missing, heals what can be healed, signs for the
    rest, closes, and writes invoices, the programme's report and the published copy.
    """
    from orchestration.cli.up import interrupted_quietly, show_pages
    from orchestration.demo.story import telling

    if keep_running:
        from orchestration.pages import require_startable

        require_startable(home_path / "dagster", "127.0.0.1", port)
    with (
        interrupted_quietly(),
        telling(
            scenario, home_path, progress, lambda text: click.echo(f"\n{text}", err=True)
        ) as told,
    ):
        _show(told)
        if keep_running:
            from orchestration.open_home import CLOCK_VARIABLE
            from orchestration.resources import home_from_environment

            home = str(told.opened.home.path.resolve())
            os.environ |= {"GPU_LEDGER_HOME": home, CLOCK_VARIABLE: told.clock_url}
            show_pages(home_from_environment().open(), "127.0.0.1", port)


def _show(told: Told) -> None:
    from domain.money import format_nanos

    home = told.opened.home
    invoices = []
    for month in told.months:
        currency = month.result.total.currency if month.result.total else ""
        rows = [
            {
                "invoice": document.number,
                "tenant": document.tenant,
                "billed": format_nanos(document.billed_nanos, 2),
                "currency": currency,
            }
            for document in month.result.invoices
        ]
        click.echo()
        emit(rows, "table", title=f"{month.period} is closed")
        invoices += rows
    period = told.months[-1].period
    refused = sum(len(month.refusals) for month in told.months)
    signed = sum(len(month.signed) for month in told.months)
    click.echo(
        f"What happened: the close was refused {'once' if refused == 1 else f'{refused} times'}, "
        f"an hour was healed, {signed or 'no'} stretch{'' if signed == 1 else 'es'} signed for, "
        f"{len(invoices)} invoices sealed.\n"
    )
    folder = home.documents / period.name
    places = {
        "Invoices (PDF, CSV, FOCUS)": folder,
        "The programme's report": folder / "provider",
        "For an auditor": folder / f"{period}.zip",
        "For analysts": told.published.latest_path,
        "The models' own pages": told.model_pages,
    }
    for what, where in places.items():
        click.echo(f"{what + ':':<28}{where}")
    click.echo("\nTry next:")
    for command in (
        f"gpu-ledger explain {invoices[0]['invoice']} --line 1"
        if invoices
        else f"gpu-ledger judge {period}",
        f"gpu-ledger gaps {period}",
        f"gpu-ledger usage --period {period}",
    ):
        click.echo(f"  {command} --home {home.path}")
