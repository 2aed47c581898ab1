"""Writing a period's documents and bundles, from the record alone; an edge.

Put here: where files are written, and that a reader never meets half of one.
Not here: what is in them (`rendering`, `bundle`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from billing.bundle import Rendered, document_bundle, period_bundle
from billing.ccsp import hours_csv, nodes_csv
from billing.events import Event, Ledger
from billing.focus import billing_period_csv, cost_and_usage_csv, invoice_detail_csv
from billing.record import Record
from billing.render_checks import checks_page
from billing.rendering import rendered_files
from billing.sealing import from_bytes, sha256, to_bytes
from billing.statement import capacity_csv, own_use_csv
from domain.billing_period import BillingPeriod
from warehouse.home import Home

Progress = Callable[[int, int, str], None]

MODEL_PAGES = "models.html"
"""The models' own documentation, kept with a month from its close on, where it was made."""


def render_ahead(
    documents: Sequence[tuple[str, Mapping[str, Any]]], progress: Progress | None = None
) -> dict[str, dict[str, bytes]]:
    """Hash → files of documents that are not issued yet: what cannot be rendered is not issued."""
    rendered = {}
    for done, (number, document) in enumerate(documents):
        if progress:
            progress(done, len(documents), number)
        body = to_bytes(document)
        digest = sha256(body)
        rendered[digest] = dict(rendered_files(number, digest, body))
    return rendered


def render_documents(
    home: Home,
    period: BillingPeriod,
    progress: Progress | None = None,
    ahead: Rendered | None = None,
) -> list[Path]:
    """Write every file of a period's documents; the paths, in order."""
    record = Record(home.record_store())
    ledger = record.ledger()
    folder = home.documents / period.name
    issued = [document for document in ledger.documents() if document.period == period.name]
    rendered: dict[str, Mapping[str, bytes]] = {}
    written = []
    for done, document in enumerate(issued):
        if progress:
            progress(done, len(issued), document.number)
        body = record.sealed_bytes(document.sha256)
        files = (ahead or {}).get(document.sha256) or dict(
            rendered_files(document.number, document.sha256, body)
        )
        rendered[document.sha256] = files
        tenant = str(record.sealed(document.sha256)["tenant"])
        bundle = document_bundle(record, ledger, document, rendered)
        for name, content in {**files, f"{document.number}.zip": bundle}.items():
            written.append(write_file(folder / tenant / name, content))
    for name, content in _period_files(record, ledger, period, rendered, folder):
        written.append(write_file(folder / name, content))
    if progress:
        progress(len(issued), len(issued), "")
    return sorted(written)


def _period_files(
    record: Record, ledger: Ledger, period: BillingPeriod, rendered: Rendered, folder: Path
) -> Iterator[tuple[str, bytes]]:
    close = ledger.closes().get(period.name)
    if close:
        # What a witness is handed: the end of the chain right after this period was closed.
        head = {"period": period.name, "sequence": close.sequence, "sha256": close.sha256}
        yield "head.json", to_bytes(head)
        yield from _focus_files(record, ledger, close)
        yield from _provider_files(record, close)
        kept = folder / MODEL_PAGES
        explained = {MODEL_PAGES: kept.read_bytes()} if kept.is_file() else {}
        bundle = period_bundle(record, ledger, close, rendered, explained)
        yield f"{period.name}.zip", bundle


def _focus_files(record: Record, ledger: Ledger, close: Event) -> Iterator[tuple[str, bytes]]:
    """The period's data sets, of everything in its books; a void may have come before its close."""
    events = [e for e in ledger.events[: close.sequence] if e.period == close.period]
    documents = [record.sealed(issued.sha256) for e in events for issued in e.documents()]
    basis = record.sealed(str(close.body["basis_sha256"]))
    yield "focus/cost-and-usage.csv", cost_and_usage_csv(documents)
    yield "focus/invoice-detail.csv", invoice_detail_csv(documents)
    yield "focus/billing-period.csv", billing_period_csv(close, basis["issuer"]["name"])


def _provider_files(record: Record, close: Event) -> Iterator[tuple[str, bytes]]:
    """What only the provider is given: where capacity went, and the programme's report."""
    body = record.sealed_bytes(str(close.body["statement_sha256"]))
    statement = from_bytes(body)
    basis_sha256 = str(close.body["basis_sha256"])
    yield "provider/checks.html", checks_page(record.sealed(basis_sha256), basis_sha256)
    yield "provider/statement.json", body
    yield "provider/capacity.csv", capacity_csv(statement)
    yield "provider/own-use.csv", own_use_csv(statement)
    yield "provider/ccsp-hours.csv", hours_csv(statement)
    yield "provider/ccsp-nodes.csv", nodes_csv(statement)


def write_file(path: Path, content: bytes) -> Path:
    """Whole or not at all; a reader never meets half a document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
    return path
