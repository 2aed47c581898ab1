"""Writing the portal's snapshots of a home: the marts, and what the record says of each tenant.

Put here: what a snapshot needs from the record.
Not here: which rows are in a snapshot, and its files (`warehouse.snapshots`).
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from billing.rendering import is_file_of
from domain.errors import LedgerError
from domain.money import parse_nanos
from orchestration.alerting import all_budget_steps
from orchestration.open_home import OpenHome
from warehouse.about import read_about
from warehouse.snapshots import (
    Correction,
    Issued,
    SnapshotsNotWritten,
    Written,
    remove_index,
    write_snapshots,
)

if TYPE_CHECKING:
    from billing.record import Record


def snapshot(opened: OpenHome) -> Written | None:
    """Write the snapshots after a step that is done; None where nothing was counted yet.

    Raises SnapshotsNotWritten. The step is not undone by that, and until snapshots are written
    again there are none: older ones would show amounts that are not the ledger's any more.
    """
    import duckdb

    try:
        return _snapshot(opened)
    except (LedgerError, duckdb.Error, OSError) as cause:
        remove_index(opened.home)
        raise SnapshotsNotWritten(opened.home.snapshots, cause) from cause


def _snapshot(opened: OpenHome) -> Written | None:
    about = read_about(
        opened.home,
        opened.record.closed_periods(),
        opened.clock.now().replace(microsecond=0),
        version("gpu-ledger"),
        opened.decisions.sha256,
    )
    if about is None:
        return None
    record = opened.record
    steps = all_budget_steps(opened)
    return write_snapshots(opened.home, about.periods, _issued(record), _corrections(record), steps)


def _issued(record: Record) -> list[Issued]:
    ledger = record.ledger()
    found = []
    for event in ledger.events:
        documents = list(event.documents())
        listed = record.listed_files(event) if documents else {}
        for document in documents:
            sealed = record.sealed(document.sha256)
            currency = str(sealed["currency"])
            found.append(
                Issued(
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
    """The lines of recorded corrections that stand on no invoice yet."""
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
