"""GpuBudgets of two simulated clusters, from the journals to steps and findings.

The costs that the steps are compared with come from the truth ledger, hour by hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Decisions
from fake_gpu.clock import epoch
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import Fleet
from fake_gpu.truth.ledger import ledger
from quality.checks import record_dbt_tests
from quality.run import check_period
from tests.decisions_by_hand import decided, table
from tests.fleets import fleet as read
from tests.recorded_fleets import clusters_csv, record_fleet
from warehouse.build import build_period
from warehouse.home import Home
from warehouse.reports.budgets import BudgetState, budget_states, budgets_of_month
from warehouse.reports.opened_facts import open_facts

pytestmark = pytest.mark.deep

SCENARIO = """
name: budgets_of_tenants
story: A tenant in two clusters, and the budgets that it sets for itself.
seed: 7
from: 2026-10-01T00:00:00Z
until: 2026-10-05T00:00:00Z
clusters:
  - name: east
    monitoring: {scrape_interval: 60s}
    nodes: [{name: e1, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    budgets:
      - {namespace: vision, name: team, amount: "900", currency: USD}
      - {namespace: vision, name: same, amount: "100", currency: USD, workload: Job/train}
      - {namespace: vision, name: chat, amount: "100", currency: USD, workload: Deployment/chat,
         actual_steps: [50, 100, 120], forecast_steps: [100, 900],
         changes: [{at: +1d, amount: "600"}]}
      - {namespace: vision, name: euro, amount: "1", currency: EUR, label: app=train}
    workloads:
      - {name: chat, namespace: vision, replicas: 2, requests: 1, labels: {app: chat}}
  - name: west
    monitoring: {scrape_interval: 60s}
    nodes: [{name: w1, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    budgets:
      - {namespace: vision, name: team, amount: "500", currency: USD}
      - {namespace: vision, name: same, amount: "100", currency: USD, workload: Job/train}
      - {namespace: vision, name: label, amount: "300.5", currency: USD, label: app=train,
         created: +2d}
      - {namespace: vision, name: gone, amount: "1", currency: USD, label: app=chat, deleted: +3d}
      - {namespace: vision, name: november, amount: "2", currency: USD, billing_period: 2026-11}
    workloads:
      - name: train
        namespace: vision
        kind: Job
        requests: 4
        labels: {app: train}
        pods: [{created: +10h, started: +10h, ended: +30h},
               {created: +50h, started: +51h, ended: +61h}]
      - {name: other, namespace: physics, replicas: 1, requests: 1}
"""
RATE = ",A100-80GB,whole,USD,3.6,2026-01-01,,|,"
NANOS_PER_SECOND = 1_000_000  # of 3.6 USD an hour
OCTOBER = BillingPeriod("2026-10")
HOURS = 96
MONTH_HOURS = 31 * 24
FORECASTS_AFTER = 75  # three days and a tenth of 31 days, in whole hours


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return read(SCENARIO)


@pytest.fixture(scope="module")
def home(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home.create(tmp_path_factory.mktemp("budgets") / "home")
    record_fleet(home, fleet)
    return home


def decisions(fleet: Fleet, hub: str) -> Decisions:
    header, *rows = clusters_csv([fleet])["clusters.csv"].splitlines()
    rows = [f"{row},{'hub' if f',{hub},' in row else ''}" for row in rows]
    csv = "\n".join([f"{header},role", *rows]) + "\n"
    provider = table("budgets", "vision,,USD,1000")
    return decided({"clusters.csv": csv}, table("rates", RATE), provider)


def states(home: Home, known: Decisions) -> dict[tuple[str, str], BudgetState]:
    build_period(home, OCTOBER, known, closed_periods=frozenset(), also=record_dbt_tests)
    with open_facts(home) as facts:
        found = budget_states(facts, OCTOBER, budgets_of_month(facts, OCTOBER))
    return {(one.budget.source.value, one.budget.name): one for one in found}


def true_costs(fleet: Fleet, counts: Callable[[Mapping[str, Any]], bool]) -> list[int]:
    """The cost of each hour, from the seconds that pods of `vision` ran."""
    costs: defaultdict[int, int] = defaultdict(int)
    for row in ledger(plain_rows(fleet), "allocations", instants=False):
        if row["namespace"] != "vision" or not counts(row):
            continue
        for second in range(row["started_at"], row["ended_at"] or fleet.ended_at):
            if second < fleet.ended_at:
                costs[(second - fleet.started_at) // 3600] += row["device_count"] * NANOS_PER_SECOND
    return [costs[hour] for hour in range(HOURS)]


def cost_reached(costs: list[int], nanos: float, start: int) -> datetime | None:
    ends = [hour for hour in range(1, HOURS + 1) if sum(costs[:hour]) >= nanos]
    return epoch(start + ends[0] * 3600) if ends else None


def forecast_reached(costs: list[int], nanos: float, start: int) -> datetime | None:
    def forecast(hour: int) -> float:
        days = hour // 24
        pace = sum(costs[hour - 24 * days : hour]) / (24 * days)
        return sum(costs[:hour]) + pace * (MONTH_HOURS - hour)

    low = [hour for hour in range(FORECASTS_AFTER, HOURS + 1) if forecast(hour) < nanos]
    since = max(low, default=FORECASTS_AFTER - 1) + 1
    return epoch(start + since * 3600) if since <= HOURS else None


SUBJECTS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "team": lambda row: True,
    "same": lambda row: row["workload_name"] == "train",
    "chat": lambda row: row["workload_name"] == "chat",
    "label": lambda row: row["workload_name"] == "train",
    "month": lambda row: True,
}
FORECASTS = """
    select workload_kind, workload_name, cost_nanos, forecast_nanos, counted_until
    from fct_forecasts where tenant = 'vision' and subject in ('tenant', 'workload')
"""
AMOUNTS = {"team": 500, "same": 100, "chat": 600, "label": 300.5, "month": 1000}


def test_each_step_is_reached_when_the_truth_reaches_it(home: Home, fleet: Fleet) -> None:
    found = states(home, decisions(fleet, hub="west"))
    assert set(found) == {
        ("decisions", "month"),
        *(("cluster", name) for name in ("team", "same", "chat", "label")),
    }
    reached = set()
    for (_, name), state in found.items():
        costs = true_costs(fleet, SUBJECTS[name])
        assert [*state.costs.nanos] == costs, name
        for kind, step, at in state.steps:
            when = cost_reached if kind.value == "actual" else forecast_reached
            nanos = AMOUNTS[name] * 10**9 * step / 100
            assert at == when(costs, nanos, fleet.started_at), (name, kind, step)
            reached.add((kind.value, at is not None))
    assert len(reached) == 4, "steps of both kinds, reached and not reached"
    with open_facts(home) as facts:
        rows = facts.rows(FORECASTS, {})
    forecasts = {(row["workload_kind"], row["workload_name"]): row for row in rows}
    compared = [one for one in found.values() if not any(one.budget.label)]
    assert len(compared) == 4
    for state in compared:  # the page of a tenant shows the forecast of the mart
        row = forecasts[state.budget.workload]
        assert state.costs.forecast_nanos() == int(row["forecast_nanos"])
        assert state.costs.cost_nanos == int(row["cost_nanos"])
        assert state.costs.counted_until == row["counted_until"]


def test_differences_between_clusters_are_findings_and_the_hubs_budget_counts(
    home: Home, fleet: Fleet
) -> None:
    known = decisions(fleet, hub="east")
    assert states(home, known)["cluster", "team"].budget.amount_nanos == 900 * 10**9
    result = check_period(home, OCTOBER, known, StoppedClock(epoch(fleet.ended_at + 7200)))
    about = {
        finding.where.partition("GpuBudget ")[2]: finding
        for finding in result.findings
        if finding.code.startswith("BUD-")
    }
    east, west = (cluster.cluster_id for cluster in fleet.clusters)
    assert {name: found.code for name, found in about.items()} == {
        "vision/team": "BUD-001",
        "vision/euro": "BUD-002",
    }
    assert about["vision/team"].cluster_id == west
    assert f"500 USD, and 900 USD in cluster {east}" in about["vision/team"].seen
    assert not any(found.blocks for found in about.values())
