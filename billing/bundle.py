"""Bundles: everything that is needed to check a document, or a whole month, in one file.

Put here: which files are in a bundle.
Not here: the form of the file and the checks, which stand together in `verifier`.

A tenant's bundle holds the tenant's own documents, and the chain, whose events name other
documents by number and hash alone. The month's bundle, for auditors, holds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files as package_files
from types import MappingProxyType

from billing.events import Event, Ledger, NumberedDocument
from billing.record import Record, event_key, sealed_key
from billing.sealing import to_bytes
from billing.verifier import write_bundle

Rendered = Mapping[str, Mapping[str, bytes]]
"""Hash → the files of a document, so that none is rendered twice."""

NOTHING: Mapping[str, bytes] = MappingProxyType({})


def document_bundle(
    record: Record, ledger: Ledger, issued: NumberedDocument, rendered: Rendered
) -> bytes:
    """One document, what it voids, and the chain up to the event that issued it."""
    files = _chain(ledger, issued.event_sequence)
    files |= _document_files(record, issued, rendered)
    voided = {number: voids for voids, number in ledger.voided_by().items()}.get(issued.number)
    for other in ledger.documents():
        if other.number == voided:
            files[sealed_key(other.sha256)] = record.sealed_bytes(other.sha256)
    return write_bundle(files)


def period_bundle(
    record: Record,
    ledger: Ledger,
    close: Event,
    rendered: Rendered,
    explained: Mapping[str, bytes] = NOTHING,
) -> bytes:
    """All documents in a closed period's books, what they stand on, and the chain to its close.

    `explained`: files that say what the columns mean; no event and no document names them.
    """
    files = {**explained, **_chain(ledger, close.sequence)}
    for event in ledger.events[: close.sequence]:
        if event.period != close.period:
            continue
        for issued in event.documents():
            files |= _document_files(record, issued, rendered)
        files |= _sealed(record, event.sealed_sha256s())
    return write_bundle(files)


def _document_files(
    record: Record, issued: NumberedDocument, rendered: Rendered
) -> dict[str, bytes]:
    files = rendered[issued.sha256]
    return {
        sealed_key(issued.sha256): record.sealed_bytes(issued.sha256),
        **{f"documents/{name}": content for name, content in files.items()},
    }


def _chain(ledger: Ledger, until: int) -> dict[str, bytes]:
    events = ledger.events[:until]
    head = {"sequence": events[-1].sequence, "sha256": events[-1].sha256}
    verifier = package_files("billing").joinpath("verifier.py").read_bytes()
    return {
        **{event_key(event.sequence): event.to_bytes() for event in events},
        "head.json": to_bytes(head),
        "verifier.py": verifier,
    }


def _sealed(record: Record, digests: Iterable[str]) -> dict[str, bytes]:
    return {sealed_key(digest): record.sealed_bytes(digest) for digest in digests}
