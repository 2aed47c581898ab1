"""Another version of DuckDB builds the same facts in a whole refresh.

The tests with real servers compare one fleet with the next version; `python -m tests.another_duckdb
[VERSION]` compares several fleets with any version. It builds twice. The other version is installed
once from the package registry, into the user's cache, and is imported instead of ours in a process
of its own. Releases use the pinned version; this comparison shows the changes of an upgrade early.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fleets import fleet
from tests.random_fleets import scenario
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.servers.test_published_copy_in_other_duckdbs import client
from warehouse.home import Home

NEXT = "2.0.0"
SEEDS = (3, 5)

BUILD = """
import json, sys
if sys.argv[3]:
    sys.path.insert(0, sys.argv[3])
import duckdb
from domain.billing_period import BillingPeriod
from domain.decisions import load_decisions
from pathlib import Path
from warehouse.build import build_period
from warehouse.home import Home
decisions = load_decisions(json.loads(sys.argv[2]))
built = build_period(
    Home(Path(sys.argv[1])), BillingPeriod("2026-10"), decisions, closed_periods=frozenset()
)
print(json.dumps({
    "version": duckdb.__version__,
    "facts_sha256": built.facts_sha256,
    "rows": sum(built.row_counts.values()),
    "failed": [test.name for test in built.failed_tests],
}))
"""


def built(home: Home, decisions: dict[str, str], engine: str) -> dict[str, object]:
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, str(home.path), json.dumps(decisions), engine],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    printed: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return printed


def compare(version: str, seeds: Sequence[int]) -> str:
    """Build the same evidence with both versions and compare them; returns a summary."""
    fleets = [fleet(scenario(seed)) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder:
        home = Home.create(Path(folder) / "home")
        for each in fleets:
            record_fleet(home, each)
        decisions = clusters_csv(fleets)
        ours = built(home, decisions, "")
        # An older version cannot open files of a newer one, so the second build starts without a
        # file.
        home.warehouse_path.unlink()
        theirs = built(home, decisions, str(client(version)))
    versions = ours.pop("version"), theirs.pop("version")
    assert versions[1] == version, versions
    assert ours["failed"] == []
    assert ours["rows"]
    assert ours == theirs, (ours, theirs)
    return f"DuckDB {versions[0]} and {versions[1]}: {ours['rows']} rows, {ours['facts_sha256']}"


if __name__ == "__main__":
    print(compare(sys.argv[1] if sys.argv[1:] else NEXT, SEEDS))
