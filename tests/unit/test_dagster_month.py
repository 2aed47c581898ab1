"""A month in Dagster: refreshed, checked, drafted and closed, with the results of the command line.

Put here: jobs, sensors and schedules of a period. Not here: hours (`test_dagster_hours`).

Two homes of `thin_line` are counted once: a complete one, and one without the fourth hour. Each
test takes a copy.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from domain.billing_period import BillingPeriod
from domain.findings import Check
from domain.interval import HOUR, Interval
from orchestration import period_state, steps
from orchestration.dagster_code import hour_events, resources
from orchestration.dagster_code.run_tags import RANGE_END, RANGE_START
from orchestration.dagster_code.sensors import WAIT_FOR_HOURS
from tests.orchestrated import Dagster, World, dagster_at, drive_to_end, opened_at, unwatch
from warehouse.connection import WarehouseInUse, connected

pytestmark = pytest.mark.deep  # whole runs of Dagster: 90 s of processor time

PERIOD = BillingPeriod("2026-10")
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
LEFT_OUT = FIRST + 3 * HOUR
FIRST_MISSING = "2026-10-01T03:00:46Z"  # the pull of the previous hour includes its first sample
NOW = datetime(2026, 11, 4, tzinfo=UTC)
SAMPLES, JOURNAL = "east/thanos_hours", "east/kubernetes_hours"
BILLED = {"speech": 4_740_000_000, "vision": 17_380_000_000}  # calculated in test_thin_line


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with drive_to_end("thin_line", tmp_path_factory.mktemp("month")) as world:
        world.running.clock.advance_to(NOW)
        yield world


@pytest.fixture(scope="module")
def by_command(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was closed with the steps of the command line."""
    home = world.copied(tmp_path_factory.mktemp("by_command"))
    opened = opened_at(home, NOW)
    steps.pull(opened, PERIOD.interval)
    steps.refresh(opened, PERIOD)
    return home


@pytest.fixture(scope="module")
def counted(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was counted with Dagster's jobs."""
    folder = tmp_path_factory.mktemp("counted")
    home = world.copied(folder)
    with dagster_at(home, NOW, folder / "memory") as dagster:
        assert dagster.job("pull_due_hours").success
        assert dagster.job("draft_period", partition=PERIOD.name).success
        assert set(dagster.checks("facts/fct_charges").values()) == {True}
        assert dagster.statuses("published")[PERIOD.name] == "MATERIALIZED"
        assert (home / "published" / "gpu-ledger.duckdb").is_file()
        drafts = dagster.instance.get_latest_materialization_event(
            dagster.key("billing/invoice_drafts")
        )
        assert drafts is not None
        assert drafts.asset_materialization is not None
        shown = drafts.asset_materialization.metadata
        said = str(shown["next command"].value)
        assert f"gpu-ledger close 2026-10 --issue \\\n  --home {home}\n" in said
        assert shown["blocking findings"].value == "None."
        assert shown["total"].value == "22.12 USD"
    return home


@pytest.fixture(scope="module")
def unclean(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one hour that was never pulled, and one in which the watch broke."""
    home = world.copied(tmp_path_factory.mktemp("unclean"))
    unwatch(home, 1, minute=55)
    opened = opened_at(home, NOW)
    steps.pull(opened, Interval(FIRST, LEFT_OUT))
    steps.pull(opened, Interval(LEFT_OUT + HOUR, FIRST + 6 * HOUR))
    steps.refresh(opened, PERIOD)
    return home


@pytest.fixture
def dagster(counted: Path, tmp_path: Path) -> Iterator[Dagster]:
    shutil.copytree(counted, tmp_path / "home")
    with dagster_at(tmp_path / "home", NOW, tmp_path / "memory") as dagster:
        yield dagster


@pytest.fixture
def dagster_of_unclean(unclean: Path, tmp_path: Path) -> Iterator[Dagster]:
    shutil.copytree(unclean, tmp_path / "home")
    with dagster_at(tmp_path / "home", NOW, tmp_path / "memory") as dagster:
        yield dagster


@pytest.fixture(scope="module")
def checked_unclean(unclean: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that home after a check, and with Dagster's storage of it."""
    folder = tmp_path_factory.mktemp("checked")
    shutil.copytree(unclean, folder / "home")
    with dagster_at(folder / "home", NOW, folder / "memory") as dagster:
        dagster.job("check_period", partition=PERIOD.name)
    return folder


@pytest.fixture
def dagster_of_checked(checked_unclean: Path, tmp_path: Path) -> Iterator[Dagster]:
    shutil.copytree(checked_unclean, tmp_path, dirs_exist_ok=True)
    with dagster_at(tmp_path / "home", NOW, tmp_path / "memory") as dagster:
        yield dagster


def documents(home: Path) -> dict[str, str]:
    files = (path for path in (home / "documents").rglob("*") if path.is_file())
    return {str(p.relative_to(home)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def step_failure(ran: Any) -> str:
    [failure] = [event for event in ran.all_events if event.is_step_failure]
    return str(failure.step_failure_data.user_failure_data)


def test_the_facts_equal_those_of_the_command_line(counted: Path, by_command: Path) -> None:
    notes = [
        period_state.built_state(opened_at(home, NOW).home, PERIOD)
        for home in (counted, by_command)
    ]
    assert notes[0] is not None
    assert notes[1] is not None
    assert notes[0].facts_sha256 == notes[1].facts_sha256


def test_closing_in_dagster_issues_the_documents_of_the_command_line(
    dagster: Dagster, by_command: Path, tmp_path: Path
) -> None:
    shutil.copytree(by_command, tmp_path / "by_command")
    result = steps.close(opened_at(tmp_path / "by_command", NOW), PERIOD, dry_run=False)
    assert {d.tenant: d.billed_nanos for d in result.invoices} == BILLED
    assert close_for_real(dagster).success
    assert documents(dagster.home)
    # The windows of the queries differ, so the sealed hashes differ; the amounts are equal.
    record = opened_at(dagster.home, NOW).record
    assert {
        str(record.sealed(d.sha256)["tenant"]): record.sealed(d.sha256)["total_billed_cost"]
        for d in record.invoices(PERIOD.name)
    } == {"speech": "4.74", "vision": "17.38"}
    assert dagster.statuses("billing/invoices")["2026-10"] == "MATERIALIZED"
    assert dagster.statuses("billing/reports")["2026-10"] == "MATERIALIZED"


def close_for_real(dagster: Dagster) -> Any:
    """A dry run, and then the close of its facts."""
    assert dagster.job("close_period", {"period": "2026-10"}).success
    shown = dagster.observations("billing/invoice_drafts", "2026-10")
    # A closed period has no draft.
    facts = shown[0].metadata["facts_sha256"].value if shown else ""
    asked = {"period": "2026-10", "issue": True, "facts_sha256": facts}
    return dagster.job("close_period", asked)


def test_only_the_facts_of_a_dry_run_are_closed(dagster: Dagster) -> None:
    for facts in ("", "0" * 64):
        asked = {"period": "2026-10", "issue": True, "facts_sha256": facts}
        assert "CLOSE-003 period 2026-10" in step_failure(dagster.job("close_period", asked))
    assert opened_at(dagster.home, NOW).record.events() == []
    assert dagster.job("close_period", {"period": "2026-10"}).success
    [shown] = dagster.observations("billing/invoice_drafts", "2026-10")
    facts = str(shown.metadata["facts_sha256"].value)
    assert f"facts_sha256%3A%20{facts}" in str(shown.metadata["next command"].value)
    assert dagster.job("close_period", asked | {"facts_sha256": facts}).success
    assert opened_at(dagster.home, NOW).record.closed_periods() == {"2026-10"}


def test_a_close_is_dry_by_default(dagster: Dagster) -> None:
    assert dagster.job("close_period", {"period": "2026-10"}).success
    assert opened_at(dagster.home, NOW).record.events() == []
    assert dagster.statuses("billing/invoices")["2026-10"] == "MISSING"
    [said] = dagster.observations("billing/invoice_drafts", "2026-10")
    assert "| vision | 17.38 |" in str(said.metadata["invoices"].value)


def test_a_closed_period_is_unchanged(dagster: Dagster) -> None:
    assert close_for_real(dagster).success
    before = documents(dagster.home)
    refused = dagster.job("refresh_period", partition="2026-10")
    assert "CLOSE-004" in step_failure(refused)
    assert close_for_real(dagster).success
    assert documents(dagster.home) == before
    for sensor in ("hours_due", "facts_outdated", "facts_unchecked"):
        assert dagster.look(sensor).run_requests == []
    for schedule in ("nightly_check", "period_drafts", "period_close"):
        assert dagster.tick(schedule).run_requests == []


def test_an_incomplete_month_is_drafted_with_its_blocking_findings(
    dagster_of_unclean: Dagster,
) -> None:
    dagster = dagster_of_unclean
    [request] = dagster.tick("period_drafts").run_requests
    assert request.tags["period"] == "2026-10"
    checked = dagster.job("check_period", partition="2026-10")
    assert "period_may_be_billed,hour_not_measured" in str(checked.all_events)  # red
    assert dagster.statuses("billing/check")["2026-10"] == "MATERIALIZED"
    assert dagster.materialize("billing/invoice_drafts", partition="2026-10").success
    checks = dagster.checks("billing/check")
    assert not checks["period_may_be_billed"]
    assert not checks["hour_not_measured"]
    assert checks["device_unknown"]
    drafts = dagster.instance.get_latest_materialization_event(
        dagster.key("billing/invoice_drafts")
    )
    assert drafts is not None
    assert drafts.asset_materialization is not None
    against = str(drafts.asset_materialization.metadata["blocking findings"].value)
    assert "GAP-001" in against
    assert FIRST_MISSING in against
    for source in ("thanos_hours", "kubernetes_hours"):
        hour = f"/assets/east/{source}?view=partitions&partition=2026-10-01T03&showAllEvents=true"
        assert f"[{source}]({hour})" in against
    for looked in (dagster.tick("period_close"), dagster.look("facts_unchecked")):
        assert looked.run_requests == []
        assert "GAP-001" in looked.skip_message
        assert FIRST_MISSING in looked.skip_message
    refused = close_for_real(dagster)
    assert "CLOSE-001 period 2026-10" in step_failure(refused)


def about_the_period(home: Path) -> tuple[Any, ...]:
    with connected(home / "published" / "gpu-ledger.duckdb", read_only=True) as connection:
        [row] = connection.execute(
            "select facts_sha256, finding_count, blocking_count from about_periods"
        ).fetchall()
    return tuple(row)


def test_the_published_copy_has_checked_facts_also_of_a_blocked_month(
    dagster_of_unclean: Dagster,
) -> None:
    dagster = dagster_of_unclean
    assert dagster.job("refresh_period", partition="2026-10").success
    assert dagster.statuses("published")["2026-10"] == "MISSING"  # not checked yet
    dagster.job("check_period", partition="2026-10")
    note = period_state.checked_state(opened_at(dagster.home, NOW).home, PERIOD)
    assert note is not None
    assert note.blocking_count
    finding_count = sum(note.counts.values())
    assert about_the_period(dagster.home) == (note.facts_sha256, finding_count, note.blocking_count)


def test_inconsistent_facts_are_not_published(
    dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_period, copies = steps.check_period, dagster.home / "published"

    def contradicted(*arguments: Any) -> Any:
        broken = Check("tenants_add_up_to_the_cluster", 6, 1)
        return replace(check_period(*arguments), checks=(broken,))

    monkeypatch.setattr(steps, "check_period", contradicted)
    before = sorted(path.name for path in copies.iterdir())
    ran = dagster.job("check_period", partition="2026-10")
    assert dagster.statuses("billing/check")["2026-10"] == "MATERIALIZED"
    assert dagster.statuses("published")["2026-10"] == "FAILED"
    assert sorted(path.name for path in copies.iterdir()) == before
    said = [entry.user_message for entry in dagster.instance.all_logs(ran.run_id)]
    assert any("Not published; the previous copy is kept" in text for text in said)


def test_check_sets_the_coverage_status_of_hours(dagster_of_checked: Dagster) -> None:
    for asset in (SAMPLES, JOURNAL):
        [mark] = dagster_of_checked.observations(asset, "2026-10-01T03")
        assert mark.metadata["coverage status"].value in ("missing", "degraded")
        assert int(str(mark.metadata["missing"].value)) > 0
        seconds = {SAMPLES: "46", JOURNAL: "00"}[asset]
        assert mark.metadata["first missing"].value == f"2026-10-01T03:00:{seconds}Z"
    assert mark.metadata["expected"].value == 3600  # seconds of the journal
    [mark] = dagster_of_checked.observations(JOURNAL, "2026-10-01T01")
    assert mark.metadata["coverage status"].value == "degraded"
    assert mark.metadata["missing"].value == 299
    assert mark.metadata["first missing"].value == "2026-10-01T01:55:00Z"


def test_an_unchanged_coverage_status_is_not_repeated(dagster_of_unclean: Dagster) -> None:
    dagster = dagster_of_unclean
    for _ in range(2):
        dagster.job("check_period", partition="2026-10")
    assert len(dagster.observations(SAMPLES, "2026-10-01T03")) == 1
    opened = opened_at(dagster.home, NOW)
    steps.pull(opened, Interval(LEFT_OUT, LEFT_OUT + HOUR))  # not due any more, but not counted yet
    dagster.job("check_period", partition="2026-10")
    newest, oldest = dagster.observations(SAMPLES, "2026-10-01T03")
    assert "attempt" in newest.metadata
    assert "attempt" not in oldest.metadata


def test_each_source_has_its_own_limit_of_statuses_per_check(
    dagster_of_unclean: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    dagster = dagster_of_unclean
    monkeypatch.setattr(hour_events, "NEW_STATUSES_LIMIT", 1)

    def marked(asset: str) -> list[str]:
        names = dagster.statuses(asset)
        return [name for name in names if dagster.observations(asset, name)]

    dagster.job("check_period", partition="2026-10")
    assert (marked(SAMPLES), marked(JOURNAL)) == (["2026-10-01T03"], ["2026-10-01T01"])
    dagster.job("check_period", partition="2026-10")
    assert marked(JOURNAL) == ["2026-10-01T01", "2026-10-01T03"]


def test_a_late_hour_refreshes_and_checks_the_facts(
    dagster_of_checked: Dagster,
) -> None:
    dagster = dagster_of_checked
    assert dagster.look("facts_outdated").run_requests == []
    for request in dagster.look("hours_due").run_requests:
        assert dagster.execute(request).success
    assert dagster.look("facts_unchecked").run_requests == []  # these facts are outdated already
    [refresh] = dagster.look("facts_outdated").run_requests
    assert (refresh.partition_key, refresh.tags["requested_by"]) == ("2026-10", "facts_outdated")
    assert dagster.job("refresh_period", partition="2026-10").success
    assert dagster.look("facts_outdated").run_requests == []
    [check_period] = dagster.look("facts_unchecked").run_requests
    assert check_period.partition_key == "2026-10"
    assert dagster.job("check_period", partition="2026-10").success
    assert dagster.checks("billing/check")["hour_not_measured"]
    said = dagster.look("facts_unchecked")
    assert said.run_requests == []
    assert f"gpu-ledger close 2026-10 --issue --home {dagster.home}" in said.skip_message


def test_a_changed_decision_makes_the_facts_outdated(dagster: Dagster) -> None:
    assert dagster.look("facts_outdated").run_requests == []
    rates = dagster.home / "decisions" / "rates.csv"
    rates.write_text(rates.read_text().replace("1.80", "1.90"))
    assert len(dagster.look("facts_outdated").run_requests) == 1


def test_a_lost_warehouse_makes_the_facts_outdated(dagster: Dagster) -> None:
    (dagster.home / "warehouse.duckdb").unlink()
    assert len(dagster.look("facts_outdated").run_requests) == 1


def test_facts_wait_for_running_pulls_for_a_limited_time(dagster: Dagster) -> None:
    (dagster.home / "warehouse.duckdb").unlink()
    job = dagster.defs.resolve_implicit_global_asset_job_def()
    dagster.instance.create_run_for_job(
        job,
        tags=dict.fromkeys((RANGE_START, RANGE_END), "2026-10-01T00"),
        asset_selection={dagster.key(SAMPLES)},
        status=dg.DagsterRunStatus.STARTED,
    )
    first = dagster.look("facts_outdated")
    assert first.run_requests == []
    assert "Pulls are in progress" in first.skip_message
    dagster.now += WAIT_FOR_HOURS
    assert len(dagster.look("facts_outdated", first.cursor).run_requests) == 1


def test_the_schedule_closes_a_month_only_if_enabled(dagster: Dagster) -> None:
    dagster.job("check_period", partition="2026-10")
    off = dagster.tick("period_close")
    assert off.run_requests == []
    assert "close_on_schedule is off" in off.skip_message
    config = dagster.home / "config.toml"
    config.write_text(f"{config.read_text()}\n[schedule]\nclose_on_schedule = true\n")
    [request] = dagster.tick("period_close").run_requests
    assert request.tags == request.tags | {"period": "2026-10", "requested_by": "period_close"}
    closing = request.run_config["ops"]["close_one_period"]["config"]
    checked = period_state.checked_state(opened_at(dagster.home, NOW).home, PERIOD)
    assert checked is not None
    assert closing == {"period": "2026-10", "issue": True, "facts_sha256": checked.facts_sha256}
    dagster.now = PERIOD.ended_at + timedelta(days=1)  # the grace time is two days
    early = dagster.tick("period_close")
    assert early.run_requests == []
    assert "its grace time ends at 2026-11-03T00:00:00Z" in early.skip_message


def test_a_month_that_changed_after_its_check_is_not_closed(dagster: Dagster) -> None:
    dagster.job("check_period", partition="2026-10")
    config = dagster.home / "config.toml"
    config.write_text(f"{config.read_text()}\n[schedule]\nclose_on_schedule = true\n")
    rates = dagster.home / "decisions" / "rates.csv"
    rates.write_text(rates.read_text().replace("1.80", "1.90"))
    said = dagster.tick("period_close")
    assert said.run_requests == []
    assert "changed since" in said.skip_message


def test_the_nightly_job_checks_every_open_period(dagster: Dagster) -> None:
    [request] = dagster.tick("nightly_check").run_requests
    assert request.partition_key == "2026-10"


def test_a_second_refresh_leaves_no_more_files(dagster: Dagster) -> None:
    def files() -> set[str]:
        folder = dagster.home / "build"
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    before = files()
    assert dagster.job("refresh_period", partition="2026-10").success
    assert files() == before


def test_a_locked_warehouse_is_retried(dagster: Dagster, monkeypatch: pytest.MonkeyPatch) -> None:
    check_period, tries = steps.check_period, []

    def busy_once(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) == 1:
            raise WarehouseInUse(dagster.home / "warehouse.duckdb", 30.0, "conflicting lock")
        return check_period(*arguments)

    monkeypatch.setattr(steps, "check_period", busy_once)
    monkeypatch.setattr(resources, "WAREHOUSE_WAIT_SECONDS", 0.0)
    assert dagster.job("check_period", partition="2026-10").success
    assert len(tries) == 2


def test_a_period_without_notes_is_built_and_checked_again(dagster: Dagster) -> None:
    """A damaged note is reported and not used."""
    for note in (dagster.home / "build").glob("*.json"):
        assert json.loads(note.read_text())
        note.unlink()
    assert len(dagster.look("facts_outdated").run_requests) == 1
    assert dagster.look("facts_unchecked").run_requests == []
