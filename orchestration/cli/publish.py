"""`gpu-ledger publish`: the copy that anybody may read.

Put here: the command.
Not here: writing the copy (`warehouse.publish`), or when Dagster does (`orchestration.assets`).
"""

from __future__ import annotations

from pathlib import Path

import click

from orchestration.cli.output import emit, home_option, output_option, progress

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
    from orchestration.open_home import OpenHome
    from orchestration.publishing import model_pages, not_in_the_copy
    from orchestration.publishing import publish as publish_marts

    opened = OpenHome.at(home_path)
    with progress("Copying"):
        published = publish_marts(opened)
    rows = [
        {"what": "this version", "where": str(published.path)},
        {"what": "the newest, always", "where": str(published.latest_path)},
        {"what": "Parquet", "where": str(published.parquet_folder)},
    ]
    if pages:
        rows.append({"what": "the models, on one page", "where": str(model_pages(opened))})
    emit(rows, output)
    for period in not_in_the_copy(opened):
        refresh = f"gpu-ledger refresh --period {period}"
        click.echo(f"{period} is closed and not in it; {refresh} counts it again.", err=True)
