"""A home built by both engines, and a standalone Spark cluster on this machine.

Put here: whether Spark is installed, the two builds, rows by which their marts differ, and starting
a master with workers.
Not here: which homes are built (`tests/servers/test_spark_engine.py`, the smallest;
`tests/scenarios/test_spark_cluster.py`, all scenarios).
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import duckdb

from domain.billing_period import BillingPeriod
from fake_gpu.fleet.model import Fleet
from tests.decisions_by_hand import decided
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.servers.process import free_port, missing, required, running
from warehouse.build import BuildResult, build_period
from warehouse.engine import Engine
from warehouse.home import Home

PERIOD = BillingPeriod("2026-10")
WORKERS = 2

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Without the second compiler of Java, whose code for a minute's run takes longer than it saves.
Without it, the code cache would be 48 MB, which the code that Spark generates fills.
"""

SHORT_LIVED_JAVA = f"""
spark.driver.extraJavaOptions {JAVA_OPTIONS}
spark.executor.extraJavaOptions {JAVA_OPTIONS}
"""
"""Lines of spark-defaults.conf for the driver and the executors."""


def require_spark() -> None:
    """Java, and the extra `spark`, which `make setup` does not install."""
    required("java")
    if find_spec("pyspark") is None:
        missing("pyspark is not here: `make test-servers` and `make explore` install it")


def built_by_both(
    fleets: Mapping[str, Fleet], folder: Path, engine: Engine
) -> tuple[BuildResult, BuildResult]:
    """A build by DuckDB and one by Spark of one home; of "seed 1" the watch is broken once."""
    home = Home.create(folder / "home")
    for name, each in fleets.items():
        since = each.started_at + 3000
        broken = [(since, since + 1800)] if name == "seed 1" else ()
        record_fleet(home, each, unwatched=broken, telemetry=True)
    decisions = decided(clusters_csv(fleets.values()))

    def built(by: Engine) -> BuildResult:
        to = folder / f"{by.kind}.duckdb"
        return build_period(
            home, PERIOD, decisions, closed_periods=frozenset(), destination=to, engine=by
        )

    return built(Engine()), built(engine)


def differing_marts(one: BuildResult, other: BuildResult) -> dict[str, tuple[int, int]]:
    """Per mart, rows that only the one build has and rows that only the other has."""
    found = {}
    with duckdb.connect() as connection:
        for name, build in (("one", one), ("other", other)):
            connection.execute(f"attach '{build.build_path}' as {name} (read_only)")
        for mart in one.row_counts:
            rows = [f"from {name}.marts.{mart}" for name in ("one", "other")]
            counts = connection.execute(
                f"select (select count(*) from ({rows[0]} except all {rows[1]})), "
                f"(select count(*) from ({rows[1]} except all {rows[0]}))"
            ).fetchone()
            if counts and any(counts):
                found[mart] = (int(counts[0]), int(counts[1]))
    return found


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers, which are there when the block begins."""
    import pyspark  # an extra

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    port, web = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    environment = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }

    def worker_count() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as response:
                return int(json.load(response)["aliveworkers"])
        except (OSError, json.JSONDecodeError):  # /json/ is a page until the master has started
            return -1

    def started(role: str, *options: object, number: int = 0) -> AbstractContextManager[object]:
        """A master, or one more worker; it responds when the master knows so many workers."""
        name = f"org.apache.spark.deploy.{role.lower()}.{role}"
        command = [spark_class, name, "--host", "127.0.0.1", *options]
        log = folder / f"{role}-{number}.log"
        return running(command, lambda: worker_count() == number, log, environment=environment)

    with ExitStack() as stack:
        stack.enter_context(started("Master", "--port", port, "--webui-port", web))
        for number in range(1, WORKERS + 1):
            place = ["--work-dir", folder / f"work-{number}", "--webui-port", free_port()]
            size = ["--cores", 1, "--memory", "2g"]
            stack.enter_context(started("Worker", *size, *place, url, number=number))
        yield url
