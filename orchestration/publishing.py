"""Publishing: the copy of the marts that readers open, and the models' own documentation.

Put here: what a publication is made of, and from where; the command line and Dagster call this.
Not here: writing the files (`warehouse.publish`, `warehouse.model_pages`).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from orchestration.open_home import OpenHome
from warehouse.about import read_about

if TYPE_CHECKING:
    from warehouse.publish import Published

PAGES = "models.html"


def publish(opened: OpenHome) -> Published:
    """Write the copy that readers open, with what it says of itself."""
    from warehouse.publish import publish as publish_marts
    from warehouse.reports.source import NoFactsYet

    about = read_about(
        opened.home,
        opened.record.closed_periods(),
        opened.clock.now().replace(microsecond=0),
        version("gpu-ledger"),
        opened.decisions.sha256,
    )
    if about is None:
        raise NoFactsYet(str(opened.home.warehouse_path), (), "")
    return publish_marts(opened.home, about)


def model_pages(opened: OpenHome) -> Path:
    """The models' documentation, as one file beside the copy; it opens from disk."""
    from warehouse.build import PROJECT_FOLDER, WORKING_NAME
    from warehouse.dbt_run import PARSED
    from warehouse.model_pages import write_model_pages

    build = opened.home.build
    parsed = build / PROJECT_FOLDER / PARSED
    page = opened.home.published / PAGES
    return write_model_pages(build / "pages", page, parsed, build / WORKING_NAME)
