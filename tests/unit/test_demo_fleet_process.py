"""A fleet served by another process gives the same journal, and its end is reported."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from domain.errors import LedgerError
from domain.interval import HOUR, Interval
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration.cli.collect import collect
from orchestration.demo.clock_driver import DrivenFleet, drive_clock, run_collectors
from orchestration.demo.demo_home import make_home
from orchestration.demo.fleet_process import START_BEFORE, serve_in_own_process
from orchestration.fleet_clock import FleetClock, SimulationStopped
from orchestration.open_home import OpenHome

SCENARIO = "thin_line"


def journal(
    folder: Path, running: DrivenFleet, thanos_url: str, urls: Mapping[str, str]
) -> list[bytes]:
    """The bytes of every segment that collectors write during the scenario."""
    home = make_home(folder, running.fleet, thanos_url, urls)
    span = Interval(running.clock.now(), epoch(running.fleet.ended_at) + HOUR)
    with run_collectors(OpenHome(home, running.clock), running) as collectors:
        drive_clock(running, collectors, span)
    return [path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))]


def test_the_journal_is_the_same_from_a_process_as_from_a_thread(tmp_path: Path) -> None:
    with serve_in_own_process(SCENARIO) as apart:
        ours = journal(tmp_path / "apart", apart, apart.thanos_url, apart.kubernetes_urls)
        clock = apart.clock.now()
        assert FleetClock(apart.clock_url).now() == clock
    fleet = build_fleet(load_scenario(SCENARIO))
    with serve(fleet, driven(epoch(fleet.started_at) - START_BEFORE)) as near:
        theirs = journal(tmp_path / "near", near, near.thanos_url, near.kubernetes_urls)
    assert len(ours) > len(fleet.clusters) * 6
    assert ours == theirs


def test_end_of_the_process_is_reported() -> None:
    with serve_in_own_process(SCENARIO) as apart:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        with pytest.raises(SimulationStopped, match="its process is gone"):
            apart.advance_to(apart.clock.now() + HOUR)


def test_invalid_scenario_is_reported_once(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LedgerError, match="nonsense"), serve_in_own_process("nonsense"):
        pass
    assert capfd.readouterr().err == ""


@pytest.mark.deep
def test_collect_drives_the_clusters_of_a_fleet_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three clusters, two hours: each journal has the segments of both hours."""
    fleet = build_fleet(load_scenario("tenant_in_two_clusters"))
    start = epoch(fleet.started_at)
    with serve(fleet, driven(start)) as running:
        home = make_home(tmp_path, fleet, running.thanos_url, running.kubernetes_urls)
        monkeypatch.setenv("GPU_LEDGER_NOW", f"{running.control_url}/-/clock")
        ids = [cluster.cluster_id for cluster in fleet.clusters]
        until = f"{start + 2 * HOUR:%Y-%m-%dT%H}"
        ran = CliRunner().invoke(collect, [*ids, "--drive-to", until, "--home", str(home.path)])
        assert (ran.exit_code, running.clock.now()) == (0, start + 2 * HOUR), ran.output
    journals = [list(home.path.rglob(f"*{cluster_id}*/**/*.jsonl")) for cluster_id in ids]
    assert len(ids) == 3
    assert all(len(segments) >= 2 for segments in journals)
    refused = CliRunner().invoke(collect, [*ids, "--home", str(home.path)])
    assert "several clusters need --drive-to" in refused.output
