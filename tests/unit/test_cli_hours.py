"""`gpu-ledger hours`: the expected hours of a period, and every attempt for them.

Put here: a home with attempts written by hand, and the output of the command.
Not here: which hours are due (`test_hours`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.evidence.hour_ledger import INCOMPLETE_PODS
from ingestion.evidence.landing import Landing
from orchestration.cli.hours import hours
from tests.decisions_by_hand import HEADERS
from tests.json_output import differences
from warehouse.home import Home
from warehouse.manifest import AttemptDraft, Hour, Outcome, Sampling
from warehouse.store import FolderStore

DAY = datetime(2026, 10, 31, 18, tzinfo=UTC)
"""The cluster is measured in the last six hours of the month."""

CLUSTER = (
    "c-1,east,2026-10-31T18:00:00Z,2026-11-01T00:00:00Z,samples,30,30,measured,Ada,2026-09-01,"
)
CONFIG = """
[thanos.hub]
url = "https://hub.test"
raw_retention_days = 10
[clusters.c-1]
thanos = "hub"
"""
NOW = "2026-10-31T22:30:00Z"  # the fifth hour is not over, the sixth has not begun
Counts = Mapping[str, tuple[int, int]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home.create(tmp_path / "home", CONFIG)
    (made.decisions / "clusters.csv").write_text(f"{HEADERS['clusters']}\n{CLUSTER}\n")
    return made


def land(
    home: Home,
    number: int,
    outcome: Outcome = Outcome.OK,
    *,
    reason: str = "",
    counts: Counts | None = None,
    facts: Mapping[str, int] | None = None,
    after: timedelta = timedelta(minutes=15),
) -> None:
    """Land an attempt for one hour of the day, counted from the first."""
    hour = DAY + number * HOUR
    by_metric = counts or {}
    series, samples = (sum(pair[n] for pair in by_metric.values()) for n in (0, 1))
    row = Hour(hour, outcome, reason, series, samples, by_metric, facts or {})
    asked_at = hour + HOUR + after
    Landing(FolderStore(home.landing)).append_attempt(
        AttemptDraft(
            *("c-1", Source.THANOS, asked_at, asked_at, Interval(hour, hour + HOUR), "0.1.0"),
            *(Sampling(30, 30), (), (row,)),
        )
    )


def run_hours(home: Home, *arguments: str, now: str = NOW) -> Result:
    command = ["2026-10", "--home", str(home.path), *arguments]
    ran = CliRunner().invoke(hours, command, env={"GPU_LEDGER_NOW": now})
    assert ran.exit_code == 0, ran.output
    return ran


def rows(home: Home, *arguments: str, now: str = NOW) -> list[dict[str, Any]]:
    ran = run_hours(home, *arguments, "-o", "json", now=now)
    assert differences("hours", ran.stdout) == []
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def test_hours_that_are_not_due_are_counted_and_not_listed(home: Home) -> None:
    land(home, 0)
    assert [row["hour"][11:13] for row in rows(home)] == ["19", "20", "21"]
    assert {row["outcome"] for row in rows(home)} == {"never queried"}
    assert "2 hours are not due yet, and not listed." in run_hours(home).stderr
    assert [row["hour"][11:13] for row in rows(home, "--all")] == ["18", "19", "20", "21"]


def test_an_ok_hour_without_some_samples_of_its_pods_is_listed(home: Home) -> None:
    for number, facts in enumerate([{}, {INCOMPLETE_PODS: 20}, {"failed_scrapes": 1}, {}]):
        land(home, number, facts=facts)
    [row] = rows(home)
    assert (row["hour"][11:13], row["outcome"]) == ("19", "ok")
    assert row["doubts"] == {INCOMPLETE_PODS: 20}


def test_an_hour_can_be_backfilled_while_its_store_keeps_raw_samples(home: Home) -> None:
    early, late = "2026-11-10T17:59:59Z", "2026-11-10T18:00:00Z"  # ten days after the first hour
    assert [row["can_be_backfilled"] for row in rows(home, now=early)] == [True] * 6
    assert [row["can_be_backfilled"] for row in rows(home, now=late)] == [False] + [True] * 5


def test_every_attempt_has_a_row_with_its_use_and_changes(home: Home) -> None:
    whole, more = {"up": (5, 600), "requests": (10, 1200)}, {"up": (5, 600), "requests": (11, 1320)}
    land(home, 0, Outcome.FAILED, reason="timed out")
    land(home, 0, counts=whole, after=HOUR)
    land(home, 0, counts=more, facts={"failed_scrapes": 2}, after=3 * HOUR)
    land(home, 0, Outcome.DEGRADED, reason="less", counts={"up": (5, 600)}, after=4 * HOUR)
    found = rows(home, "--attempts", "--all", now="2026-11-01T02:00:00Z")
    assert [row["attempt"] for row in found] == [1, 2, 3, 4]
    assert [row["asked_at"] for row in found] == [
        "2026-10-31T19:15:00Z",
        "2026-10-31T20:00:00Z",
        "2026-10-31T22:00:00Z",
        "2026-10-31T23:00:00Z",
    ]
    assert [row["outcome"] for row in found] == ["failed", "ok", "ok", "degraded"]
    assert [row["reason"] for row in found] == ["timed out", "", "", "less"]
    assert [row["used"] for row in found] == [False, False, True, False]
    assert [(row["series"], row["samples"]) for row in found] == [
        (0, 0),
        (15, 1800),
        (16, 1920),
        (5, 600),
    ]
    assert [row["facts"] for row in found] == [{}, {}, {"failed_scrapes": 2}, {}]
    assert [row["changes"] for row in found] == [{}, {}, {"requests": 120}, {}]
    assert found[2]["by_metric"] == {"up": [5, 600], "requests": [11, 1320]}
    table = run_hours(home, "--attempts", "--all").stdout
    for word in ("failed_scrapes=2", "requests=120", "timed out"):
        assert word in table


def test_incomplete_responses_are_used_together(home: Home) -> None:
    for outcome in (Outcome.WARNED, Outcome.FAILED, Outcome.DEGRADED, Outcome.REFUSED):
        land(home, 0, outcome)
    found = rows(home, "--attempts")
    assert [row["used"] for row in found] == [True, False, True, False]


def test_only_the_selected_hours_and_clusters_are_listed(home: Home) -> None:
    for number in (0, 1):
        land(home, number, Outcome.FAILED)
    one = ("--only", "2026-10-31T19..2026-10-31T20")
    assert [row["hour"][11:13] for row in rows(home, "--attempts", *one)] == ["19"]
    assert rows(home, "--cluster", "other") == []
    assert rows(home, "--only", "2026-11-02T00..2026-11-03T00") == []
    asked = run_hours(home, "--attempts")
    assert "2 hours have no attempt; they are listed without --attempts." in asked.stderr
