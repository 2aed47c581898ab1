"""The marts that Spark calculates from the evidence of a home, compared with those of DuckDB.

Put here: passing evidence, decisions and product facts to a real Spark, running every model there
with the macros for Spark, and the rows that differ between the two engines.
Not here: the choice of homes (`tests/servers/test_marts_on_spark.py`, the smallest;
`tests/scenarios/test_marts_on_spark.py`, all scenarios), or rendering a model for Spark
(`tests/models_in_spark.py`).

Spark is installed once from the package registry, into the user's cache (half a gigabyte), and
needs Java 17 or later.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from fake_gpu.fleet.model import Fleet
from tests.decisions_by_hand import decided
from tests.lived_fleets import clusters_csv, live
from tests.models_in_spark import models, referred, rendered
from tests.servers.process import required
from warehouse.build import BuildResult, build_period
from warehouse.home import Home

SPARK = "4.3.0"
SECONDS_LIMIT = 3600
ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpu-ledger" / "spark"
PERIOD = BillingPeriod("2026-10")
VIEWS = "stg_"

COUNT = """
import json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from pyspark.sql import SparkSession
from warehouse.placement import register_in_spark
folder = Path(sys.argv[1])
told = {
    "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false",
    "spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": str(folder / "spark"), "spark.log.level": "ERROR",
}
builder = SparkSession.builder.master("local[2]")
for key, said in told.items():
    builder = builder.config(key, said)
spark = builder.getOrCreate()
register_in_spark(spark)
for path in (folder / "given").glob("*.parquet"):
    spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)
for name, sql in json.loads((folder / "models.json").read_text()):
    if name.startswith(sys.argv[4]):
        spark.sql(sql).createOrReplaceTempView(name)
        continue
    counted = str(folder / "counted" / name)
    spark.sql(sql).write.parquet(counted)
    spark.read.parquet(counted).createOrReplaceTempView(name)
print(json.dumps(spark.version))
"""


def engine() -> Path:
    """The folder of Spark, which no other test imports."""
    folder = CACHE / SPARK
    if not (folder / "pyspark").is_dir():
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "install", "--quiet", "--target", str(folder)]
        place = ["--python", sys.executable, f"pyspark=={SPARK}"]
        subprocess.run([*command, *place], check=True, capture_output=True)
    return folder


def counted_by_duckdb(home: Home, fleets: Mapping[str, Fleet]) -> BuildResult:
    """The build of a home with these simulated clusters; "seed 1" has one break of its watch."""
    for name, each in fleets.items():
        since = each.started_at + 3000
        broken = [(since, since + 1800)] if name == "seed 1" else ()
        live(home, each, unwatched=broken, telemetry=True)
    decisions = decided(clusters_csv(fleets.values()))
    return build_period(home, PERIOD, decisions, closed_periods=frozenset())


def handed_over(build: BuildResult, folder: Path) -> list[str]:
    """Write the inputs and marts of a build as Parquet; returns the names of the marts."""
    (folder / "given").mkdir()
    (folder / "marts").mkdir()
    shutil.copy(build.build_path, folder / "facts.duckdb")
    with duckdb.connect(folder / "facts.duckdb", read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        marts = []
        for schema, name in connection.execute(
            "select table_schema, table_name from information_schema.tables "
            "where table_schema in ('raw', 'seeds', 'marts') order by all"
        ).fetchall():
            place = folder / ("marts" if schema == "marts" else "given")
            spelled = f"{schema}_{name}" if schema == "raw" else name
            marts += [name] if schema == "marts" else []
            path = place / f"{spelled}.parquet"
            connection.execute(f"copy (from {schema}.{name}) to '{path}' (format parquet)")
    return marts


def in_order() -> list[tuple[str, str]]:
    """Every model as SQL for Spark, after the models that it reads."""
    paths = {path.stem: path for path in models()}
    ordered: dict[str, str] = {}

    def put(name: str) -> None:
        if name in paths and name not in ordered:
            for before in referred(paths[name]):
                put(before)
            ordered[name] = rendered(paths[name])

    for name in paths:
        put(name)
    return list(ordered.items())


def differences(folder: Path, marts: list[str]) -> dict[str, tuple[int, int]]:
    """Per mart, rows that only DuckDB has and rows that only Spark has."""
    found = {}
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for name in marts:
            ours = f"'{folder}/marts/{name}.parquet'"
            columns = connection.execute(f"describe from {ours}").fetchall()
            same = ", ".join(f"cast({c[0]} as {c[1]}) as {c[0]}" for c in columns)
            theirs = f"(select {same} from '{folder}/counted/{name}/*.parquet')"
            row = connection.execute(
                f"select (select count(*) from (from {ours} except all from {theirs})), "
                f"(select count(*) from (from {theirs} except all from {ours}))"
            ).fetchone()
            if row and any(row):
                found[name] = (int(row[0]), int(row[1]))
    return found


def differences_of_marts(fleets: Mapping[str, Fleet], folder: Path) -> dict[str, tuple[int, int]]:
    """Per mart, rows that only one of the two engines has; {} when all marts are equal."""
    required("java")
    build = counted_by_duckdb(Home.create(folder / "home"), fleets)
    assert build.failed_tests == []
    marts = handed_over(build, folder)
    assert marts
    (folder / "models.json").write_text(json.dumps(in_order()), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", COUNT, str(folder), str(engine()), str(ROOT), VIEWS],
        capture_output=True, text=True, check=False, timeout=SECONDS_LIMIT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == SPARK
    return differences(folder, marts)
