"""`gpu-ledger up` as a process of its own, whose run worker and whose daemon are killed.

Put here: SIGKILL at critical moments of real processes, and the home afterwards.
Not here: such moments in one process (`unit/test_dagster_faults`), a long queue or a database that
is down (`test_dagster_processes`), actions on the pages (`test_pages_in_a_browser`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from domain.decisions import Source
from ingestion.evidence.landing import chain_prefix
from orchestration import open_hours, period_state, steps
from orchestration.cli.output import progress
from orchestration.dagster_code.partitions import hour_name
from orchestration.demo.open_month import OpenMonth, open_month
from orchestration.home_lock import LOCK
from orchestration.open_home import CLOCK_VARIABLE, OpenHome, clock_of
from orchestration.open_hours import is_complete
from tests.orchestrated import Dagster
from tests.servers.dagster_processes import Webserver, up, wait_until

pytestmark = pytest.mark.servers

SAMPLES = "east/thanos_hours"
LOOK_SECONDS = 0.001  # landed hours are reported to Dagster some hundredths of a second later
COULD_NOT_LOOK = 3
STARTED_PROCESS = re.compile(r"Started process for run \(pid: (\d+)\)")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[OpenMonth]:
    """A month with a missing hour that is never due again, because its clock stands still."""
    with open_month("thin_line", tmp_path / "home", progress) as made:
        yield made


def opened(home: Path, made: OpenMonth) -> OpenHome:
    return OpenHome.at(home, clock_of(made.clock_url))


def undisturbed_facts(made: OpenMonth, place: Path) -> str:
    """The facts after the hour was pulled and calculated without Dagster."""
    shutil.copytree(made.home, place)
    steps.pull(opened(place, made), made.missing, only_due=False)
    return steps.refresh(opened(place, made), made.period).facts_sha256


def test_facts_are_the_same_after_kills_of_a_worker_and_the_daemon(
    made: OpenMonth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = undisturbed_facts(made, tmp_path / "undisturbed")
    folder = made.home / "dagster"
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    missing = [hour_name(hour) for hour in made.missing.hours()]
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    clock = {CLOCK_VARIABLE: made.clock_url}
    with (
        up(made.home, first, environment=clock) as (session, process),
        dg.DagsterInstance.get() as instance,
    ):
        dagster = Dagster(made.home, instance, opened(made.home, made).clock.now())
        Webserver(session).backfill(SAMPLES.split("/"), missing)
        run = kill_between_write_and_event(instance, made)
        assert dagster.statuses(SAMPLES)[missing[0]] != "MATERIALIZED"
        wait_until(
            lambda: all(dagster.statuses(SAMPLES)[h] == "MATERIALIZED" for h in missing),
            "the strip is whole",
        )
        # Between two evaluations of the sensor, which are at least two minutes apart.
        os.kill(processes(folder)["daemon"], signal.SIGKILL)
        told = messages(instance, run, dg.DagsterEventType.ENGINE_EVENT)
        assert any("terminated by signal 9 (SIGKILL)" in line for line in told), told
        assert process.wait(60) == COULD_NOT_LOOK
        said = first.read_text()
        assert "LOG-001" in said
        assert "it ended with code -9" in said
    with up(made.home, second, environment=clock):
        wait_until(
            lambda: not period_state.needs_build(opened(made.home, made), made.period),
            "facts follow",
        )
    found = period_state.built_state(opened(made.home, made).home, made.period)
    assert found is not None
    assert found.facts_sha256 == right
    assert opened(made.home, made).landing.verify().problems == ()
    entries = open_hours.hour_entries(opened(made.home, made), made.missing)
    assert all(is_complete(entry) for entry in entries)


def kill_between_write_and_event(instance: dg.DagsterInstance, made: OpenMonth) -> str:
    """Kill the worker of the backfill as soon as its hour has landed; returns the run ID."""
    [cluster_id] = {row.cluster_id for row in opened(made.home, made).decisions.clusters}
    chain = made.home / "landing" / chain_prefix(cluster_id, Source.THANOS)
    before = len(os.listdir(chain))
    wait_until(lambda: bool(workers(instance)), "a worker begins", every_seconds=0.1)
    [(run_id, number)] = workers(instance).items()
    wait_until(lambda: len(os.listdir(chain)) > before, "it lands", every_seconds=LOOK_SECONDS)
    os.kill(number, signal.SIGKILL)
    return run_id


def workers(instance: dg.DagsterInstance) -> dict[str, int]:
    """The processes that execute runs of backfills, by the names of the runs."""
    return {
        run.run_id: int(found[1])
        for run in instance.get_runs()
        if "dagster/backfill" in run.tags
        for line in messages(instance, run.run_id, dg.DagsterEventType.ENGINE_EVENT)
        if (found := STARTED_PROCESS.search(line))
    }


def messages(instance: dg.DagsterInstance, run_id: str, kind: dg.DagsterEventType) -> list[str]:
    return [event.message for event in instance.all_logs(run_id, of_type=kind)]


def processes(folder: Path) -> dict[str, int]:
    """The processes that hold the lock of the home."""
    found: dict[str, int] = json.loads((folder / LOCK).read_text())["processes"]
    return found
