"""A collector's token is not in the journal, even if a server or a proxy repeats it.

Put here: responses that repeat the token, and a search of all files of a collector.
Not here: the forms of a token (`test_redaction`), or the sample store's (`test_landing_secrets`).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import zstandard

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import HistoryGone
from clients.redaction import REDACTED
from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.health import answer as health_answer
from ingestion.kubernetes.journal_state import RESOURCES
from ingestion.kubernetes.pull import pull_hours
from ingestion.kubernetes.requests import is_allowed
from ingestion.kubernetes.watched_resources import PATHS
from tests.collected import PATIENCE_SECONDS, QUICK
from tests.kubernetes_by_hand import NOON
from warehouse.store import FolderStore

CLUSTER_ID = "prod-eu"
# Longer than the limit of 200 characters for quoted texts, with characters that URLs escape.
CANARY = "canary+3e7d21f4/" + "0123456789abcdef" * 12 + "=="
JSON = {"content-type": "application/json"}
FORMS = (CANARY, quote(CANARY, safe=""), b64encode(b"Bearer " + CANARY.encode()).decode())
Echo = Callable[[str], httpx.Response]


def status(code: int, message: str) -> dict[str, object]:
    return {"kind": "Status", "code": code, "reason": "Because", "message": message}


def refused(token: str) -> httpx.Response:
    return httpx.Response(401, json=status(401, f"token {token} is expired"))


def refused_in_the_reason(token: str) -> httpx.Response:
    return httpx.Response(401, json=status(401, "") | {"reason": token})


def refused_late_in_a_text(token: str) -> httpx.Response:
    return httpx.Response(401, json=status(401, "x" * 150 + token))


def refused_by_phrase(token: str) -> httpx.Response:
    return httpx.Response(403, text="no", extensions={"reason_phrase": token.encode()})


def refused_percent_encoded(token: str) -> httpx.Response:
    return httpx.Response(401, json=status(401, f"/login?token={quote(token, safe='')}"))


def refused_in_base64(token: str) -> httpx.Response:
    return httpx.Response(401, json=status(401, b64encode(f"Bearer {token}".encode()).decode()))


def expired_response(token: str) -> httpx.Response:
    return httpx.Response(410, json=status(410, f"no history for {token}"))


def expired_stream(token: str) -> httpx.Response:
    text = json.dumps({"type": "ERROR", "object": status(410, f"no history for {token}")})
    return httpx.Response(200, text=text + "\n", headers=JSON)


def failed_within_the_stream(token: str) -> httpx.Response:
    text = json.dumps({"type": "ERROR", "object": status(500, f"who is {token}?")})
    return httpx.Response(200, text=text + "\n", headers=JSON)


def content_type(token: str) -> httpx.Response:
    return httpx.Response(200, text="hm", headers={"content-type": f"text/{token}"})


def redirect(token: str) -> httpx.Response:
    return httpx.Response(302, headers={"location": f"https://login.test/?token={token}"})


def cut_off(token: str) -> httpx.Response:
    raise httpx.RemoteProtocolError(f"illegal status line: 'HTTP {token}'")


def label(token: str) -> httpx.Response:
    meta = {
        "uid": "n1",
        "name": "node-a",
        "resourceVersion": "9",
        "labels": {"nvidia.com/gpu.product": token},
    }
    event = {"type": "ADDED", "object": {"metadata": meta}}
    both = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": meta}]} | event
    return httpx.Response(200, text=json.dumps(both) + "\n", headers=JSON)


ECHOES = [
    refused,
    refused_in_the_reason,
    refused_late_in_a_text,
    refused_by_phrase,
    refused_percent_encoded,
    refused_in_base64,
    expired_response,
    expired_stream,
    failed_within_the_stream,
    content_type,
    redirect,
    cut_off,
    label,
]


class Server:
    """A server that responds correctly at first, and then with the request that it received."""

    def __init__(self, echo: Echo, echoes_lists: bool) -> None:
        self._echo, self._echoes_lists = echo, echoes_lists
        self.echo_count = 0
        self.sent: set[str] = set()
        self._watched: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        self.sent.add(token)
        if request.url.path.endswith("/kube-system"):
            return httpx.Response(200, json={"metadata": {"uid": CLUSTER_ID}})
        begins = request.url.path not in self._watched
        if "watch" in request.url.params and not self._echoes_lists and begins:
            self._watched.add(request.url.path)
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
            return httpx.Response(200, text=json.dumps(bookmark) + "\n", headers=JSON)
        if self._echoes_lists or "watch" in request.url.params:
            self.echo_count += 1
            return self._echo(token)
        return httpx.Response(200, json={"metadata": {"resourceVersion": "7"}, "items": []})


def client_of(server: Server, folder: Path) -> KubernetesClient:
    (folder / "token").write_text(CANARY + "\n")
    settings = ServerAccess("https://api.test:6443", token_file=folder / "token")
    return KubernetesClient(settings, httpx.MockTransport(server))


@pytest.mark.parametrize("echoes_lists", [False, True], ids=["watches", "lists"])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_token_in_responses_is_written_nowhere(
    tmp_path: Path,
    echo: Echo,
    echoes_lists: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server(echo, echoes_lists)
    home = tmp_path / "home"
    spool, landing = FolderStore(home / "spool"), Landing(FolderStore(home / "landing"))
    clock, stop = StoppedClock(NOON), threading.Event()
    settings = CollectorSettings(CLUSTER_ID, retry=QUICK)
    collector = Collector(client_of(server, tmp_path), spool, clock, settings)
    thread = collector.run_in_thread(stop)
    # Every resource was requested twice (lists that fail: once per instant), and all lines written.
    wanted = len(RESOURCES) * (1 if echoes_lists else 2)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and (
        server.echo_count < wanted or not collector._items.empty()
    ):
        time.sleep(0.01)
    stop.set()
    thread.join(PATIENCE_SECONDS)
    later = StoppedClock(NOON + timedelta(hours=2))
    pull_hours(CLUSTER_ID, Interval(NOON, NOON + timedelta(hours=1)), spool, landing, later)

    assert server.sent == {CANARY}
    assert server.echo_count >= wanted
    kept = dict(every_byte(home))
    landed = b"".join(body for name, body in kept.items() if name.endswith(" unpacked")).decode()
    assert '"listed"' in landed
    assert any(word in landed for word in (REDACTED, "HTTP 302", "HTTP 403", "repeats", "expired"))
    said = [caplog.text, *capfd.readouterr(), str(collector.health)]
    said += [health_answer(path, collector.health, NOON)[1] for path in ("/readyz", "/metrics")]
    for form in FORMS:
        # Also not a part of it: a text that is cut after the redaction must not keep its beginning.
        for piece in (form[10:40], form[100:130]):
            assert not [name for name, body in kept.items() if piece.encode() in body]
            assert not [text for text in said if piece in text]


@pytest.mark.parametrize("echo", ECHOES)
def test_no_error_contains_the_token(tmp_path: Path, echo: Echo) -> None:
    client = client_of(Server(echo, echoes_lists=True), tmp_path)
    for ask in (
        lambda: list(client.pages(PATHS["pods"])),
        lambda: list(client.watch(PATHS["nodes"], 7)),
        lambda: is_allowed(client, "list", "pods"),
        lambda: client.get("/version"),
    ):
        try:
            ask()
        except LedgerError as error:
            said = f"{error.message()} {error!r}"
        except HistoryGone as error:
            said = f"{error} {error!r}"
        else:
            assert echo in (label, expired_stream, failed_within_the_stream), echo
            continue
        assert not [form for form in FORMS if form[10:40] in said]


def every_byte(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in home.rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            yield str(path), body
            if path.suffix == ".zst":
                yield f"{path} unpacked", zstandard.ZstdDecompressor().decompress(body)
