"""The record as tables in the warehouse, for SQL; and the estimates of the last dry run.

Put here: the tables with their descriptions, and filling them from the record.
Not here: readers of these tables. The record decides; the tables are a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from billing.books import LedgerDocuments
from billing.invoice import read_lines
from billing.record import Record
from domain.billing_period import BillingPeriod
from domain.money import parse_nanos
from warehouse.connection import connected, transaction, writing
from warehouse.home import Home
from warehouse.raw_schema import describe_table, insert_rows

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
    "corrections": {
        "billing_period": "VARCHAR",
        "recorded_at": "TIMESTAMPTZ",
        "recorded_by": "VARCHAR",
        "status": "VARCHAR",
        "corrects_number": "VARCHAR",
        "tenant": "VARCHAR",
        "cluster_id": "VARCHAR",
        "gpu_class": "VARCHAR",
        "mig_profile": "VARCHAR",
        "rate_id": "VARCHAR",
        "currency": "VARCHAR",
        "device_seconds": "BIGINT",
        "cost_nanos": "DECIMAL(38,0)",
        "reason": "VARCHAR",
        "event_sha256": "VARCHAR",
    },
}

DESCRIPTIONS: Mapping[str, str] = {
    "events": "One row per event of the record, in order; each is chained to the one before it.",
    "documents": "One row per issued document: invoices, voids and consumption statements.",
    "document_lines": "One row per line of an issued document.",
    "corrections": ("One row per correction of a charge of a closed period, billed or not."),
}

COLUMNS: Mapping[str, str] = {
    "sequence": "Number of the event in the record.",
    "kind": "Kind of the event or of the line, such as period_closed, usage or correction.",
    "billing_period": (
        "The calendar month in UTC: for a document, the month whose close issued it; for a "
        "correction, the corrected month."
    ),
    "recorded_at": "When it was recorded, UTC.",
    "recorded_by": "Who recorded it.",
    "fence": "Number of the lease under which it was written.",
    "event_sha256": "Hash of the event.",
    "previous_sha256": "Hash of the event before it.",
    "number": "Number of the document.",
    "document": "`invoice`, `void` or `consumption_statement`.",
    "status": (
        "For a document `Issued` or `Voided`. For a correction `billed` if an invoice has it, "
        "`withdrawn` if the corrected document was voided first, else `pending`."
    ),
    "tenant": "The tenant (a namespace).",
    "currency": "Currency of the amounts; '' without a price list.",
    "issued_at": "When the document was issued, UTC.",
    "exact_nanos": "Exact total in 10⁻⁹ currency units, before cents.",
    "billed_nanos": "Billed amount in 10⁻⁹ currency units, whole cents.",
    "voids": "Number of the document that this void negates; '' for other documents.",
    "document_sha256": "Hash of the sealed document.",
    "line": "Number of the line in its document.",
    "charge_period": "Month of the use; for a correction, an earlier month than the document's.",
    "cluster_id": "The cluster's ID (UID of its kube-system namespace).",
    "gpu_class": "The priced class of the card.",
    "mig_profile": "`whole`, or the MIG profile such as 1g.5gb.",
    "rate_id": "ID of the price that applies; '' without a price.",
    "device_seconds": "Billed device-seconds; for a correction, the difference.",
    "cost_nanos": "Exact cost in 10⁻⁹ currency units; for a correction, the difference.",
    "reason": "Reason of a correction or of a void; '' for other lines.",
    "corrects_number": "Number of the corrected document; '' if the tenant had no document.",
}

ESTIMATES = {
    "billing_period": "VARCHAR",
    "tenant": "VARCHAR",
    "billed_nanos": "DECIMAL(38,0)",
    "estimated_at": "TIMESTAMPTZ",
}


def mirror_record(home: Home) -> None:
    """Replace the tables of the record in the warehouse."""
    record = Record(home.record_store())
    books = LedgerDocuments(record, record.ledger())
    rows = {
        "events": list(_events(books)),
        "documents": list(_documents(books)),
        "document_lines": list(_lines(books)),
        "corrections": list(_corrections(books)),
    }
    with writing(home) as connection, transaction(connection):
        for table, columns in TABLES.items():
            _create(connection, table, columns)
            connection.execute(f"delete from record.{table}")
            insert_rows(connection, f"record.{table}", columns, rows[table])
            describe_table(connection, f"record.{table}", DESCRIPTIONS[table], columns, COLUMNS)


def read_estimates(home: Home, period: BillingPeriod) -> dict[str, int]:
    """Tenant → the estimate of the last dry run."""
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
    """Store the estimates of a dry run; the next dry run shows the difference."""
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


def _events(books: LedgerDocuments) -> Iterator[dict[str, Any]]:
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


def _documents(books: LedgerDocuments) -> Iterable[dict[str, Any]]:
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


def _lines(books: LedgerDocuments) -> Iterator[dict[str, Any]]:
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


def _corrections(books: LedgerDocuments) -> Iterator[dict[str, Any]]:
    billed = books.ledger.billed_corrections()
    for event in books.ledger.corrections():
        sealed = books.record.sealed(str(event.body["corrections_sha256"]))
        is_billed = event.body["corrections_sha256"] in billed
        for line, void in books.corrected_lines([event]):
            yield {
                "billing_period": line.charge_period,
                "recorded_at": event.recorded_at,
                "recorded_by": event.recorded_by,
                "status": "billed" if is_billed else "withdrawn" if void else "pending",
                "corrects_number": line.refers_to,
                "tenant": line.key.tenant,
                "cluster_id": line.key.cluster_id,
                "gpu_class": line.key.gpu_class,
                "mig_profile": line.key.mig_profile,
                "rate_id": line.key.rate_id,
                "currency": sealed["currency"],
                "device_seconds": line.device_seconds,
                "cost_nanos": line.cost_nanos,
                "reason": line.reason,
                "event_sha256": event.sha256,
            }
