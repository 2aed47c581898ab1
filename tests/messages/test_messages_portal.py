"""Every message of the portal, each from what provokes it, compared with its golden file.

Put here: PORTAL-001, PORTAL-002.
Not here: what a page shows of them (`unit/test_portal_pages`).

After a change that is meant, run this file with GPU_LEDGER_WRITE_GOLDEN=1, and read what changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import LedgerError
from warehouse.snapshot_reader import STATEMENT_SECONDS, Snapshots, StatementTooLong

GOLDEN = Path(__file__).parent / "golden"


def without_snapshots() -> None:
    Snapshots(Path("home/snapshots")).tenants()


def too_long() -> None:
    # `test_snapshots` has a statement that is ended; this is its message with the usual limit.
    raise StatementTooLong(STATEMENT_SECONDS)


PROVOKED: dict[str, Callable[[], None]] = {
    "PORTAL-001": without_snapshots,
    "PORTAL-002": too_long,
}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_the_message_is_what_the_golden_file_says(code: str) -> None:
    with pytest.raises(LedgerError) as provoked:
        PROVOKED[code]()
    assert provoked.value.code == code
    path = GOLDEN / f"{code}.txt"
    message = provoked.value.message() + "\n"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.write_text(message, encoding="utf-8")
    assert message == path.read_text(encoding="utf-8")
