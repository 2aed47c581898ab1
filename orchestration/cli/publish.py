"""`gpu-ledger publish`: the copy that anybody may read.

Put here: the command.
Not here: writing the copy (`warehouse.publish`), or when Dagster does (`orchestration.assets`).
"""

from __future__ import annotations

from pathlib import Path

import click

from orchestration.cli.output import emit, home_option, output_option

PUBLISH_EPILOG = """\b
Examples:
  gpu-ledger publish
  duckdb published/gpu-ledger.duckdb "from about"
"""


@click.command(epilog=PUBLISH_EPILOG)
@home_option
@output_option
def publish(home_path: Path, output: str) -> None:
    """Copy the marts for readers: one DuckDB file and Parquet, beside the working warehouse.

    Whoever reads the copy never meets a lock, and keeps the version that was opened.
    """
    from orchestration.open_home import OpenHome
    from orchestration.publishing import publish as publish_marts

    opened = OpenHome.at(home_path)
    published = publish_marts(opened)
    rows = [
        {"what": "this version", "where": str(published.path)},
        {"what": "the newest, always", "where": str(published.latest_path)},
        {"what": "Parquet", "where": str(published.parquet_folder)},
    ]
    emit(rows, output)
