"""Hostile responses are failed attempts and never end a pull.

Put here: headers and bodies that once ended a pull with a traceback, and floods of large responses.
Not here: ordinary failures (`test_thanos_answer`, `test_prometheus_client`,
`test_collector_client`), or random bytes (`tests/explore`).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.errors import LedgerError
from domain.interval import HOUR, Interval
from ingestion.evidence.hour_ledger import hour_ledger
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.watched_resources import PATHS
from ingestion.settings import Connection
from ingestion.thanos import attempt_client
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import recheck
from tests.samples_by_hand import CLUSTER, TEN, Chunks, Form, Server, healthy
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore

WINDOW = Interval(TEN, TEN + HOUR)
DEEP = b"[" * 100_000 + b"]" * 100_000
NESTED_SERIES = (
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":%s}]}}' % DEEP
)


def series(labels: bytes = b'{"__name__":"up"}', values: bytes = b'[[1790848800,"1"]]') -> bytes:
    one = b'{"metric":%s,"values":%s}' % (labels, values)
    return b'{"status":"success","data":{"resultType":"matrix","result":[%s]}}' % one


def respond(body: bytes, status: int = 200, **headers: bytes) -> httpx.Response:
    named = [(b"content-type", b"application/json")]
    named += [(name.replace("_", "-").encode(), text) for name, text in headers.items()]
    return httpx.Response(status, headers=named, content=body)


def pull(tmp_path: Path, answering: Callable[[Form], httpx.Response]) -> tuple[Attempt, Landing]:
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    client = Server(answering).client()
    return pull_hours(CLUSTER, WINDOW, landing, tmp_path / "runs", clock, client), landing


LATER = b"Thu, 01 Oct 99999999999 10:00:00 GMT"

RESPONSES = {
    "a superscript two as Retry-After": respond(b"{}", 503, retry_after="²".encode("latin-1")),
    "a Retry-After of 9,000 digits": respond(b"{}", 503, retry_after=b"9" * 9_000),
    "a Retry-After in a year of eleven digits": respond(b"{}", 503, retry_after=LATER, date=LATER),
    "a label that is not UTF-8": respond(series(b'{"__name__":"up","job":"\xff"}')),
    "a time of 1e308": respond(series(values=b'[[1e308,"1"]]')),
    "series nested too deeply": respond(NESTED_SERIES),
    "an error nested too deeply": respond(b'{"status":"error","error":%s}' % DEEP, 422),
    "an unknown field nested too deeply": respond(b'{"status":"success","more":%s}' % DEEP),
    "a label twice": respond(series(b'{"__name__":"up","job":"a","job":"b"}')),
    "a label twice, escaped": respond(series(b'{"__name__":"up","job":"a","j\\u006fb":"b"}')),
    "values twice": respond(series(values=b'[],"values":[[1790848800,"1"]]')),
    "result twice": respond(series().replace(b'"result":[', b'"result":[],"result":[')),
    "data twice": respond(series().replace(b'"data":', b'"data":{},"data":')),
    "data twice, with spaces": respond(
        series().replace(b'"data":', b'"data" : {"resultType":"matrix","result":[]} , "data" : ')
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_a_hostile_response_is_a_failure_with_its_bytes_landed(tmp_path: Path, name: str) -> None:
    hostile = RESPONSES[name]

    def answer(form: Form) -> httpx.Response:
        return hostile if form["query"].startswith("up") else healthy(form)

    attempt, landing = pull(tmp_path, answer)
    [asked] = [found for found in attempt.answers if found.ask == "health"]
    assert asked.outcome in (Outcome.FAILED, Outcome.REFUSED)
    assert landing.read_body(asked.sha256) == hostile.content
    assert attempt.outcome is Outcome.DEGRADED


@pytest.mark.parametrize("name", RESPONSES)
def test_a_server_of_hostile_responses_gives_a_failed_attempt(tmp_path: Path, name: str) -> None:
    """Also to the queries of clock, names, stores and telemetry."""
    attempt, _ = pull(tmp_path, lambda form: RESPONSES[name])
    assert attempt.outcome in (Outcome.FAILED, Outcome.REFUSED)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e999"])
def test_a_recheck_with_invalid_counts_leaves_the_metric_unanswered(
    tmp_path: Path, value: str
) -> None:
    _, landing = pull(tmp_path, healthy)
    ledger = hour_ledger([("c1", Source.THANOS, TEN)], landing.attempts())
    counted = respond(series(values=b'[[1790852400,"%s"]]' % value.encode()))
    found = recheck(CLUSTER, WINDOW, ledger, Server(lambda form: counted).client())
    assert not found.differences
    assert all(why.startswith("not the protocol") for why in found.unanswered.values())
    assert "up" in found.unanswered


def test_responses_of_thanos_and_with_spaces_have_no_duplicate_key(tmp_path: Path) -> None:
    """A response is parsed again only if it is not in the shortest form."""
    plain = series()
    for body in (
        plain,
        plain + b"\n",
        plain.replace(b"]}}", b'],"analysis":{}}}') + b"\n",
        plain[:-1] + b',"warnings":[],"infos":["a"]}',
        json.dumps(json.loads(plain), indent=1).encode(),
        plain.replace(b'"up"', b'"\\u0075p"'),
    ):
        attempt, _ = pull(tmp_path, lambda form, body=body: respond(body))  # type: ignore[misc]
        assert {found.outcome for found in attempt.answers if found.ask == "health"} == {Outcome.OK}


# --- floods --------------------------------------------------------------------------------------


class Flood:
    """A server whose every response is larger than the limit."""

    def __init__(self, body: bytes, encoding: bytes = b"identity") -> None:
        self.count = 0
        self._body, self._encoding = body, encoding

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.count += 1
        headers = [(b"content-type", b"application/json"), (b"content-encoding", self._encoding)]
        return httpx.Response(200, headers=headers, stream=Chunks(self._body))


@pytest.mark.parametrize("packed", [False, True])
def test_a_server_with_too_many_large_responses_is_not_queried_further(
    tmp_path: Path, packed: bool
) -> None:
    body = b" " * 10_000
    flood = Flood(gzip.compress(body), b"gzip") if packed else Flood(body)
    client = AttemptClient(
        Connection("http://hub.test"), httpx.MockTransport(flood), body_bytes_limit=5_000
    )
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    day = Interval(TEN - 23 * HOUR, TEN + HOUR)
    attempt = pull_hours(CLUSTER, day, landing, tmp_path / "runs", clock, client)
    assert attempt.outcome in (Outcome.FAILED, Outcome.REFUSED)
    # Two requests may be running when the limit is reached.
    assert flood.count <= attempt_client.TOO_LARGE_LIMIT + 2
    limit = (
        f"the attempt has taken {attempt_client.TOO_LARGE_LIMIT} responses of more than 5000 bytes"
    )
    assert any(limit in found.reason for found in attempt.answers)


def test_the_number_of_requests_of_an_attempt_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_client, "REQUESTS_LIMIT", 40)
    refusal = {"status": "error", "errorType": "execution", "error": "too many samples"}
    server = Server(lambda form: httpx.Response(422, json=refusal))
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    attempt = pull_hours(CLUSTER, WINDOW, landing, tmp_path / "runs", clock, server.client())
    assert len(server.requests) == 40
    assert any("has taken 40 requests" in found.reason for found in attempt.answers)


def test_the_duration_of_an_attempt_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_client, "SECONDS_LIMIT", 0.0)
    server = Server(healthy)
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    attempt = pull_hours(CLUSTER, WINDOW, landing, tmp_path / "runs", clock, server.client())
    assert attempt.outcome is Outcome.FAILED
    assert not server.requests


# --- the Kubernetes API --------------------------------------------------------------------------

POD = b'{"metadata":{"uid":"u1","resourceVersion":"5"},"spec":{},"status":{}}'
LIST = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[%s]}'

KUBERNETES = {
    "a list nested too deeply": respond(LIST % DEEP),
    "an error nested too deeply": respond(DEEP, 503),
    "a superscript two as Retry-After": respond(b"{}", 429, retry_after="²".encode("latin-1")),
    "a Retry-After of 9,000 digits": respond(b"{}", 429, retry_after=b"9" * 9_000),
    "a Date in a year of eleven digits": respond(b"{}", 503, date=LATER),
    "text that is not UTF-8": respond(LIST % b'{"metadata":{"uid":"\xff"}}'),
    "items twice": respond(LIST.replace(b'"items":', b'"items":[],"items":') % POD),
    "metadata twice": respond(LIST.replace(b'"items":', b'"metadata":{},"items":') % POD),
    "a version twice": respond(LIST.replace(b'"7"', b'"7","resourceVersion":"8"') % POD),
    "a version of 5,000 digits": respond(LIST.replace(b'"7"', b'"%s"' % (b"7" * 5_000)) % POD),
    "invalid gzip": respond(LIST % POD),
}
KUBERNETES["invalid gzip"].headers["content-encoding"] = "gzip"


@pytest.mark.parametrize("name", KUBERNETES)
def test_a_hostile_list_of_the_kubernetes_api_is_no_list(name: str) -> None:
    hostile = KUBERNETES[name]

    def answer(request: httpx.Request) -> httpx.Response:
        content = Chunks(hostile.content) if "gzip" in name else None
        return httpx.Response(
            hostile.status_code,
            headers=hostile.headers,
            **({"stream": content} if content else {"content": hostile.content}),
        )

    client = KubernetesClient(ServerAccess("https://api.example:6443"), httpx.MockTransport(answer))
    with pytest.raises(LedgerError):
        list(client.pages(PATHS["pods"]))
    with pytest.raises(LedgerError):
        list(client.watch(PATHS["pods"], 7))
    assert client.server_time() is None or "Date" not in name


def test_an_object_with_a_duplicate_key_is_refused() -> None:
    twice = POD.replace(b'"spec":{}', b'"spec":{"nodeName":"a"},"spec":{"nodeName":"b"}')
    listed = respond(LIST % twice)
    client = KubernetesClient(
        ServerAccess("https://api.example:6443"), httpx.MockTransport(lambda request: listed)
    )
    with pytest.raises(LedgerError, match="occurs twice"):
        list(client.pages(PATHS["pods"]))
