"""One writer at a time among processes: writers and copies wait for each other."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.marts_by_hand import Pod, World, at
from warehouse.connection import WarehouseInUse, connected, lock_warehouse
from warehouse.home import Home

pytestmark = [pytest.mark.deep, pytest.mark.engines]

HEAD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from warehouse.home import Home
home = Home(Path(sys.argv[1]))
"""
ESTIMATE = (
    HEAD
    + """
from billing.record_tables import write_estimates
from domain.billing_period import BillingPeriod
print("ready", flush=True)
write_estimates(home, BillingPeriod("2026-10"), {"team-a": 5}, datetime(2026, 11, 1, tzinfo=UTC))
print("done", flush=True)
"""
)
MIRROR = (
    HEAD
    + """
from billing.record_tables import mirror_record
print("ready", flush=True)
mirror_record(home)
print("done", flush=True)
"""
)
CHECK = (
    HEAD
    + """
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import load_decisions
from quality.run import check_period
print("ready", flush=True)
now = StoppedClock(datetime(2026, 11, 1, tzinfo=UTC))
check_period(home, BillingPeriod("2026-10"), load_decisions({}), now)
print("done", flush=True)
"""
)
PUBLISH = (
    HEAD
    + """
from warehouse.about import About
from warehouse.publish import publish
now = datetime(2026, 11, 1, tzinfo=UTC)
print("ready", flush=True)
print(publish(home, About(now, now, "0.1.0", "", "", 0)).path.name, flush=True)
"""
)
DEADLINE_SECONDS = 60.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    return world.write()


def begun(script: str, home: Home) -> subprocess.Popen[str]:
    """Another process that is about to write."""
    command = [sys.executable, "-c", script, str(home.path)]
    process = subprocess.Popen(command, stdout=PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for_lock(process: subprocess.Popen[str], home: Home) -> None:
    """Wait until the process has opened the file of the lock, which it locks next."""
    lock = home.warehouse_path.resolve().with_name(".warehouse_in_use")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not any(link.resolve() == lock for link in Path(f"/proc/{process.pid}/fd").iterdir()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def last_word(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=120)
    return said.strip()


@pytest.mark.parametrize("script", [ESTIMATE, MIRROR, CHECK], ids=["estimate", "mirror", "check"])
def test_a_writer_waits_for_the_other_writer(home: Home, script: str) -> None:
    with lock_warehouse(home):
        process = begun(script, home)
        wait_for_lock(process, home)
        assert process.poll() is None
    assert last_word(process) == "done"


def test_simultaneous_copies_are_separate_versions(home: Home) -> None:
    with lock_warehouse(home):
        processes = [begun(PUBLISH, home) for _ in range(2)]
        for process in processes:
            wait_for_lock(process, home)
        assert list(home.published.glob("*")) == []
    names = sorted(last_word(process) for process in processes)
    assert names == ["gpu-ledger-000001.duckdb", "gpu-ledger-000002.duckdb"]
    for name in names:
        with connected(home.published / name, read_only=True) as connection:
            assert connection.execute("select count(*) from fct_charges").fetchone() == (1,)


def test_the_lock_of_a_dead_writer_is_free(home: Home) -> None:
    script = (
        HEAD
        + """
import os
from warehouse.connection import lock_warehouse
with lock_warehouse(home):
    print("ready", flush=True)
    os._exit(9)
"""
    )
    begun(script, home).wait(timeout=60)
    with (
        lock_warehouse(home, wait_seconds=0.0),
        pytest.raises(WarehouseInUse),
        lock_warehouse(home, wait_seconds=0.0),
    ):
        raise AssertionError("two were alone")
