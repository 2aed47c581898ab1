"""The copy of the marts for readers, and the portal's snapshots.

Put here: the parts of a publication, and the rows of snapshots that come from the record.
Not here: writing the files (`warehouse.publish`, `warehouse.snapshots`).
"""

from __future__ import annotations

import contextlib
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import duckdb

from billing.documents_folder import write_file
from billing.record import Record
from billing.record_tables import mirror_record
from billing.rendering.document_files import MODEL_PAGES, is_file_of
from domain.billing_period import BillingPeriod
from domain.errors import CheckFailed, LedgerError
from domain.interval import parse_instant
from domain.money import parse_nanos
from orchestration import steps
from orchestration.alerting import all_budget_steps
from orchestration.idle_savings import hourly_cost, hourly_costs, records_of
from orchestration.model_documentation import model_page
from orchestration.open_home import OpenHome
from quality.check_tables import create_tables
from warehouse.about import About, read_about
from warehouse.connection import transaction, writing
from warehouse.publish import PublishedCopy
from warehouse.publish import publish as publish_marts
from warehouse.reports.opened_facts import NoFactsYet
from warehouse.snapshots import (
    Correction,
    IssuedDocument,
    SnapshotsNotWritten,
    StoppedWorkload,
    WrittenSnapshots,
    remove_index,
    write_snapshots,
)
from warehouse.switched import WarehouseLost, periods_in, switched_periods


def publish(opened: OpenHome) -> PublishedCopy:
    """Write the copy for readers, with its description of itself, and the portal's snapshots.

    Facts that were edited or lost are built again first. A closed month that cannot be built again
    is not in the copy; `unpublished_periods` lists it.
    """
    for name in sorted({*switched_periods(opened.home)} ^ {*periods_in(opened.home)}):
        with contextlib.suppress(CheckFailed):
            steps.repair_facts(opened, BillingPeriod(name))
    repaired: set[str] = set()
    while True:
        try:
            return _publish(opened)
        except WarehouseLost as lost:
            if lost.period in repaired:
                raise
            repaired.add(lost.period)
            steps.repair_facts(opened, BillingPeriod(lost.period))


def unpublished_periods(opened: OpenHome) -> list[BillingPeriod]:
    """The closed months without facts in the warehouse, as after a restore."""
    there = periods_in(opened.home)
    return [BillingPeriod(n) for n in sorted(opened.record.closed_periods()) if n not in there]


def publish_model_pages(opened: OpenHome) -> Path:
    """Write the documentation of the models beside the copy; it opens from disk."""
    return write_file(opened.home.published, MODEL_PAGES, model_page(opened.home))


def snapshot(opened: OpenHome) -> WrittenSnapshots | None:
    """Write the portal's snapshots after a step; returns None before the first facts.

    Raises SnapshotsNotWritten. The step is not undone, and the portal has no snapshots until they
    are written again: older ones would show amounts that have changed since.
    """
    try:
        about = _about(opened)
        if about is None:
            return None
        record, budgets = opened.record, all_budget_steps(opened)
        return write_snapshots(
            opened.home,
            about.periods,
            _issued(record),
            _corrections(record),
            budgets,
            _stops(opened),
        )
    except (LedgerError, duckdb.Error, OSError) as cause:
        remove_index(opened.home)
        raise SnapshotsNotWritten(opened.home.snapshots, cause) from cause


def _stops(opened: OpenHome) -> list[StoppedWorkload]:
    """The stops of the idle pruner whose records are in this home, with the price of their pods."""
    stops = records_of(opened.home).stops()
    costs = hourly_costs(opened.home, stops)
    return [
        StoppedWorkload(
            tenant=stop.stopped.namespace,
            workload_kind=stop.stopped.kind,
            workload_name=stop.stopped.name,
            device_count=stop.stopped.device_count,
            stopped_at=parse_instant(stop.stopped.at),
            restored_at=parse_instant(stop.restored.at) if stop.restored else None,
            hourly_cost=str(hourly[0]) if (hourly := hourly_cost(stop, costs)) else "",
            currency=hourly[1] if hourly else "",
            reason=" ".join(stop.stopped.reasons),
        )
        for stop in stops
    ]


def _publish(opened: OpenHome) -> PublishedCopy:
    about = _about(opened)
    if about is None:
        raise NoFactsYet(str(opened.home.warehouse_path), (), "")
    mirror_record(opened.home)
    with writing(opened.home) as connection, transaction(connection):
        create_tables(connection)
    published = publish_marts(opened.home, about)
    snapshot(opened)
    return published


def _about(opened: OpenHome) -> About | None:
    return read_about(
        opened.home,
        opened.record.closed_periods(),
        opened.clock.now().replace(microsecond=0),
        version("gpu-ledger"),
        opened.decisions.sha256,
    )


def _issued(record: Record) -> list[IssuedDocument]:
    ledger = record.ledger()
    found = []
    for event in ledger.events:
        documents = list(event.documents())
        listed = record.listed_files(event) if documents else {}
        for document in documents:
            sealed = record.sealed(document.sha256)
            currency = str(sealed["currency"])
            found.append(
                IssuedDocument(
                    billing_period=event.period,
                    tenant=str(sealed["tenant"]),
                    number=document.number,
                    document=str(sealed["document"]),
                    status=ledger.status(document.number).value,
                    currency=currency,
                    billed=str(sealed["total_billed_cost"]) if currency else "",
                    issued_at=event.recorded_at,
                    files=[
                        (PurePosixPath(name).name, digest)
                        for name, digest in sorted(listed.items())
                        if is_file_of(document.number, name)
                    ],
                )
            )
    return found


def _corrections(record: Record) -> list[Correction]:
    """The lines of recorded corrections that are not on an invoice yet."""
    found = []
    for event in record.ledger().pending_corrections():
        sealed = record.sealed(str(event.body["corrections_sha256"]))
        found += [
            Correction(
                corrects_period=str(sealed["corrects_period"]),
                tenant=str(line["tenant"]),
                currency=str(sealed["currency"]),
                cost_nanos=parse_nanos(line["cost"]),
                reason=str(line["reason"]),
            )
            for line in sealed["lines"]
        ]
    return found
