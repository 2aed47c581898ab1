"""The demo on a user's own trace: three hours before a month's end, three hours after it.

Put here: a demo over several months.
Not here: the demo's own month (`test_demo_results`), or reading traces (`test_fake_scenario`).

By hand, at 1.00 an hour for an A30: `train` runs from 22:30 to 01:15, so 1.5 hours of October and
1.25 of November; `once` has two cards from 21:10 to 21:40, one hour of October.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from orchestration.demo.closed_month import run_demo
from tests.scenarios.test_demo_results import no_bar

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]
TRACE = """\
cluster,namespace,pod,uid,node,gpu_product,resource,count,created_at,scheduled_at,started_at,finished_at,phase,owner_kind,owner_name
lab,vision,train,u-1,,NVIDIA-A30,nvidia.com/gpu,1,2026-10-31T22:30:00Z,2026-10-31T22:30:00Z,2026-10-31T22:30:00Z,2026-11-01T01:15:00Z,Succeeded,Job,train
lab,vision,once,u-2,,NVIDIA-A30,nvidia.com/gpu,2,2026-10-31T21:10:00Z,2026-10-31T21:10:00Z,2026-10-31T21:10:00Z,2026-10-31T21:40:00Z,Succeeded,Job,once
"""
BILLED = {"2026-10": 2_500_000_000, "2026-11": 1_250_000_000}


def test_each_month_is_closed_and_one_is_refused_at_first(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text(TRACE)
    with run_demo(str(trace), tmp_path / "home", no_bar, lambda text: None) as result:
        months = result.months
    billed = {
        month.period.name: [document.billed_nanos for document in month.result.invoices]
        for month in months
    }
    assert billed == {period: [nanos] for period, nanos in BILLED.items()}
    assert sum(len(month.refusals) for month in months) == 1
    assert [row for month in months for row in month.accepted_gaps] == []


def test_every_class_of_cards_has_a_price_in_the_demo() -> None:
    seeds = ROOT / "dbt/seeds/gpu_products.csv"
    with seeds.open(encoding="utf-8") as lines:
        classes = {row["gpu_class"] for row in csv.DictReader(lines)} - {"not-a-device"}
    with (ROOT / "orchestration/demo/prices.csv").open(encoding="utf-8") as prices:
        priced = [row["gpu_class"] for row in csv.DictReader(prices)]
    assert sorted(priced) == sorted(classes)
