"""`pcie_and_sxm`: one chip on two kinds of cards, with two prices by a row in products.csv.

Put here: the invoices of that month, with and without the row, calculated by hand.
Not here: the valid rows of products.csv (`tests/unit/test_decisions_products`).

    SXM     4.00 an hour: train 2 cards for 6 h is 48.00
    PCIe    2.50 an hour: serve 1 card for 6 h is 15.00, fold 1/7 of a card for 6 h is 15/7
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from billing.invoice import read_lines
from domain.billing_period import BillingPeriod
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration import steps
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import HEADERS

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")
PCIE = "NVIDIA-H100-PCIe,nvidia,H100-PCIe,81559,7,8,h100-80gb,two prices,Ada,2026-09-15"


def rate(gpu_class: str, rate: str) -> str:
    return f",{gpu_class},whole,USD,{rate},2026-01-01T00:00:00Z,,agreed,Ada,2026-09-15,"


@pytest.mark.parametrize(
    ("products", "rates", "billed"),
    [
        (
            [PCIE],
            [rate("H100-80GB", "4.00"), rate("H100-PCIe", "2.50")],
            {
                ("physics", "H100-80GB"): Decimal("48.00"),
                ("physics", "H100-PCIe"): Decimal("15.00"),
                ("biology", "H100-PCIe"): Decimal("2.14"),
            },
        ),
        (
            [],
            [rate("H100-80GB", "4.00")],
            {
                ("physics", "H100-80GB"): Decimal("72.00"),
                ("biology", "H100-80GB"): Decimal("3.43"),
            },
        ),
    ],
    ids=["two classes", "one class"],
)
def test_a_product_row_gives_two_cards_of_one_chip_two_prices(
    tmp_path: Path, products: list[str], rates: list[str], billed: dict[tuple[str, str], Decimal]
) -> None:
    fleet = build_fleet(load_scenario("pcie_and_sxm"))
    clock = driven(epoch(fleet.ended_at) + timedelta(hours=3))
    with serve(fleet, clock) as running:
        home = make_home(tmp_path / "home", fleet, running.thanos_url, running.kubernetes_urls)
        for name, rows in (("products", products), ("rates", rates)):
            text = "\n".join([HEADERS[name], *rows, ""])
            (home.decisions / f"{name}.csv").write_text(text, encoding="utf-8")
        table = home.decisions / "clusters.csv"
        table.write_text(table.read_text().replace(",both,", ",samples,"), encoding="utf-8")
        opened = OpenHome(home, clock)
        steps.pull(opened, PERIOD.interval)
        clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    assert steps.check_period(opened, PERIOD).findings == ()
    steps.close(opened, PERIOD, dry_run=False)
    lines = {
        (str(document["tenant"]), line.key.gpu_class): Decimal(line.billed_nanos).scaleb(-9)
        for issued in opened.record.invoices(PERIOD.name)
        for document in [opened.record.sealed(issued.sha256)]
        for line in read_lines(document)
    }
    assert lines == billed
