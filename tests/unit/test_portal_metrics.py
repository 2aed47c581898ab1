"""The metrics of the portal, from the same snapshots as the tests of its pages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from domain.clock import StoppedClock
from portal.metrics import METRICS, PREFIX, LedgerCollector, registry_of
from tests.portal_by_hand import NOW, OTHER, OWN, RATE, START, marts_of, merged, write
from warehouse.home import Home
from warehouse.snapshot_reader import Snapshots


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home.create(tmp_path_factory.mktemp("metrics") / "home")
    write(home, marts_of())
    return home


Samples = dict[tuple[str, ...], float]


def metrics(home: Home, after: timedelta = timedelta(0)) -> Samples:
    """Name and label values → value, parsed as in Prometheus."""
    clock = StoppedClock(NOW + after)
    collector = LedgerCollector(Snapshots(home.snapshots), clock, {"c1": 30})
    text = generate_latest(registry_of(collector)).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        name = family.name.removeprefix(f"{PREFIX}_")
        for sample in family.samples:
            found[name, *(sample.labels[label] for label in METRICS[name][1])] = sample.value
    return found


def test_money_and_budgets_equal_those_of_the_pages(home: Home) -> None:
    """12 of 20 USD were spent, 2 devices at 2 USD an hour in the last hour."""
    found = metrics(home)
    month = ("2026-10", "USD")
    assert found["tenant_cost", OWN, *month] == 12
    assert found["tenant_burn_rate_per_hour", OWN, *month] == 4
    assert found["tenant_idle_cost", OWN, *month] == 2
    budget = (OWN, "month", "decisions", "2026-10")
    assert found["budget_used_ratio", *budget] == 0.6
    assert found["budget_step_reached", *budget, "actual", "50", "info"] == 1
    assert found["budget_amount", *budget, "USD"] == 20
    assert found["budget_cost", *budget, "USD"] == 12
    assert found["budget_rate_per_hour", *budget, "USD"] == 4
    assert (
        found["budget_spent_timestamp_seconds", *budget] == (START + timedelta(hours=5)).timestamp()
    )
    other = (OTHER, *budget[1:])
    assert found["budget_step_reached", *other, "actual", "50", "info"] == 0
    assert not [name for name in found if name[0] == "budget_forecast_ratio"]  # too early


def test_unsold_money_is_the_price_of_the_free_cards(tmp_path: Path) -> None:
    """5 of 8 cards were free for an hour, at 2 USD an hour; the price of a cluster comes first."""
    own = RATE | {"cluster_id": "c1", "rate_nanos_per_hour": 2 * 10**9}
    home = Home.create(tmp_path / "home")
    write(home, merged(marts_of(), {"dim_rates": [RATE, own]}))
    [(name, value)] = [(n, v) for n, v in metrics(home).items() if n[0] == "unsold_cost"]
    assert (name[2:], value) == (("H100-80GB", "2026-10", "USD"), 10)


def test_nodes_and_cards_are_those_of_the_last_complete_hour(home: Home) -> None:
    """Three of eight cards on one node were in use; the hour after it is not complete."""
    found = metrics(home)
    names = ("active_worker_nodes", "gpus_active", "gpus_installed")
    cluster = next(name[1] for name in found if name[0] == "gpus_active")
    assert [found[name, cluster] for name in names] == [1, 3, 8]


def test_gaps_are_counted_until_now(home: Home) -> None:
    found = metrics(home)
    labels = [name[1:] for name in found if name[0] == "due_hours"]
    assert labels
    for cluster, source, period in labels:
        assert 0 <= found["coverage_ratio", cluster, source, period] <= 1
    assert (
        found["complete_until_timestamp_seconds", "2026-10"]
        == (NOW - timedelta(hours=2)).timestamp()
    )
    of_tenant = found["tenant_complete_until_timestamp_seconds", OWN, "2026-10"]
    assert of_tenant == found["complete_until_timestamp_seconds", "2026-10"]
    assert found["findings", "2026-10", "GAP-001", "true"] == 1
    assert found["month_checked", "2026-10"] == 1
    assert found["snapshot_readable",] == 1


def test_hours_after_the_last_refresh_become_due(home: Home) -> None:
    before, after = metrics(home), metrics(home, timedelta(hours=3))
    due = [name for name in before if name[0] == "due_hours"]
    assert due
    assert all(after[name] == before[name] + 3 for name in due)


def test_unreadable_snapshots_are_a_metric_and_not_zero(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    assert metrics(home) == {("snapshot_readable",): 0}
