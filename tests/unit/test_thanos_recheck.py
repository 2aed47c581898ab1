"""A recheck before a close finds exactly the hours whose counts changed.

Put here: equal and different counts, replicas, metrics without a response.
Not here: the second pull of these hours.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import Interval
from ingestion.evidence.hour_ledger import HourEntry, hour_ledger
from ingestion.evidence.landing import Landing
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import SampleCountDifference, recheck
from tests.samples_by_hand import (
    CLUSTER,
    HOUR,
    REQUEST,
    START,
    TEN,
    Form,
    Server,
    every_ten_minutes,
    healthy,
    matrix,
)
from warehouse.store import FolderStore

REQUESTS = "kube_pod_container_resource_requests"
WINDOW = Interval(TEN, TEN + HOUR)
COUNTS = {"up": ["6"], "kube_node_info": ["6"], REQUESTS: ["6"]}


def landed(tmp_path: Path, answering: Any = healthy) -> list[HourEntry]:
    landing = Landing(FolderStore(tmp_path / "landing"))
    clock = StoppedClock(TEN + timedelta(days=2))
    client = Server(answering).client()
    attempt = pull_hours(CLUSTER, WINDOW, landing, tmp_path / "runs", clock, client)
    return hour_ledger([("c1", Source.THANOS, TEN)], [attempt])


def counting(**counts: list[str]) -> Server:
    """A server that responds to count queries: one series for each number."""

    def answer(form: Form) -> httpx.Response:
        metric = form["query"].removeprefix("count_over_time(").partition("{")[0]
        numbers = (COUNTS | counts).get(metric, [])
        series = [({"n": str(n)}, [(START + 3600, text)]) for n, text in enumerate(numbers)]
        return matrix(*series)

    return Server(answer)


def test_nothing_differs_if_the_server_counts_the_landed_samples(tmp_path: Path) -> None:
    found = recheck(CLUSTER, WINDOW, landed(tmp_path), counting().client())
    assert found.differences == ()
    assert found.unanswered == {}


def test_late_samples_name_their_hour_and_both_counts(tmp_path: Path) -> None:
    server = counting(**{REQUESTS: ["6", "4"]})
    found = recheck(CLUSTER, WINDOW, landed(tmp_path), server.client())
    assert found.differences == (SampleCountDifference(TEN, REQUESTS, 6, 10),)
    assert found.hours == (TEN,)


def test_missing_samples_are_a_difference(tmp_path: Path) -> None:
    found = recheck(CLUSTER, WINDOW, landed(tmp_path), counting(up=[]).client())
    assert found.differences == (SampleCountDifference(TEN, "up", 6, 0),)


def test_every_replica_is_counted_as_on_the_server(tmp_path: Path) -> None:
    def two_replicas(form: Form) -> httpx.Response:
        if REQUESTS not in form["query"]:
            return healthy(form)
        labels, samples = REQUEST
        other = every_ten_minutes("2", START + 60)
        return matrix((labels | {"replica": "0"}, samples), (labels | {"replica": "1"}, other))

    entries = landed(tmp_path, two_replicas)
    assert entries[0].responses[0].hour.by_metric[REQUESTS] == (1, 12)
    both = counting(**{REQUESTS: ["6", "6"]})
    assert recheck(CLUSTER, WINDOW, entries, both.client()).differences == ()
    one_lost = counting(**{REQUESTS: ["6", "5"]})
    assert recheck(CLUSTER, WINDOW, entries, one_lost.client()).differences == (
        SampleCountDifference(TEN, REQUESTS, 12, 11),
    )


def test_a_metric_without_a_response_has_no_differences(tmp_path: Path) -> None:
    def refusing(form: Form) -> httpx.Response:
        if form["query"].startswith(f"count_over_time({REQUESTS}"):
            return httpx.Response(403, json={"status": "error", "error": "no"})
        return counting()._answering(form)

    found = recheck(CLUSTER, WINDOW, landed(tmp_path), Server(refusing).client())
    assert found.differences == ()
    assert list(found.unanswered) == [REQUESTS]


def test_an_hour_without_a_successful_attempt_is_not_compared(tmp_path: Path) -> None:
    entries = landed(tmp_path, lambda form: httpx.Response(500, text="down"))
    assert recheck(CLUSTER, WINDOW, entries, counting().client()).differences == ()


def test_a_recheck_lands_nothing(tmp_path: Path) -> None:
    entries = landed(tmp_path)
    before = FolderStore(tmp_path / "landing").list("")
    recheck(CLUSTER, WINDOW, entries, counting().client())
    assert FolderStore(tmp_path / "landing").list("") == before
