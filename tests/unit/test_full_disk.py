"""A disk that becomes full while a month is counted: a named error, and the previous facts stay.

Put here: `gpu-ledger refresh` with a limit on file sizes, from its start or from the switch on.
Not here: single writes (`test_store`, `test_landing_crashes`, `test_warehouse_connection`).

The operating system refuses a file above the limit as it refuses one on a full disk.
"""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from domain.decisions import canonical_files
from ingestion.settings import template_config
from tests.decisions_by_hand import decided, table
from tests.fleets import fleet as read
from tests.recorded_fleets import clusters_csv, record_fleet
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.switched import WarehouseLost, require_intact

pytestmark = pytest.mark.deep

FLEET = """
name: short
story: One pod for an hour.
seed: 6
from: 2026-10-05T00:00:00Z
until: 2026-10-05T03:00:00Z
clusters:
  - name: short
    monitoring: {prometheus_replicas: 1, scrape_interval: 60s}
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 4}]
    workloads:
      - name: train
        namespace: physics
        kind: Job
        requests: 2
        pods: [{created: +59m, started: +1h, ended: +2h}]
"""
LIMITED = """
import resource, sys
from orchestration.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(["refresh", "2026-10", "--home", sys.argv[2]])
"""


FULL_AT = """
import importlib, resource, sys
from orchestration.cli.main import main
module, name = sys.argv[1].split(":")
step = getattr(importlib.import_module(module), name)

def on_a_full_disk(*words, **named):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    return step(*words, **named)

setattr(sys.modules[module], name, on_a_full_disk)
main(["refresh", "2026-10", "--home", sys.argv[3]])
"""
"""Limit file sizes from one step of a refresh on."""


def refreshed(home: Home, limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, str(limit), str(home.path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def facts_of(home: Home) -> str:
    with connected(home.warehouse_path, read_only=True) as connection:
        return period_sha256(connection, "2026-10")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A month that was counted once."""
    home, fleet = Home.create(tmp_path_factory.mktemp("full") / "home"), read(FLEET)
    record_fleet(home, fleet)
    decisions = decided(clusters_csv([fleet], "both"))
    for name, text in canonical_files(decisions.rows).items():
        (home.decisions / name).write_text(text)
    home.config_path.write_text(template_config())
    whole = refreshed(home, resource.RLIM_INFINITY)
    assert whole.returncode == 0, whole.stderr
    return home


def test_a_refresh_on_a_full_disk_names_the_file_and_keeps_the_facts(home: Home) -> None:
    before = facts_of(home)
    size = (home.build / "2026-10.duckdb").stat().st_size
    for limit in (20_000, size // 2):  # one for the raw rows, one for the models
        ran = refreshed(home, limit)
        assert ran.returncode == 3, f"{limit}: {ran.stdout}{ran.stderr}"
        assert "Traceback" not in ran.stderr, ran.stderr
        assert f"STORE-001 {home.path}/" in ran.stderr, f"{limit}: {ran.stderr}"
        assert "File too large" in ran.stderr
        assert "free space or repair access" in ran.stderr
        assert facts_of(home) == before
        assert not (home.build / "facts.duckdb").exists()


def set_price(home: Home, price: str) -> None:
    """Set another price, which gives other facts of the same evidence."""
    rates = table("rates", f",A100-80GB,whole,USD,{price},2026-01-01,,|,")
    (home.decisions / "rates.csv").write_text(rates["rates.csv"])


def refreshed_on_a_disk_full_at(home: Home, step: str, limit: int) -> str:
    """The error of a refresh with this limit from this step on."""
    command = [sys.executable, "-c", FULL_AT, step, str(limit), str(home.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 3, f"{step}: {ran.stdout}{ran.stderr}"
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "File too large" in ran.stderr
    return ran.stderr


def test_a_full_disk_at_the_switch_keeps_the_warehouse_valid(home: Home) -> None:
    before = facts_of(home)
    set_price(home, "2.50")
    for limit in (0, 4_096):  # the first, and a later byte of the commit
        said = refreshed_on_a_disk_full_at(home, "warehouse.build:switch_in", limit)
        assert f"STORE-001 {home.warehouse_path}\n" in said
        assert "free space or repair access" in said
        assert facts_of(home) == before
        require_intact(home, "2026-10", deep=True)
    # The facts are committed without their note: readers refuse facts without a note.
    said = refreshed_on_a_disk_full_at(home, "warehouse.switch:note", 0)
    assert f"STORE-001 {home.build}/switched.json\n" in said
    assert "free space or repair access" in said
    with pytest.raises(WarehouseLost, match="gpu-ledger refresh"):
        require_intact(home, "2026-10", deep=True)
    again = refreshed(home, resource.RLIM_INFINITY)
    assert again.returncode == 0, again.stderr
    require_intact(home, "2026-10", deep=True)
    assert facts_of(home) != before
