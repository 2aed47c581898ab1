"""Every message of the collector, from an input that causes it, against its golden file.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.interval import parse_instant
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.journal import parse_lines
from ingestion.kubernetes.watched_resources import PATHS
from warehouse.store import FolderStore

GOLDEN = Path(__file__).parent / "golden"
URL = "https://api.prod-eu.example:6443"
NOON = parse_instant("2026-10-01T12:00:00Z")
KUBE_SYSTEM = {"metadata": {"uid": "22222222-aaaa-4bbb-8ccc-000000000002"}}


def server(answer: Callable[[httpx.Request], httpx.Response], **settings: Path) -> KubernetesClient:
    return KubernetesClient(ServerAccess(URL, **settings), httpx.MockTransport(answer))


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectTimeout("timed out", request=request)


def forbidding(request: httpx.Request) -> httpx.Response:
    message = (
        'pods is forbidden: User "system:serviceaccount:gpu-ledger:collector" cannot list '
        'resource "pods" in API group "" at the cluster scope'
    )
    status = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
    return httpx.Response(403, json=status)


def logging_in(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, html="<form action='/login'>")


def another_cluster() -> None:
    settings = CollectorSettings(cluster_id="11111111-aaaa-4bbb-8ccc-000000000001")
    talker = server(lambda _: httpx.Response(200, json=KUBE_SYSTEM))
    Collector(talker, FolderStore(Path("unused")), StoppedClock(NOON), settings)._begin()


PROVOKED: dict[str, Callable[[], object]] = {
    "SERVER-001": lambda: list(server(unreachable).pages(PATHS["pods"])),
    "SERVER-002": lambda: list(server(forbidding).pages(PATHS["pods"])),
    "SERVER-001-not-kubernetes": lambda: list(server(logging_in).pages(PATHS["pods"])),
    "SERVER-003": lambda: list(
        server(forbidding, token_file=Path("/no/such/token")).pages(PATHS["pods"])
    ),
    "CONF-001-token": lambda: KubernetesClient(
        ServerAccess("http://api.prod-eu.example:8080", token_file=Path("/no/such/token"))
    ),
    "CONF-001-cluster": another_cluster,
    "LAND-001-journal": lambda: list(
        parse_lines(
            "journal/prod-eu/2026-10-01T12Z-000003.jsonl",
            b'{"line":"opened","at":"2026-10-01T12:00:00Z"}\n{"line":"obj',
        )
    ),
}


@pytest.mark.parametrize("code", PROVOKED)
def test_the_message_is_the_golden_one(code: str) -> None:
    with pytest.raises(LedgerError) as raised:
        PROVOKED[code]()
    error = raised.value
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(f"{error.message()}\n", encoding="utf-8")
    assert code.startswith(error.code)
    assert f"{error.message()}\n" == golden.read_text(encoding="utf-8")
