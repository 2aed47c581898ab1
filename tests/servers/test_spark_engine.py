"""The smallest home with Spark as its engine has the facts and the invoices of DuckDB.

Put here: a month of the smallest home, refreshed and closed once with each engine on this machine;
Spark exchanges its files through a bucket.
Not here: a cluster with workers, a folder, and all scenarios
(`tests/scenarios/test_spark_cluster.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.interval import format_instant
from orchestration import steps
from orchestration.cli.doctor import check_engine
from orchestration.demo.closed_month import run_demo
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import decided
from tests.servers.hadoop_aws import spark_environment
from tests.servers.s3 import Bucket, s3_server
from tests.spark import require_spark
from warehouse.build import build_period
from warehouse.engine import SPARK, Engine, SparkNotUsable
from warehouse.home import KEPT, Home
from warehouse.placement import EVENTS, KEY, PLACED, place_on_spark

pytestmark = pytest.mark.servers

PERIOD = BillingPeriod("2026-10")
ENGINE = '\n[engine]\nkind = "spark"\nmaster = "local[2]"\nexchange = "{}"\n'


@contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with s3_server(tmp_path_factory.mktemp("exchange")) as server:
        yield server


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, bucket: Bucket) -> tuple[OpenHome, OpenHome]:
    """A home closed with DuckDB, and a copy of its evidence and decisions closed with Spark."""
    require_spark()
    folder = tmp_path_factory.mktemp("engines")
    with run_demo("thin_line", folder / "duckdb", no_bar, lambda text: None) as result:
        by_duckdb = OpenHome(result.opened.home, StoppedClock(result.opened.clock.now()))
    for name in (*KEPT, "runs"):
        place = by_duckdb.home.path / name
        (shutil.copytree if place.is_dir() else shutil.copy)(
            place, _created_folder(folder / "spark") / name
        )
    shutil.rmtree(folder / "spark" / "record")
    with (folder / "spark" / "config.toml").open("a", encoding="utf-8") as config:
        config.write(ENGINE.format(bucket.url("exchange")))
    by_spark = OpenHome.at(folder / "spark", by_duckdb.clock)
    # A process of its own: Java keeps the environment of its start.
    program = Path(sys.executable).with_name("gpu-ledger")
    subprocess.run(
        [program, "refresh", "--period", PERIOD.name, "--home", by_spark.home.path],
        env={
            **os.environ,
            **bucket.environment,
            **spark_environment(folder / "conf"),
            "GPU_LEDGER_NOW": format_instant(by_spark.clock.now()),
        },
        check=True,
    )
    steps.close(by_spark, PERIOD, dry_run=False)
    return by_duckdb, by_spark


def _created_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_facts_and_invoices_have_the_same_bytes(homes: tuple[OpenHome, OpenHome]) -> None:
    facts, files = zip(*(_sealed_files(opened) for opened in homes), strict=True)
    assert facts[0] == facts[1]
    assert any(name.endswith(".pdf") for name in files[0])
    assert files[0] == files[1]


def _sealed_files(opened: OpenHome) -> tuple[str, dict[str, str]]:
    """The hash of the facts, and of every file that the close issued."""
    folder = opened.home.documents
    files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    built = json.loads((opened.home.build / f"{PERIOD.name}.built.json").read_text())
    # pytest would compare the bytes of different PDFs for minutes.
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return built["facts_sha256"], hashes


def test_exchanged_files_are_removed(homes: tuple[OpenHome, OpenHome], bucket: Bucket) -> None:
    for folder in (homes[1].home.build / "spark", bucket.folder):
        assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_doctor_names_the_java_of_spark(homes: tuple[OpenHome, OpenHome]) -> None:
    assert check_engine(homes[0]) == []
    [line] = check_engine(homes[1])
    assert line["fine"], line
    assert "local[2]" in str(line["seen"])


def test_the_placement_of_a_few_node_classes_uses_all_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_spark()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # an extra

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.warehouse.dir", tmp_path.as_uri()).getOrCreate()
    try:
        session.sql("create schema intermediate")
        session.sql(
            f"create table intermediate.{EVENTS} using parquet as "
            f"select id as {KEY}, 'a100-40gb' as mig_geometry, 10 + id as event_second, "
            "'running_cards' as quantity, '' as mig_profile, 1L as replica_count, id as change "
            "from range(1, 9)"
        )
        place_on_spark(session)
        levels = session.table(f"intermediate.{PLACED}").where("started_second > 0").collect()
    finally:
        session.stop()
    placed = sorted((row[KEY], row["started_second"], row["running_cards"]) for row in levels)
    assert placed == [(number, 10 + number, number) for number in range(1, 9)]
    assert len(list((tmp_path / "intermediate.db" / PLACED).glob("*.parquet"))) == 2


def test_an_exchange_that_spark_cannot_read_is_named_and_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark contains no client of S3: the input is written, Spark fails, the input is deleted."""
    require_spark()
    home = Home.create(tmp_path / "home")
    with s3_server(tmp_path) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        engine = Engine(SPARK, "local[1]", bucket.url("exchange"))
        with pytest.raises(SparkNotUsable) as caught:
            build_period(home, PERIOD, decided(), closed_periods=frozenset(), engine=engine)
        assert "s3a://ledger/exchange/" in caught.value.seen
        assert "hadoop-aws" in caught.value.remedy
        assert [path for path in bucket.folder.rglob("*") if path.is_file()] == []
