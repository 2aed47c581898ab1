"""A token that is renewed in its file is sent by the next request, without a restart.

Put here: one long-lived client of each server.
Not here: the API server (`test_collector_client`), buckets (`test_bucket_keys`), or the portal's
certificate (`test_portal_certificates`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from domain.clock import SystemClock
from ingestion.settings import Connection
from ingestion.thanos.attempt_client import AttemptClient
from orchestration.alerting import alertmanagers
from orchestration.open_home import OpenHome
from warehouse.home import Home


class Sent:
    """The tokens of all requests; every request has the same response."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.tokens.append(request.headers["Authorization"])
        return httpx.Response(200, json=[])


def thanos(token: Path, transport: httpx.BaseTransport, folder: Path) -> Callable[[], object]:
    del folder
    client = AttemptClient(Connection("https://thanos.test", str(token)), transport)
    return lambda: client.post("/api/v1/query", {"query": "time()"})


def alertmanager(token: Path, transport: httpx.BaseTransport, folder: Path) -> Callable[[], object]:
    config = (
        f'[alerts]\nsend = true\nalertmanagers = ["https://127.0.0.1"]\ntoken_file = "{token}"\n'
    )
    opened = OpenHome(Home.create(folder / "home", config), SystemClock())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("clients.alertmanager.make_transport", lambda *_, **__: transport)
        [peer] = alertmanagers(opened)
    return lambda: peer.present(())


@pytest.mark.parametrize("client", [thanos, alertmanager])
def test_a_renewed_token_is_sent_by_the_next_request(
    tmp_path: Path, client: Callable[[Path, httpx.BaseTransport, Path], Callable[[], object]]
) -> None:
    sent, token = Sent(), tmp_path / "token"
    token.write_text("first\n")
    request = client(token, httpx.MockTransport(sent), tmp_path)
    request()
    token.write_text("second\n")
    request()
    assert sent.tokens == ["Bearer first", "Bearer second"]
