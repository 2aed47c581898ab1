"""Every message of the warehouse, from an input that causes it, against its golden file.

Put here: errors of the warehouse, and the other remedies about a locked file.
Not here: stores, homes and leases (`test_messages_core`).

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from domain.errors import LedgerError
from tests.decisions_by_hand import decided
from tests.evidence_by_hand import PERIOD, Cluster, Pod, clusters_table, write
from tests.marts_by_hand import World
from warehouse import dbt_run, project
from warehouse.about import About
from warehouse.build import SealedFacts, build_period
from warehouse.connection import WarehouseInUse, connect
from warehouse.derived_files import lock_derived_files
from warehouse.engine import require_java, require_spark
from warehouse.home import Home
from warehouse.project import dbt_project_dir
from warehouse.publish import publish
from warehouse.reports import opened_facts as source
from warehouse.reports.opened_facts import open_facts
from warehouse.switched import SwitchedPeriod, note, require_intact

if TYPE_CHECKING:
    import duckdb

GOLDEN = Path(__file__).parent / "golden"

HOLDER = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"


def locked(folder: Path) -> None:
    path = folder / "warehouse.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        connect(path, wait_seconds=0.2)
    finally:
        holder.communicate("\n")


def damaged(folder: Path) -> None:
    path = folder / "warehouse.duckdb"
    path.write_bytes(b"\0" * 8192)
    connect(path)


def without_project(folder: Path) -> None:
    module = folder / "warehouse" / "project.py"
    original = project.__file__
    project.__file__ = str(module)
    try:
        dbt_project_dir()
    finally:
        project.__file__ = original


def without_runs(folder: Path) -> None:
    home, cluster = Home.create(folder / "home"), Cluster(pods=[Pod("p", 100, 5000)])
    write(home, cluster)
    for path in home.runs.rglob("*.parquet"):
        path.unlink()
    build_period(home, PERIOD, decided(clusters_table(cluster)), closed_periods=frozenset())


def failed_model(folder: Path) -> None:
    home = Home.create(folder / "home")
    home.build.mkdir()
    built = dbt_run.DbtProject(home.build / "dbt", home.build / "facts.duckdb")
    built.build()  # the raw schema is empty


def closed(folder: Path) -> None:
    home = Home.create(folder / "home")
    build_period(home, PERIOD, decided(), closed_periods=frozenset({PERIOD.name}))


def lost(folder: Path) -> None:
    home = Home.create(folder / "home")
    home.build.mkdir()
    note(home, "2026-10", SwitchedPeriod("ab" * 32, {"fct_charges": 4, "dim_hours": 744}))
    require_intact(home, "2026-10")


def differs(folder: Path) -> None:
    home = Home.create(folder / "home")
    sealed = SealedFacts(
        "ab" * 32, lambda hour: True, "0.0.9", ("gpu-ledger 0.0.9 then, 0.1.0 now",)
    )
    build_period(home, PERIOD, decided(), closed_periods=frozenset({PERIOD.name}), sealed=sealed)


def in_use(folder: Path) -> None:
    with lock_derived_files(folder / "runs"), lock_derived_files(folder / "runs", wait_seconds=0.0):
        pass


def without_extra(folder: Path) -> None:
    del folder
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "pyspark", None)
        require_spark()


def without_java(folder: Path) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_HOME", str(folder))
        require_java()


PROVOKED: dict[str, Callable[[Path], None]] = {
    "LOCK-001-warehouse": locked,
    "WARE-002": damaged,
    "INSTALL-001": without_project,
    "FACTS-001-runs": without_runs,
    "WARE-001": failed_model,
    "CLOSE-004": closed,
    "WARE-002-lost": lost,
    "LOCK-001-derived": in_use,
    "VERSION-001-facts": differs,
    "INSTALL-001-spark": without_java,
    "INSTALL-001-extra": without_extra,
}


# These two build a warehouse with dbt.
BUILDING = ("WARE-001", "VERSION-001-facts")


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=[pytest.mark.deep] if code in BUILDING else []) for code in PROVOKED],
)
def test_the_message_is_the_golden_one(code: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        PROVOKED[code](tmp_path)
    assert code.startswith(caught.value.code)
    message = caught.value.message().replace(str(tmp_path), "HOME") + "\n"
    message = _without_what_varies(message)
    golden = GOLDEN / f"{code}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(message, encoding="utf-8")
    assert message == golden.read_text(encoding="utf-8")


def _without_what_varies(message: str) -> str:
    """Replace process numbers, interpreters and hashes of evidence, which differ between runs."""
    import re

    message = re.sub(
        r"Conflicting lock is held in \S+ \(PID \d+\)[^)]*", "Conflicting lock", message
    )
    message = re.sub(r"counts to [0-9a-f]{12}", "counts to 0123456789ab", message)
    return re.sub(r"attempt [0-9a-f]{12}", "attempt 0123456789ab", message)


@pytest.mark.parametrize(
    ("is_published", "instead"),
    [
        (False, "run `gpu-ledger publish`: the copy that it makes is never locked, and there is "
         "none yet"),
        (True, "ask again; HOME/published/gpu-ledger-000001.duckdb is not locked, and has what was "
         "counted before"),
    ],
)  # fmt: skip
def test_a_reader_is_referred_to_the_copy_only_if_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool, instead: str
) -> None:
    world = World(tmp_path / "home")
    home = world.write()
    if is_published:
        with connect(home.warehouse_path) as warehouse:
            warehouse.execute(
                "create table marts.dim_clusters as select 'c1' cluster_id, 'east' cluster_name"
            )
        now = datetime(2026, 11, 1, tzinfo=UTC)
        publish(home, About(now, now, "0.1.0", "", "", 0))
    note(
        home, "2026-10", SwitchedPeriod("ab" * 32, {})
    )  # calculated again since: the copy is outdated
    monkeypatch.setattr(source, "connect", impatient)
    with pytest.raises(WarehouseInUse) as busy, open_facts(home):
        raise AssertionError("read while it was written")
    told = busy.value.remedy.replace(str(home.path), "HOME")
    assert told == f"let the other command end, and {instead}"


def impatient(path: Path, **options: bool) -> duckdb.DuckDBPyConnection:
    """Open the warehouse while another process keeps it locked for longer than the limit."""
    if path.name == "warehouse.duckdb":
        raise WarehouseInUse(path, 30.0, "Conflicting lock")
    return connect(path, **options)
