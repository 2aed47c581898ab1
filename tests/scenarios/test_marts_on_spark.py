"""A real Spark calculates the same marts from the evidence of every scenario and of random fleets.

Put here: the choice of clusters. Not here: the method (`tests/marts_on_spark.py`), or the smallest
home (`tests/servers/test_marts_on_spark.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleets import fleet
from tests.marts_on_spark import differences_of_marts
from tests.random_fleets import scenario
from tests.scenarios.test_facts_equal_truth import EXPLORED, library

pytestmark = pytest.mark.explore

SEEDS = (1, 3, 29)


def test_spark_computes_the_marts_of_every_scenario(tmp_path: Path) -> None:
    random_ones = {f"seed {seed}": fleet(scenario(seed)) for seed in {*SEEDS, *EXPLORED}}
    assert differences_of_marts(library() | random_ones, tmp_path) == {}
