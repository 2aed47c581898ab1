"""The same facts give the same bytes in another time zone, locale, hash seed and thread count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
import hashlib, sys
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from billing.close import close_period
from domain.clock import StoppedClock
from domain.findings import Check, CheckResult
from tests.marts_by_hand import Pod, World, at
from warehouse.connection import connected
from warehouse.content_hash import period_sha256

world = World(Path(sys.argv[1]))
pods = [
    Pod(f"team-{n % 4}", f"pod-{n}", at(f"{n + 1:02} 23:10"), at(f"{n + 2:02} 02:00:07"),
        weight=Fraction(1 + n % 7, 7), mig_profile="whole" if n % 2 else "3g.20gb")
    for n in range(20)
]
world.pods = pods if sys.argv[2] == "forwards" else pods[::-1]
home = world.write()
with connected(home.warehouse_path, read_only=True) as connection:
    facts = period_sha256(connection, "2026-10")
check = CheckResult(world.period, facts, checks=(Check("by hand", 1, 0),))
clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
close_period(home, world.period, world.decisions, lambda: check, clock, dry_run=False)
for path in sorted((world.path / "documents").rglob("*")):
    if path.is_file():
        name = path.relative_to(world.path)
        print(name, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def digests(folder: Path, order: str, **environment: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), order],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()


def test_documents_contain_nothing_of_the_machine(tmp_path: Path) -> None:
    plain = digests(tmp_path / "a", "forwards", TZ="UTC", PYTHONHASHSEED="0")
    assert len(plain) > 30
    elsewhere = digests(
        tmp_path / "b",
        "backwards",
        TZ="Asia/Kolkata",
        PYTHONHASHSEED="12345",
        LC_ALL="C",
        OMP_NUM_THREADS="1",
    )
    assert elsewhere == plain
