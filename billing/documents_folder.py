"""The folder documents/ of a home: issued files and bundles, written from the record alone.

Put here: writing files whole, each with its issued bytes; the contents of bundles.
Not here: rendering (`billing.rendering`), or the form of a bundle and its checks (`verifier`).

A tenant's bundle has the tenant's own documents, and the chain, whose events name other documents
by number and hash alone. The bundle of a month, for auditors, has everything.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from billing.events import Ledger, NumberedDocument, RecordEvent
from billing.record import Record, event_key, sealed_key
from billing.rendering.document_files import document_files, is_file_of, month_files
from billing.sealing import sha256, to_bytes
from billing.verifier import VERIFIER, write_bundle
from domain.billing_period import BillingPeriod
from domain.errors import OtherVersionNeeded
from warehouse.home import Home
from warehouse.store import KeyNotAllowed, StoreUnusable, validate_key

Files = Mapping[str, bytes]
"""Name in a bundle → content."""


Progress = Callable[[int, int, str], None]

TENANTS = "tenants"
"""A level of its own: a tenant can have the name `provider` or `focus`."""


class RenderedDifferently(OtherVersionNeeded):
    """Issued files that are missing in documents/, and that this version renders differently."""

    def __init__(self, folder: Path, names: Sequence[str], issued_by: str) -> None:
        period = folder.name
        super().__init__(
            where=f"{folder}/{names[0]}",
            seen=f"{len(names)} issued files are missing or changed, and this version renders "
            f"other bytes; they were issued by gpu-ledger {issued_by}",
            why="the record has the hash of every issued file, so other bytes would not pass "
            "`gpu-ledger verify`; the files were not written",
            remedy=f"restore {folder} from a copy, or install gpu-ledger {issued_by} and run "
            f"`gpu-ledger close {period} --issue`, which only writes the missing files",
        )


def render_ahead(
    documents: Sequence[Mapping[str, Any]], progress: Progress | None = None
) -> dict[str, bytes]:
    """The files of documents before they are issued: a failure here issues nothing."""
    rendered: dict[str, bytes] = {}
    for done, document in enumerate(documents):
        if progress:
            progress(done, len(documents), document["number"])
        rendered |= document_files(document)
    return rendered


def render_documents(
    home: Home,
    period: BillingPeriod,
    progress: Progress | None = None,
    ahead: Files | None = None,
) -> list[Path]:
    """Write every file of a period's documents as it was issued, and return the paths in order.

    `ahead`: files that are rendered already, by their name in a bundle.
    """
    record = Record(home.record_store())
    ledger = record.ledger()
    folder = home.documents / period.name
    writer = _Writer(record, folder, ahead or {})
    events = [event for event in ledger.events if event.period == period.name]
    issued = [(event, document) for event in events for document in event.documents()]
    bundled: dict[str, bytes] = {}  # of all documents in the books, for the month's bundle
    for done, (event, document) in enumerate(issued):
        if progress:
            progress(done, len(issued), document.number)
        sealed = record.sealed(document.sha256)
        if files := writer.document(event, sealed):
            bundled |= files
            whole = {**files, VERIFIER: _enclosed(record, event)[VERIFIER]}
            bundle = document_bundle(record, ledger, document, whole)
            writer.write(f"{folder_of(sealed['tenant'])}/{document.number}.zip", bundle)
    close = ledger.closes().get(period.name)
    if close:
        # The head to keep outside: the end of the chain right after the close of this period.
        head = {"period": period.name, "sequence": close.sequence, "sha256": close.sha256}
        writer.write("head.json", to_bytes(head))
        files = writer.month(ledger, close)
        if not writer.differing:
            bundle = period_bundle(record, ledger, close, {**bundled, **files})
            writer.write(f"{period.name}.zip", bundle)
    if progress:
        progress(len(issued), len(issued), "")
    writer.require_whole(events)
    return sorted(writer.written)


@dataclass
class _Writer:
    """Writes the files of one period, each with the bytes whose hash its event names."""

    record: Record
    folder: Path
    ahead: Files
    written: list[Path] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    def document(self, event: RecordEvent, sealed: Mapping[str, Any]) -> dict[str, bytes]:
        """Write the files of one document; name in a bundle → content."""
        listed = self.record.listed_files(event)
        own = {name: listed[name] for name in listed if is_file_of(sealed["number"], name)}
        tenant = folder_of(sealed["tenant"])
        return self._as_issued(
            own, lambda name: f"{tenant}/{Path(name).name}", lambda: document_files(sealed)
        )

    def month(self, ledger: Ledger, close: RecordEvent) -> dict[str, bytes]:
        """Write the files of a closed month that do not belong to one document."""
        listed = self.record.listed_files(close)
        own = {name: listed[name] for name in listed if not name.startswith("documents/")}

        def render() -> Files:
            return {
                **month_files(
                    issued_documents(self.record, ledger.events[: close.sequence], close.period),
                    self.record.sealed(str(close.body["statement_sha256"])),
                    self.record.sealed(str(close.body["basis_sha256"])),
                ),
                **_enclosed(self.record, close),
            }

        return self._as_issued(own, lambda name: name, render)

    def _as_issued(
        self, listed: Mapping[str, str], place: Callable[[str], str], render: Callable[[], Files]
    ) -> dict[str, bytes]:
        """Write each file with its issued bytes; none if one of them differs.

        A file with its issued bytes stays; the others are rendered again.
        """
        files = {}
        for name, digest in listed.items():
            body = self.ahead.get(name) or _read_if_present(self.folder / validate_key(place(name)))
            if sha256(body) == digest:
                files[name] = body
        if len(files) < len(listed):
            rendered = render()
            again = {name: rendered.get(name, b"") for name in listed if name not in files}
            files |= {name: body for name, body in again.items() if sha256(body) == listed[name]}
        differing = [place(name) for name in listed.keys() - files]
        self.differing += sorted(differing)
        if differing:
            return {}
        for name, content in files.items():
            self.write(place(name), content)
        return files

    def write(self, name: str, content: bytes) -> None:
        self.written.append(write_file(self.folder, name, content))

    def require_whole(self, events: Iterable[RecordEvent]) -> None:
        if self.differing:
            versions = {
                str(self.record.sealed(document.sha256)["stands_on"]["code_version"])
                for event in events
                for document in event.documents()
            }
            issued_by = " or ".join(sorted(versions)) or "of an unknown version"
            raise RenderedDifferently(self.folder, self.differing, issued_by)


def issued_documents(
    record: Record, events: Iterable[RecordEvent], period: str
) -> list[Mapping[str, Any]]:
    """The documents that these events issued in the books of a period."""
    mine = [event for event in events if event.period == period]
    return [record.sealed(issued.sha256) for event in mine for issued in event.documents()]


def _enclosed(record: Record, event: RecordEvent) -> dict[str, bytes]:
    """The files whose text the record stores, as the event issued them."""
    found = [record.sealed(digest) for digest in event.enclosed_sha256s]
    return {enclosed["name"]: enclosed["text"].encode() for enclosed in found}


def _read_if_present(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def folder_of(tenant: str) -> str:
    """A tenant's folder among a period's documents."""
    if "/" in tenant:
        raise KeyNotAllowed(tenant)
    return f"{TENANTS}/{tenant}"


def make_folders(home: Home, period: BillingPeriod, tenants: Iterable[str]) -> None:
    """Create the folders of a period's documents; raises if one of them cannot be written."""
    folder = home.documents / period.name
    for name in ("focus", "provider", *map(folder_of, tenants)):
        path = folder / validate_key(name)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as cause:
            raise StoreUnusable(str(folder), f"write to {name}", cause) from cause


def write_file(folder: Path, name: str, content: bytes) -> Path:
    """Write a file below a folder, whole or not at all; refuse a name outside the folder."""
    path = folder / validate_key(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as cause:
        raise StoreUnusable(str(folder), f"write {name}", cause) from cause
    return path


# Bundles ------------------------------------------------------------------------------------------


def document_bundle(
    record: Record, ledger: Ledger, issued: NumberedDocument, files: Files
) -> bytes:
    """One document, the document that it voids, and the chain up to its event.

    `files`: those of the document, and the verifier.
    """
    event = ledger.events[issued.event_sequence - 1]
    numbers = {issued.number, str(event.body.get("voids", ""))}
    seals = [event.files_sha256]
    seals += [other.sha256 for other in ledger.documents() if other.number in numbers]
    bundled = {**_chain(ledger, event.sequence), **_sealed(record, seals), **files}
    return write_bundle(issued.number, bundled)


def period_bundle(record: Record, ledger: Ledger, close: RecordEvent, files: Files) -> bytes:
    """All documents in the books of a closed period, their basis, and the chain to its close.

    `files`: every file that was issued with them.
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
