"""One module opens DuckDB: in UTC, with limits, waiting for locks, optionally without
file access.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from warehouse.connection import (
    MEMORY_LIMIT,
    THREAD_LIMIT,
    WarehouseInUse,
    WarehouseUnreadable,
    connect,
    connected,
    require_room,
    transaction,
)
from warehouse.store import StoreUnusable


def test_every_connection_is_in_utc_and_has_limits(tmp_path: Path) -> None:
    assert MEMORY_LIMIT == "480MB"
    with connected(tmp_path / "a.duckdb") as connection:
        row = connection.execute(
            "select current_setting('TimeZone'), current_setting('memory_limit'), "
            "current_setting('threads')"
        ).fetchone()
    assert row is not None
    assert row[0] == "UTC"
    assert row[1] == "457.7 MiB"
    assert row[2] <= THREAD_LIMIT


def test_hours_do_not_depend_on_the_time_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    with connected(tmp_path / "a.duckdb") as connection:
        row = connection.execute(
            "select date_trunc('hour', timestamptz '2026-10-01 05:40:00+00')::varchar"
        ).fetchone()
    assert row == ("2026-10-01 05:00:00+00",)


HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_connection_waits_for_a_lock_and_then_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(WarehouseInUse):
        connect(path, wait_seconds=0.3)
    holder.communicate()
    connect(path, wait_seconds=10).close()


def test_a_file_that_is_not_a_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(WarehouseUnreadable):
        connect(path)


OUTSIDE = [
    "select * from read_csv('{file}')",
    "select * from read_parquet('{file}')",
    "select * from '{file}'",
    "copy (select 1) to '{file}.out'",
    "attach '{file}.db' as other",
    "install httpfs",
    "set enable_external_access = true",
    "reset lock_configuration",
    "export database '{file}.dir'",
    "select * from glob('/etc/*')",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_sql_of_users_reaches_no_file(tmp_path: Path, sql: str) -> None:
    import duckdb

    secret = tmp_path / "secret.csv"
    secret.write_text("token\n1\n")
    connect(tmp_path / "a.duckdb").close()
    connection = connect(tmp_path / "a.duckdb", read_only=True, outside_sql=True)
    with pytest.raises(duckdb.Error):
        connection.execute(sql.format(file=secret)).fetchall()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.duckdb", "secret.csv"]
    connection.close()


def test_a_failed_transaction_changes_nothing(tmp_path: Path) -> None:
    with connected(tmp_path / "a.duckdb") as connection:
        connection.execute("create table t (n bigint)")
        with pytest.raises(RuntimeError):
            _stopped_in_the_middle(connection)
        assert connection.execute("select count(*) from t").fetchone() == (0,)


def _stopped_in_the_middle(connection: Any) -> None:
    with transaction(connection):
        connection.execute("insert into t values (1)")
        raise RuntimeError("stopped in the middle")


WRITE_MORE_THAN_FITS = """
import resource, signal, sys
from pathlib import Path
from warehouse.connection import connected
from warehouse.store import StoreUnusable

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with connected(Path(sys.argv[1])) as connection:
        connection.execute("create table numbers (n bigint)")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        connection.execute("insert into numbers select hash(n) >> 1 from range(3000000) r(n)")
        connection.execute("checkpoint")
except StoreUnusable as refused:
    print(refused.message())
"""


@pytest.mark.deep
def test_a_full_warehouse_names_its_file_and_the_remedy(tmp_path: Path) -> None:
    """The operating system refuses a file above its limit like one on a full disk."""
    path = tmp_path / "warehouse.duckdb"
    command = [sys.executable, "-c", WRITE_MORE_THAN_FITS, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(f"STORE-001 {path}\n"), ran.stdout + ran.stderr
    assert "File too large" in ran.stdout


def test_a_failure_of_a_full_disk_is_distinguished_from_others(tmp_path: Path) -> None:
    said = "TransactionContext Error: Failed to commit: Could not write file"
    for full in ("No space left on device", "File too large", "Disk quota exceeded"):
        with pytest.raises(StoreUnusable) as raised, connected(tmp_path / "w.duckdb"):
            raise duckdb.TransactionException(f'{said} "w.duckdb.wal": {full}')
        assert raised.value.where == str(tmp_path / "w.duckdb")
    with pytest.raises(duckdb.TransactionException), connected(tmp_path / "w.duckdb"):
        raise duckdb.TransactionException(said)


def test_a_model_that_failed_on_a_full_disk_names_the_disk(tmp_path: Path) -> None:
    message = (
        "Runtime Error in model stg_decisions__clusters (models/staging) "
        'TransactionContext Error: Failed to commit: Could not write file "facts.duckdb.wal": '
        "No space left on device"
    )
    with pytest.raises(StoreUnusable, match="No space left on device"):
        require_room(tmp_path / "facts.duckdb", message)
    require_room(tmp_path / "facts.duckdb", "Runtime Error in model a: a column is missing")
