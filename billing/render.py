"""Rendering: every file of a period, from sealed documents alone.

Put here: which files a document has, and where they are written.
Not here: what is in them (`render_text`, `render_csv`, `render_pdf`, `focus`).

A renderer sees nothing but the sealed document and its hash: no clock, no settings, no warehouse.
So deleting documents/ loses nothing, and rendering again gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from billing.events import Ledger
from billing.record import Record
from billing.render_csv import lines_csv, pods_csv
from billing.render_pdf import invoice_pdf
from billing.render_text import invoice_text
from billing.sealing import from_bytes, to_bytes
from domain.billing_period import BillingPeriod
from warehouse.home import Home

Renderer = Callable[[Mapping[str, Any], str], bytes]

RENDERERS: Mapping[str, Renderer] = {
    ".pdf": invoice_pdf,
    ".csv": lambda document, _: lines_csv(document),
    "-pods.csv": lambda document, _: pods_csv(document),
    ".txt": lambda document, digest: invoice_text(document, digest).encode(),
}


def render_documents(home: Home, period: BillingPeriod) -> list[Path]:
    """Write every file of a period's documents; the paths, in order."""
    record = Record(home.record_store())
    ledger = record.ledger()
    folder = home.documents / period.name
    written = []
    for issued in ledger.documents():
        if issued.period != period.name:
            continue
        body = record.sealed_bytes(issued.sha256)
        for name, content in files_of(issued.number, issued.sha256, body):
            written.append(_write(folder / name, content))
    for name, content in _head_file(ledger, period):
        written.append(_write(folder / name, content))
    return sorted(written)


def files_of(number: str, digest: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of one document: the sealed bytes themselves as JSON, and what is made of them."""
    document = from_bytes(body)
    folder = str(document["tenant"])
    yield f"{folder}/{number}.json", body
    for suffix, render in RENDERERS.items():
        yield f"{folder}/{number}{suffix}", render(document, digest)


def _head_file(ledger: Ledger, period: BillingPeriod) -> Iterator[tuple[str, bytes]]:
    """What a witness is handed: the end of the chain right after this period was closed."""
    event = ledger.closes().get(period.name)
    if event:
        head = {"period": period.name, "sequence": event.sequence, "sha256": event.sha256}
        yield "head.json", to_bytes(head)


def _write(path: Path, content: bytes) -> Path:
    """Whole or not at all; a reader never meets half a document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
    return path
