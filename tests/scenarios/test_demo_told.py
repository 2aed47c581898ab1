"""The demo's story on six hours of its own scenario: refused, healed, signed, billed as it was.

The hours around the stretch in which both witnesses of one cluster were gone. Expected amounts are
the truth ledger's weighted seconds times prices that are written here, rounded once per invoice.
The whole month: GPU_LEDGER_DEMO=demo pytest, with this file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from fake_gpu.estate.build import build_estate
from fake_gpu.estate.export import plain_rows
from fake_gpu.scenario.load import library_text, load_scenario
from fake_gpu.truth.ledger import ledger
from orchestration.cli.demo import show
from orchestration.demo.story import Told, tell
from tests.json_output import differences
from tests.release.readme import shown

pytestmark = [pytest.mark.deep, pytest.mark.engines]

PRICES = {  # per hour, by the product's own name
    "NVIDIA-A100-SXM4-40GB": "1.80",
    "NVIDIA-A100-SXM4-80GB": "2.50",
    "NVIDIA-H100-80GB-HBM3": "4.00",
    "AMD_Instinct_MI300X_OAM": "3.00",
    "Tesla-T4": "0.40",
}
README = Path(__file__).parents[2] / "README.md"
TENANTS = ["biology", "chat", "film", "physics", "students"]
FAULTS = """faults:
  - {fault: replica_scrape_lost, cluster: gamma, replica: 1, share: 2%}
  - {fault: watch_dropped, cluster: gamma, from: 2026-10-21T22:40:00Z, until: 2026-10-21T23:25:00Z}
  - {fault: exporter_down, cluster: gamma, job: kube-state-metrics,
     from: 2026-10-21T22:50:00Z, until: 2026-10-21T23:10:00Z}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> str:
    if whole := os.environ.get("GPU_LEDGER_DEMO"):
        return whole
    path = tmp_path_factory.mktemp("part") / "part.yaml"
    path.write_text(six_hours())
    return str(path)


@pytest.fixture(scope="module")
def told(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell(scenario, tmp_path_factory.mktemp("demo") / "home", no_bar, lambda text: None)


def test_invoices_are_the_truth_times_the_prices(told: Told, scenario: str) -> None:
    issued = {one.tenant: one.billed_nanos for one in told.months[0].result.invoices}
    assert sorted(issued) == TENANTS
    assert issued == true_amounts(scenario)


def test_the_close_was_refused_and_the_double_gap_signed(told: Told) -> None:
    [month] = told.months
    assert month.refusals[0].startswith("CLOSE-001 period 2026-10")
    assert "2026-10-21T22:5" in month.refusals[0]
    assert sorted({row["treatment"] for row in month.signed}) == ["bill_nothing"]
    for row in month.signed:
        assert row["started_at"] <= "2026-10-21T23:00:00Z" < row["ended_at"]


def test_everything_that_the_last_screen_names_is_there(told: Told) -> None:
    folder = told.opened.home.documents / "2026-10"
    for name in ("2026-10.zip", "provider/ccsp-hours.csv", "provider/ccsp-nodes.csv"):
        assert (folder / name).stat().st_size > 100
    for tenant in TENANTS:
        kinds = {path.suffix for path in (folder / "tenants" / tenant).iterdir()}
        assert {".pdf", ".csv", ".json", ".zip"} <= kinds
        assert list((folder / "tenants" / tenant).glob("*-focus.csv"))
    assert told.published.latest_path.is_file()
    page = told.model_pages.read_text(encoding="utf-8")
    assert "fct_charges" in page


def test_the_last_screen_is_told_to_machines(
    told: Told, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(told, "json")
    printed = capsys.readouterr().out
    assert differences("demo", printed) == []
    found = json.loads(printed)
    issued = {row["tenant"]: int(Decimal(row["billed"]) * 10**9) for row in found["invoices"]}
    assert issued == true_amounts(scenario)
    assert found["home"] == str(told.opened.home.path)
    assert (found["refused"], found["signed"]) == (
        len(told.months[0].refusals),
        len(told.months[0].signed),
    )
    assert all(Path(place).exists() for place in found["places"].values())
    show(told, "csv")
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(issued)


def test_the_month_that_the_readme_shows_is_the_truth_times_the_prices() -> None:
    """CI runs `make demo` and compares its screen with the README; the README stands on this."""
    issued = [line.split() for line in shown(README.read_text()) if line.startswith("INV-")]
    amounts = {tenant: f"{nanos / 10**9:.2f}" for tenant, nanos in true_amounts("demo").items()}
    assert {tenant: billed for _, tenant, billed, _ in issued} == amounts


def true_amounts(scenario: str) -> dict[str, int]:
    """Tenant → nanos of the invoice: exact, and rounded to cents once."""
    exact: defaultdict[str, Fraction] = defaultdict(Fraction)
    for row in ledger(plain_rows(build_estate(load_scenario(scenario))), "tenant-periods"):
        if row["namespace"] in TENANTS:
            seconds = Fraction(
                row["running_weighted_seconds_numerator"],
                row["running_weighted_seconds_denominator"],
            )
            exact[row["namespace"]] += seconds / 3600 * Fraction(PRICES[row["product"]])
    return {tenant: cents(amount) * 10**7 for tenant, amount in exact.items()}


def cents(amount: Fraction) -> int:
    hundredths = Decimal(amount.numerator * 100) / Decimal(amount.denominator)
    return int(hundredths.quantize(Decimal(1), ROUND_HALF_EVEN))


def six_hours() -> str:
    """The demo's clusters and workloads, with nothing that lies outside these hours."""
    head, _ = library_text("demo").split("faults:\n")
    edges = {"from": "2026-10-21T20:00:00Z", "until": "2026-10-22T02:00:00Z"}
    for name, edge in edges.items():
        head = re.sub(rf"^{name}: .*$", f"{name}: {edge}", head, flags=re.MULTILINE)
    return re.sub(r"\n        (changes|incidents):\n(          .*\n)+", "\n", head) + FAULTS


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None
