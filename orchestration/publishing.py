"""Publishing: the copy of the marts that readers open, and the models' own documentation.

Put here: what a publication is made of, and from where; the command line and Dagster call this.
Not here: writing the files (`warehouse.publish`, `warehouse.model_pages`).
"""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from billing.mirror import mirror_record
from billing.render import write_file
from billing.rendering import MODEL_PAGES
from domain.billing_period import BillingPeriod
from domain.errors import CheckFailed
from orchestration import steps
from orchestration.column_lineage import kept_lineage
from orchestration.open_home import OpenHome
from orchestration.snapshots import snapshot
from quality.tables import create_tables
from warehouse.about import read_about
from warehouse.connection import transaction, writing
from warehouse.home import Home
from warehouse.kept import kept_in

if TYPE_CHECKING:
    from warehouse.publish import Published


def publish(opened: OpenHome) -> Published:
    """Write the copy that readers open, with what it says of itself, and the portal's snapshots.

    Facts that are not what was counted are counted again first: a copy is believed. A closed month
    that cannot be counted again any more is not in it, and `not_in_the_copy` says so.
    """
    from warehouse.switched import WarehouseLost, periods_in, switched_periods

    for name in sorted({*switched_periods(opened.home)} ^ {*periods_in(opened.home)}):
        with contextlib.suppress(CheckFailed):
            steps.have_facts(opened, BillingPeriod(name))
    repaired: set[str] = set()
    while True:
        try:
            return _publish(opened)
        except WarehouseLost as lost:
            if lost.period in repaired:
                raise
            repaired.add(lost.period)
            steps.have_facts(opened, BillingPeriod(lost.period))


def not_in_the_copy(opened: OpenHome) -> list[BillingPeriod]:
    """The closed months of which the warehouse has nothing, as after a restore."""
    from warehouse.switched import periods_in

    there = periods_in(opened.home)
    return [BillingPeriod(n) for n in sorted(opened.record.closed_periods()) if n not in there]


def _publish(opened: OpenHome) -> Published:
    from warehouse.publish import publish as publish_marts
    from warehouse.reports.opened_facts import NoFactsYet

    about = read_about(
        opened.home,
        opened.record.closed_periods(),
        opened.clock.now().replace(microsecond=0),
        version("gpu-ledger"),
        opened.decisions.sha256,
    )
    if about is None:
        raise NoFactsYet(str(opened.home.warehouse_path), (), "")
    mirror_record(opened.home)
    with writing(opened.home) as connection, transaction(connection):
        create_tables(connection)
    published = publish_marts(opened.home, about)
    snapshot(opened)
    return published


def model_pages(opened: OpenHome) -> Path:
    """The models' documentation, as one file beside the copy; it opens from disk."""
    body = model_page(opened.home)
    return write_file(opened.home.published, MODEL_PAGES, body)


def model_page(home: Home) -> bytes:
    """The same, as its bytes. It says nothing about data: it is made once per version of models."""
    from warehouse.build import WORKING_NAME
    from warehouse.model_pages import write_model_pages

    folder = home.build / "pages"
    kept = kept_in(folder) / f"{_models_version()}.html"
    if not kept.is_file():
        # A file of its own: compiling opens it, and a build may be writing the other one.
        write_model_pages(folder, kept, folder / WORKING_NAME, kept_lineage())
    return kept.read_bytes()


def _models_version() -> str:
    from warehouse.model_pages import PAGE_VERSION
    from warehouse.project import project_sha256

    return f"{project_sha256()[:16]}-{version('dbt-core')}-{PAGE_VERSION}"
