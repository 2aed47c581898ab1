"""The HTTP client of sample stores: retries within a budget, sizes, compression, credentials.

Put here: requests, retries, and refused responses.
Not here: the content of a whole response (`test_thanos_answer`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.credentials import CredentialUnreadable
from clients.prometheus import PrometheusResponse
from ingestion.settings import Connection
from ingestion.thanos.attempt_client import TRIES_LIMIT, WAIT_BUDGET_SECONDS, AttemptClient

FORM = {"query": "up[1h]"}
JSON = {"content-type": "application/json"}
Answering = Callable[[httpx.Request], httpx.Response]


class Chunks(httpx.SyncByteStream):
    def __init__(self, *parts: bytes, error: Exception | None = None) -> None:
        self._parts = parts
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        if self._error:
            raise self._error


class Line:
    """A client on a scripted transport that records requests and waits without delay."""

    def __init__(self, answering: Answering, **connection: Any) -> None:
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        limit = connection.pop("body_bytes_limit", 1 << 20)

        def answer(request: httpx.Request) -> httpx.Response:
            self.requests.append(request)
            return answering(request)

        self.client = AttemptClient(
            Connection(**{"url": "http://127.0.0.1:1", **connection}),
            httpx.MockTransport(answer),
            wait=self.waits.append,
            body_bytes_limit=limit,
        )

    def post(self) -> PrometheusResponse:
        return self.client.post("/api/v1/query", FORM)


def respond(body: bytes = b"{}", status: int = 200, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, headers={**JSON, **named}, stream=Chunks(body))


def test_a_complete_response_is_returned_unchanged_at_the_first_try() -> None:
    line = Line(lambda request: respond(b'{"a":1}'))
    found = line.post()
    assert (found.status, found.body, found.failure, found.tries) == (200, b'{"a":1}', "", 1)
    assert line.waits == []


def test_queries_are_forms_sent_by_post() -> None:
    line = Line(lambda request: respond())
    line.post()
    [request] = line.requests
    assert request.method == "POST"
    assert request.content == b"query=up%5B1h%5D"
    assert request.url.query == b""


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://prometheus.test", "/api/v1/query"),
        (
            "https://observatorium.test/api/metrics/v1/default",
            "/api/metrics/v1/default/api/v1/query",
        ),
    ],
)
def test_a_url_may_have_a_path(url: str, asked: str) -> None:
    line = Line(lambda request: respond(), url=url)
    line.post()
    assert line.requests[0].url.path == asked


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_temporary_refusal_is_retried_and_then_succeeds(status: int) -> None:
    answers = iter([respond(status=status), respond(status=status), respond(b"[]")])
    line = Line(lambda request: next(answers))
    assert (line.post().body, len(line.requests), len(line.waits)) == (b"[]", 3, 2)


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 413, 422])
def test_a_permanent_refusal_is_not_retried(status: int) -> None:
    line = Line(lambda request: respond(status=status))
    assert line.post().status == status
    assert len(line.requests) == 1


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ConnectTimeout("away"), httpx.ReadError("reset")],
)
def test_a_broken_connection_is_retried_up_to_the_limit(error: Exception) -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise error

    line = Line(broken)
    found = line.post()
    assert (found.status, found.tries) == (0, TRIES_LIMIT)
    assert len(line.requests) == TRIES_LIMIT
    assert found.failure


def test_a_timeout_is_not_retried() -> None:
    def slow(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    line = Line(slow)
    found = line.post()
    assert (found.timed_out, len(line.requests)) == (True, 1)


def test_waits_grow_with_jitter_and_are_the_same_on_every_run() -> None:
    def waits() -> list[float]:
        line = Line(lambda request: respond(status=503))
        line.post()
        return line.waits

    first = waits()
    assert first == waits()
    for number, seconds in enumerate(first):
        assert 0.5 * 2**number <= seconds <= 2**number


def test_two_requests_are_not_retried_at_the_same_moment() -> None:
    line = Line(lambda request: respond(status=503))
    line.post()
    mine = list(line.waits)
    line.waits.clear()
    line.client.begin_attempt()
    line.client.post("/api/v1/query", {"query": "another"})
    assert line.waits[0] != mine[0]


def test_retry_after_in_seconds_is_honoured() -> None:
    answers = iter([respond(status=429, retry_after="17"), respond()])
    line = Line(lambda request: next(answers))
    line.post()
    assert line.waits == [17.0]


def test_retry_after_as_a_date_is_measured_by_the_servers_clock() -> None:
    late = respond(
        status=503,
        retry_after="Thu, 01 Oct 2026 10:00:42 GMT",
        date="Thu, 01 Oct 2026 10:00:00 GMT",
    )
    answers = iter([late, respond()])
    line = Line(lambda request: next(answers))
    line.post()
    assert line.waits == [42.0]


@pytest.mark.parametrize("text", ["soon", "-5", "", "Thu, 99 Oct"])
def test_an_invalid_retry_after_is_ignored(text: str) -> None:
    answers = iter([respond(status=503, retry_after=text), respond()])
    line = Line(lambda request: next(answers))
    assert line.post().status == 200
    assert line.waits[0] <= 1.0


def test_a_retry_after_beyond_the_budget_is_not_waited_for() -> None:
    line = Line(lambda request: respond(status=429, retry_after="86400"))
    assert line.post().status == 429
    assert line.waits == []


def test_all_requests_of_an_attempt_share_one_budget_of_waiting() -> None:
    line = Line(lambda request: respond(status=503, retry_after="25"))
    for _ in range(10):
        line.post()
    assert sum(line.waits) <= WAIT_BUDGET_SECONDS
    waited = len(line.waits)
    line.client.begin_attempt()
    line.post()
    assert len(line.waits) > waited


def test_a_redirect_is_not_followed_and_gets_no_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("canary")
    line = Line(
        lambda request: respond(status=302, location="https://elsewhere.example/login"),
        url="https://hub.test",
        token_file=str(token),
    )
    assert line.post().status == 302
    assert [request.url.host for request in line.requests] == ["hub.test"]


def test_gzip_is_requested_and_decompressed() -> None:
    body = b'{"status":"success"}' * 5000
    zipped = respond(gzip.compress(body), content_encoding="gzip")
    line = Line(lambda request: zipped, url="http://thanos.example:9090")
    assert line.post().body == body
    assert line.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_gzip_is_not_requested_from_a_local_server_without_a_proxy(
    host: str,
) -> None:
    line = Line(lambda request: respond(), url=f"http://{host}:1")
    line.post()
    assert line.requests[0].headers["accept-encoding"] == "identity"
    proxied = Connection(f"http://{host}:1", proxy="http://proxy.example:3128")
    assert AttemptClient(proxied).encoding == "gzip"


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_truncated_gzip_is_noticed_and_retried(cut: int) -> None:
    packed = gzip.compress(b'{"status":"success"}' * 100)[:-cut]
    line = Line(lambda request: respond(packed, content_encoding="gzip"))
    found = line.post()
    assert found.cut_short
    assert found.tries == TRIES_LIMIT


def test_bytes_after_the_end_of_gzip_are_refused() -> None:
    packed = gzip.compress(b"{}") + b"more"
    found = Line(lambda request: respond(packed, content_encoding="gzip")).post()
    assert found.cut_short
    assert "more bytes" in found.failure


def test_an_encoding_that_was_not_requested_is_a_failure() -> None:
    found = Line(lambda request: respond(b"??", content_encoding="br")).post()
    assert "br" in found.failure


def test_a_connection_that_breaks_in_the_body_gives_truncated() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        stream = Chunks(b'{"status":', error=httpx.RemoteProtocolError("peer closed connection"))
        return httpx.Response(200, headers=JSON, stream=stream)

    found = Line(broken).post()
    assert found.cut_short
    assert "peer closed" in found.failure


def test_a_response_above_the_limit_is_dropped_and_not_retried() -> None:
    line = Line(lambda request: respond(b"x" * 1001), body_bytes_limit=1000)
    found = line.post()
    assert (found.too_large, found.body, len(line.requests)) == (True, b"", 1)
    assert Line(lambda request: respond(b"x" * 1000), body_bytes_limit=1000).post().body


def test_a_bomb_is_not_decompressed_beyond_the_limit() -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    line = Line(lambda request: respond(bomb, content_encoding="gzip"), body_bytes_limit=1 << 20)
    found = line.post()
    assert found.too_large
    assert found.body == b""


def test_the_token_is_read_again_for_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    line = Line(lambda request: respond(), token_file=str(token))
    line.post()
    token.write_text("token-x7f9a:q2m8\n")
    line.post()
    sent = [request.headers["authorization"] for request in line.requests]
    assert sent == ["Bearer first", "Bearer token-x7f9a:q2m8"]


@pytest.mark.parametrize("content", ["", "canary\n7f3a", "canary 7f3a", "canary\0", "canaryä"])
def test_an_invalid_token_is_neither_sent_nor_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    line = Line(lambda request: respond(), token_file=str(tmp_path / "token"))
    with pytest.raises(CredentialUnreadable, match="form of a bearer token") as caught:
        line.post()
    assert (line.requests, "canary" in caught.value.message()) == ([], False)


def test_no_token_is_sent_when_there_is_none() -> None:
    line = Line(lambda request: respond())
    line.post()
    assert "authorization" not in line.requests[0].headers


def test_an_unreadable_credential_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(CredentialUnreadable, match="absent"):
        Line(lambda request: respond(), token_file=str(tmp_path / "absent")).post()
    broken = tmp_path / "ca.crt"
    broken.write_text("not a certificate")
    with pytest.raises(CredentialUnreadable, match=r"ca\.crt"):
        AttemptClient(Connection("https://hub.test", ca_file=str(broken)))
    with pytest.raises(CredentialUnreadable, match=r"tls\.crt"):
        AttemptClient(
            Connection(
                "https://hub.test",
                client_certificate_file=str(tmp_path / "tls.crt"),
                client_key_file=str(tmp_path / "tls.key"),
            )
        )


def test_a_redirect_to_another_host_gets_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary")
    line = Line(
        lambda request: respond(status=302, location="https://elsewhere.test/login"),
        token_file=str(tmp_path / "token"),
    )
    line.post()
    assert [request.url.host for request in line.requests] == ["127.0.0.1"]


def test_a_body_that_repeats_the_token_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary-7f3a")
    page = b'{"headers":{"authorization":"Bearer canary-7f3a"}}'
    line = Line(lambda request: respond(page), token_file=str(tmp_path / "token"))
    found = line.post()
    assert found.body == b""
    assert found.repeats_secret
    assert "canary" not in found.failure


def test_an_error_text_that_repeats_the_token_is_redacted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary-7f3a")

    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("proxy said: bad header 'Bearer canary-7f3a'")

    found = Line(broken, token_file=str(tmp_path / "token")).post()
    assert "canary" not in found.failure
    assert "bad header" in found.failure
