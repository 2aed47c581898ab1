"""A home with a month of evidence of one large cluster, written in seconds.

Put here: decisions, manifests and derived files of a simulated month, and the commands run on them.
Not here: the pods of the month (`month_of_a_fleet`), or the goals (`bench_real_month`).

The derived files in `runs/` are written by SQL instead of being decoded from responses: decoding
has its own benchmark (`bench_decode`). Manifests and notes are real, so that every command treats
the home as its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from bench.month_of_a_fleet import (
    CLUSTER_ID,
    START,
    Month,
    create_lives,
    decision_tables,
    evidence,
)
from domain.decisions.rows import Source
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.rebuild import derivations
from warehouse.connection import connected
from warehouse.derived_files import DerivedFilesNote, DerivedFolder, sha256_of_file
from warehouse.home import Home
from warehouse.manifest import (
    AttemptDraft,
    Hour,
    Outcome,
    QueryResponse,
    Sampling,
    code_version_of_manifests,
)
from warehouse.raw_schema import PARQUET_TABLES

DAY_SECONDS = 86_400
SCRAPE_SECONDS = 30
AFTER_GRACE = "2026-11-20T00:00:00Z"
CONFIG = f"""
[clusters."{CLUSTER_ID}"]
"""


def create_home(folder: Path, month: Month) -> Home:
    """A home whose evidence is complete for the month."""
    home = Home.create(folder, CONFIG)
    for name, text in decision_tables(month).items():
        (home.decisions / name).write_text(text, encoding="utf-8")
    landing = Landing(home.landing_store())
    attempt_ids = {
        source: [_land_day(landing, source, month, day) for day in range(month.days)]
        for source in (Source.THANOS, Source.KUBERNETES)
    }
    scratch = folder / "making.duckdb"
    with connected(scratch) as connection:
        create_lives(connection, month)
        made = evidence(month, {source.value: ids for source, ids in attempt_ids.items()})
        for source, ids in attempt_ids.items():
            _write_runs(connection, home, source, ids, made)
    scratch.unlink()
    return home


def _land_day(landing: Landing, source: Source, month: Month, day: int) -> str:
    started_at = datetime.fromtimestamp(START + day * DAY_SECONDS, UTC)
    window = Interval(started_at, started_at + timedelta(days=1))
    body = landing.land_body(f"{source.value} {day}\n".encode())
    answer = QueryResponse("month", "", 200, body.sha256, body.byte_count, body.stored_byte_count)
    attempt = landing.append_attempt(
        AttemptDraft(
            cluster_id=CLUSTER_ID,
            source=source,
            asked_at=window.ended_at + timedelta(minutes=1),
            answered_at=window.ended_at + timedelta(minutes=1, seconds=1),
            window=window,
            code_version=code_version_of_manifests(),
            sampling=Sampling(month.step, SCRAPE_SECONDS),
            answers=(answer,),
            hours=tuple(Hour(hour, Outcome.OK, "", 1, 1) for hour in window.hours()),
        )
    )
    return attempt.attempt_id


def _write_runs(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    source: Source,
    attempt_ids: list[str],
    made: dict[str, str],
) -> None:
    """Write one file per day and table, with its note, as `ingestion.evidence.compaction` does."""
    folder = DerivedFolder.of(home.runs, source.value, CLUSTER_ID)
    folder.path.mkdir(parents=True)
    tables = derivations()[source].tables
    for table in tables:
        name = f"{source.value}_{table}"
        kinds = PARQUET_TABLES.get(name, {"attempt_id": "VARCHAR"})  # not read by the models
        columns = ", ".join(
            f"cast({column if name in made else 'null'} as {kind}) as {column}"
            for column, kind in kinds.items()
        )
        rows = f"from ({made[name]})" if name in made else "where false"
        connection.execute(f"create temp table made as select {columns} {rows}")
        for day, attempt_id in enumerate(attempt_ids):
            path = folder.daily(_date(day), table)
            connection.execute(
                f"copy (from made where attempt_id = '{attempt_id}') to '{path}' "
                "(format parquet, compression zstd)"
            )
        connection.execute("drop table made")
    for day, attempt_id in enumerate(attempt_ids):
        hashes = {table: sha256_of_file(folder.daily(_date(day), table)) for table in tables}
        folder.index(_date(day)).write_bytes(DerivedFilesNote((attempt_id,), hashes).text())


def _date(day: int) -> object:
    return datetime.fromtimestamp(START + day * DAY_SECONDS, UTC).date()


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The time and memory of one command."""

    wall_seconds: float
    cpu_seconds: float
    peak_mib: float


def run(home: Home, *command: str) -> CommandRun:
    """Run a command of gpu-ledger on the home, at a time after the month's grace period."""
    program = str(Path(sys.executable).with_name("gpu-ledger"))
    arguments = [program, *command, "--home", str(home.path)]
    environment = os.environ | {"GPU_LEDGER_NOW": AFTER_GRACE}
    began = time.perf_counter()
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(arguments)}: {errors[-500:]}")
    return CommandRun(
        time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    )
