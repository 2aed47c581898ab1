"""The thin line: six hours, seven pods, from a simulated fleet to two invoices.

Put here: the contents of the home of this scenario: facts, bills, and answers to analysts, tenants
and programme owners. Commands run in this process.
Not here: the same scenario in other homes (`test_closed_months_rebuilt`).

Every expected amount here can be calculated by hand from `fake_gpu/scenarios/thin_line.yaml`.
A100-40GB costs 1.80 an hour; a 3g.20gb weighs 1/2 and a 1g.5gb 1/7 of a card.

    vision  serve     6 h × 1 card                             21600 s           10.80
            train     01:10:20 to 03:00:00, 2 cards     2 × 6580 s                6.58
    speech  notebook  00:30:15 to 04:15:45, 1/2 card     13530 s / 2              3.3825
            sweep     1193 s and 1521 s, one card                                 1.357
            blink     11 s of 1/7 card                                            0.000785714
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import polars
import pytest
from click.testing import CliRunner, Result

from domain.billing_period import BillingPeriod
from domain.errors import LedgerError, NotBillable
from domain.interval import HOUR, Interval
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import load_scenario
from orchestration import steps
from orchestration.cli.main import cli
from orchestration.demo.closed_month import DemoResult, run_demo
from orchestration.model_documentation import FILE, kept_lineage
from orchestration.open_home import OpenHome
from orchestration.publishing import publish, snapshot
from orchestration.steps import recount
from portal import api
from tests.decisions_by_hand import decided
from tests.how_to import commands_in, of
from tests.json_output import differences
from tests.lineage import PAGE, Models, as_text, changed, followed, lineage_page
from tests.portal_by_hand import Portal, portal_of
from tests.scenarios import against_truth as truth
from tests.written_pages import DOCS
from warehouse.build import WORKING_NAME, build_period
from warehouse.connection import connected
from warehouse.dbt_run import DbtProject
from warehouse.home import Home
from warehouse.project import dbt_project_dir, read_yaml
from warehouse.reports.named_queries import questions
from warehouse.reports.opened_facts import open_facts

PERIOD = BillingPeriod("2026-10")
LEFT_OUT = "2026-10-01T03:00:46Z"  # the last sample before the middle one of the six hours


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoResult]:
    home = tmp_path_factory.mktemp("thin") / "home"
    with run_demo("thin_line", home, no_bar, lambda text: None) as story:
        yield story


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return build_fleet(load_scenario("thin_line"))


def sealed(demo: DemoResult) -> dict[str, dict[str, object]]:
    record = demo.opened.record
    documents = (record.sealed(d.sha256) for d in record.invoices(PERIOD.name))
    return {str(document["tenant"]): dict(document) for document in documents}


def test_every_pod_has_its_true_seconds(demo: DemoResult, fleet: Fleet) -> None:
    expected = truth.true_allocations(fleet)
    assert len(expected) == 7
    assert truth.counted_allocations(demo.opened.home) == expected


def test_every_mart_equals_the_truth(demo: DemoResult, fleet: Fleet) -> None:
    """At two o'clock six cards were in use: the two pods on gpu-b were on two, and would fit on
    one.

    One hour is missing until it is repaired; telemetry names the cards of all running pods.
    """
    true = truth.Truth(fleet)
    assert truth.wrong_facts(demo.opened.home, {"thin_line": true}) == {}
    second = 1_790_812_800 + 2 * 3600
    east = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"
    hour = true.clusters[east, second]
    assert (hour["sum_of_node_max"], hour["simultaneous_max"]) == (6, 6)
    counted = truth.counted(demo.opened.home, "cluster-hours")[east, second]
    assert counted == (2, 2, 6, 5, 6, hour["gpu_seconds"], "by_devices")


def test_every_second_is_confirmed_or_too_short_to_be_sampled(demo: DemoResult) -> None:
    statement = """
        select distinct pod_name, method, method_reason from marts.fct_pod_hours
        where method <> 'confirmed' and state = 'running'
    """
    assert truth.ask(demo.opened.home, statement) == [("blink", "lifecycle_only", "too_short")]


def test_the_only_finding_is_the_pod_too_short_to_be_sampled(demo: DemoResult) -> None:
    check_result = steps.check_period(demo.opened, PERIOD)
    assert [(finding.code, "blink" in finding.where) for finding in check_result.findings] == [
        ("REC-003", True)
    ]


def test_invoices_have_the_amounts_calculated_by_hand(demo: DemoResult) -> None:
    issued = {document.tenant: document.billed_nanos for document in demo.months[0].result.invoices}
    assert issued == {"speech": 4_740_000_000, "vision": 17_380_000_000}
    exact = "select tenant, sum(cost_nanos) from marts.fct_charges where belongs_to = 'tenant' "
    rows = truth.ask(demo.opened.home, exact + "group by all order by all")
    assert [(tenant, int(nanos)) for tenant, nanos in rows] == [
        ("speech", 3_382_500_000 + 1_357_000_000 + 785_714),
        ("vision", 10_800_000_000 + 6_580_000_000),
    ]


def test_the_missing_hour_was_named_with_its_money(demo: DemoResult) -> None:
    [refusal] = demo.months[0].refusals
    assert LEFT_OUT in refusal
    assert refusal.startswith("CLOSE-001 period 2026-10")


def test_the_close_refuses_and_names_a_removed_hour(demo: DemoResult, tmp_path: Path) -> None:
    """An hour that was not queried, or is lost from the landing, has no evidence."""
    home = copied(demo, tmp_path)
    forget_hour(home.home.landing, datetime(2026, 10, 1, 4, tzinfo=UTC))
    shutil.rmtree(home.home.record)
    steps.refresh(home, PERIOD)
    with pytest.raises(NotBillable) as refused:
        steps.close(home, PERIOD, dry_run=False)
    # Its neighbours were pulled with one sample beyond their edges.
    assert "2026-10-01T04:00:46Z to 2026-10-01T04:59:58Z" in refused.value.message()
    assert home.record.events() == []


def test_a_close_rebuilds_facts_after_new_decisions(demo: DemoResult, tmp_path: Path) -> None:
    """At 2.00 an hour: 34760 s are 19.3111…, and 6765 + 2714 + 11/7 s are 5.2669841…"""
    home = copied(demo, tmp_path)
    shutil.rmtree(home.home.record)
    shutil.rmtree(home.home.documents)
    rates = home.home.decisions / "rates.csv"
    rates.write_text(rates.read_text(encoding="utf-8").replace(",1.80,", ",2.00,"))
    result = steps.close(OpenHome.at(home.home.path, home.clock), PERIOD, dry_run=False)
    billed = {document.tenant: document.billed_nanos for document in result.invoices}
    assert billed == {"speech": 5_270_000_000, "vision": 19_310_000_000}
    assert recount(OpenHome.at(home.home.path, home.clock), PERIOD).lines == ()


def test_without_the_warehouse_the_same_invoices_are_issued(
    demo: DemoResult, tmp_path: Path
) -> None:
    """Everything except the four kept parts is deleted, and the month is built again."""
    again = copied(demo, tmp_path)
    shutil.rmtree(again.home.record)
    for derived in ("runs", "build", "documents", "warehouse.duckdb"):
        path = again.home.path / derived
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    steps.refresh(again, PERIOD)
    steps.close(again, PERIOD, dry_run=False)
    assert documents(again.home.documents) == documents(demo.opened.home.documents)


@pytest.mark.deep
def test_bits_that_flip_in_derived_files_change_no_fact_and_no_bill(
    demo: DemoResult, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are derived again from the landing, which one line of output says."""
    home = copied(demo, tmp_path)
    flip_a_bit_in_each_of(home.home.runs)
    assert recount(home, PERIOD).lines == ()
    shutil.rmtree(home.home.record)
    flip_a_bit_in_each_of(home.home.runs)
    facts_sha256 = steps.refresh(home, PERIOD).facts_sha256
    assert {facts_sha256} == {
        document["stands_on"]["facts_sha256"]  # type: ignore[index]
        for document in sealed(demo).values()
    }
    lines = [line for line in caplog.messages if "not as it was written" in line]
    assert [line.partition(" ")[0].endswith(".parquet") for line in lines] == [True, True]


def flip_a_bit_in_each_of(runs: Path) -> None:
    for path in sorted(runs.rglob("*.parquet")):
        body = bytearray(path.read_bytes())
        body[len(body) // 3] ^= 4
        path.write_bytes(body)


def test_facts_that_were_edited_are_counted_again_before_they_are_checked(
    demo: DemoResult, tmp_path: Path
) -> None:
    """A cut log, a copied file without it and edited tables have one result: the facts differ from
    the counted ones.
    """
    home = copied(demo, tmp_path)
    shutil.rmtree(home.home.record)
    expected = steps.check_period(home, PERIOD)
    with connected(home.home.warehouse_path) as connection:
        connection.execute("update stored.fct_pod_hours_rest set running_seconds = 0")
        connection.execute("delete from marts.fct_charges")
    assert steps.check_period(home, PERIOD) == expected
    assert truth.counted_allocations(home.home) == truth.counted_allocations(demo.opened.home)


def test_closing_twice_changes_nothing(demo: DemoResult) -> None:
    before = documents(demo.opened.home.documents)
    events = demo.opened.record.events()
    result = steps.close(OpenHome(demo.opened.home, demo.opened.clock), PERIOD, dry_run=False)
    assert result.closed
    assert demo.opened.record.events() == events
    assert documents(demo.opened.home.documents) == before


def test_the_record_is_valid_and_a_changed_byte_is_found(demo: DemoResult, tmp_path: Path) -> None:
    home = copied(demo, tmp_path)
    assert home.record.verify() == []
    victim = sorted((home.home.record / "sealed").rglob("*.json"))[0]
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.chmod(0o644)
    victim.write_bytes(body)
    assert [
        victim.stem in problem.seen or victim.name in problem.where
        for problem in home.record.verify()
    ] == [True]


def test_the_invoice_names_its_evidence_and_rules(demo: DemoResult) -> None:
    vision = sealed(demo)["vision"]
    text = json.dumps(vision)
    for name in ("evidence_sha256", "decisions_sha256", "facts_sha256", "checks_sha256"):
        assert name in text


def copied(demo: DemoResult, tmp_path: Path) -> OpenHome:
    """A copy of the demo's home that a test may damage, with the same clock."""
    shutil.copytree(demo.opened.home.path, tmp_path / "home")
    return OpenHome.at(tmp_path / "home", demo.opened.clock)


def documents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def forget_hour(landing: Path, hour: datetime) -> None:
    """Create the landing again without any response for an hour."""
    opened = OpenHome.at(landing.parent)
    attempts = opened.landing.attempts()
    manifests = landing / "manifests"
    shutil.rmtree(manifests)
    from dataclasses import replace

    for attempt in attempts:
        draft = attempt.draft
        for window in without(draft.window, hour):
            hours = tuple(entry for entry in draft.hours if window.contains(entry.hour))
            opened.landing.append_attempt(replace(draft, window=window, hours=hours))
    from ingestion.rebuild import rebuild

    rebuild(opened.landing, opened.home.runs)


def without(window: Interval, hour: datetime) -> list[Interval]:
    edges = [
        (window.started_at, min(window.ended_at, hour)),
        (max(window.started_at, hour + HOUR), window.ended_at),
    ]
    return [Interval(a, b) for a, b in edges if a < b]


def run(demo: DemoResult, *arguments: str) -> Result:
    """A command of the command line, on the demo's home."""
    place = ["--home", str(demo.opened.home.path)]
    return CliRunner().invoke(cli, [*arguments, *place], catch_exceptions=False)


def document(demo: DemoResult, *arguments: str) -> dict[str, Any]:
    ran = run(demo, *arguments, "--json")
    assert ran.exit_code == 0, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def amounts(found: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found["rows"]]


def test_amounts_of_tenants_equal_their_invoices(demo: DemoResult) -> None:
    found = document(demo, "usage", "--period", "2026-10")
    assert amounts(found, "tenant", "pods", "device_seconds_exact", "cost", "rounded_cost") == [
        ("speech", 4, 16255, "4.740285714", "4.74"),
        ("vision", 2, 34760, "17.38", "17.38"),
    ]
    assert [total["rounded_cost"] for total in found["totals"]] == ["22.12"]
    assert found["amounts"] == "final"
    assert found["schema"] == "gpu-ledger/usage/1"
    billed = {invoice.tenant: invoice.billed_nanos for invoice in demo.months[0].result.invoices}
    assert billed == {"speech": 4_740_000_000, "vision": 17_380_000_000}


@pytest.fixture(scope="module")
def portal(demo: DemoResult, tmp_path_factory: pytest.TempPathFactory) -> Portal:
    path = tmp_path_factory.mktemp("portal") / "tokens.csv"
    return portal_of(demo.opened.home, path, list(sealed(demo)))


def test_numbers_of_a_tenants_page_equal_the_command_and_the_invoice(
    demo: DemoResult, portal: Portal
) -> None:
    """Every amount on a page is in a row of the API, and equals that of the command, the mart and
    the invoice.
    """
    invoices = sealed(demo)
    for tenant, invoice in invoices.items():

        def rows(table: str, tenant: str = tenant) -> list[dict[str, Any]]:
            found = portal.get(f"{api.ROOT}/tenants/{tenant}/{table}", tenant)
            assert found.status_code == 200, found.text
            return list(found.json()["rows"])

        [summary] = rows("summary")
        [total] = document(demo, "usage", "2026-10", "--tenant", tenant)["totals"]
        [(nanos,)] = truth.ask(
            demo.opened.home,
            f"select sum(cost_nanos) from marts.fct_charges where tenant = '{tenant}'",
        )
        assert summary["cost"] == total["rounded_cost"] == invoice["total_billed_cost"]
        assert (summary["device_hours"], summary["gpu_hours"]) == (
            str(total["device_hours"]),
            str(total["weighted_hours"]),
        )
        for by in ("pod", "workload", "class", "profile", "day", "hour", "day,class"):
            command = document(demo, "usage", "2026-10", "--tenant", tenant, "--by", by)
            found = rows(f"usage?by={by}")
            names = ("pods", "cost", "rounded_cost", "currency")
            assert amounts({"rows": found}, *names) == amounts(command, *names), by
            assert sum(Decimal(row["cost"]) for row in found) == Decimal(int(nanos)).scaleb(-9)
        assert [row["billed"] for row in rows("invoices")] == [invoice["total_billed_cost"]]
        of_api = (row for table in TENANT_TABLES for row in rows(table))
        known = {number for row in of_api for value in row.values() for number in numbers(value)}
        shown = numbers_on(portal.get(f"/tenants/{tenant}", tenant).text)
        assert len(shown) > 20
        assert set(shown) - known == set(), tenant


def test_numbers_of_the_providers_page_equal_the_command_and_the_invoices(
    demo: DemoResult, portal: Portal
) -> None:
    names = (*names_of(api.FLEET), "coverage")
    rows = {name: rows_of(portal, f"/fleet/{name}") for name in names}
    invoices = sealed(demo)
    for row in rows["tenants"]:
        [used] = document(demo, "usage", "2026-10", "--tenant", row["tenant"])["totals"]
        invoiced = invoices[row["tenant"]]["total_billed_cost"]
        assert row["cost"] == row["forecast"] == used["rounded_cost"] == invoiced
        assert row["device_hours"] == str(used["device_hours"])
    assert {row["tenant"] for row in rows["tenants"]} == invoices.keys()
    [total] = rows["summary"]
    assert total["cost"] == str(
        sum(Decimal(str(i["total_billed_cost"])) for i in invoices.values())
    )
    assert marts_of_provider(demo.opened.home) == {
        "idle": [
            (r["tenant"], r["pod_name"], r["idle_hours"], r["idle_cost"]) for r in rows["idle"]
        ],
        "cards": [tuple(r[term] for term in CARDS) for r in rows["capacity"]],
        "card hours": [(r["running"], r["held"]) for r in rows["capacity/hours"]],
        "coverage": sorted((r["source"], r["status"], r["hours"]) for r in rows["coverage"]),
    }
    quotas = document(demo, "quota")["quotas"]
    assert [row["used_count"] for row in rows["quotas"]] == [one["used_count"] for one in quotas]
    known = {number for of in rows.values() for row in of for number in numbers([*row.values()])}
    known |= sums_of_cards(rows["capacity"]) | sums_of_hours(rows["coverage"])
    shown = numbers_on(portal.get("/provider", "provider").text)
    assert len(shown) > 50
    assert set(shown) - known == set()


def test_burn_rates_of_the_command_equal_those_of_the_portal(
    demo: DemoResult, portal: Portal
) -> None:
    """In the last of the six hours only `serve` ran; `train` cost 6.58 in the last 24 hours."""
    rates = ("burn_rate_per_hour", "last_day_per_hour")
    shown: dict[str, tuple[str, ...]] = {}
    for tenant in sealed(demo):

        def command(by: str, tenant: str = tenant) -> dict[str, Any]:
            words = ("usage", "2026-10", "--burn-rate", "--by", by, "--tenant", tenant)
            return document(demo, *words)

        workloads = {"rows": rows_of(portal, f"/tenants/{tenant}/workloads")}
        named: tuple[str, ...] = ("workload_kind", "workload_name", *rates, "currency")
        assert sorted(amounts(workloads, *named)) == sorted(amounts(command("workload"), *named))
        pods = {"rows": rows_of(portal, f"/tenants/{tenant}/pods")}
        named = ("pod_name", "pod_uid", rates[0], "currency")
        assert sorted(amounts(pods, *named)) == sorted(amounts(command("pod"), *named))
        shown |= {
            row["workload_name"]: tuple(row[name] for name in rates) for row in workloads["rows"]
        }
    assert shown == {
        "serve": ("1.80", "0.45"),
        "train": ("0.00", "0.27"),
        "notebook": ("0.00", "0.14"),
        "sweep": ("0.00", "0.06"),
        "blink": ("0.00", "0.00"),
    }


def test_numbers_of_a_workloads_page_equal_the_command(demo: DemoResult, portal: Portal) -> None:
    columns = ("Pod", "GPU-hours", "Cost", "Burn rate per hour", "Idle cost")
    for tenant in sealed(demo):
        used = document(demo, "usage", "2026-10", "--tenant", tenant, "--by", "pod")["rows"]
        words = ("usage", "2026-10", "--burn-rate", "--by", "pod", "--tenant", tenant)
        rates = document(demo, *words)["rows"]
        rate_of_pod = {row["pod_name"]: row["burn_rate_per_hour"] for row in rates}
        expected = {row["pod_name"]: (row["weighted_hours"], row["rounded_cost"]) for row in used}
        for workload in rows_of(portal, f"/tenants/{tenant}/workloads"):
            named = {"kind": workload["workload_kind"], "name": workload["workload_name"]}
            page = portal.get(f"/tenants/{tenant}/workload?{urlencode(named)}", tenant).text
            shown = table_rows(page, columns)
            assert len(shown) == workload["pods"]
            for pod, hours, cost, rate, idle in shown:
                assert (hours, cost) == (expected[pod][0], f"{expected[pod][1]} USD")
                assert (rate, idle) == (rate_of_pod[pod], "0.00")
                del expected[pod]
            assert sum(Decimal(row[2].split()[0]) for row in shown) == Decimal(
                workload["rounded_cost"]
            )
        assert expected == {}  # each pod is on the page of one workload


def test_numbers_of_the_map_equal_the_mart(demo: DemoResult, portal: Portal) -> None:
    """At 02:10 four cards of gpu-a and parts of two of gpu-b are used."""
    page = portal.get("/provider/map?at=2026-10-01T02:10:00", "provider").text
    shown = {row[0]: row[1:] for row in table_rows(page, ("Node", "Running", "Idle"))}
    terms = ", ".join(
        f"format('{{:.2f}}', sum({term}_share_seconds) / any_value(share_denominator) / 3600)"
        for term in ("running", "idle")
    )
    counted = truth.ask(
        demo.opened.home,
        f"select node_name, {terms} from marts.fct_node_share_hours where dimension = 'compute' "
        "and hour_started_at = '2026-10-01T02:00:00Z' and gpu_class <> '' group by node_name",
    )
    assert {name: tuple(of_node) for name, of_node in shown.items()} == {
        name: (running, idle) for name, running, idle in counted
    }
    assert shown.keys() == {"gpu-a", "gpu-b"}


def test_numbers_of_the_health_page_equal_the_command(demo: DemoResult, portal: Portal) -> None:
    def rounded(number: Decimal) -> str:
        return f"{number.quantize(Decimal('0.01'))}"

    columns = ("Tenant", "Workload", "Device-hours", "Idle hours", "Cost", "Idle cost")
    shown = table_rows(portal.get("/provider/health", "provider").text, columns)
    owners = document(demo, "health", "2026-10")["owners"]
    assert shown == [
        (
            owner["tenant"],
            f"{owner['workload_kind']} {owner['workload_name']}",
            rounded(Decimal(owner["device_seconds"]) / 3600),
            rounded(Decimal(owner["idle_seconds"]) / 3600),
            f"{rounded(Decimal(owner['cost']))} USD",
            rounded(Decimal(owner["idle"])),
        )
        for owner in owners
    ]
    assert len(shown) == 6


def test_numbers_of_an_open_month_equal_the_command(demo: DemoResult, tmp_path: Path) -> None:
    """Until the close the amounts are estimates, and there is no invoice."""
    opened = copied(demo, tmp_path)
    shutil.rmtree(opened.home.record)
    shutil.rmtree(opened.home.documents)
    opened = OpenHome.at(opened.home.path, opened.clock)
    steps.refresh(opened, PERIOD)
    snapshot(opened)
    open_portal = portal_of(opened.home, tmp_path / "tokens.csv", ["speech", "vision"])
    expected = {"speech": "4.74", "vision": "17.38"}
    for tenant, cost in expected.items():
        words = ["usage", "2026-10", "--tenant", tenant, "--json", "--home", str(opened.home.path)]
        command = json.loads(CliRunner().invoke(cli, words, catch_exceptions=False).stdout)
        [summary] = rows_of(open_portal, f"/tenants/{tenant}/summary")
        assert summary["cost"] == command["totals"][0]["rounded_cost"] == cost
        assert summary["amounts"] == command["amounts"] == "estimated"
        assert rows_of(open_portal, f"/tenants/{tenant}/invoices") == []
        tables = [rows_of(open_portal, f"/tenants/{tenant}/{table}") for table in TENANT_TABLES]
        known = {n for rows in tables for row in rows for n in numbers([*row.values()])}
        page = open_portal.get(f"/tenants/{tenant}", tenant).text
        assert set(numbers_on(page)) - known == set(), tenant
        assert "estimated" in page


CARDS = ("installed", "running", "held", "idle", "unsold", "unhealthy", "withdrawn", "unmeasured")


def marts_of_provider(home: Home) -> dict[str, list[tuple[Any, ...]]]:
    """The numbers of the provider's page, counted from the marts by other statements."""
    hours = "format('{:.2f}', {} / 3600)"
    last = "select max(hour_started_at) from marts.fct_node_share_hours"
    share = "marts.fct_node_share_hours where dimension = 'compute'"
    cards = [f"sum({term}_share_seconds) / any_value(share_denominator)" for term in CARDS]
    as_text = [hours.replace("{}", sum_of) for sum_of in cards]
    return {
        name: truth.ask(home, statement)
        for name, statement in {
            "idle": "select tenant, pod_name, format('{:.2f}', sum(idle_seconds) / 3600), "
            "format('{:.2f}', sum(idle_nanos) / 1e9) from marts.fct_gpu_use where tenant <> '' "
            "group by all having sum(idle_seconds) > 0 order by sum(idle_nanos) desc, pod_name",
            "cards": f"select {', '.join(as_text)} from {share} and hour_started_at = ({last}) "
            "group by cluster_id, gpu_class having sum(installed_share_seconds) > 0 order by all",
            "card hours": f"select {as_text[1]}, {as_text[2]} from {share} "
            "group by hour_started_at, gpu_class having sum(installed_share_seconds) > 0 "
            "order by hour_started_at, gpu_class",
            "coverage": "select source, state, count(*) from quality.coverage_statuses "
            "where hour_started_at < '2026-10-01T06:00:00Z' group by all order by all",
        }.items()
    }


def test_numbers_of_the_programmes_page_equal_the_command_and_the_mart(
    demo: DemoResult, portal: Portal
) -> None:
    for hour in ("02", "05"):
        at = f"?hour=2026-10-01T{hour}"
        command = document(demo, "nodes", "--hour", f"2026-10-01T{hour}")
        clusters, nodes = (
            rows_of(portal, f"/fleet/hour/clusters{at}"),
            rows_of(portal, f"/fleet/hour/nodes{at}"),
        )
        assert [row | command["clusters"][n] for n, row in enumerate(clusters)] == command[
            "clusters"
        ]
        assert [command["nodes"][n] | row for n, row in enumerate(nodes)] == command["nodes"]
        [fleet] = rows_of(portal, f"/fleet/hour{at}")
        assert fleet["sum_of_node_max"] == sum(row["gpu_count_max"] for row in command["nodes"])
        days = rows_of(portal, "/fleet/days")
        tables = [clusters, nodes, [fleet], days]
        known = {n for rows in tables for row in rows for n in numbers([*row.values()])}
        shown = numbers_on(portal.get(f"/programme{at}", "programme").text)
        assert len(shown) > 15
        assert set(shown) - known == set()
    month = portal.get(f"{api.ROOT}/fleet/hours?format=csv", "programme").text
    spelled = month.replace(",false\n", ",no\n").replace(",true\n", ",yes\n")
    assert spelled == run(demo, "nodes", "--period", "2026-10", "--csv").stdout
    largest = truth.ask(
        demo.opened.home,
        "select count(*), max(active_worker_nodes_max), max(nodes), max(simultaneous) from ("
        "select hour_started_at, sum(active_worker_nodes_max) as active_worker_nodes_max, "
        "sum(sum_of_node_max) as nodes, sum(simultaneous_max) as simultaneous "
        "from marts.fct_cluster_hours group by all)",
    )
    assert [tuple(row.values())[1:] for row in days] == largest


def rows_of(portal: Portal, path: str) -> list[dict[str, Any]]:
    found = portal.get(f"{api.ROOT}{path}", "provider")
    assert found.status_code == 200, found.text
    return list(found.json()["rows"])


def names_of(scope: str) -> list[str]:
    return [t.path.removeprefix("/fleet/") for t in api.TABLES if t.scope == scope]


def sums_of_cards(rows: list[dict[str, Any]]) -> set[Decimal]:
    """The installed cards, those that run or are held, and their share."""
    installed, running, held = (sum(Decimal(r[term]) for r in rows) for term in CARDS[:3])
    return {Decimal(installed), Decimal(running + held), Decimal(0)}


def sums_of_hours(rows: list[dict[str, Any]]) -> set[Decimal]:
    """Hours by cluster, source and status."""
    found: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["cluster_name"], row["source"], row["status"])
        found[key] = found.get(key, 0) + row["hours"]
    return {Decimal(hours) for hours in found.values()}


def numbers_on(page: str) -> list[Decimal]:
    """The numbers in the figures of a page and in the columns of numbers of its tables."""
    shown = re.findall(r'<(?:td|p|dd) class="(?:[^"]* amount|figure)">([^<]*)<', page)
    return [number for text in shown for number in numbers(text)]


def table_rows(page: str, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of these columns in all tables of a page that have them."""
    found = []
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        names = [_text(cell) for cell in re.findall(r"<th\b.*?</th>", table, re.DOTALL)]
        if not set(columns) <= set(names):
            continue
        for row in re.findall(r"<tr\b.*?</tr>", table, re.DOTALL):
            if cells := [_text(cell) for cell in re.findall(r"<td\b.*?</td>", row, re.DOTALL)]:
                found.append(tuple(cells[names.index(column)] for column in columns))
    return found


def _text(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", cell)).strip()


TENANT_TABLES = (
    *(
        table.path.removeprefix("/tenants/{tenant}/")
        for table in api.TABLES
        if table.scope == api.TENANT
    ),
    "usage?by=day,class",
)


def numbers(value: object) -> list[Decimal]:
    """The numbers in a value or a text, with any unit."""
    text = str(value).replace(",", "")
    return [Decimal(one) for one in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_rows_in_cents_add_up_to_the_invoice(demo: DemoResult) -> None:
    """1.357 + 0.000785714 + 3.3825 is 4.740285714, and 4.74 in cents: one row is rounded up."""
    found = document(demo, "usage", "--period", "2026-10", "--tenant", "speech")
    assert found["by"] == "workload"
    assert amounts(found, "workload_name", "device_seconds_exact", "cost", "rounded_cost") == [
        ("sweep", 2714, "1.357", "1.36"),
        ("blink", 11, "0.000785714", "0.00"),
        ("notebook", 13530, "3.3825", "3.38"),
    ]


def test_weighted_time_is_an_exact_fraction(demo: DemoResult) -> None:
    found = document(demo, "usage", "--period", "2026-10", "--tenant", "speech", "--by", "profile")
    assert amounts(found, "mig_profile", "weighted_seconds_exact") == [
        ("1g.5gb", "11/7"),
        ("3g.20gb", "6765"),
        ("whole", "2714"),
    ]


@pytest.mark.parametrize(
    ("unit", "device", "weighted"),
    [("hours", "9.66", "9.66"), ("minutes", "579.33", "579.33"), ("seconds", 34760, 34760)],
)
def test_units_are_the_same_time(
    demo: DemoResult, unit: str, device: object, weighted: object
) -> None:
    arguments = ("usage", "--period", "2026-10", "--tenant", "vision", "--by", "tenant")
    [row] = document(demo, *arguments, "--unit", unit)["rows"]
    assert (row[f"device_{unit}"], row[f"weighted_{unit}"]) == (device, weighted)
    assert row["device_seconds_exact"] == 34760


def test_hours_of_a_window_are_those_of_the_month(demo: DemoResult) -> None:
    """From 02:00 to 03:00: notebook 1800 weighted, sweeps 1193 and 1500 + 21, serve, train."""
    hour = ("--from", "2026-10-01T02", "--to", "2026-10-01T03")
    found = document(demo, "usage", *hour, "--by", "pod")
    seconds = {row["pod_name"].split("-")[0]: 0 for row in found["rows"]}
    for row in found["rows"]:
        seconds[row["pod_name"].split("-")[0]] += row["device_seconds_exact"]
    assert seconds == {"notebook": 3600, "sweep": 2714, "serve": 3600, "train": 7200}
    by_hour = document(demo, "usage", "--period", "2026-10", "--by", "hour")
    at_two = [row for row in by_hour["rows"] if row["hour_started_at"] == "2026-10-01T02:00:00Z"]
    assert [row["cost"] for row in at_two] == ["2.257", "5.4"]


@pytest.mark.parametrize("by", ["cluster", "pod", "workload", "class", "profile", "day", "hour"])
def test_every_grouping_has_every_second_once(demo: DemoResult, by: str) -> None:
    found = document(demo, "usage", "--period", "2026-10", "--by", by)
    [total] = found["totals"]
    assert total["device_seconds_exact"] == 16255 + 34760
    assert total["weighted_seconds_exact"] == "309684/7"  # 34760 + 2714 + 6765 + 11/7
    assert total["cost"] == "22.120285714"


def test_a_missing_label_is_one_empty_value(demo: DemoResult) -> None:
    found = document(demo, "usage", "--period", "2026-10", "--by", "label:no-such-label")
    assert amounts(found, "tenant", "label_value", "cost") == [
        ("speech", None, "4.740285714"),
        ("vision", None, "17.38"),
    ]
    assert any("has the label no-such-label" in note for note in found["notes"])


def test_the_providers_own_use_is_apart(demo: DemoResult) -> None:
    found = document(demo, "usage", "--period", "2026-10", "--provider")
    assert amounts(found, "tenant", "device_seconds_exact", "cost") == [
        ("openshift-nvidia-test", 21595, "1.5425")
    ]


def test_an_empty_result_has_a_reason(demo: DemoResult) -> None:
    ran = run(demo, "usage", "--period", "2026-10", "--tenant", "spech")
    assert (
        "No use of spech was counted in this window; counted there: speech, vision." in ran.stdout
    )
    assert "counted until 2026-10-01T06:00:00Z" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("usage", "--period", "2026-09"), "FACTS-001"),
        (("usage", "--period", "2026-10", "--by", "lable:x"), "NAME-001"),
        (("query", "burn"), "NAME-001"),
        (("query", "usage-by-day", "--param", "x=1"), "NAME-001"),
        (("nodes", "--hour", "2026-10-01T02:30:00Z"), "VALUE-001"),
    ],
)
def test_impossible_queries_are_refused_with_a_page(
    demo: DemoResult, arguments: tuple[str, ...], code: str
) -> None:
    with pytest.raises(LedgerError) as refused:
        run(demo, *arguments)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "arguments",
    [
        ("usage", "--period", "2026-10", "--from", "2026-10-01"),
        ("usage", "--from", "2026-10-02", "--to", "2026-10-01"),
        ("query",),
        ("query", "usage-by-day", "--param", "day"),
        ("quota", "--at", "2026-10-01", "--period", "2026-10"),
    ],
)
def test_an_incomplete_query_is_a_usage_error(demo: DemoResult, arguments: tuple[str, ...]) -> None:
    assert run(demo, *arguments).exit_code == 2


def test_an_hour_names_the_pods_that_made_its_maximum(demo: DemoResult) -> None:
    """serve 1, train 2, and one sweep after the other: four cards at once, never five.

    The slices of gpu-b's two pods fit on one card; its telemetry shows them on two: 4 + 2.
    """
    found = document(demo, "nodes", "--hour", "2026-10-01T02")
    [cluster] = found["clusters"]
    says = {"active_worker_nodes": 2, "sum_of_node_max": 6, "sum_of_node_max_bound": 5}
    says |= {"simultaneous_max": 6, "how_known": "by_devices"}
    assert cluster | says == cluster
    pods = {node["node_name"]: node["pods"] for node in found["nodes"]}
    assert [pod.rsplit("-", 1)[0] for pod in pods["gpu-a"]] == [
        "speech/sweep",
        "vision/serve-" + pods["gpu-a"][1].split("-")[1],
        "vision/train",
    ]
    assert pods["gpu-b"][1] == "speech/notebook-0"
    assert {node["node_name"]: node["gpu_count_max"] for node in found["nodes"]} == {
        "gpu-a": 4,
        "gpu-b": 2,
    }
    assert {node["node_name"]: node["gpu_count_max_bound"] for node in found["nodes"]} == {
        "gpu-a": 4,
        "gpu-b": 1,
    }
    assert "by_devices is exact" in run(demo, "nodes", "--hour", "2026-10-01T02").stdout


def test_a_month_of_nodes_is_a_table_for_a_spreadsheet(demo: DemoResult) -> None:
    ran = run(demo, "nodes", "--period", "2026-10", "--csv")
    header, *rows = ran.stdout.splitlines()
    assert header.startswith("cluster_name,hour_started_at,measurement,node_name,gpu_count_max")
    counts = [tuple(row.split(",")[3:5]) for row in rows]
    assert counts == [
        (node, count)
        for hour in ("12", "32", "42", "12", "12", "11")
        for node, count in zip(("gpu-a", "gpu-b"), hour, strict=True)
    ]


def test_an_hour_outside_of_the_measured_time_is_no_zero(demo: DemoResult) -> None:
    ran = run(demo, "nodes", "--hour", "2026-10-01T09")
    assert "No cluster is measured in this hour" in ran.stdout
    assert document(demo, "nodes", "--hour", "2026-10-01T09")["nodes"] == []


def test_the_inventory_names_every_device_and_its_holder(demo: DemoResult) -> None:
    """Four whole cards, seven 1g.5gb on one card; 3g, 2g and two 1g on the other."""
    found = document(demo, "inventory", "--at", "2026-10-01T02:10:00Z")
    capacity = {
        (row["node_name"], row["mig_profile"]): (row["device_capacity"], row["device_allocated"])
        for row in found["capacity"]
    }
    assert capacity == {
        ("gpu-a", "whole"): (4, 4),
        ("gpu-b", "1g.5gb"): (9, 1),
        ("gpu-b", "2g.10gb"): (1, 0),
        ("gpu-b", "3g.20gb"): (1, 1),
    }
    holders: dict[tuple[str, str], list[str]] = {}
    for device in found["devices"]:
        who = device["held_by"].rpartition("/")[2].split("-")[0]
        holders.setdefault((device["node_name"], device["mig_profile"]), []).append(who)
    assert holders["gpu-a", "whole"] == ["train", "train", "sweep", "serve"]
    assert holders["gpu-b", "3g.20gb"] == ["notebook"]
    assert holders["gpu-b", "2g.10gb"] == [""]
    assert sorted(holders["gpu-b", "1g.5gb"]) == [""] * 8 + ["probe"]
    assert {device["gpu_class"] for device in found["devices"]} == {"A100-40GB"}
    assert {device["how_known"] for device in found["devices"]} == {"telemetry"}


def test_a_card_is_free_in_the_second_in_which_its_pod_has_ended(demo: DemoResult) -> None:
    """train ends at 03:00:00: until 02:59:59 it holds two cards, and then none."""
    held = {
        instant: {
            row["mig_profile"]: row["device_allocated"]
            for row in document(demo, "inventory", "--at", instant)["capacity"]
        }["whole"]
        for instant in ("2026-10-01T02:59:59Z", "2026-10-01T03:00:00Z")
    }
    assert held == {"2026-10-01T02:59:59Z": 3, "2026-10-01T03:00:00Z": 1}


def test_quotas_are_shown_beside_use(demo: DemoResult) -> None:
    found = document(demo, "quota", "--at", "2026-10-01T02:10:00Z")
    counts = {
        (row["tenant"], row["hard_count"], row["used_count"], row["allocated_count_max"])
        for row in found["quotas"]
    }
    assert counts == {("vision", 4, 3, 3)}
    ran = run(demo, "quota", "--tenant", "speech")
    assert "No quota of speech for GPUs was seen" in ran.stdout


ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    # serve holds one card to the end; no other pod does in the last hour.
    "tenants-by-burn-rate": [
        ("vision", "1.8", "17.38", "17.38", "USD", "2026-10-01T06:00:00Z"),
        ("speech", "0", "4.740285714", "4.740285714", "USD", "2026-10-01T06:00:00Z"),
    ],
    # Six of 744 hours: 124 times as much.
    "forecast-against-budget": [
        ("vision", "17.38", "2155.12", "17.38", "2155.12", None, None, "USD"),
        (
            "speech",
            "4.740285714",
            "587.795428536",
            "4.740285714",
            "587.795428536",
            None,
            None,
            "USD",
        ),
    ],
    "node-hours-at-the-maximum": [("east", "gpu-b", 6, 5, 2, 2), ("east", "gpu-a", 6, 1, 4, 4)],
    "busiest-hours": [
        (f"2026-10-01T0{hour}:00:00Z", cards, cards, "by_devices", 6, 2)
        for hour, cards in ((2, 6), (1, 5), (0, 3), (3, 3), (4, 3), (5, 2))
    ],
    "cost-of-a-gap": [],
    "gaps-by-cluster": [],
    # Held seconds count as use here: blink 2, notebook 15, probe 5.
    "mig-slices-stranded": [
        ("east", "gpu-b", "A100-40GB", "1g.5gb", 9, 9 * 21600, 21613, 9 * 21600 - 21613),
        ("east", "gpu-b", "A100-40GB", "2g.10gb", 1, 21600, 0, 21600),
        ("east", "gpu-b", "A100-40GB", "3g.20gb", 1, 21600, 13545, 21600 - 13545),
    ],
    # Seven of eight memory slots of one card are covered.
    "unsold-remainder": [("east", "gpu-b", "A100-40GB", "memory", 21600 // 8, 2 * 21600)],
    "idle-money-by-workload": [],
    "used-without-allocation": [],
    "device-anomalies": [],
    # Six of 744 hours: in the month, 124 times as much.
    "most-expensive-workloads": [
        ("vision", "Deployment", "serve", 1, 21600, "10.8", "1.8", "1339.2", "USD"),
        ("vision", "Job", "train", 1, 13160, "6.58", "0", "815.92", "USD"),
        ("speech", "StatefulSet", "notebook", 1, 13530, "3.3825", "0", "419.43", "USD"),
        ("speech", "Job", "sweep", 2, 2714, "1.357", "0", "168.268", "USD"),
        ("speech", "Pod", "blink", 1, 11, "0.000785714", "0", "0.097428536", "USD"),
    ],
    "cost-by-class-and-profile": [
        ("A100-40GB", "whole", 1, 1, "1.8", 37474, "18.737", "USD"),
        ("A100-40GB", "3g.20gb", 1, 2, "1.8", 13530, "3.3825", "USD"),
        ("A100-40GB", "1g.5gb", 1, 7, "1.8", 11, "0.000785714", "USD"),
    ],
    "month-against-month": [
        ("vision", "17.38", "0", "17.38", "USD"),
        ("speech", "4.740285714", "0", "4.740285714", "USD"),
    ],
    "usage-by-day": [("2026-10-01", 51015, "22.120285714", "USD")],
    "one-source-use": [
        ("speech", "confirmed", "agree", 16244, "4.7395", "USD"),
        ("speech", "lifecycle_only", "too_short", 11, "0.000785714", "USD"),
        ("vision", "confirmed", "agree", 34760, "17.38", "USD"),
    ],
    "pods-too-short-to-be-sampled": [
        ("speech", "blink", "gpu-b", "A100-40GB", "1g.5gb", 11, "0.000785714", "USD")
    ],
    # Compute: 37474 + 13530 × 3/7 + 21606/7 run. Memory: 37474 + 13530/2 + 21606/8. Rounded down.
    "capacity-accounted-for": [
        ("east", "A100-40GB", "compute", 129600, 46359, 59, 83181, 0, 0, 0, 0),
        ("east", "A100-40GB", "memory", 129600, 46939, 60, 79899, 2700, 0, 0, 0),
    ],
    "provider-use": [("openshift-nvidia-test", "A100-40GB", "1g.5gb", 21595, "1.5425", "USD")],
    "outage-credits": [],
}


APART = (  # below
    "hourly-cost-of-pods",
    "quota-headroom",
    "use-by-cluster-product-and-tenant",
)


@pytest.mark.parametrize("name", [one.name for one in questions() if one.name not in APART])
def test_a_query_has_the_result_calculated_by_hand(demo: DemoResult, name: str) -> None:
    found = document(demo, "query", name)
    hidden = ("forecast_method",)
    rows = [tuple(v for k, v in row.items() if k not in hidden) for row in found["rows"]]
    assert rows == ANSWERS[name]


def test_the_hourly_cost_of_pods(demo: DemoResult) -> None:
    """A card costs 1.80, `train` has two, the notebook half of one. `blink` ran for 11 seconds at
    a seventh: 785,714 nanos of 11 seconds are 257,142,763 of an hour, rounded down."""
    rows = document(demo, "query", "hourly-cost-of-pods")["rows"]
    assert sorted((row["tenant"], row["hourly_cost"]) for row in rows) == [
        ("speech", "0.257142763"),
        ("speech", "0.9"),
        ("speech", "1.8"),
        ("speech", "1.8"),
        ("vision", "1.8"),
        ("vision", "3.6"),
    ]


def test_the_use_of_devices_by_tenant(demo: DemoResult) -> None:
    """Every hour of a device counts once for each pod that it names, and once if it names none.

    `train` has two cards in two hours, `serve` one in six; the two `sweep`s one hour each, the
    notebook five, and `blink` was scraped once. Without a pod: the two cards of `train` in five
    hours, that of `sweep` in six, the notebook's instance in three, and nine others in six.
    """
    rows = document(demo, "query", "use-by-cluster-product-and-tenant")["rows"]
    assert {(row["tenant"], row["device_hour_count"]) for row in rows} == {
        *(("", 10 + 6 + 3 + 54), ("vision", 4 + 6), ("speech", 2 + 5 + 1)),
        ("openshift-nvidia-test", 6),
    }
    [free] = [row for row in rows if not row["tenant"]]
    assert (free["use_millionths_average"], free["memory_used_mib_average"]) == (0, 4)


def test_the_headroom_of_a_quota(demo: DemoResult) -> None:
    rows = document(demo, "query", "quota-headroom")["rows"]
    assert {tuple(list(row.values())[3:]) for row in rows} == {(4, 3, 3, 6, 0)}


def test_queries_are_listed_and_shown(demo: DemoResult) -> None:
    assert len(json.loads(run(demo, "query", "--list", "--json").stdout)) == len(questions())
    shown = run(demo, "query", "usage-by-day", "--show").stdout
    assert shown.startswith("-- How much was used each day?")
    empty = run(demo, "query", "cost-of-a-gap").stdout
    assert "All usage in this time has evidence of both sources." in empty


def test_a_published_copy_says_what_it_is_and_gives_the_same_numbers(demo: DemoResult) -> None:
    before = document(demo, "usage", "--period", "2026-10")
    published = publish(demo.opened)
    with open_facts(demo.opened.home) as facts:
        assert facts.path == published.path
        [about] = facts.rows("from about")
        [period] = facts.rows("from about_periods")
    assert str(about["data_complete_to"]) == "2026-10-01 06:00:00+00:00"
    assert about["open_finding_count"] == 0  # of periods that are still open
    assert about["rates_version"].startswith("rates-")
    assert (period["amounts"], period["blocking_count"], period["finding_count"]) == ("final", 0, 1)
    assert document(demo, "usage", "--period", "2026-10") == before


def test_an_outdated_copy_is_not_read(demo: DemoResult) -> None:
    publish(demo.opened)
    note = demo.opened.home.build / "switched.json"
    kept = note.read_text(encoding="utf-8")
    note.write_text(kept.replace('"facts_sha256": "', '"facts_sha256": "0'), encoding="utf-8")
    try:
        with open_facts(demo.opened.home) as facts:
            assert facts.path == demo.opened.home.warehouse_path
    finally:
        note.write_text(kept, encoding="utf-8")


def test_another_client_adds_the_parquet_up_to_the_invoices(demo: DemoResult) -> None:
    published = publish(demo.opened)
    charges = polars.read_parquet(published.parquet_folder / "fct_charges" / "2026-10.parquet")
    assert charges.schema["cost_nanos"] == polars.Decimal(38, 0)
    totals = charges.group_by("tenant").agg(polars.col("cost_nanos").sum())
    assert {row["tenant"]: int(row["cost_nanos"]) for row in totals.to_dicts()} == {
        "openshift-nvidia-test": 1_542_500_000,
        "speech": 4_740_285_714,
        "vision": 17_380_000_000,
    }
    for path in published.parquet_folder.rglob("*.parquet"):
        kinds = polars.read_parquet_schema(path).values()
        assert not [kind for kind in kinds if kind.is_float()], path


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("select sum(cost_nanos) from fct_charges").fetchone()[0])
"""


def test_another_process_reads_the_copy_while_the_pipeline_writes(demo: DemoResult) -> None:
    """A writer holds the warehouse, which would lock out a reader of it; the copy can be read."""
    published = publish(demo.opened)
    with connected(demo.opened.home.warehouse_path) as writer:
        writer.execute("begin transaction")
        writer.execute("create schema if not exists scratch")
        for path in (published.path, published.latest_path):
            command = [sys.executable, "-c", READER, str(path)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (ran.stdout.strip(), ran.stderr) == ("23662785714", "")
        locked = [sys.executable, "-c", READER, str(demo.opened.home.warehouse_path)]
        refused = subprocess.run(locked, capture_output=True, text=True, check=False)
        assert "lock" in refused.stderr
        writer.execute("rollback")


def test_a_recount_without_changes_corrects_nothing(demo: DemoResult) -> None:
    ran = run(demo, "recount", "2026-10", "-o", "json")
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)
    assert (found["corrections"], found["recorded"], found["difference"]) == ([], False, "0")
    assert differences("recount", ran.stdout) == []


def ends_well(command: list[str], **instead: Path | str) -> None:
    """Run a command of a page with this test's paths; it must succeed."""
    words = []
    for word in command:
        for page, own in instead.items():
            word = word.replace(page, str(own))
        words.append(word)
    assert words[0] == "gpu-ledger"
    ran = CliRunner().invoke(cli, words[1:], catch_exceptions=False)
    assert ran.exit_code == 0, f"{shlex.join(words)}\n{ran.output}"


def test_a_number_is_checked_as_the_readme_says(demo: DemoResult) -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"## How a number is checked\n\n```\w*\n(.*?)```", readme, re.DOTALL)
    commands = commands_in(block)
    assert [command[1] for command in commands] == ["explain", "verify", "landing"]
    for command in commands:
        ends_well(command, **{"demo-home": demo.opened.home.path})


@pytest.mark.deep
def test_commands_to_correct_void_and_restore_run_as_on_the_page(
    demo: DemoResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recount has a test of its own; this one parses its options."""
    nothing = SimpleNamespace(lines=(), recorded=False, nanos=0, currency="USD")
    counted: list[bool] = []

    def recount(*_: object, dry_run: bool, progress: object) -> SimpleNamespace:
        counted.append(dry_run)
        return nothing

    monkeypatch.setattr("orchestration.cli.recount.recount_period", recount)
    home = tmp_path / "home"
    shutil.copytree(demo.opened.home.path, home)
    attested = shutil.copy(home / "documents" / "2026-10" / "head.json", tmp_path)
    monkeypatch.setenv("GPU_LEDGER_HOME", str(home))
    late, wrong, again, keep, restored, heads, lost = of("how-to/correct-void-and-restore.md", "sh")
    instead: dict[str, Path | str] = {
        "INV-000007": "INV-000001",
        "documents/": f"{home}/documents/",
        "head-as-attested.json": str(attested),
        "/mnt/backup/2026-11-18": tmp_path / "backup",
    }
    for step in (late, keep, wrong, again):
        for command in commands_in(step)[: -1 if step == keep else None]:
            ends_well(command, **instead)
    assert counted == [True, False, False]
    handed_out, *compared = commands_in(heads)
    [*words, sign, name] = handed_out[1:]
    assert sign == ">"
    (tmp_path / name).write_text(CliRunner().invoke(cli, words).stdout)
    for command in compared:
        ends_well(command, **instead, **{name: tmp_path / name})
    for number, after in enumerate(commands_in(restored)):
        place = {**instead, "restored-ledger": tmp_path / f"restored-{number}"}
        ends_well(commands_in(keep)[-1], **place)
        ends_well(after, **place)
    for command in commands_in(lost):
        ends_well(command, **place)


IN_THE_MONTH = "2026-10-01T03:00:00Z"
MONTH = ("--period", "2026-10")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("doctor", ()),
        ("hours", ("2026-10", "--all")),
        ("gaps", ("2026-10",)),
        ("landing verify", ()),
        ("check", ("2026-10",)),
        ("close", ("2026-10",)),
        ("invoice", ("2026-10",)),
        ("invoice", ("2026-10", "--number", "INV-000001")),
        ("usage", (*MONTH, "--by", "label:team")),
        ("usage", (*MONTH, "--by", "hour", "--unit", "seconds")),
        ("usage", (*MONTH, "--by", "pod", "--tenant", "vision")),
        ("usage", ("2026-10", "--burn-rate", "--by", "pod", "--tenant", "vision")),
        ("usage", ("--burn-rate",)),
        ("nodes", ("--hour", "2026-10-01T02")),
        ("nodes", ("--period", "2026-10")),
        ("inventory", ()),
        ("quota", ()),
        ("quota", MONTH),
        ("query", ("most-expensive-workloads",)),
        ("publish", ()),
        ("explain", ("INV-000001", "--line", "1")),
        ("compare", ("2026-10",)),
    ],
)
def test_json_output_matches_its_schema(
    demo: DemoResult, command: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schemas are on docs/reference/json-output.md; `unit/test_cli_json` has the rest."""
    if command == "doctor":  # it checks the present
        monkeypatch.setenv("GPU_LEDGER_NOW", IN_THE_MONTH)
    ran = run(demo, *command.split(), *arguments, "-o", "json")
    assert json.loads(ran.stdout) or command in ("gaps", "landing verify")
    assert differences(command, ran.stdout) == []


def test_the_json_of_a_bundle_and_a_pull_matches_its_schema(
    demo: DemoResult, tmp_path: Path
) -> None:
    bundle = demo.opened.home.documents / "2026-10" / "2026-10.zip"
    ran = CliRunner().invoke(cli, ["verify", str(bundle), "-o", "json"])
    assert differences("verify", ran.stdout) == []
    shutil.copytree(demo.opened.home.path, tmp_path / "home")
    hour = ["--hours", "2026-10-01T00..2026-10-01T01", "--all", "--home", str(tmp_path / "home")]
    ran = CliRunner().invoke(cli, ["pull", *hour, "-o", "json"])
    assert len(json.loads(ran.stdout)) == 2
    assert differences("pull", ran.stdout) == []


WALK = (
    Path(__file__).parents[2] / "docs" / "explanation" / "from-an-invoice-line-to-the-raw-sample.md"
)


def commands_of(page: str) -> list[tuple[str, list[str]]]:
    """Each command of a page, with its output on the page."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ gpu-ledger "):
                found.append((line.removeprefix("$ gpu-ledger "), []))
            else:
                found[-1][1].append(" ".join(line.split()))
    return found


def test_a_void_names_both_documents(demo: DemoResult, tmp_path: Path) -> None:
    home = copied(demo, tmp_path).home.path
    words = ("void", "INV-000001", "--reason", "another party", "--home", str(home), "--json")
    ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert differences("void", ran.stdout) == []
    done = json.loads(ran.stdout)
    assert [path for path in (home / "record").rglob("*") if done["sha256"] in path.name]
    assert (done["number"], done["voids"], done["period"]) == (
        "INV-000003",
        "INV-000001",
        "2026-11",
    )


def answer_that_shows(demo: DemoResult, pod: str) -> str:
    """The hash of a landed response of Thanos with samples of a pod."""
    ran = run(demo, "explain", "INV-000001", "--line", "2", "-o", "json")
    [answers] = [step for step in json.loads(ran.stdout)["steps"] if "Responses" in step["title"]]
    named = [row["sha256"] for row in answers["rows"] if "none" not in row.values()]
    bodies = {sha256: demo.opened.landing.read_body(sha256) for sha256 in named}
    return next(s for s, body in bodies.items() if b'"matrix"' in body and pod.encode() in body)


def test_the_commands_from_a_line_to_its_samples_run(demo: DemoResult) -> None:
    """Every command of the page runs, and prints the output on the page."""
    sha256 = answer_that_shows(demo, "notebook-0")
    steps = commands_of(WALK.read_text(encoding="utf-8"))
    assert len(steps) == 10
    for command, shown in steps[1:]:  # the first one is the demo itself
        place = command.replace("thin-home", str(demo.opened.home.path))
        arguments = shlex.split(place.replace("SHA256", sha256))
        ran = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        printed = " ".join(ran.output.split())
        assert ran.exit_code == 0, command
        assert [line for line in shown if line not in printed] == [], command


def test_a_landed_response_is_shown_unchanged(demo: DemoResult) -> None:
    """The notebook's first running sample is within a scrape of its start at 00:30:15."""
    ran = run(demo, "landing", "show", answer_that_shows(demo, "notebook-0"))
    series = [
        one
        for one in json.loads(ran.stdout_bytes)["data"]["result"]
        if one["metric"].get("pod") == "notebook-0"
    ]
    assert series
    first = min(float(sample[0]) for one in series for sample in one["values"])
    assert 1790814600 <= first < 1790814600 + 60  # 2026-10-01T00:30:00Z, when it was bound


def test_every_column_that_was_built_is_described(demo: DemoResult) -> None:
    """Compares the columns in the database, not only those in the files."""
    described: dict[str, set[str]] = {}
    for path in dbt_project_dir().rglob("*.yml"):
        text = read_yaml(path)
        for model in [*(text.get("models") or []), *(text.get("seeds") or [])]:
            if isinstance(model, dict):
                columns = {c["name"] for c in model.get("columns", ()) if c.get("description")}
                described[model["name"]] = columns
    build = demo.opened.home.build / "2026-10.duckdb"
    with connected(build, read_only=True) as connection:
        built = connection.execute(
            "select table_name, column_name from duckdb_columns() "
            "where schema_name in ('staging', 'intermediate', 'marts', 'seeds')"
        ).fetchall()
    assert len(built) > 1000
    assert [(t, c) for t, c in built if c not in described.get(t, set())] == []


def test_the_models_are_one_page_that_asks_no_server(demo: DemoResult) -> None:
    page = demo.model_pages.read_text(encoding="utf-8")
    month = demo.opened.home.documents / "2026-10"
    with zipfile.ZipFile(month / "2026-10.zip") as handed_over:
        assert handed_over.read("models.html").decode() == page
    loaded = re.findall(r"""(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""", page)
    assert [address for address in loaded if "[::1]" not in address] == []
    assert "One row per tenant, cluster, class, profile, weight" in page
    assert str(demo.opened.home.path) not in page
    # The page contains all its data: the manifest, and an empty catalogue.
    assert '"exposure.gpu_ledger.invoices"' in page
    # The overview, compiled SQL, and the source columns of each column.
    assert "How to read these pages" in page
    assert r"from \"facts\".\"intermediate\".\"int_charges\"" in page
    assert "Made of int_charges.cost_nanos." in page


@pytest.mark.deep
def test_the_models_page_of_the_same_models_is_the_same_bytes(
    demo: DemoResult, tmp_path: Path
) -> None:
    from warehouse.model_pages import write_model_pages

    again = tmp_path / "again.html"
    write_model_pages(tmp_path / "pages", again, tmp_path / "facts.duckdb", kept_lineage())
    assert again.read_bytes() == demo.model_pages.read_bytes()


@pytest.mark.deep  # dbt takes 0.2 s for each of them
def test_every_unit_test_of_the_models_passes(tmp_path: Path) -> None:
    """dbt's unit tests have their own rows; they need only the types of an empty home."""
    home = Home.create(tmp_path / "home")
    built = build_period(home, BillingPeriod("2026-10"), decided(), closed_periods=frozenset())
    shutil.copy(built.build_path, home.build / WORKING_NAME)
    project = DbtProject(home.build / "dbt", home.build / WORKING_NAME)
    ran = project.run_unit_tests()  # results of hooks are left out
    results = {one.node.name: one for one in ran if one.node.resource_type == "unit_test"}
    declared = [
        case["name"]
        for path in dbt_project_dir().rglob("*.yml")
        for case in read_yaml(path).get("unit_tests") or ()
    ]
    assert "a_part_that_ends_exactly_on_the_hour_leaves_no_empty_hour" in declared
    assert sorted(results) == sorted(declared)
    assert [r.message for r in results.values() if str(r.status) != "pass"] == []


@pytest.fixture(scope="module")
def compiled(demo: DemoResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models' SQL as dbt compiles it."""
    folder = tmp_path_factory.mktemp("compiled")
    shutil.copy(demo.opened.home.build / "2026-10.duckdb", folder / WORKING_NAME)
    DbtProject(folder, folder / WORKING_NAME)._invoke("compile")
    return folder / "target" / "compiled" / "gpu_ledger" / "models"


@pytest.mark.deep
@pytest.mark.engines
def test_the_lineage_of_a_cost_ends_in_both_sources(compiled: Path) -> None:
    """After a change of models: GPU_LEDGER_WRITE_GOLDEN=1."""
    page = lineage_page(compiled)
    for evidence in ("thanos_runs.first_offset_ms", "kubernetes_pod_observations.started_at"):
        assert f"- `raw.{evidence}`" in page
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")


@pytest.mark.deep
@pytest.mark.engines
def test_every_column_that_dagster_shows_was_followed_in_the_models(compiled: Path) -> None:
    """After a change of models: GPU_LEDGER_WRITE_GOLDEN=1."""
    models = Models(compiled)
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        kept = followed(models, kept)
        FILE.write_text(as_text(kept), encoding="utf-8")
    assert changed(models, kept) == []
    weights = [["stg_decisions__rates", "rate_nanos_per_hour"]]
    assert kept["dim_rates"]["columns"]["rate_nanos_per_hour"] == weights
