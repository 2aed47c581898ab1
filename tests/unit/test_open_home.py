"""The clock of an open home: the machine's, a fixed one, or that of a simulated fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from domain.clock import StoppedClock, SystemClock
from orchestration.cli.collect import collect
from orchestration.fleet_clock import FleetClock
from orchestration.open_home import CLOCK_VARIABLE, OpenHome, clock_of
from warehouse.home import Home


def test_the_clock_is_the_machines_by_default() -> None:
    assert isinstance(clock_of(""), SystemClock)
    assert clock_of("2026-10-01T00:00:00Z").now() == datetime(2026, 10, 1, tzinfo=UTC)
    assert clock_of("http://127.0.0.1:9/-/clock") == FleetClock("http://127.0.0.1:9/-/clock")


def test_every_command_uses_the_given_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Home.create(tmp_path / "home", "").path
    monkeypatch.setenv(CLOCK_VARIABLE, "2026-10-01T00:00:00Z")
    assert isinstance(OpenHome.at(path).clock, StoppedClock)
    monkeypatch.delenv(CLOCK_VARIABLE)
    assert isinstance(OpenHome.at(path).clock, SystemClock)


def test_only_the_clock_of_a_simulated_fleet_is_driven(tmp_path: Path) -> None:
    path = Home.create(tmp_path / "home", "").path
    place = ["--home", str(path)]
    ran = CliRunner().invoke(collect, ["c-1", "--drive-to", "2026-10-02", *place])
    assert ran.exit_code == 2
    assert CLOCK_VARIABLE in ran.output
