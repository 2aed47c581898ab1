"""A writer that dies, and a lost log, are noticed by a note outside the warehouse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.switch import switch_in
from warehouse.switched import SwitchedPeriod, WarehouseLost, note, require_intact

pytestmark = [pytest.mark.deep, pytest.mark.engines]

PERIOD = BillingPeriod("2026-10")
DIES = """
import os, sys
from pathlib import Path
import warehouse.connection as database
import warehouse.switch as switch
from domain.billing_period import BillingPeriod
from warehouse.connection import connect
from warehouse.home import Home
from contextlib import contextmanager

@contextmanager
def never_closed(path):
    connection = connect(path)
    connection.execute("set checkpoint_threshold = '1GB'")
    yield connection
    if sys.argv[3] == "after":
        os._exit(9)

replaced = switch._replace
def dying(*arguments):
    replaced(*arguments)
    if sys.argv[3] == "inside":
        os._exit(9)

database.connected, switch._replace = never_closed, dying
switch.switch_in(Home(Path(sys.argv[1])), Path(sys.argv[2]), BillingPeriod("2026-10"))
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.create(tmp_path / "home")


@pytest.fixture
def build(tmp_path: Path, home: Home) -> Path:
    """A finished build of a thousand rows, with the note of its switch."""
    path = tmp_path / "build.duckdb"
    with connected(path) as connection:
        connection.execute("create schema marts")
        connection.execute(
            "create table marts.fct_a as "
            "select '2026-10' as billing_period, range as seconds from range(1000)"
        )
    with connected(path, read_only=True) as connection:
        counted = SwitchedPeriod(period_sha256(connection, PERIOD.name), {"fct_a": 1000})
    home.build.mkdir(exist_ok=True)
    note(home, PERIOD.name, counted)
    return path


def die(home: Home, build: Path, when: str) -> Path:
    """Switch in a process that dies at this point; the path of its log."""
    command = [sys.executable, "-c", DIES, str(home.path), str(build), when]
    assert subprocess.run(command, check=False).returncode == 9
    return home.warehouse_path.with_name(home.warehouse_path.name + ".wal")


def test_a_writer_that_dies_after_its_commit_has_switched(home: Home, build: Path) -> None:
    assert die(home, build, "after").is_file()
    require_intact(home, PERIOD.name, deep=True)


def test_a_deleted_or_missing_log_is_repaired(home: Home, build: Path) -> None:
    die(home, build, "after").unlink()
    with pytest.raises(WarehouseLost):
        require_intact(home, PERIOD.name)
    switch_in(home, build, PERIOD)
    require_intact(home, PERIOD.name, deep=True)


def test_a_truncated_log_is_noticed_and_repaired(home: Home, build: Path) -> None:
    log = die(home, build, "after")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    with pytest.raises(WarehouseLost):
        require_intact(home, PERIOD.name)
    switch_in(home, build, PERIOD)
    require_intact(home, PERIOD.name, deep=True)


def test_a_writer_that_dies_before_its_commit_has_changed_nothing(home: Home, build: Path) -> None:
    die(home, build, "inside")
    with pytest.raises(WarehouseLost):
        require_intact(home, PERIOD.name)
    switch_in(home, build, PERIOD)
    require_intact(home, PERIOD.name, deep=True)
