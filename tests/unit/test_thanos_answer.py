"""Every kind of bad response, and its outcome.

Put here: responses of a server, a proxy or a broken connection, and their outcome.
Not here: retries and sizes (`test_prometheus_client`), the samples inside (`test_thanos_decode`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from clients.prometheus import PrometheusResponse
from ingestion.thanos.response import REASON_LENGTH_LIMIT, read_matrix
from warehouse.manifest import Outcome

ONE = {"metric": {"__name__": "up"}, "values": [[1790848800, "1"]]}


def reply(
    body: Any, status: int = 200, content_type: str = "application/json"
) -> PrometheusResponse:
    text = body if isinstance(body, str) else json.dumps(body)
    return PrometheusResponse(status, content_type, text.encode())


def success(result: Any, kind: str = "matrix", **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result}, **more}


def error(text: str, kind: str = "execution") -> dict[str, Any]:
    return {"status": "error", "errorType": kind, "error": text}


def test_a_complete_response_is_ok() -> None:
    matrix = read_matrix(reply(success([ONE])))
    assert (matrix.outcome, matrix.reason, len(matrix.series)) == (Outcome.OK, "", 1)


def test_an_empty_response_is_ok() -> None:
    """Whether samples are missing depends on all responses together."""
    assert read_matrix(reply(success([]))).outcome is Outcome.OK


def test_a_charset_in_the_content_type_is_accepted() -> None:
    charset = reply(success([ONE]), content_type="application/json; charset=utf-8")
    assert read_matrix(charset).outcome is Outcome.OK


def test_notes_of_thanos_and_prometheus_3_are_no_warnings() -> None:
    more = {"infos": ["metric might not be a counter"], "analysis": {}, "stats": {}}
    assert read_matrix(reply(success([ONE], **more))).outcome is Outcome.OK


def test_any_warning_gives_warned_and_keeps_the_series() -> None:
    matrix = read_matrix(reply(success([ONE], warnings=["store a is gone", "and b"])))
    assert matrix.outcome is Outcome.WARNED
    assert matrix.reason == "2 warnings, the first: store a is gone"
    assert matrix.warnings == ("store a is gone", "and b")
    assert len(matrix.series) == 1


@pytest.mark.parametrize("cut", [1, 20, 60, 90])
def test_a_body_that_ends_early_is_truncated(cut: int) -> None:
    body = json.dumps(success([ONE]))[:-cut]
    assert read_matrix(reply(body)).outcome is Outcome.TRUNCATED


@pytest.mark.parametrize("end", ["[[1790848800.", "[[1790848800.5,-", "[[-", "[[1e"])
def test_a_body_that_ends_inside_a_number_is_truncated(end: str) -> None:
    start = '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":'
    assert read_matrix(reply(start + end)).outcome is Outcome.TRUNCATED


def test_a_connection_that_ended_early_is_truncated_also_with_valid_json() -> None:
    cut = PrometheusResponse(
        200, "application/json", json.dumps(success([ONE])).encode(), "cut off", True
    )
    assert read_matrix(cut).outcome is Outcome.TRUNCATED


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<html>Log in</html>", "text/html"),
        ("<html>Log in</html>", "application/json"),
        ("", "application/json"),
        ("null", "application/json"),
        ("[]", "application/json"),
        ("{}", "application/json"),
        ('{"status":"success"}', "application/json"),
        ('{"status":"success","data":{"resultType":"matrix"}}', "application/json"),
        (json.dumps({"status": "success", "data": {"resultType": "matrix", "result": {}}}), "x/y"),
        (json.dumps(success([{"values": []}])), "application/json"),
        (json.dumps(success([ONE])), ""),
    ],
)
def test_other_content_than_the_protocol_is_never_no_usage(body: str, content_type: str) -> None:
    matrix = read_matrix(reply(body, content_type=content_type))
    assert matrix.outcome in (Outcome.FAILED, Outcome.TRUNCATED)
    assert matrix.series == ()


def test_an_error_inside_a_200_is_a_failure() -> None:
    assert read_matrix(reply(error("something"))).outcome is Outcome.FAILED


def test_success_with_another_kind_of_result_is_a_failure() -> None:
    vector = success([{"metric": {}, "value": [1, "1"]}], "vector")
    matrix = read_matrix(reply(vector))
    assert matrix.outcome is Outcome.FAILED
    assert "vector" in matrix.reason


def test_a_login_page_behind_a_redirect_is_a_refusal() -> None:
    redirect = reply("<a href='/login'>", status=302, content_type="text/html")
    assert read_matrix(redirect).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.REFUSED),
        (401, Outcome.REFUSED),
        (403, Outcome.REFUSED),
        (404, Outcome.REFUSED),
        (422, Outcome.REFUSED),
        (429, Outcome.FAILED),
        (500, Outcome.FAILED),
        (502, Outcome.FAILED),
        (503, Outcome.FAILED),
        (504, Outcome.FAILED),
    ],
)
def test_refusals_are_permanent_and_failures_may_be_retried(status: int, outcome: Outcome) -> None:
    matrix = read_matrix(reply(error("no"), status=status))
    assert matrix.outcome is outcome
    assert str(status) in matrix.reason


@pytest.mark.parametrize(
    "text",
    [
        "query processing would load too many samples into memory in query execution",
        "exceeded maximum resolution of 11,000 points per timeseries",
        "the query hit the max number of series limit (limit: 100000 series)",
        "expanded matching posting: exceeded series limit",
    ],
)
def test_limits_of_the_server_are_recognised(text: str) -> None:
    assert read_matrix(reply(error(text), status=422)).limit_hit
    assert not read_matrix(reply(error("unknown function"), status=400)).limit_hit


def test_the_clients_limit_on_size_is_a_limit() -> None:
    large = PrometheusResponse(200, "application/json", b"", "larger than 10 bytes", too_large=True)
    matrix = read_matrix(large)
    assert (matrix.outcome, matrix.limit_hit) == (Outcome.REFUSED, True)


def test_a_timeout_may_be_due_to_the_size_of_the_query() -> None:
    hung = PrometheusResponse(0, "", b"", "timed out (ReadTimeout)", timed_out=True)
    matrix = read_matrix(hung)
    assert (matrix.outcome, matrix.limit_hit) == (Outcome.FAILED, True)


def test_a_page_of_error_text_becomes_one_line_of_limited_length() -> None:
    matrix = read_matrix(reply(error("line\nbreak\x1b[31m " + "x" * 5000), status=500))
    assert len(matrix.reason) <= REASON_LENGTH_LIMIT
    assert matrix.reason.isprintable()
