"""The demo on six hours of its own scenario: refused, repaired, accepted, billed with the truth.

The hours are those around the interval in which one cluster lost both sources. Expected amounts are
the truth ledger's weighted seconds times the prices below, less those of the outage that the demo
credits, rounded once per invoice.
To test the whole month, run this file with GPU_LEDGER_DEMO=demo.
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

from domain.interval import parse_instant
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.export import Rows, plain_rows
from fake_gpu.fleet.model import second
from fake_gpu.scenario.load import library_text, load_scenario
from fake_gpu.truth.ledger import ledger
from orchestration.cli.demo import show
from orchestration.demo.closed_month import DemoResult, run_demo
from tests.json_output import differences
from tests.release.readme import lines_of_readme
from tests.scenarios.against_truth import ask

pytestmark = pytest.mark.deep

PRICES = {  # per hour, by the product's own name
    "NVIDIA-A100-SXM4-40GB": "1.80",
    "NVIDIA-A100-SXM4-80GB": "2.50",
    "NVIDIA-H100-80GB-HBM3": "4.00",
    "AMD_Instinct_MI300X_OAM": "3.00",
    "Tesla-T4": "0.40",
}
README = Path(__file__).parents[2] / "README.md"
OUTAGE = ("beta", "2026-10-18T01:00:00Z", "2026-10-18T03:00:00Z")  # credited
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
def demo(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    home = tmp_path_factory.mktemp("demo") / "home"
    with run_demo(scenario, home, no_bar, lambda text: None) as result:
        return result


def test_invoices_are_the_truth_times_the_prices(demo: DemoResult, scenario: str) -> None:
    issued = {one.tenant: one.billed_nanos for one in demo.months[0].result.invoices}
    assert sorted(issued) == TENANTS
    assert issued == true_amounts(scenario)


def test_the_close_was_refused_and_the_double_gap_accepted(demo: DemoResult) -> None:
    [month] = demo.months
    assert month.refusals[0].startswith("CLOSE-001 period 2026-10")
    assert "2026-10-21T22:5" in month.refusals[0]
    assert sorted({row["treatment"] for row in month.accepted_gaps}) == ["bill_nothing"]
    for row in month.accepted_gaps:
        assert row["started_at"] <= "2026-10-21T23:00:00Z" < row["ended_at"]


def test_labels_budgets_and_idle_gpus_are_in_the_facts(demo: DemoResult) -> None:
    """The notebook's H100 is idle for all six hours: 24.00 at 4.00 an hour."""
    home = demo.opened.home
    labels = "select distinct label_key from marts.dim_pod_labels order by all"
    assert ask(home, labels) == [("cost-center",), ("team",)]
    teams = """
        select tenant, label_value from marts.fct_pod_hours
        inner join marts.dim_pod_labels using (cluster_id, pod_uid)
        where label_key = 'team' group by all order by all
    """
    assert set(ask(home, teams)) >= {("chat", "assistant"), ("chat", "search")}
    budgets = """
        select tenant, budget_nanos / 1e9 from marts.fct_forecasts
        where subject = 'tenant' and has_budget order by all
    """
    assert ask(home, budgets) == [("chat", 15000), ("physics", 6000), ("students", 1000)]
    idle = """
        select sum(idle_seconds), sum(idle_nanos) from marts.fct_gpu_use
        where pod_name like 'notebook%'
    """
    assert ask(home, idle) == [(21_600, 24 * 10**9)]


def test_all_files_on_the_last_screen_exist(demo: DemoResult) -> None:
    folder = demo.opened.home.documents / "2026-10"
    for name in ("2026-10.zip", "provider/ccsp-hours.csv", "provider/ccsp-nodes.csv"):
        assert (folder / name).stat().st_size > 100
    for tenant in TENANTS:
        kinds = {path.suffix for path in (folder / "tenants" / tenant).iterdir()}
        assert {".pdf", ".csv", ".json", ".zip"} <= kinds
        assert list((folder / "tenants" / tenant).glob("*-focus.csv"))
    assert demo.published.latest_path.is_file()
    page = demo.model_pages.read_text(encoding="utf-8")
    assert "fct_charges" in page


def test_the_last_screen_has_a_json_form(
    demo: DemoResult, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(demo, "json")
    printed = capsys.readouterr().out
    assert differences("demo", printed) == []
    found = json.loads(printed)
    issued = {row["tenant"]: int(Decimal(row["billed"]) * 10**9) for row in found["invoices"]}
    assert issued == true_amounts(scenario)
    assert found["home"] == str(demo.opened.home.path)
    assert (found["refused"], found["accepted_gaps"]) == (
        len(demo.months[0].refusals),
        len(demo.months[0].accepted_gaps),
    )
    assert all(Path(place).exists() for place in found["places"].values())
    show(demo, "csv")
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(issued)


def test_the_month_that_the_readme_shows_is_the_truth_times_the_prices() -> None:
    """CI compares the output of `make demo` with the README; this test compares the README."""
    issued = [
        line.split() for line in lines_of_readme(README.read_text()) if line.startswith("INV-")
    ]
    amounts = {tenant: f"{nanos / 10**9:.2f}" for tenant, nanos in true_amounts("demo").items()}
    assert {tenant: billed for _, tenant, billed, _ in issued} == amounts


def true_amounts(scenario: str) -> dict[str, int]:
    """Tenant → nanos of the invoice: exact, and rounded to cents once."""
    fleet = build_fleet(load_scenario(scenario))
    rows = plain_rows(fleet)
    name, started_at, ended_at = OUTAGE
    [cluster_id] = [cluster.cluster_id for cluster in fleet.clusters if cluster.name == name]
    first, last = (
        sorted((fleet.started_at, second(parse_instant(at)), fleet.ended_at))[1]
        for at in (started_at, ended_at)
    )
    outage = rows | {"window": [{"started_at": first, "ended_at": last}]}
    exact = true_costs(rows)
    for tenant, cost in true_costs(outage, cluster_id).items():
        exact[tenant] -= cost
    return {tenant: cents(amount) * 10**7 for tenant, amount in exact.items()}


def true_costs(rows: Rows, cluster_id: str = "") -> dict[str, Fraction]:
    """Tenant → cost of its running pods within the window of these rows."""
    exact: defaultdict[str, Fraction] = defaultdict(Fraction)
    for row in ledger(rows, "tenant-periods"):
        if row["namespace"] in TENANTS and cluster_id in ("", row["cluster_id"]):
            seconds = Fraction(
                row["running_weighted_seconds_numerator"],
                row["running_weighted_seconds_denominator"],
            )
            exact[row["namespace"]] += seconds / 3600 * Fraction(PRICES[row["product"]])
    return exact


def cents(amount: Fraction) -> int:
    hundredths = Decimal(amount.numerator * 100) / Decimal(amount.denominator)
    return int(hundredths.quantize(Decimal(1), ROUND_HALF_EVEN))


def six_hours() -> str:
    """The demo's clusters and workloads, without events outside these hours."""
    head, _ = library_text("demo").split("faults:\n")
    edges = {"from": "2026-10-21T20:00:00Z", "until": "2026-10-22T02:00:00Z"}
    for name, edge in edges.items():
        head = re.sub(rf"^{name}: .*$", f"{name}: {edge}", head, flags=re.MULTILINE)
    return re.sub(r"\n        (changes|incidents):\n(          .*\n)+", "\n", head) + FAULTS


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None
