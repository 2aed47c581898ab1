"""A standalone Spark cluster with two workers computes the facts of all scenarios.

Put here: which clusters are compared, and that the placement runs on both workers.
Not here: the builds (`tests/spark.py`), or the smallest home (`servers/test_spark_engine.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exploration import one_long_case
from tests.fleets import fleet
from tests.random_fleets import scenario
from tests.scenarios.test_facts_equal_truth import EXPLORED, library
from tests.spark import (
    SHORT_LIVED_JAVA,
    WORKERS,
    built_by_both,
    differing_marts,
    require_spark,
    standalone_cluster,
)
from warehouse.engine import SPARK, Engine

pytestmark = [pytest.mark.explore, one_long_case]

SEEDS = (1, 3, 29)


def test_two_workers_compute_the_facts_of_every_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_spark()
    # The 200 partitions of Spark's default take longer than the rows of these fleets.
    partitions = "spark.sql.shuffle.partitions 4\n"
    (tmp_path / "spark-defaults.conf").write_text(partitions + SHORT_LIVED_JAVA)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    random_ones = {f"seed {seed}": fleet(scenario(seed)) for seed in {*SEEDS, *EXPLORED}}
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    with standalone_cluster(tmp_path) as master:
        engine = Engine(SPARK, master, exchange.as_uri())
        by_duckdb, by_spark = built_by_both(library() | random_ones, tmp_path, engine)
    assert [path for path in exchange.rglob("*") if path.is_file()] == []
    assert len(list(tmp_path.glob("work-*/app-*/*"))) == WORKERS, "an executor on each worker"
    assert by_duckdb.failed_tests == by_spark.failed_tests == []
    assert differing_marts(by_duckdb, by_spark) == {}
    assert by_spark.facts_sha256 == by_duckdb.facts_sha256
