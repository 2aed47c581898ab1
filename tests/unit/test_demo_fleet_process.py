"""A fleet served by another process: driven as one here is, and missed when it dies."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from domain.interval import HOUR, Interval
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration.cli.collect import collect
from orchestration.demo.clockwork import Driven, collecting, live_through
from orchestration.demo.fleet_clock import FleetClock, FleetGone
from orchestration.demo.fleet_process import _fired_before, served_apart, serving
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome

SCENARIO = "thin_line"


def journal(folder: Path, running: Driven, thanos_url: str, urls: Mapping[str, str]) -> list[bytes]:
    """The bytes of every segment that collectors wrote while they lived through the scenario."""
    fleet = running.fleet
    home = make_home(folder, fleet, thanos_url, urls)
    span = Interval(running.clock.now(), epoch(fleet.ended_at) + HOUR)
    with collecting(OpenHome(home, running.clock), running) as collectors:
        live_through(running, collectors, span)
    return [path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))]


def test_collectors_hear_the_same_from_a_process_as_from_a_thread(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario(SCENARIO))
    start = epoch(fleet.started_at) - timedelta(minutes=10)
    with served_apart(SCENARIO, fleet, start) as apart:
        ours = journal(tmp_path / "apart", apart, apart.thanos_url, apart.kubernetes_urls)
    with serve(fleet, driven(start)) as near:
        theirs = journal(tmp_path / "near", near, near.thanos_url, near.kubernetes_urls)
    assert len(ours) > len(fleet.clusters) * 6
    assert ours == theirs


def test_an_fleet_whose_process_dies_is_missed_with_a_word() -> None:
    fleet = build_fleet(load_scenario(SCENARIO))
    start = epoch(fleet.started_at)
    with served_apart(SCENARIO, fleet, start) as apart:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        with pytest.raises(FleetGone, match="its process is gone"):
            apart.advance_to(start + HOUR)


def test_one_that_is_asked_elsewhere_has_a_clock_of_its_own() -> None:
    """Two processes serve the same fleet; the clock of the one is not that of the other."""
    fleet = build_fleet(load_scenario(SCENARIO))
    start = epoch(fleet.started_at)
    with serving(SCENARIO) as from_then_on, served_apart(SCENARIO, fleet, start) as apart:
        asked = from_then_on(start)
        FleetClock(asked.clock_url).advance_to(start + HOUR)
        assert FleetClock(apart.served.clock_url).now() == start
        apart.advance_to(start + 2 * HOUR)
        assert FleetClock(asked.clock_url).now() == start + HOUR
        asked.take_counts_of(apart.served)


def test_what_the_other_one_did_is_counted_and_what_both_are_built_with_only_once() -> None:
    fleet = replace(build_fleet(load_scenario(SCENARIO)), fired={"built": 5})
    with serve(fleet, driven(epoch(fleet.started_at))) as running:
        running.ledger.fired_before("asked", 1)
        _fired_before(running, {"built": 7, "asked": 2, "watched": 3})
        assert running.ledger.counts() == {"asked": 3, "built": 7, "watched": 3}


def test_a_scenario_that_cannot_be_built_ends_its_process_in_silence(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whoever starts it builds the same fleet, and is told what is wrong."""
    with serving("nonsense") as from_then_on, pytest.raises(FleetGone):
        from_then_on(epoch(0))
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
