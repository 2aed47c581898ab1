"""No secret is landed: searches for canaries in tokens, headers, URLs and bodies.

Put here: responses of servers and proxies that repeat a secret, and a search of every stored byte.
Not here: how credentials are sent (`test_prometheus_client`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import zstandard

from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.settings import Connection, parse_settings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from tests.samples_by_hand import CLUSTER, HOUR, TEN, Chunks, matrix
from warehouse.store import FolderStore

CANARY = "canary-3e7d21f4"


def page(request: httpx.Request) -> httpx.Response:
    """A debugging page that shows the request."""
    return httpx.Response(200, text=f"<pre>{dict(request.headers)}</pre>")


def error(request: httpx.Request) -> httpx.Response:
    text = f"unauthorized: token {request.headers['authorization']} has expired"
    return httpx.Response(401, json={"status": "error", "errorType": "auth", "error": text})


def warning(request: httpx.Request) -> httpx.Response:
    return matrix(warnings=[f"forwarded with {request.headers['authorization']}"])


def label(request: httpx.Request) -> httpx.Response:
    return matrix(({"__name__": "up", "auth": request.headers["authorization"]}, [(1, "1")]))


def header(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": request.headers["authorization"]})


def exception(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"tunnel refused: {request.headers['authorization']}")


def redirect(request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"location": f"https://login.test/?token={CANARY}"})


def in_base64(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text=b64encode(f"Basic: {dict(request.headers)}".encode()).decode())


def encoding(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-encoding": request.headers["authorization"]})


ECHOES = [page, error, warning, label, header, exception, redirect, in_base64, encoding]


@pytest.mark.parametrize("echo", ECHOES)
def test_a_token_in_responses_is_stored_nowhere(tmp_path: Path, echo: object) -> None:
    (tmp_path / "token").write_text(CANARY + "\n")
    connection = Connection("https://hub.test", token_file=str(tmp_path / "token"))
    sent: list[str] = []
    echoed: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["authorization"])
        found = echo(request)  # type: ignore[operator]
        echoed.append(found.content)
        return httpx.Response(
            found.status_code, headers=found.headers, stream=Chunks(found.content)
        )

    client = AttemptClient(connection, httpx.MockTransport(answer), wait=lambda seconds: None)
    home = tmp_path / "home"
    pull_hours(
        replace(CLUSTER, thanos=replace(CLUSTER.thanos, connection=connection)),
        Interval(TEN, TEN + HOUR),
        Landing(FolderStore(home / "landing")),
        home / "runs",
        StoppedClock(TEN + timedelta(days=2)),
        client,
    )
    assert sent[0] == f"Bearer {CANARY}"
    kept = list(every_byte(home))
    assert kept
    assert not [name for name, body in kept if CANARY.encode() in body]
    assert not [name for name, body in kept if body and body in echoed]


def every_byte(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in home.rglob("*"):
        if path.is_file():
            body = path.read_bytes()
            yield path.name, body
            if path.suffix == ".zst":
                yield path.name, zstandard.ZstdDecompressor().decompress(body)


@pytest.mark.parametrize(
    "url", [f"https://user:{CANARY}@hub.test", f"https://hub.test/?access_token={CANARY}"]
)
def test_a_url_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(LedgerError) as caught:
        parse_settings(f'[thanos.hub]\nurl = "{url}"\n')
    assert CANARY not in caught.value.message()


def test_a_secret_of_a_tenant_is_landed_unchanged(tmp_path: Path) -> None:
    """A tenant's text in a label is part of the response; to change it would be to forge
    evidence.
    """
    landing = Landing(FolderStore(tmp_path))
    body = b'{"status":"success","data":{"resultType":"matrix","result":[]},"x":"tenant-secret"}'
    assert landing.read_body(landing.land_body(body).sha256) == body
