"""`gpu-ledger demo`: the whole way, on an estate that is not there.

Put here: what the demo prints.
Not here: what it does (`orchestration.demo`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import emit, progress

if TYPE_CHECKING:
    from orchestration.demo.story import Told

EPILOG = """\b
Examples:
  gpu-ledger demo
  gpu-ledger demo --home /tmp/ledger --scenario thin_line
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
    "--scenario", default="thin_line", show_default=True, help="A scenario's name, or a file."
)
def demo(home_path: Path, scenario: str) -> None:
    """Show the whole way from a fake estate to sealed invoices.

    Serves a GPU estate, collects and asks its evidence, refuses to close while an hour is missing,
    heals it, closes, and writes the invoices.
    """
    from orchestration.demo.story import tell

    told = tell(scenario, home_path, progress, lambda text: click.echo(f"\n{text}", err=True))
    _show(told)


def _show(told: Told) -> None:
    from domain.money import format_nanos

    rows = [
        {
            "invoice": document.number,
            "tenant": document.tenant,
            "billed": format_nanos(document.billed_nanos),
        }
        for document in told.result.invoices
    ]
    emit(rows, "table", title=f"{told.period} is closed")
    home = told.opened.home
    click.echo(f"Documents:  {home.documents / told.period.name}")
    click.echo(f"Warehouse:  {home.warehouse_path}")
    click.echo("Try next:")
    click.echo(f"  gpu-ledger judge {told.period} --home {home.path}")
    click.echo(f"  gpu-ledger invoice {told.period} --home {home.path}")
    click.echo(f"  gpu-ledger hours {told.period} --all --home {home.path}")
