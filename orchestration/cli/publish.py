"""`gpu-ledger publish`: write the copy for readers.

Put here: the command.
Not here: writing the copy (`warehouse.publish`), or Dagster's asset (`dagster_code.check_assets`).
"""

from __future__ import annotations

from pathlib import Path

import click

from orchestration.cli.output import emit, home_option, output_option, progress
from orchestration.open_home import OpenHome
from orchestration.publishing import publish as publish_marts
from orchestration.publishing import publish_model_pages, unpublished_periods

PUBLISH_EPILOG = """\b
Examples:
  gpu-ledger publish
  duckdb published/gpu-ledger.duckdb "from about"
  gpu-ledger publish --pages         with the models' documentation, as one HTML file
"""


@click.command(epilog=PUBLISH_EPILOG)
@click.option("--pages", is_flag=True, help="Also write published/models.html (takes seconds).")
@home_option
@output_option
def publish(pages: bool, home_path: Path, output: str) -> None:
    """Copy the marts for readers: one DuckDB file and Parquet, beside the working warehouse.

    Readers of the copy need no lock and keep the version that they opened.
    """
    opened = OpenHome.at(home_path)
    with progress("Copying"):
        published = publish_marts(opened)
    rows = [
        {"artifact": "this version", "path": str(published.path)},
        {"artifact": "newest version", "path": str(published.latest_path)},
        {"artifact": "Parquet", "path": str(published.parquet_folder)},
    ]
    if pages:
        rows.append(
            {"artifact": "documentation of models", "path": str(publish_model_pages(opened))}
        )
    emit(rows, output)
    for period in unpublished_periods(opened):
        refresh = f"gpu-ledger refresh --period {period}"
        click.echo(
            f"{period} is closed and not in the copy; {refresh} rebuilds its facts.", err=True
        )
