"""A disk that becomes full while a month is counted: a named error, and the previous facts stay.

Put here: `gpu-ledger refresh` with a limit on file sizes, from its start or from the switch on.
Not here: single writes (`test_store`, `test_landing_crashes`, `test_warehouse_connection`).

The operating system refuses a file above the limit as it refuses one on a full disk.
"""

from __future__ import annotations

import importlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from domain.billing_period import BillingPeriod
from domain.decisions import canonical_files
from ingestion.settings import template_config
from orchestration import steps
from orchestration.cli.main import main
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import decided, table
from tests.fleets import fleet as read
from tests.recorded_fleets import clusters_csv, record_fleet
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.home import Home
from warehouse.switched import WarehouseLost, require_intact

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")

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


@contextmanager
def limited_to(size: int) -> Iterator[None]:
    """Refuse every write beyond this size of a file."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def refresh_fails(home: Home, capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a refresh."""
    with pytest.raises(SystemExit) as ended:
        main(["refresh", "2026-10", "--home", str(home.path)])
    said = capsys.readouterr().err
    assert ended.value.code == 3, said
    assert "Traceback" not in said
    assert "File too large" in said
    assert "free space or repair access" in said
    return said


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
    steps.refresh(OpenHome.at(home.path), PERIOD)
    return home


@pytest.mark.engines  # a failed model is an error of dbt
def test_a_refresh_on_a_full_disk_names_the_file_and_keeps_the_facts(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    before = facts_of(home)
    size = (home.build / "2026-10.duckdb").stat().st_size
    for limit in (20_000, size // 2):  # one for the raw rows, one for the models
        with limited_to(limit):
            said = refresh_fails(home, capsys)
        assert f"STORE-001 {home.path}/" in said, f"{limit}: {said}"
        assert facts_of(home) == before
        assert not (home.build / "facts.duckdb").exists()


def set_price(home: Home, price: str) -> None:
    """Set another price, which gives other facts of the same evidence."""
    rates = table("rates", f",A100-80GB,whole,USD,{price},2026-01-01,,|,")
    (home.decisions / "rates.csv").write_text(rates["rates.csv"])


def full_at(monkeypatch: pytest.MonkeyPatch, step: str, limit: int) -> None:
    """Limit the size of files while this step of a refresh runs."""
    module, name = step.split(":")
    real = getattr(importlib.import_module(module), name)

    def on_a_full_disk(*words: Any, **named: Any) -> Any:
        with limited_to(limit):
            return real(*words, **named)

    monkeypatch.setattr(f"{module}.{name}", on_a_full_disk)


def test_a_full_disk_at_the_switch_keeps_the_warehouse_valid(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = facts_of(home)
    set_price(home, "2.50")
    for limit in (0, 4_096):  # the first, and a later byte of the commit
        with monkeypatch.context() as patched:
            full_at(patched, "warehouse.build:switch_in", limit)
            said = refresh_fails(home, capsys)
        assert f"STORE-001 {home.warehouse_path}\n" in said
        assert facts_of(home) == before
        require_intact(home, "2026-10", deep=True)
    # The facts are committed without their note: readers refuse facts without a note.
    with monkeypatch.context() as patched:
        full_at(patched, "warehouse.switch:note", 0)
        said = refresh_fails(home, capsys)
    assert f"STORE-001 {home.build}/switched.json\n" in said
    with pytest.raises(WarehouseLost, match="gpu-ledger refresh"):
        require_intact(home, "2026-10", deep=True)
    steps.refresh(OpenHome.at(home.path), PERIOD)
    require_intact(home, "2026-10", deep=True)
    assert facts_of(home) != before
