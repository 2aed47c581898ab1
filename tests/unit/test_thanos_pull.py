"""A complete pull of responses written by hand.

Put here: landed files and rows of one attempt with known responses.
Not here: single bad responses (`test_thanos_answer`, `test_prometheus_client`), rules for gaps
(`test_thanos_decode`), or properties.
"""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.metric_catalogue import TELEMETRY_ENTRIES
from ingestion.thanos.pull import HourNotOver, NotWholeHours, pull_hours
from ingestion.thanos.telemetry import FUNCTIONS, UNION_LIMIT
from tests.derived_rows import rows_landed
from tests.samples_by_hand import (
    CLUSTER,
    HOUR,
    POWER,
    REQUEST,
    START,
    TEN,
    UTIL,
    Form,
    Server,
    every_ten_minutes,
    healthy,
    in_union,
    matrix,
)
from warehouse.manifest import Outcome
from warehouse.store import FolderStore


def pull(tmp_path: Path, server: Server, window: Interval | None = None) -> Any:
    return pull_hours(
        CLUSTER,
        window or Interval(TEN, TEN + HOUR),
        Landing(FolderStore(tmp_path / "landing")),
        tmp_path / "runs",
        StoppedClock(TEN + timedelta(days=2)),
        server.client(),
    )


def rows(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    return rows_landed(Landing(FolderStore(tmp_path / "landing")), tmp_path / "runs", "c1", kind)


def test_a_healthy_hour_is_ok_with_its_counts(tmp_path: Path) -> None:
    attempt = pull(tmp_path, Server(healthy))
    [hour] = attempt.hours
    assert (hour.hour, hour.outcome, hour.reason) == (TEN, Outcome.OK, "")
    assert {metric: counts for metric, counts in hour.by_metric.items() if counts[0]} == {
        "kube_node_info": (1, 6),
        "kube_pod_container_resource_requests": (1, 6),
        "up": (1, 6),
    }
    assert hour.by_metric["kube_pod_owner"] == (0, 0)  # queried, but absent
    assert (hour.series_count, hour.sample_count) == (3, 18)


def test_an_hour_with_samples_outside_the_queried_time_is_degraded(tmp_path: Path) -> None:
    """Half an hour too early: three of the six samples are before the queried time."""
    early = (REQUEST[0], [(at - 1800, value) for at, value in REQUEST[1]])

    def answering(form: Form) -> httpx.Response:
        asks = "kube_pod_container_resource_requests" in form["query"] and "start" not in form
        return matrix(early) if asks else healthy(form)

    [hour] = pull(tmp_path, Server(answering)).hours
    assert hour.outcome is Outcome.DEGRADED
    assert hour.reason.endswith("samples are outside the queried time"), hour.reason
    assert hour.by_metric["kube_pod_container_resource_requests"] == (1, 3)


def test_every_response_is_landed_byte_for_byte(tmp_path: Path) -> None:
    attempt = pull(tmp_path, Server(healthy))
    landing = Landing(FolderStore(tmp_path / "landing"))
    for answer in attempt.answers:
        assert json.loads(landing.read_body(answer.sha256))["status"] == "success"
    assert landing.verify().problems == ()
    assert landing.attempts() == [attempt]


def test_the_runs_equal_the_samples_of_the_hour(tmp_path: Path) -> None:
    attempt = pull(tmp_path, Server(healthy))
    [run] = [r for r in rows(tmp_path, "runs") if "requests" in r["metric"]]
    assert run == {
        "cluster_id": "c1",
        "attempt_id": attempt.attempt_id,
        "hour_started_at": TEN,
        "metric": "kube_pod_container_resource_requests",
        "labels": (("resource", "nvidia_com_gpu"), ("uid", "u1")),
        "first_sampled_at": TEN,
        "last_sampled_at": TEN + timedelta(minutes=50),
        "sample_count": 6,
        "sample_value": "2",
    }


def test_queries_are_raw_ranges_with_overlap_and_without_partial_responses(
    tmp_path: Path,
) -> None:
    server = Server(healthy)
    pull(tmp_path, server)
    requests = [r for r in server.requests if r.url.path.startswith("/api/v1/query")]
    assert {r.method for r in requests} == {"POST"}
    assert all(r.headers["accept-encoding"] == "gzip" for r in requests)
    [form] = [form for form in server.forms if form["query"].startswith("up")]
    assert form["query"] == 'up{clusterID="c1"}[4800s]'
    assert form["time"] == str(START + 3600 + 600)
    assert form["dedup"] == "false"
    assert form["partial_response"] == "false"
    assert form["max_source_resolution"] == "0s"


def test_telemetry_is_queried_by_function_on_whole_hours(tmp_path: Path) -> None:
    server = Server(lambda form: in_union(form, with_unions=False))
    attempt = pull(tmp_path, server)
    [row] = [row for row in rows(tmp_path, "telemetry") if row["metric"] == UTIL]
    assert row == {
        "cluster_id": "c1",
        "attempt_id": attempt.attempt_id,
        "hour_started_at": TEN,
        "metric": UTIL,
        "labels": (("gpu", "0"),),
        "reading": "card_use",
        "sample_count": 118,
        "average_value": 0.415,
        "maximum_value": 0.97,
    }
    query = f'avg_over_time({UTIL}{{clusterID="c1"}}[1h] offset 1ms)'
    [form] = [form for form in server.forms if form["query"] == query]
    at_the_end = str(START + 3600)
    assert (form["start"], form["end"], form["step"]) == (at_the_end, at_the_end, "3600")


@pytest.mark.parametrize("with_unions", [True, False])
def test_several_device_metrics_are_queried_as_a_union_or_one_by_one(
    tmp_path: Path, with_unions: bool
) -> None:
    server = Server(lambda form: in_union(form, with_unions))
    attempt = pull(tmp_path, server)
    found = rows(tmp_path, "telemetry")
    assert [(row["metric"], row["average_value"], row["maximum_value"]) for row in found] == [
        (UTIL, 0.415, 0.97),
        (POWER, 41.5, 97.0),
    ]
    labels = [dict(r["labels"]) for r in rows(tmp_path, "series") if r["metric"] == UTIL]
    assert labels == [{"gpu": "0"}]
    assert attempt.outcome is Outcome.OK
    asked = [f["query"] for f in server.forms if "_over_time" in f["query"]]
    unions = [query for query in asked if query.startswith("label_replace")]
    whole = len(FUNCTIONS) * math.ceil(len(TELEMETRY_ENTRIES) / UNION_LIMIT)
    assert len(unions) == (whole if with_unions else 3)  # one refusal suffices
    assert len(asked) - len(unions) == (0 if with_unions else 6)
    assert all(query.count("label_replace") <= UNION_LIMIT for query in unions)


def test_a_day_in_one_request_has_a_row_for_each_hour(tmp_path: Path) -> None:
    day = Interval(TEN, TEN + timedelta(hours=3))

    def answering(form: Form) -> httpx.Response:
        if form["query"].startswith("up"):
            return matrix(({"__name__": "up"}, every_ten_minutes("1", count=18)))
        if "kube_node_info" in form["query"]:
            first_two = every_ten_minutes("1", count=12)
            return matrix(({"__name__": "kube_node_info"}, first_two))
        return matrix()

    attempt = pull(tmp_path, Server(answering), day)
    assert [hour.outcome for hour in attempt.hours] == [Outcome.OK, Outcome.OK, Outcome.EMPTY]
    assert attempt.hours[2].reason == "no sample of kube_node_info"
    assert [hour.sample_count for hour in attempt.hours] == [12, 12, 6]


def test_samples_at_the_edges_belong_to_one_hour_only(tmp_path: Path) -> None:
    samples = [(START - 600, "1"), (START, "1"), (START + 3600, "1")]

    def answering(form: Form) -> httpx.Response:
        if form["query"].startswith("up"):
            return matrix(({"__name__": "up"}, samples))
        return healthy(form)

    attempt = pull(tmp_path, Server(answering))
    assert attempt.hours[0].by_metric["up"] == (1, 1)


def test_one_failed_query_degrades_the_hour_and_is_named(tmp_path: Path) -> None:
    def answering(form: Form) -> httpx.Response:
        if "kube_pod_status_phase" in form["query"]:
            return httpx.Response(503, text="overloaded")
        return healthy(form)

    [hour] = pull(tmp_path, Server(answering)).hours
    assert hour.outcome is Outcome.DEGRADED
    assert hour.reason.startswith("phase: status 503")


def test_an_unreachable_server_gives_an_attempt(tmp_path: Path) -> None:
    def answering(form: Form) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    attempt = pull(tmp_path, Server(answering))
    [hour] = attempt.hours
    assert hour.outcome is Outcome.FAILED
    assert "no route to host" in hour.reason
    assert attempt.answer_sha256s == ()
    assert rows(tmp_path, "runs") == []


def test_a_warning_is_stored_with_the_hour(tmp_path: Path) -> None:
    def answering(form: Form) -> httpx.Response:
        if "kube_pod_container_resource_requests" in form["query"]:
            return matrix(REQUEST, warnings=["fetch series: store 2 is gone"])
        return healthy(form)

    attempt = pull(tmp_path, Server(answering))
    [hour] = attempt.hours
    assert hour.outcome is Outcome.WARNED
    assert "store 2 is gone" in hour.reason
    assert attempt.warning_count == 1
    assert hour.by_metric["kube_pod_container_resource_requests"] == (1, 6)  # counted nevertheless


def test_an_empty_success_is_not_no_usage(tmp_path: Path) -> None:
    [hour] = pull(tmp_path, Server(lambda form: matrix())).hours
    assert hour.outcome is Outcome.EMPTY


def test_an_hour_is_not_pulled_before_its_end(tmp_path: Path) -> None:
    landing = Landing(FolderStore(tmp_path))
    window = Interval(TEN, TEN + HOUR)
    early = StoppedClock(TEN + HOUR + timedelta(seconds=599))
    with pytest.raises(HourNotOver):
        pull_hours(CLUSTER, window, landing, tmp_path / "runs", early, Server(healthy).client())
    assert landing.attempts() == []


def test_windows_of_partial_hours_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotWholeHours):
        pull(tmp_path, Server(healthy), Interval(TEN, TEN + timedelta(minutes=90)))
    with pytest.raises(NotWholeHours):
        pull(tmp_path, Server(healthy), Interval(TEN, TEN + timedelta(hours=25)))


def test_a_limit_halves_the_window_and_loses_no_hour(tmp_path: Path) -> None:
    window = Interval(TEN, TEN + timedelta(hours=4))
    asked: list[str] = []

    def answering(form: Form) -> httpx.Response:
        raw = "[" in form["query"] and "start" not in form
        seconds = int(form["query"].rsplit("[", 1)[1].rstrip("s]")) if raw else 0
        if seconds > 3600 + 1200:
            error = "query processing would load too many samples into memory"
            return httpx.Response(
                422, json={"status": "error", "errorType": "execution", "error": error}
            )
        if form["query"].startswith("up") and "start" not in form:
            asked.append(form["time"])
            end = int(form["time"]) - 600
            return matrix(({"__name__": "up"}, every_ten_minutes("1", end - 3600)))
        if "kube_node_info" in form["query"]:
            end = int(form["time"]) - 600
            return matrix(({"__name__": "kube_node_info"}, every_ten_minutes("1", end - 3600)))
        return matrix()

    attempt = pull(tmp_path, Server(answering), window)
    assert [hour.outcome for hour in attempt.hours] == [Outcome.OK] * 4
    assert asked == [str(START + 3600 * n + 600) for n in (1, 2, 3, 4)]


def test_a_given_client_stays_open_for_the_next_pull(tmp_path: Path) -> None:
    client = Server(healthy).client()
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    for _ in range(2):
        window = Interval(TEN, TEN + HOUR)
        attempt = pull_hours(CLUSTER, window, landing, tmp_path / "runs", clock, client)
        assert attempt.outcome is Outcome.OK


def test_one_reason_of_many_queries_is_reported_once(tmp_path: Path) -> None:
    attempt = pull(tmp_path, Server(lambda form: httpx.Response(404, text="no such page")))
    [hour] = attempt.hours
    assert hour.reason.count("status 404") == 1
    asks = hour.reason.partition(": status 404")[0].split(", ")
    assert {"health", "requests", "phase"} <= set(asks)
