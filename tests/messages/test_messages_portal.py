"""Every message of the portal, from an input that causes it, against its golden file.

Put here: errors of the portal and its snapshots.
Not here: their text on pages (`unit/test_portal_pages`).

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import LedgerError
from portal.callers import ReviewFailed
from portal.refusals import (
    DocumentFileMissing,
    PageNotFound,
    RequestFailed,
    RequestNotAllowed,
    TokenNotValid,
    TooManyRequests,
    not_one_of,
)
from portal.tokens import COLUMNS, FILE, TokenFile
from warehouse.reports.opened_facts import FactsOfAnotherVersion
from warehouse.snapshot_reader import STATEMENT_SECONDS, QueryTimeout, Snapshots
from warehouse.snapshots import SnapshotsNotWritten

GOLDEN = Path(__file__).parent / "golden"


def without_snapshots() -> None:
    Snapshots(Path("home/snapshots")).tenants()


def too_long() -> None:
    # `test_snapshots` runs a statement that is stopped; this is its message with the usual limit.
    raise QueryTimeout(STATEMENT_SECONDS)


def not_reviewed() -> None:
    raise ReviewFailed("https://api.example.com:6443", "HTTP 403 Forbidden")


def edited_tokens() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = Path(FILE)
        path.write_text(f"{','.join(COLUMNS)}\na,tenant,,00,00,2026-10-01T00:00:00Z\n")
        TokenFile(path).caller("glp_000000000000_" + "A" * 43)


def not_written() -> None:
    # `test_snapshots` has a snapshot that cannot be written; this is its message.
    cause = FactsOfAnotherVersion("home/warehouse.duckdb", ("2026-10",), "no table fct_quotas")
    raise SnapshotsNotWritten(Path("home/snapshots"), cause)


def raising(error: Exception) -> Callable[[], None]:
    """The error of a refused request; `unit/test_portal_pages` has the requests."""

    def provoke() -> None:
        raise error

    return provoke


PROVOKED: dict[str, Callable[[], None]] = {
    "PORTAL-001": without_snapshots,
    "PORTAL-002": too_long,
    "SERVER-002-review": not_reviewed,
    "CONF-001-tokens": edited_tokens,
    "PORTAL-001-not-written": not_written,
    "PORTAL-003": raising(PageNotFound()),
    "PORTAL-004": raising(not_one_of("format", ("json", "csv"))),
    "PORTAL-005": raising(TokenNotValid()),
    "PORTAL-006": raising(TooManyRequests()),
    "FILE-001-document": raising(DocumentFileMissing("2026-10", "INV-000001.pdf")),
    "PORTAL-004-request": raising(
        RequestNotAllowed(405, "The method is not GET", "Send a GET request")
    ),
    "LOG-001-portal": raising(RequestFailed()),
}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_the_message_equals_its_golden_file(code: str) -> None:
    with pytest.raises(LedgerError) as provoked:
        PROVOKED[code]()
    assert code.startswith(provoked.value.code)
    path = GOLDEN / f"{code}.txt"
    message = provoked.value.message() + "\n"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.write_text(message, encoding="utf-8")
    assert message == path.read_text(encoding="utf-8")
