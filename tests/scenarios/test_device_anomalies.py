"""Anomalies of devices: none in a month without faults, and the share of planted ones that is
found.

The month is the simulator's demo: NVIDIA and AMD, whole cards, MIG, partitions and sharing.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from tests.device_months import KINDS, Row, found_in, hours_of, planted
from tests.exploration import one_long_case
from tests.written_pages import DOCS, written

PAGE = "explanation/anomalies.md"
SEEDS = range(20)
EPISODES = 10
HOURS = 20_000  # of the month's devices; fewer would be another month

pytestmark = pytest.mark.deep


@cache
def month() -> list[Row]:
    fleet = build_fleet(load_scenario("demo"))
    return hours_of(fleet, fleet.started_at, 31)


def key(row: Row) -> tuple[object, ...]:
    names = ("cluster_id", "device_uuid", "gpu_index", "instance_id", "pod_name", "hour_started_at")
    return tuple(row[name] for name in names)


def test_a_month_without_faults_has_no_anomaly() -> None:
    assert len(month()) > HOURS
    found = found_in(month())
    assert {row["status"] for row in found} <= {"not_enough_history"}


@cache
def counted(seed: int) -> tuple[Counter[str], Counter[str], int]:
    """Planted hours and found hours of each kind, and found rows without a planted anomaly."""
    rows, marks = planted(month(), seed, EPISODES)
    found = [row for row in found_in(rows) if row["status"] == "anomaly"]
    seen = {(row["rule_name"], key(row)) for row in found}
    meant = {(mark.rule_name, key(rows[mark.row])) for mark in marks}
    hits = Counter(m.what for m in marks if (m.rule_name, key(rows[m.row])) in seen)
    return Counter(mark.what for mark in marks), hits, len(seen - meant)


def table(planted_hours: Counter[str], found_hours: Counter[str], wrong: int) -> list[str]:
    rows = [
        f"| {what} | `{KINDS[what][0]}` | {planted_hours[what]} | {found_hours[what]} "
        f"| {100 * found_hours[what] // planted_hours[what]} % |"
        for what in KINDS
    ]
    found = found_hours.total()
    return [
        "| planted | rule | hours | found | recall |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"Of {found + wrong} hours that were found, {wrong} had nothing planted in them: precision"
        f" {100 * found / (found + wrong):.1f} %.",
    ]


@pytest.mark.parametrize("seed", [0])
def test_planted_anomalies_are_found_and_nothing_else(seed: int) -> None:
    planted_hours, found_hours, wrong = counted(seed)
    assert set(planted_hours) == set(KINDS)
    assert wrong <= found_hours.total() // 50
    for what, least in (("memory kept after the pod", 1.0), ("use without power", 1.0)):
        assert found_hours[what] >= least * planted_hours[what], what
    for what in KINDS:
        assert found_hours[what], what


@pytest.mark.explore
@one_long_case
def test_the_page_has_the_recall_and_precision_of_twenty_months() -> None:
    """After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1."""
    sums: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    wrong = 0
    for seed in SEEDS:
        planted_hours, found_hours, more = counted(seed)
        sums[0].update(planted_hours)
        sums[1].update(found_hours)
        wrong += more
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    block = "\n".join(["<!-- found -->", *table(*sums, wrong), "<!-- end of found -->"])
    text = re.sub("<!-- found -->.*?<!-- end of found -->", lambda _: block, text, flags=re.S)
    assert os.environ.get("GPU_LEDGER_WRITE_GOLDEN") or "precision" in text
    assert text == written(PAGE, text)
