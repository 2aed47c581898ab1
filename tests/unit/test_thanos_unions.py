"""Telemetry queried in unions, and one by one from a server without unions, gives the same rows.

Put here: both kinds of queries, on the simulated fleet.
Not here: unions in the query language (`test_promql_unions`), or formats of requests
(`test_thanos_pull`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clients.prometheus import PrometheusResponse
from domain.interval import Interval
from fake_gpu.clock import VirtualClock, epoch
from fake_gpu.serve import Running, serve
from ingestion.evidence.landing import Landing
from ingestion.metric_catalogue import TELEMETRY_ENTRIES
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.telemetry import FUNCTIONS, METRIC_LABEL, UNION, UNION_LIMIT
from tests.derived_rows import rows_landed
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, quiet_fleet
from warehouse.manifest import Attempt, Outcome, Sampling
from warehouse.store import FolderStore

HOURS = 3
NARROW_BYTES = 30_000


class WithoutUnions(AttemptClient):
    """A server whose language has no unions."""

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        if " or " not in form.get("query", ""):
            return super().post(path, form)
        body = b'{"status":"error","errorType":"bad_data","error":"unknown function"}'
        return PrometheusResponse(400, "application/json", body)


class Limited(AttemptClient):
    """A server that refuses the counts of more than one metric and hour as too large."""

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        query = form.get("query", "")
        if "count_over_time" not in query or " or " not in query:
            return super().post(path, form)
        body = b'{"status":"error","errorType":"execution","error":"too many samples"}'
        return PrometheusResponse(422, "application/json", body)


class Sparing(AttemptClient):
    """A server that refuses every query of one metric as too large."""

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        if f"{TELEMETRY_ENTRIES[0].metric}{{" not in form.get("query", ""):
            return super().post(path, form)
        body = b'{"status":"error","errorType":"execution","error":"too many samples"}'
        return PrometheusResponse(422, "application/json", body)


class Narrow(AttemptClient):
    """A server that refuses a union of ten metrics of four cards as too large."""

    def post(self, path: str, form: Mapping[str, str]) -> PrometheusResponse:
        response = super().post(path, form)
        if "_over_time" not in form.get("query", "") or len(response.body) < NARROW_BYTES:
            return response
        return PrometheusResponse(0, "", b"", failure="too large", too_large=True)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serve(quiet_fleet(), VirtualClock(epoch(MIDNIGHT + 24 * HOUR))) as served:
        yield served


def pulled(running: Running, home: Path, client: type[AttemptClient]) -> tuple[Attempt, Landing]:
    server = ThanosSettings(
        "hub", Connection(running.thanos_url), replica_labels=("prometheus_replica",)
    )
    source = ClusterSource(CLUSTER_ID, server, Sampling(30, 30))
    start, end = (datetime.fromtimestamp(MIDNIGHT + h * HOUR, UTC) for h in (1, 1 + HOURS))
    landing = Landing(FolderStore(home / "landing"))
    with client(server.connection) as connected:
        window = Interval(start, end)
        attempt = pull_hours(source, window, landing, home / "runs", running.clock, connected)
    assert attempt.outcome is Outcome.OK, attempt.hours[0]
    return attempt, landing


def telemetry(
    running: Running, home: Path, client: type[AttemptClient], failed_count: int = 0
) -> tuple[Attempt, Any]:
    """The queries, and the resulting rows in a fixed order."""
    attempt, landing = pulled(running, home, client)
    assert attempt.draft.facts["telemetry_asks_failed"] == failed_count
    rows = rows_landed(landing, home / "runs", CLUSTER_ID, "telemetry")
    for row in rows:
        del row["attempt_id"]
        assert METRIC_LABEL not in dict(row["labels"])
    return attempt, sorted(rows, key=str)


def queried_functions(attempt: Attempt) -> set[str]:
    return {a.ask.split(":")[0] for a in attempt.answers if a.ask.endswith("_over_time")}


def test_unions_single_queries_and_parts_give_the_same_rows(
    running: Running, tmp_path: Path
) -> None:
    attempt, rows = telemetry(running, tmp_path / "unions", AttemptClient)
    assert queried_functions(attempt) == {UNION}
    of_cards = [
        entry.metric
        for entry in TELEMETRY_ENTRIES
        if entry.metric.startswith("DCGM") and not entry.replaces
    ]
    written = {row["metric"] for row in rows} - {"scrape_samples_scraped"}
    assert written <= set(of_cards)
    of_cards = sorted(written)
    assert len(of_cards) == 22, "the default set that is read, and the fields 1001 to 1012"
    for metric in of_cards:
        found = [row for row in rows if row["metric"] == metric]
        assert {row["hour_started_at"].hour for row in found} == {1, 2, 3}
        assert len({dict(row["labels"])["UUID"] for row in found}) == 4
    metrics = {*(entry.metric for entry in TELEMETRY_ENTRIES)}
    attempt, alone = telemetry(running, tmp_path / "alone", WithoutUnions)
    assert queried_functions(attempt) < metrics
    attempt, in_pieces = telemetry(running, tmp_path / "pieces", Narrow)
    unions = [a for a in attempt.answers if a.ask.startswith(UNION)]
    assert max(answer.byte_count for answer in unions) < NARROW_BYTES
    assert len(unions) > math.ceil(len(metrics) / UNION_LIMIT) * len(FUNCTIONS)
    assert alone == in_pieces == rows


def test_a_limit_on_one_function_does_not_affect_the_others(
    running: Running, tmp_path: Path
) -> None:
    """Counts metric by metric and averages in unions belong to the same series."""
    _, rows = telemetry(running, tmp_path / "unions", AttemptClient)
    _, limited = telemetry(running, tmp_path / "limited", Limited)
    assert limited == rows
    assert all(row["average_value"] is not None for row in rows)


def test_one_refused_metric_does_not_disable_unions(running: Running, tmp_path: Path) -> None:
    too_much = TELEMETRY_ENTRIES[0].metric
    _, rows = telemetry(running, tmp_path / "unions", AttemptClient)
    refused = len(FUNCTIONS) * HOURS  # each hour separately
    attempt, spared = telemetry(running, tmp_path / "spared", Sparing, failed_count=refused)
    assert queried_functions(attempt) == {UNION}
    assert spared == [row for row in rows if row["metric"] != too_much]
    assert spared != rows
