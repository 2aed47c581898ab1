"""Every message about sending alerts, from an input that causes it, against its golden file.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from clients.alertmanager import Alertmanager
from domain.billing_period import BillingPeriod
from domain.errors import LedgerError
from portal.alerting.deliveries import Deliveries
from warehouse.store import FolderStore

GOLDEN = Path(__file__).parent / "golden"


def refused(folder: Path) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(403, text="Forbidden"))
    Alertmanager("https://alerts.example.com:9095", "10.0.0.7", transport=transport).post([])


def damaged(folder: Path) -> None:
    store = FolderStore(folder)
    store.create("alert-deliveries/2026-10/000001.json", b"[{")
    try:
        Deliveries(store).events(BillingPeriod("2026-10"))
    except LedgerError as error:
        error.where = error.where.replace(str(folder), "record")
        raise


PROVOKED: dict[str, Callable[[Path], object]] = {
    "SERVER-001-alertmanager": refused,
    "FILE-001-deliveries": damaged,
}


@pytest.mark.parametrize("code", PROVOKED)
def test_the_message_is_the_golden_one(code: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as raised:
        PROVOKED[code](tmp_path)
    golden = GOLDEN / f"{code}.txt"
    message = raised.value.message() + "\n"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(message, encoding="utf-8")
    assert code.startswith(raised.value.code)
    assert message == golden.read_text(encoding="utf-8")
