"""Repeated queries of an hour: a response with less data than an earlier one is incomplete."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from domain.clock import StoppedClock
from domain.decisions.rows import Source
from domain.interval import Interval
from ingestion.evidence.hour_ledger import hour_ledger
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource
from ingestion.thanos.pull import pull_hours
from tests.samples_by_hand import (
    CLUSTER,
    HOUR,
    REQUEST,
    TEN,
    Answering,
    Form,
    Server,
    every_ten_minutes,
    healthy,
    matrix,
)
from warehouse.manifest import Attempt, Hour, Outcome, Sampling
from warehouse.store import FolderStore

OTHER = ({**REQUEST[0], "uid": "u2"}, every_ten_minutes("1"))


def with_pods(*series: tuple[dict[str, str], list[tuple[int, str]]]) -> Answering:
    """The healthy server, with these requests."""

    def answering(form: Form) -> httpx.Response:
        raw = "kube_pod_container_resource_requests" in form["query"] and "start" not in form
        return matrix(*series) if raw else healthy(form)

    return answering


def ask(
    tmp_path: Path, answering: Answering, after: timedelta, cluster: ClusterSource = CLUSTER
) -> Attempt:
    return pull_hours(
        cluster,
        Interval(TEN, TEN + HOUR),
        Landing(FolderStore(tmp_path / "landing")),
        tmp_path / "runs",
        StoppedClock(TEN + HOUR + after),
        Server(answering).client(),
    )


def hour_of(attempt: Attempt) -> Hour:
    [hour] = attempt.hours
    return hour


def test_a_response_without_an_earlier_series_is_degraded(tmp_path: Path) -> None:
    first = ask(tmp_path, with_pods(REQUEST, OTHER), timedelta(minutes=11))
    second = ask(tmp_path, with_pods(REQUEST), timedelta(hours=3))
    assert hour_of(first).outcome is Outcome.OK
    assert (hour_of(second).outcome, hour_of(second).reason) == (
        Outcome.DEGRADED,
        "less than an earlier ok answer: kube_pod_container_resource_requests "
        "1 series of 6 samples for 2 of 12",
    )
    [entry] = hour_ledger([("c1", Source.THANOS, TEN)], [first, second])
    assert entry.best is not None
    assert entry.best.attempt_id == first.attempt_id


def test_a_response_without_earlier_samples_is_degraded(tmp_path: Path) -> None:
    shorter = (REQUEST[0], REQUEST[1][:5])
    ask(tmp_path, with_pods(REQUEST), timedelta(minutes=11))
    second = ask(tmp_path, with_pods(shorter), timedelta(hours=3))
    assert hour_of(second).outcome is Outcome.DEGRADED
    assert "1 series of 5 samples for 1 of 6" in hour_of(second).reason


def test_the_largest_earlier_count_is_compared_not_the_last(tmp_path: Path) -> None:
    ask(tmp_path, with_pods(REQUEST, OTHER), timedelta(minutes=11))
    ask(tmp_path, with_pods(REQUEST), timedelta(hours=3))
    third = ask(tmp_path, with_pods(REQUEST), timedelta(hours=26))
    assert hour_of(third).outcome is Outcome.DEGRADED


def test_late_samples_make_a_response_ok(tmp_path: Path) -> None:
    ask(tmp_path, with_pods(REQUEST), timedelta(minutes=11))
    second = ask(tmp_path, with_pods(REQUEST, OTHER), timedelta(hours=3))
    assert (hour_of(second).outcome, hour_of(second).reason) == (Outcome.OK, "")


@pytest.mark.parametrize(
    "cluster",
    [
        replace(CLUSTER, sampling=Sampling(300, 30)),
        replace(CLUSTER, thanos=replace(CLUSTER.thanos, replica_labels=("replica", "uid"))),
    ],
    ids=["another sampling interval", "other replica labels"],
)
def test_responses_with_another_counting_are_not_compared(
    tmp_path: Path, cluster: ClusterSource
) -> None:
    ask(tmp_path, with_pods(REQUEST, OTHER), timedelta(minutes=11))
    second = ask(tmp_path, with_pods(REQUEST), timedelta(hours=3), cluster)
    assert "less than" not in hour_of(second).reason


def test_a_failed_response_in_between_changes_nothing(tmp_path: Path) -> None:
    ask(tmp_path, with_pods(REQUEST, OTHER), timedelta(minutes=11))
    failed = ask(tmp_path, lambda form: httpx.Response(403, text="no"), timedelta(hours=1))
    assert hour_of(failed).outcome is not Outcome.OK
    third = ask(tmp_path, with_pods(REQUEST), timedelta(hours=3))
    assert hour_of(third).outcome is Outcome.DEGRADED
