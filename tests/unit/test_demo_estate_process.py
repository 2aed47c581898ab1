"""An estate served by another process: driven as one here is, and missed when it dies."""

from __future__ import annotations

import multiprocessing
from datetime import timedelta
from pathlib import Path

import pytest

from domain.interval import HOUR, Interval
from fake_gpu.clock import driven, epoch
from fake_gpu.estate.build import build_estate
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration.demo.clockwork import Driven, collecting, live_through
from orchestration.demo.estate_clock import EstateGone
from orchestration.demo.estate_process import served_apart
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome

SCENARIO = "thin_line"


def journal(folder: Path, running: Driven, thanos_url: str, urls: dict[str, str]) -> list[bytes]:
    """The bytes of every segment that collectors wrote while they lived through the scenario."""
    estate = running.estate
    home = make_home(folder, estate, thanos_url, urls)
    span = Interval(running.clock.now(), epoch(estate.ended_at) + HOUR)
    with collecting(OpenHome(home, running.clock), running) as collectors:
        live_through(running, collectors, span)
    return [path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))]


def test_collectors_hear_the_same_from_a_process_as_from_a_thread(tmp_path: Path) -> None:
    estate = build_estate(load_scenario(SCENARIO))
    start = epoch(estate.started_at) - timedelta(minutes=10)
    with served_apart(SCENARIO, estate, start) as apart:
        ours = journal(tmp_path / "apart", apart, apart.thanos_url, apart.kubernetes_urls)
    with serve(estate, driven(start)) as near:
        theirs = journal(tmp_path / "near", near, near.thanos_url, near.kubernetes_urls)
    assert len(ours) > len(estate.clusters) * 6
    assert ours == theirs


def test_an_estate_whose_process_dies_is_missed_with_a_word() -> None:
    estate = build_estate(load_scenario(SCENARIO))
    start = epoch(estate.started_at)
    with served_apart(SCENARIO, estate, start) as apart:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        with pytest.raises(EstateGone, match="its process is gone"):
            apart.advance_to(start + HOUR)
