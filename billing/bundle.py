"""Bundles: everything that is needed to check a document, or a whole month, in one file.

Put here: which files are in a bundle.
Not here: the form of the file and the checks, which stand together in `verifier`.

A tenant's bundle holds the tenant's own documents, and the chain, whose events name other
documents by number and hash alone. The month's bundle, for auditors, holds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from billing.events import Event, Ledger, NumberedDocument
from billing.record import Record, event_key, sealed_key
from billing.sealing import to_bytes
from billing.verifier import write_bundle

Files = Mapping[str, bytes]
"""Name in a bundle → content."""


def document_bundle(
    record: Record, ledger: Ledger, issued: NumberedDocument, files: Files
) -> bytes:
    """One document, what it voids, and the chain up to the event that issued it.

    `files`: those of the document, and the verifier.
    """
    event = ledger.events[issued.event_sequence - 1]
    numbers = {issued.number, str(event.body.get("voids", ""))}
    seals = [event.files_sha256]
    seals += [other.sha256 for other in ledger.documents() if other.number in numbers]
    bundled = {**_chain(ledger, event.sequence), **_sealed(record, seals), **files}
    return write_bundle(issued.number, bundled)


def period_bundle(record: Record, ledger: Ledger, close: Event, files: Files) -> bytes:
    """All documents in a closed period's books, what they stand on, and the chain to its close.

    `files`: every one that was issued with them.
    """
    bundled = {**_chain(ledger, close.sequence), **files}
    for event in ledger.events[: close.sequence]:
        if event.period == close.period:
            enclosed = {*event.enclosed_sha256s}
            bundled |= _sealed(record, (s for s in event.sealed_sha256s() if s not in enclosed))
    return write_bundle(close.period, bundled)


def _chain(ledger: Ledger, until: int) -> dict[str, bytes]:
    events = ledger.events[:until]
    head = {"sequence": events[-1].sequence, "sha256": events[-1].sha256}
    return {
        **{event_key(event.sequence): event.to_bytes() for event in events},
        "head.json": to_bytes(head),
    }


def _sealed(record: Record, digests: Iterable[str]) -> dict[str, bytes]:
    return {sealed_key(digest): record.sealed_bytes(digest) for digest in digests}
