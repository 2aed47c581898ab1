"""A real Spark calculates the same marts from the evidence of the smallest home.

Put here: that home. Not here: the method (`tests/marts_on_spark.py`), or all scenarios
(`tests/scenarios/test_marts_on_spark.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from tests.marts_on_spark import differences_of_marts

pytestmark = pytest.mark.servers


def test_spark_computes_the_marts_of_the_smallest_home(tmp_path: Path) -> None:
    fleets = {"thin_line": build_fleet(load_scenario("thin_line"))}
    assert differences_of_marts(fleets, tmp_path) == {}
