"""Every message of the idle pruner, from an input that causes it, against its golden file.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.prometheus import PrometheusClient
from domain.errors import LedgerError
from idle_pruner.actions import plan_restore
from idle_pruner.cluster import ObjectName
from idle_pruner.records import Records
from tests.idle_workloads import NOW

GOLDEN = Path(__file__).parent / "golden"


def incomplete(request: httpx.Request) -> httpx.Response:
    body = {
        "status": "success",
        "data": {"resultType": "matrix", "result": []},
        "warnings": ["store 10.0.0.1:10901 is not available"],
    }
    return httpx.Response(200, json=body)


def query() -> None:
    transport = httpx.MockTransport(incomplete)
    client = PrometheusClient(ServerAccess("https://thanos.example"), transport)
    client.raw_samples("up[30m]", NOW)


def damaged_records(folder: Path) -> None:
    path = folder / "idle-pruner.jsonl"
    path.write_bytes(b"not a record\n")
    try:
        Records(path).read()
    except LedgerError as error:
        error.where = error.where.replace(str(folder), "record")
        raise


def scaled_by_hand() -> None:
    annotations = {
        "gpu-ledger.io/stopped-at": "2026-11-02T12:00:00Z",
        "gpu-ledger.io/previous-state": '{"replicas": 3}',
    }
    document = {"metadata": {"annotations": annotations}, "spec": {"replicas": 1}}
    plan_restore(ObjectName("apps/v1", "Deployment", "team-a", "model"), document, NOW)


PROVOKED: dict[str, Callable[[Path], object]] = {
    "SERVER-001-prometheus": lambda folder: query(),
    "FILE-001-pruner": damaged_records,
    "PRUNE-001": lambda folder: scaled_by_hand(),
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
