"""`gpu-ledger init`: a home with everything explained in place.

Put here: which files a new home gets.
Not here: their texts (`ingestion.settings`, `domain.decisions`).
"""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  gpu-ledger init my-ledger
  gpu-ledger init .          in an empty folder
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Write a commented config.toml and the decision tables into FOLDER.

    Nothing that is already there is changed.
    """
    from domain.decisions import template_files
    from ingestion.settings import template_config
    from warehouse.home import Home

    home = Home.create(folder, template_config())
    for name, text in template_files().items():
        path = home.decisions / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    click.echo(f"A ledger's home is in {home.path}. Next:")
    click.echo(f"  1. where your Thanos and your clusters are:   {home.config_path}")
    click.echo(f"  2. which clusters are measured since when:    {home.decisions / 'clusters.csv'}")
    click.echo(f"  3. check both: gpu-ledger decisions check --home {folder}")
