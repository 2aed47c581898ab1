"""A store that disappears silently: responses of a querier with fewer stores than before are
degraded.

Put here: the outcome of an hour with fewer stores, and its duration.
Not here: responses of a real querier (`tests/servers/test_pull_from_thanos.py`).
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.hour_ledger import DueReason, hour_ledger, why_due
from ingestion.evidence.landing import Landing
from ingestion.thanos.outcomes import STORES_REMEMBERED
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.stores import read_stores
from tests.samples_by_hand import CLUSTER, HOUR, TEN, Server, healthy
from warehouse.manifest import Attempt, Outcome
from warehouse.store import FolderStore

FIRST_ASKED_AT = TEN + 2 * HOUR


def ask(tmp_path: Path, stores: int, after: timedelta = timedelta(0), cluster: str = "") -> Attempt:
    return pull_hours(
        CLUSTER,
        Interval(TEN, TEN + HOUR),
        Landing(FolderStore(tmp_path / (cluster or "landing"))),
        tmp_path / "runs",
        StoppedClock(FIRST_ASKED_AT + after),
        Server(healthy, stores).client(),
    )


def outcome_of(attempt: Attempt) -> tuple[Outcome, str]:
    [hour] = attempt.hours
    return hour.outcome, hour.reason


WHOLE = (Outcome.OK, "")
GONE = (Outcome.DEGRADED, "a store is gone: 1 answer, 2 did at 2026-10-01T12:00:00Z")


def test_fewer_stores_than_some_days_ago_degrade_the_hour(tmp_path: Path) -> None:
    assert outcome_of(ask(tmp_path, 2)) == WHOLE
    fewer = ask(tmp_path, 1, HOUR)
    assert outcome_of(fewer) == GONE
    [entry] = hour_ledger([("c1", fewer.source, TEN)], [fewer])
    assert why_due(entry, FIRST_ASKED_AT + HOUR + timedelta(minutes=10)) is DueReason.NOT_OK
    assert outcome_of(ask(tmp_path, 2, 2 * HOUR)) == WHOLE


def test_degraded_attempts_do_not_lower_the_expected_number_of_stores(tmp_path: Path) -> None:
    ask(tmp_path, 2)
    hours = int(STORES_REMEMBERED / HOUR)
    found = [outcome_of(ask(tmp_path, 1, n * HOUR)) for n in (1, 2, hours - 1, hours)]
    assert found == [GONE] * 4


def test_a_permanently_removed_store_is_expected_for_three_days(tmp_path: Path) -> None:
    ask(tmp_path, 2)
    ask(tmp_path, 1, timedelta(days=2))
    assert outcome_of(ask(tmp_path, 1, timedelta(days=3, seconds=1))) == WHOLE


def test_more_stores_than_before_are_ok(tmp_path: Path) -> None:
    assert [outcome_of(ask(tmp_path, n, n * HOUR)) for n in (1, 2, 3)] == [WHOLE] * 3


def test_a_server_without_a_list_of_stores_is_not_compared(tmp_path: Path) -> None:
    """Such as a proxy in between, or a plain Prometheus."""
    assert [outcome_of(ask(tmp_path, n, n * HOUR)) for n in (2, 0)] == [WHOLE] * 2


def test_a_first_attempt_has_no_expected_stores(tmp_path: Path) -> None:
    ask(tmp_path, 2)
    assert outcome_of(ask(tmp_path, 1, HOUR, cluster="elsewhere")) == WHOLE


OWN, OTHER, ALL = {"clusterID": "c1"}, {"clusterID": "c2"}, {"receive": "true"}


@pytest.mark.parametrize(
    ("label_sets", "matcher", "counts"),
    [
        ([OWN], 'clusterID="c1"', True),
        ([OTHER], 'clusterID="c1"', False),
        ([OTHER, OWN], 'clusterID="c1"', True),
        ([ALL], 'clusterID="c1"', True),  # receivers have series of all clusters
        ([], 'clusterID="c1"', True),
        ([{}], 'clusterID="c1"', True),
        ([OTHER, {"@thanos_compatibility_store_type": "store"}], 'clusterID="c1"', False),
        ([OTHER], "", True),
        ([OTHER], 'clusterID=~"c1"', True),
        ([OTHER], 'clusterID!="c1"', True),
        ([OWN | {"prometheus": "other"}], 'clusterID="c1",prometheus="k8s"', False),
    ],
)
def test_a_failing_store_of_another_cluster_is_ignored(
    label_sets: list[dict[str, str]], matcher: str, counts: bool
) -> None:
    one = {"name": "10.0.0.1:10901", "lastError": "refused", "labelSets": label_sets}
    body = json.dumps({"status": "success", "data": {"sidecar": [one]}}).encode()
    seen = read_stores(body, matcher)
    assert seen is not None
    assert seen.count == counts
    said = "1 of 1 stores fail: 10.0.0.1:10901" if counts else ""
    assert seen.reason == said


def test_an_invalid_list_of_stores_is_ignored() -> None:
    for body in (b"<html>", b"{}", b'{"data":[]}', b'{"data":{"sidecar":{}}}'):
        assert read_stores(body, "") is None


def test_the_same_attempts_in_the_same_order_have_the_same_ids(tmp_path: Path) -> None:
    first, second = (
        [ask(tmp_path, n, n * HOUR, cluster=name).attempt_id for n in (3, 2, 1)]
        for name in ("one", "other")
    )
    assert first == second
