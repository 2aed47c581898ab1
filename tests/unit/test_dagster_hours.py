"""Hours in Dagster: pulled from a served fleet, with the status and reason of each partition.

Put here: raw assets, the jobs that pull, the status of partitions.
Not here: facts, check and closing (`test_dagster_month`).

The fleet is `thin_line`: six hours of one cluster. Each test gets a copy of a home that has a
journal and no attempt yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from domain.decisions import Source
from domain.interval import Interval, format_instant
from ingestion.thanos import attempt_client
from orchestration import open_hours, steps
from orchestration.dagster_code.run_tags import RANGE_END, RANGE_START
from orchestration.dagster_code.sensors import SILENCE_LIMIT, hours_in_progress
from tests.how_to import FENCED, typed
from tests.orchestrated import (
    Dagster,
    World,
    dagster_at,
    drive_to_end,
    opened_at,
    unwatch,
    wrong_address,
)
from warehouse.manifest import Outcome

SAMPLES, JOURNAL = "east/thanos_hours", "east/kubernetes_hours"
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
AFTER = datetime(2026, 10, 1, 9, tzinfo=UTC)
NAMES = [f"2026-10-01T0{hour}" for hour in range(6)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with drive_to_end("thin_line", tmp_path_factory.mktemp("hours")) as world:
        world.running.clock.advance_to(AFTER)
        yield world


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    return world.copied(tmp_path)


@pytest.fixture
def dagster(home: Path, tmp_path: Path) -> Iterator[Dagster]:
    with dagster_at(home, AFTER, tmp_path / "memory") as dagster:
        yield dagster


def lose_journal(home: Path, *hours: int) -> None:
    """Remove the journal of these hours, as without a collector."""
    for hour in hours:
        found = list((home / "journal").rglob(f"*2026-10-01T{hour:02d}*"))
        assert found
        for path in found:
            path.unlink()


def attempts(home: Path, source: Source) -> int:
    return sum(one.source is source for one in opened_at(home, AFTER).landing.attempts())


def of_checks_alone(looked: Any) -> list[dg.RunRequest]:
    return [request for request in looked.run_requests if not request.asset_selection]


def test_a_range_of_hours_is_one_run_and_each_hour_becomes_green(dagster: Dagster) -> None:
    ran = dagster.materialize(SAMPLES, JOURNAL, first=NAMES[0], last=NAMES[5])
    assert ran.success
    assert dagster.statuses(SAMPLES) == dict.fromkeys(NAMES, "MATERIALIZED")
    assert dagster.statuses(JOURNAL) == dict.fromkeys(NAMES, "MATERIALIZED")
    assert attempts(dagster.home, Source.THANOS) == 1  # one attempt for six hours
    event = dagster.instance.get_latest_materialization_event(dagster.key(SAMPLES))
    assert event is not None
    assert event.asset_materialization is not None
    shown = event.asset_materialization.metadata
    assert {"dagster/row_count", "series", "attempt"} <= set(shown)
    assert int(shown["dagster/row_count"].value) > 0


def test_exactly_the_incomplete_hours_are_red(dagster: Dagster) -> None:
    lose_journal(dagster.home, 1, 3)
    ran = dagster.materialize(SAMPLES, JOURNAL, first=NAMES[0], last=NAMES[5])
    assert not ran.success
    red = {name for name, status in dagster.statuses(JOURNAL).items() if status == "FAILED"}
    assert red == {NAMES[1], NAMES[3]}
    assert dagster.statuses(SAMPLES) == dict.fromkeys(NAMES, "MATERIALIZED")


def test_a_red_hour_shows_the_reason_and_the_next_command(dagster: Dagster) -> None:
    lose_journal(dagster.home, 3)
    dagster.materialize(JOURNAL, partition=NAMES[3])
    [observation] = dagster.observations(JOURNAL, NAMES[3])
    said = {name: str(value.value) for name, value in observation.metadata.items()}
    assert said["outcome"] == "empty"
    assert said["expected"] == "3600 s watched without a break"
    assert said["seen"] == "0 s watched"
    assert said["first missing"] == "2026-10-01T03:00:00Z"
    assert said["can be backfilled"] == "no: no collector watched this time"
    assert "gpu-ledger accept-gap" in said["next command"]
    # The command is broken over lines for the shell, because a page would cut off a long line.
    command = said["next command"].replace(" \\\n  ", " ")
    assert "--from 2026-10-01T03:00:00Z --to 2026-10-01T04:00:00Z" in command


def test_a_partly_watched_hour_shows_when_the_watch_ended(dagster: Dagster) -> None:
    unwatch(dagster.home, 3, minute=20)
    dagster.materialize(JOURNAL, partition=NAMES[3])
    [observation] = dagster.observations(JOURNAL, NAMES[3])
    said = {name: str(value.value) for name, value in observation.metadata.items()}
    assert said["outcome"] == "degraded"
    assert said["reason"] == "1201 of 3600 s were watched without a break"
    assert said["first missing"] == "2026-10-01T03:20:00Z"


def test_an_hour_of_an_unreachable_source_names_its_command(dagster: Dagster) -> None:
    before = wrong_address(dagster.home)
    assert not dagster.materialize(SAMPLES, partition=NAMES[2]).success
    assert dagster.statuses(SAMPLES)[NAMES[2]] == "FAILED"
    [observation] = dagster.observations(SAMPLES, NAMES[2])
    said = {name: str(value.value) for name, value in observation.metadata.items()}
    assert said["outcome"] == "failed"
    assert "404" in said["reason"]
    assert said["expected"] == "120 samples of every series that exists for the whole hour"
    assert said["seen"] == "0 samples of 0 series"
    assert said["can be backfilled"].startswith("yes, until 2027-10-01T02:00:00Z")
    assert "gpu-ledger pull --hours 2026-10-01T02..2026-10-01T03 " in said["next command"]
    link = "/assets/east/thanos_hours?view=partitions&partition=2026-10-01T02"
    assert link in said["next command"]
    (dagster.home / "config.toml").write_text(before)
    assert dagster.materialize(SAMPLES, partition=NAMES[2]).success
    assert dagster.statuses(SAMPLES)[NAMES[2]] == "MATERIALIZED"


def test_the_command_of_an_hour_backfills_it_from_any_folder(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_LEDGER_HOME", raising=False)
    place = tmp_path / "with a space"
    with dagster_at(world.copied(place), AFTER, tmp_path / "memory") as dagster:
        before = wrong_address(dagster.home)
        lose_journal(dagster.home, 3)
        dagster.materialize(SAMPLES, partition=NAMES[2])
        dagster.materialize(JOURNAL, partition=NAMES[3])
        (dagster.home / "config.toml").write_text(before)
        for asset, name in ((SAMPLES, NAMES[2]), (JOURNAL, NAMES[3])):
            [observation] = dagster.observations(asset, name)
            said = str(observation.metadata["next command"].value)
            [command] = FENCED.findall(said)
            assert max(len(line) for line in command[1].splitlines()) <= 60 + len(str(place))
            typed(tmp_path, command[1], {"GPU_LEDGER_NOW": format_instant(AFTER)})
        [*_, attempt] = opened_at(dagster.home, AFTER).landing.attempts(source=Source.THANOS)
        assert [(hour.hour, hour.outcome) for hour in attempt.hours] == [
            (FIRST + timedelta(hours=2), Outcome.OK)
        ]
        [gap] = opened_at(dagster.home, AFTER).decisions.accepted_gaps
        assert gap.interval == Interval(FIRST + timedelta(hours=3), FIRST + timedelta(hours=4))


def test_a_failing_second_query_leaves_a_complete_hour_green(dagster: Dagster) -> None:
    assert dagster.materialize(SAMPLES, partition=NAMES[0]).success
    wrong_address(dagster.home)
    assert dagster.materialize(SAMPLES, partition=NAMES[0]).success
    assert dagster.statuses(SAMPLES)[NAMES[0]] == "MATERIALIZED"
    assert len(dagster.observations(SAMPLES, NAMES[0])) == 1


def test_runs_are_tagged_with_period_and_requester(dagster: Dagster) -> None:
    dagster.materialize(JOURNAL, partition=NAMES[0])
    [run] = dagster.instance.get_runs()
    assert run.tags["period"] == "2026-10"
    assert run.tags["requested_by"] == "manual"


def test_pulling_by_name_queries_only_the_missing_hours(dagster: Dagster) -> None:
    hours = {"from_hour": NAMES[1], "until_hour": NAMES[3], "sources": ["kubernetes"]}
    assert dagster.job("pull_hours", hours).success
    green = [name for name, status in dagster.statuses(JOURNAL).items() if status == "MATERIALIZED"]
    assert green == NAMES[1:3]
    assert attempts(dagster.home, Source.THANOS) == 0
    assert dagster.job("pull_hours", hours).success
    assert attempts(dagster.home, Source.KUBERNETES) == 1
    assert dagster.job("pull_hours", hours | {"all_hours": True}).success
    assert attempts(dagster.home, Source.KUBERNETES) == 2


def test_an_error_of_gpu_ledger_fails_the_run_with_its_message(dagster: Dagster) -> None:
    ran = dagster.job("pull_hours", {"from_hour": NAMES[0], "until_hour": "tomorrow"})
    assert not ran.success
    [failure] = [event for event in ran.all_events if event.is_step_failure]
    assert "'tomorrow:00:00Z' is not a time" in str(failure.step_failure_data.user_failure_data)


def test_due_hours_start_with_the_live_hour_and_join_sources(
    dagster: Dagster,
) -> None:
    requests = dagster.look("hours_due").run_requests
    windows = [
        (r.tags[RANGE_START], r.tags[RANGE_END], r.tags["dagster/priority"]) for r in requests
    ]
    assert windows == [(NAMES[5], NAMES[5], "10"), (NAMES[0], NAMES[4], "1")]
    assert all(
        {key.path[-1] for key in r.asset_selection} == {"thanos_hours", "kubernetes_hours"}
        for r in requests
    )
    assert all(r.run_key is None for r in requests)
    for request in requests:
        assert dagster.execute(request).success
    assert set(dagster.statuses(SAMPLES).values()) == {"MATERIALIZED"}
    assert dagster.look("hours_due").run_requests == []


def test_the_job_pulls_the_same_hours_in_one_run(dagster: Dagster) -> None:
    assert dagster.job("pull_due_hours").success
    first = opened_at(dagster.home, AFTER).landing.attempts(source=Source.THANOS)[0]
    assert first.window.started_at == FIRST + timedelta(hours=5)  # the live hour first
    assert set(dagster.statuses(SAMPLES).values()) == {"MATERIALIZED"}
    assert set(dagster.statuses(JOURNAL).values()) == {"MATERIALIZED"}


def test_the_live_hour_schedule_requests_only_the_live_hour(dagster: Dagster) -> None:
    [request] = dagster.tick("hourly_pull").run_requests
    assert request.tags["dagster/priority"] == "10"
    config = request.run_config["ops"]["pull_due"]["config"]
    assert dagster.job("pull_due_hours", config).success
    green = [name for name, status in dagster.statuses(SAMPLES).items() if status == "MATERIALIZED"]
    assert green == [NAMES[5]]


def test_hours_of_queued_runs_are_not_requested_again(dagster: Dagster) -> None:
    live, older = dagster.look("hours_due").run_requests
    job = dagster.defs.resolve_implicit_global_asset_job_def()
    started = dagster.instance.create_run_for_job(
        job,
        tags=dict(older.tags),
        asset_selection=set(older.asset_selection),
        status=dg.DagsterRunStatus.STARTED,
    )
    [again] = dagster.look("hours_due").run_requests
    assert again.tags[RANGE_START] == live.tags[RANGE_START]
    dagster.instance.report_run_canceled(started)
    assert len(dagster.look("hours_due").run_requests) == 2


@pytest.mark.parametrize(
    ("job", "op", "config", "left"),
    [
        # The live hour is due separately, the five hours before it together.
        ("pull_due_hours", "pull_due", {"hours": "LIVE"}, [5]),
        ("pull_due_hours", "pull_due", {"hours": "LATE_DATA"}, [1, 5]),
        ("pull_due_hours", "pull_due", {}, []),
        (
            "pull_hours",
            "pull_configured_hours",
            {"from_hour": NAMES[0], "until_hour": NAMES[1]},
            [1],
        ),
        (
            "pull_hours",
            "pull_configured_hours",
            {"from_hour": NAMES[0], "until_hour": NAMES[1], "clusters": ["another"]},
            [1, 5],
        ),
    ],
)
def test_hours_of_a_running_job_are_not_requested_again(
    dagster: Dagster, job: str, op: str, config: dict[str, Any], left: list[int]
) -> None:
    run = dagster.instance.create_run_for_job(
        dagster.defs.resolve_job_def(job),
        run_config={"ops": {op: {"config": config}}} if config else {},
        status=dg.DagsterRunStatus.STARTED,
    )

    def due() -> list[int]:
        return sorted(
            NAMES.index(request.tags[RANGE_END]) - NAMES.index(request.tags[RANGE_START]) + 1
            for request in dagster.look("hours_due").run_requests
        )

    assert due() == left
    dagster.instance.report_run_canceled(run)
    assert due() == [1, 5]


def test_a_silent_run_blocks_its_hours_only_for_a_limited_time(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is down, so the run will never be reported as failed."""
    _, older = dagster.look("hours_due").run_requests
    job = dagster.defs.resolve_implicit_global_asset_job_def()
    dagster.instance.create_run_for_job(
        job,
        tags=dict(older.tags),
        asset_selection=set(older.asset_selection),
        status=dg.DagsterRunStatus.STARTED,
    )
    keys = {("", Source.THANOS): dagster.key(SAMPLES)}
    assert len(hours_in_progress(dagster.instance, keys)[dagster.key(SAMPLES)]) == 5
    later = datetime.now(UTC) + SILENCE_LIMIT + timedelta(minutes=1)
    monkeypatch.setattr("domain.clock.SystemClock.now", lambda self: later)
    assert hours_in_progress(dagster.instance, keys) == {}


def test_partitions_show_pulls_of_the_command_line(dagster: Dagster) -> None:
    opened = opened_at(dagster.home, AFTER)
    steps.pull(opened, Interval(FIRST, FIRST + timedelta(hours=2)))
    lose_journal(dagster.home, 2)
    steps.pull(opened, Interval(FIRST + timedelta(hours=2), FIRST + timedelta(hours=3)))
    assert set(dagster.statuses(SAMPLES).values()) == {"MISSING"}
    looked = dagster.look("hours_due")
    shown = dagster.statuses(SAMPLES)
    assert [shown[name] for name in NAMES] == ["MATERIALIZED"] * 3 + ["MISSING"] * 3
    # The problem of an hour is an event of a run: the page of a partition lists nothing else.
    [tells] = of_checks_alone(looked)
    assert dagster.observations(JOURNAL, NAMES[2]) == []
    assert dagster.execute(tells).success
    [mark] = dagster.observations(JOURNAL, NAMES[2])
    assert mark.metadata["can be backfilled"].value == "no: no collector watched this time"
    [run] = [run for run in dagster.instance.get_runs() if run.tags["why"] == tells.tags["why"]]
    assert run.tags["requested_by"] == "hours_due"
    assert attempts(dagster.home, Source.KUBERNETES) == 2  # no query was sent
    again = dagster.look("hours_due", looked.cursor)
    assert again.asset_events == []  # reported once
    assert of_checks_alone(again) == []


def test_an_hour_pulled_elsewhere_shows_its_newest_outcome(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_client, "TRIES_LIMIT", 1)  # tries that follow wait for seconds
    before = wrong_address(dagster.home)
    assert not dagster.materialize(SAMPLES, partition=NAMES[2]).success
    config = dagster.home / "config.toml"
    config.write_text(before.replace('url = "http://127.0.0.1', 'url = "http://127.0.0.2', 1))
    opened = opened_at(dagster.home, AFTER + timedelta(minutes=20))
    steps.pull(opened, Interval(FIRST + timedelta(hours=2), FIRST + timedelta(hours=3)))
    [tells] = of_checks_alone(dagster.look("hours_due"))
    dagster.execute(tells)
    newest, oldest = dagster.observations(SAMPLES, NAMES[2])
    assert "404" in str(oldest.metadata["reason"].value)
    assert "404" not in str(newest.metadata["reason"].value)


def test_a_red_hour_backfilled_by_the_command_line_becomes_green(dagster: Dagster) -> None:
    before = wrong_address(dagster.home)
    dagster.materialize(SAMPLES, partition=NAMES[2])
    (dagster.home / "config.toml").write_text(before)
    opened = opened_at(dagster.home, AFTER)
    steps.pull(opened, Interval(FIRST, FIRST + timedelta(hours=6)))
    assert dagster.statuses(SAMPLES)[NAMES[2]] == "FAILED"
    dagster.look("hours_due")
    assert dagster.statuses(SAMPLES)[NAMES[2]] == "MATERIALIZED"


def test_the_checks_of_a_source_follow_its_hours(dagster: Dagster) -> None:
    dagster.look("hours_due")
    assert dagster.checks(SAMPLES) == {"hours_are_fresh": False, "hours_are_complete": False}
    dagster.job("pull_due_hours", {"hours": "LIVE"})
    dagster.look("hours_due")
    assert dagster.checks(SAMPLES) == {"hours_are_fresh": True, "hours_are_complete": False}
    dagster.job("pull_due_hours")
    dagster.look("hours_due")
    assert dagster.checks(SAMPLES) == {"hours_are_fresh": True, "hours_are_complete": True}


def test_late_data_is_queried_twice_for_samples_and_not_for_the_journal(dagster: Dagster) -> None:
    dagster.job("pull_due_hours")
    asked = attempts(dagster.home, Source.KUBERNETES)
    for hours, looks in ((4, 2), (10, 2), (30, 3)):
        dagster.now = AFTER + timedelta(hours=hours)
        later = type(dagster)(dagster.home, dagster.instance, dagster.now)
        later.job("pull_due_hours", {"hours": "LATE_DATA"})
        entries = open_hours.hour_entries(
            opened_at(dagster.home, dagster.now), Interval(FIRST, AFTER)
        )
        samples = [entry for entry in entries if entry.source is Source.THANOS]
        # Most hours were first pulled three hours or more after their end, so their +3 h query is
        # due.
        assert max(len(entry.responses) for entry in samples) <= looks + 1
        assert all(entry.best and entry.best.outcome is Outcome.OK for entry in samples)
    assert attempts(dagster.home, Source.KUBERNETES) == asked
