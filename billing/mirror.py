"""The record mirrored into the warehouse, for people who ask in SQL; and the last estimate.

Put here: the tables of the mirror, and filling them from the record.
Not here: anything that reads them back: the record is what counts, this is a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from billing.books import Books
from billing.invoice import read_lines
from billing.record import Record
from domain.billing_period import BillingPeriod
from domain.money import parse_nanos
from warehouse.alone import writing
from warehouse.connection import connected, transaction
from warehouse.home import Home
from warehouse.schema import insert_rows

if TYPE_CHECKING:
    import duckdb

TABLES: Mapping[str, Mapping[str, str]] = {
    "events": {
        "sequence": "BIGINT",
        "kind": "VARCHAR",
        "billing_period": "VARCHAR",
        "recorded_at": "TIMESTAMPTZ",
        "recorded_by": "VARCHAR",
        "fence": "BIGINT",
        "event_sha256": "VARCHAR",
        "previous_sha256": "VARCHAR",
    },
    "documents": {
        "billing_period": "VARCHAR",
        "number": "VARCHAR",
        "document": "VARCHAR",
        "status": "VARCHAR",
        "tenant": "VARCHAR",
        "currency": "VARCHAR",
        "issued_at": "TIMESTAMPTZ",
        "exact_nanos": "DECIMAL(38,0)",
        "billed_nanos": "DECIMAL(38,0)",
        "voids": "VARCHAR",
        "document_sha256": "VARCHAR",
    },
    "document_lines": {
        "billing_period": "VARCHAR",
        "number": "VARCHAR",
        "line": "BIGINT",
        "kind": "VARCHAR",
        "charge_period": "VARCHAR",
        "tenant": "VARCHAR",
        "cluster_id": "VARCHAR",
        "gpu_class": "VARCHAR",
        "mig_profile": "VARCHAR",
        "rate_id": "VARCHAR",
        "device_seconds": "BIGINT",
        "cost_nanos": "DECIMAL(38,0)",
        "billed_nanos": "DECIMAL(38,0)",
        "reason": "VARCHAR",
    },
}

ESTIMATES = {
    "billing_period": "VARCHAR",
    "tenant": "VARCHAR",
    "billed_nanos": "DECIMAL(38,0)",
    "estimated_at": "TIMESTAMPTZ",
}


def mirror_record(home: Home) -> None:
    """Copy what the record says into the warehouse, replacing the copy that is there."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
    rows = {
        "events": list(_events(books)),
        "documents": list(_documents(books)),
        "document_lines": list(_lines(books)),
    }
    with writing(home) as connection, transaction(connection):
        for table, columns in TABLES.items():
            _create(connection, table, columns)
            connection.execute(f"delete from record.{table}")
            insert_rows(connection, f"record.{table}", columns, rows[table])


def read_estimates(home: Home, period: BillingPeriod) -> dict[str, int]:
    """Tenant → what was estimated last; empty when nothing was."""
    if not home.warehouse_path.is_file():
        return {}
    with connected(home.warehouse_path, read_only=True) as connection:
        exists = connection.execute(
            "select count(*) from information_schema.tables "
            "where table_schema = 'record' and table_name = 'estimates'"
        ).fetchall()[0][0]
        if not exists:
            return {}
        rows = connection.execute(
            "select tenant, billed_nanos from record.estimates where billing_period = ?",
            [period.name],
        ).fetchall()
    return {tenant: int(nanos) for tenant, nanos in rows}


def write_estimates(
    home: Home, period: BillingPeriod, estimates: Mapping[str, int], estimated_at: datetime
) -> None:
    """Keep what a dry run came to, so that the next one can say what has changed since."""
    rows = [
        {
            "billing_period": period.name,
            "tenant": tenant,
            "billed_nanos": nanos,
            "estimated_at": estimated_at,
        }
        for tenant, nanos in sorted(estimates.items())
    ]
    with writing(home) as connection, transaction(connection):
        _create(connection, "estimates", ESTIMATES)
        connection.execute("delete from record.estimates where billing_period = ?", [period.name])
        insert_rows(connection, "record.estimates", ESTIMATES, rows)


def _create(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str]) -> None:
    spelled = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    connection.execute("create schema if not exists record")
    connection.execute(f"create table if not exists record.{table} ({spelled})")


def _events(books: Books) -> Iterator[dict[str, Any]]:
    for event in books.ledger.events:
        yield {
            "sequence": event.sequence,
            "kind": event.kind.value,
            "billing_period": event.period or str(event.body.get("corrects_period", "")),
            "recorded_at": event.recorded_at,
            "recorded_by": event.recorded_by,
            "fence": event.fence,
            "event_sha256": event.sha256,
            "previous_sha256": event.previous_sha256,
        }


def _documents(books: Books) -> Iterable[dict[str, Any]]:
    voided = books.ledger.voided_by()
    for issued in books.ledger.documents():
        document = books.record.sealed(issued.sha256)
        yield {
            "billing_period": issued.period,
            "number": issued.number,
            "document": document["document"],
            "status": "Voided" if issued.number in voided else "Issued",
            "tenant": document["tenant"],
            "currency": document["currency"],
            "issued_at": datetime.fromisoformat(document["issued_at"]),
            "exact_nanos": parse_nanos(document["total_cost"]),
            "billed_nanos": parse_nanos(document["total_billed_cost"]),
            "voids": document["voids"],
            "document_sha256": issued.sha256,
        }


def _lines(books: Books) -> Iterator[dict[str, Any]]:
    for issued in books.ledger.documents():
        document = books.record.sealed(issued.sha256)
        for line in read_lines(document):
            yield {
                "billing_period": issued.period,
                "number": issued.number,
                "line": line.number,
                "kind": line.kind.value,
                "charge_period": line.charge_period,
                "tenant": line.key.tenant,
                "cluster_id": line.key.cluster_id,
                "gpu_class": line.key.gpu_class,
                "mig_profile": line.key.mig_profile,
                "rate_id": line.key.rate_id,
                "device_seconds": line.device_seconds,
                "cost_nanos": line.cost_nanos,
                "billed_nanos": line.billed_nanos,
                "reason": line.reason,
            }
