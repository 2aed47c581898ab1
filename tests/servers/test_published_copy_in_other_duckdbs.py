"""Older and newer versions of DuckDB in analysts' tools open the published copy.

Each client is installed once per version from the package registry, into the user's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from warehouse.about import About, AboutPeriod
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.publish import publish
from warehouse.switched import SwitchedPeriod, note, switched_periods

pytestmark = pytest.mark.servers

VERSIONS = ("1.4.5", "1.5.5", "2.0.0")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpu-ledger" / "duckdb"
LARGE = 10**37 + 1  # larger than any 64-bit integer, and not exact as a float

CLIENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import duckdb
connection = duckdb.connect(sys.argv[2], read_only=True)
ask = lambda query: connection.execute(query).fetchone()[0]
print(json.dumps({
    "version": duckdb.__version__,
    "cost": str(ask("select sum(cost_nanos) from fct_charges")),
    "complete": ask("select cast(data_complete_to as varchar) from about"),
    "amounts": ask("select amounts from about_periods"),
    "comment": ask("select comment from duckdb_tables() where table_name = 'fct_charges'"),
    "parquet": str(ask(f"select sum(cost_nanos) from read_parquet('{sys.argv[3]}')")),
}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home.create(tmp_path_factory.mktemp("home"))
    with connected(made.warehouse_path) as connection:
        connection.execute("create schema marts")
        connection.execute(
            "create table marts.fct_charges as select '2026-10' as billing_period, "
            f"{LARGE}::decimal(38,0) as cost_nanos"
        )
        connection.execute("create table marts.dim_hours as select '2026-10' as billing_period")
        # A switch notes these counts; tables without a note are not copied.
        counts = {"dim_hours": 1, "fct_charges": 1}
        facts = SwitchedPeriod(
            SwitchedPeriod("", counts).present_sha256(connection, "2026-10"), counts
        )
    note(made, "2026-10", facts)
    return made


def client(version: str) -> Path:
    """The folder of one DuckDB version, which no other test imports."""
    folder = CACHE / version
    if not (folder / "duckdb").is_dir():
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        place = ["--python", sys.executable, f"duckdb=={version}"]
        subprocess.run([*command, *place], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_of_another_version_reads_every_digit(home: Home, version: str) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    facts = switched_periods(home)["2026-10"]
    period = AboutPeriod("2026-10", "final", at, at, facts.facts_sha256, 0, 0)
    published = publish(home, About(at, at, "0.1.0", "rates-1", "cd" * 32, 0, (period,)))
    parquet = published.parquet_folder / "fct_charges" / "2026-10.parquet"
    places = [str(client(version)), str(published.path), str(parquet)]
    ran = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT, *places], check=True, capture_output=True, text=True
    )
    told = json.loads(ran.stdout)
    assert told.pop("comment").startswith("One row per tenant, cluster, class")
    assert told == {
        "version": version,
        "cost": str(LARGE),
        "complete": "2026-11-01 00:00:00+00",
        "amounts": "final",
        "parquet": str(LARGE),
    }
