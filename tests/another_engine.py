"""A real Spark counts the same facts: `python -m tests.another_engine [VERSION]`, on demand.

Put here: estates that DuckDB counts in a whole refresh; then every model, with the macros that are
Spark's, by Spark from the same evidence, decisions and product facts. Every mart has the same rows.
Not here: the reading of models that every test run does (`tests/unit/test_models_in_spark.py`).

Spark comes from the package registry once, into the user's cache (half a gigabyte), and wants a
Java; it takes three minutes on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from tests.decisions_by_hand import decided
from tests.estates import estate
from tests.lived_estates import clusters_csv, live
from tests.models_in_spark import models, referred, rendered
from tests.random_estates import scenario
from tests.scenarios.test_facts_equal_truth import library
from warehouse.build import BuildResult, build_period
from warehouse.home import Home

NEXT = "4.3.0"
ROOT = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpu-ledger" / "spark"
PERIOD = BillingPeriod("2026-10")
SCENARIOS = ("cards_cut_anew", "every_way_to_share", "node_drained_mid_hour", "relabelled_node")
SEEDS = (1, 3, 29)

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
    counted = str(folder / "counted" / name)
    spark.sql(sql).write.parquet(counted)
    spark.read.parquet(counted).createOrReplaceTempView(name)
print(json.dumps(spark.version))
"""


def engine(version: str) -> Path:
    """The folder of one Spark, which nothing else imports."""
    folder = CACHE / version
    if not (folder / "pyspark").is_dir():
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "install", "--quiet", "--target", str(folder)]
        place = ["--python", sys.executable, f"pyspark=={version}"]
        subprocess.run([*command, *place], check=True, capture_output=True)
    return folder


def counted_by_duckdb(home: Home) -> BuildResult:
    """Estates of every kind of card, one of which nobody watched for a while."""
    estates = {name: each for name, each in library().items() if name in SCENARIOS}
    estates |= {f"seed {seed}": estate(scenario(seed)) for seed in SEEDS}
    for name, each in estates.items():
        since = each.started_at + 3000
        live(home, each, unwatched=[(since, since + 1800)] if name == "seed 1" else ())
    decisions = decided(clusters_csv(estates.values()))
    return build_period(home, PERIOD, decisions, closed_periods=frozenset())


def handed_over(build: BuildResult, folder: Path) -> list[str]:
    """What models are counted from, and what they came to, as Parquet; the names of the marts."""
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
    """Every model as Spark reads it, after all that it is made of."""
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


def compare(version: str) -> str:
    """Count the same evidence with both, and refuse any difference; what was compared."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = counted_by_duckdb(Home.create(folder / "home"))
        assert build.failed_tests == []
        marts = handed_over(build, folder)
        (folder / "models.json").write_text(json.dumps(in_order()), encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, "-c", COUNT, str(folder), str(engine(version)), str(ROOT)],
            capture_output=True, text=True, check=False, timeout=1800,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-2000:]
        assert json.loads(ran.stdout.splitlines()[-1]) == version
        differing = differences(folder, marts)
        assert differing == {}, differing
    rows = sum(build.row_counts.values())
    return f"DuckDB {duckdb.__version__} and Spark {version}: {len(marts)} marts, {rows} rows"


if __name__ == "__main__":
    print(compare(sys.argv[1] if sys.argv[1:] else NEXT))
