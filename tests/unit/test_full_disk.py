"""A disk that becomes full while a month is counted: a named error, and the facts of before.

Put here: `gpu-ledger refresh` whose files may not grow beyond a size.
Not here: single writes (`test_store`, `test_landing_crashes`, `test_warehouse_connection`).

The operating system refuses a file that is too large as it refuses one on a full disk.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from domain.decisions import canonical_files
from ingestion.settings import template_config
from tests.decisions_by_hand import decided
from tests.estates import estate as read
from tests.lived_estates import clusters_csv, live
from warehouse.connection import connected
from warehouse.content import period_sha256
from warehouse.home import Home

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


def refreshed(home: Home, limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED, str(limit), str(home.path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def facts_of(home: Home) -> str:
    with connected(home.warehouse_path, read_only=True) as connection:
        return period_sha256(connection, "2026-10")


def test_a_refresh_on_a_full_disk_names_the_file_and_keeps_the_facts(tmp_path: Path) -> None:
    home, estate = Home.create(tmp_path / "home"), read(FLEET)
    live(home, estate)
    decisions = decided(clusters_csv([estate], "both"))
    for name, text in canonical_files(decisions.rows).items():
        (home.decisions / name).write_text(text)
    home.config_path.write_text(template_config())
    whole = refreshed(home, resource.RLIM_INFINITY)
    assert whole.returncode == 0, whole.stderr
    before = facts_of(home)
    size = (home.build / "2026-10.duckdb").stat().st_size
    for limit in (20_000, size // 2):  # for the raw rows, and for the models
        ran = refreshed(home, limit)
        assert ran.returncode == 3, f"{limit}: {ran.stdout}{ran.stderr}"
        assert "Traceback" not in ran.stderr, ran.stderr
        assert f"STORE-003 {home.path}/" in ran.stderr, f"{limit}: {ran.stderr}"
        assert "File too large" in ran.stderr
        assert "free space or repair access" in ran.stderr
        assert facts_of(home) == before
        assert not (home.build / "facts.duckdb").exists()
