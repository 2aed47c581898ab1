"""Traces of real pods: what a row says is what the estate does, or the row is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_gpu.estate.build import build_estate
from fake_gpu.scenario.errors import BadTrace
from fake_gpu.scenario.load import load_scenario, read_scenario
from fake_gpu.scenario.trace import COLUMNS, parse_trace
from tests.estates import HEAD, T0, check_invariants

HEADER = ",".join(COLUMNS) + "\n"
TRACE = (
    HEADER
    + """\
east,a,p1,u1,n1,Tesla-T4,nvidia.com/gpu,1,2026-10-01T00:00:00Z,1790812802,1790812810,1790816400,Succeeded,Job,train
east,a,p2,u2,n1,Tesla-T4,nvidia.com/gpu,1,1790812800,1790812803,1790812811,,Running,,
east,b,p3,u3,,Tesla-T4,nvidia.com/gpu,2,1790812800,1790813000,,1790813600,Pending,,
east,b,p4,u4,,Tesla-T4,nvidia.com/gpu,2,1790812800,,,1790813600,Pending,,
"""
)


def test_a_trace_is_a_scenario_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    estate = build_estate(load_scenario(path))
    [cluster] = estate.clusters
    check_invariants(cluster)
    lives = {p.name: p for p in cluster.pods}
    assert lives["p1"].uid == "u1"
    assert lives["p1"].node_name == "n1"
    assert (lives["p1"].started_at, lives["p1"].finished_at) == (T0 + 10, T0 + 3600)
    assert lives["p1"].owners[0].kind == "Job"
    assert lives["p2"].finished_at is None
    assert lives["p3"].started_at is None
    assert lives["p3"].scheduled_at == T0 + 200
    assert lives["p3"].finished_at == T0 + 800
    assert lives["p4"].scheduled_at is None
    assert lives["p4"].gone_at == T0 + 800


def test_a_scenario_may_name_a_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    text = f"""{HEAD}clusters:
  - name: east
    nodes:
      - {{name: n1, product: Tesla-T4, cards: 2}}
      - {{name: n2, product: Tesla-T4, cards: 2}}
"""
    read = read_scenario(text + "workload_trace: t.csv\n", "test.yaml", tmp_path)
    [cluster] = build_estate(read).clusters
    assert {p.node_name for p in cluster.pods} == {"n1", "n2", ""}


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        ("east,a,p,u,,,nvidia.com/gpu,x,1,2,3,4,Failed,,", "is not a number of devices"),
        ("east,a,p,u,,,nvidia.com/gpu,1,9,2,3,4,Failed,,", "its times go backwards"),
        ("east,a,p,u,,,nvidia.com/gpu,1,1,,3,4,Failed,,", "never was scheduled"),
        ("east,a,p,u,,,nvidia.com/gpu,1,,,,,Failed,,", "no created_at"),
        ("east,a,p,u,,Foo,nvidia.com/gpu,1,1,2,3,4,Failed,,", "unknown product 'Foo'"),
        ("east,,p,u,,,nvidia.com/gpu,1,1,2,3,4,Failed,,", "no namespace or no pod name"),
        ("east,a,p,u,,,nvidia.com/gpu,1,noon,2,3,4,Failed,,", "'noon' is not a time"),
    ],
)
def test_a_row_that_cannot_have_happened_is_refused_with_its_line(row: str, seen: str) -> None:
    with pytest.raises(BadTrace, match=seen) as raised:
        parse_trace(HEADER + row + "\n", "t.csv")
    assert raised.value.where == "t.csv:2"


def test_a_missing_column_is_named() -> None:
    with pytest.raises(BadTrace, match="no column owner_name"):
        parse_trace(",".join(COLUMNS[:-1]) + "\n", "t.csv")
