"""Reports on facts of a few rows: labels, credits, unmeasured hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest

from domain.billing_period import BillingPeriod
from domain.interval import Interval
from orchestration.cli.nodes import _columns_to_show
from orchestration.cli.usage import _label_notes
from tests.marts_in_memory import START, facts
from warehouse.reports import inventory, nodes, quotas
from warehouse.reports.opened_facts import RememberedResults
from warehouse.reports.usage import UnknownGrouping, burn_rates, outage_credits, usage

HOUR = timedelta(hours=1)
OCTOBER = BillingPeriod("2026-10").interval
PIECE = {
    "cluster_id": "c1",
    "tenant": "vision",
    "belongs_to": "tenant",
    "currency": "USD",
    "state": "running",
    "device_count": 2,
    "billable_seconds": 3600,
    "running_seconds": 3600,
    "weight_numerator": 1,
    "weight_denominator": 1,
    "compute_share_numerator": 1,
    "compute_share_denominator": 1,
    "cost_nanos": 3_600_000_000,
    "segment_ended_at": START + HOUR,
}
CLUSTERS = [{"cluster_id": "c1", "cluster_name": "east"}]


def test_usage_is_grouped_by_label_with_a_row_for_unlabelled_usage() -> None:
    label = {"cluster_id": "c1", "label_key": "team"}
    marts = facts(
        {
            "fct_pod_hours": [{**PIECE, "pod_uid": uid} for uid in ("a", "b", "c")],
            "dim_pod_labels": [
                {**label, "pod_uid": "a", "label_value": "red"},
                {**label, "pod_uid": "b", "label_value": "red"},
                {**label, "pod_uid": "b", "label_key": "other", "label_value": "blue"},
                {**label, "pod_uid": "c", "label_value": "no", "cluster_id": "another"},
            ],
        }
    )
    rows = usage(marts, OCTOBER, "label:team")
    assert [(row.about, row.pod_count, row.device_seconds) for row in rows] == [
        ((("label_value", "red"),), 2, 14400),
        ((("label_value", None),), 1, 7200),
    ]


def test_an_unknown_label_is_refused_with_the_kept_labels() -> None:
    row = {"billing_period": "2026-10", "cluster_id": "c1", "pod_uid": "a", "label_value": "x"}
    marts = facts({"dim_pod_labels": [{**row, "label_key": key} for key in ("team", "app")]})
    assert _label_notes(marts, ["2026-10"], "label:team") == []
    assert _label_notes(marts, ["2026-10"], "tenant") == []
    [note] = _label_notes(marts, ["2026-10"], "label:owner")
    assert "No pod of 2026-10 has the label owner; labels that are kept: app, team." in note


def test_thirds_and_sevenths_of_cards_add_up_exactly() -> None:
    """An hour of two thirds twice, and of a seventh: 4800 + 7200/7 seconds of cards."""
    third = {**PIECE, "pod_uid": "a", "weight_numerator": 2, "weight_denominator": 3}
    seventh = {**PIECE, "pod_uid": "b", "device_count": 1, "weight_denominator": 7}
    [row] = usage(facts({"fct_pod_hours": [third, seventh]}), OCTOBER)
    assert row.weighted_device_seconds == 4800 + Fraction(3600, 7)


def test_usage_with_and_without_a_price_is_not_added_up() -> None:
    free = {**PIECE, "pod_uid": "b", "currency": "", "cost_nanos": 0}
    rows = usage(facts({"fct_pod_hours": [{**PIECE, "pod_uid": "a"}, free]}), OCTOBER)
    assert [(row.currency, row.cost_nanos) for row in rows] == [("", 0), ("USD", 3_600_000_000)]


def test_a_window_includes_its_first_hour_and_excludes_its_last() -> None:
    pieces = [{**PIECE, "pod_uid": "a", "hour_started_at": START + n * HOUR} for n in range(4)]
    [row] = usage(facts({"fct_pod_hours": pieces}), Interval(START + HOUR, START + 3 * HOUR))
    assert row.device_seconds == 2 * 7200


def test_a_window_over_two_months_reads_both() -> None:
    last = {"hour_started_at": BillingPeriod("2026-11").started_at - HOUR}
    first = {"hour_started_at": BillingPeriod("2026-11").started_at, "billing_period": "2026-11"}
    pieces = [{**PIECE, **last, "billing_period": "2026-10"}, {**PIECE, **first}]
    marts = facts({"fct_pod_hours": pieces}, ("2026-10", "2026-11"))
    edge = BillingPeriod("2026-11").started_at
    [row] = usage(marts, Interval(edge - HOUR, edge + HOUR))
    assert row.device_seconds == 14400


@pytest.mark.parametrize("by", ["", "label:", "team", "tenant; drop table"])
def test_an_unknown_grouping_is_refused(by: str) -> None:
    with pytest.raises(UnknownGrouping):
        usage(facts({}), OCTOBER, by)


def test_a_window_in_seconds_has_its_part_of_the_cost() -> None:
    """Two devices from 00:10 to 00:40 for 100 nanos; consecutive windows add up to them."""
    piece = PIECE | {
        "segment_started_at": START + HOUR / 6,
        "segment_ended_at": START + HOUR * 4 / 6,
        "billable_seconds": 1800,
        "cost_nanos": Decimal(100),
    }
    marts = facts({"fct_pod_hours": [piece]})
    cuts = [START, *(START + timedelta(seconds=s) for s in (601, 1234, 2399)), START + HOUR]
    found = [usage(marts, Interval(a, b)) for a, b in pairwise(cuts)]
    assert [[(one.device_seconds, one.cost_nanos) for one in rows] for rows in found] == [
        [(2, 0)],  # 1 of 1800 s: 0.06 nanos, rounded down
        [(2 * 633, 35)],  # 634 of 1800 s are 35.2
        [(2 * 1165, 64)],  # 1799 are 99.9
        [(2, 1)],
    ]
    assert usage(marts, Interval(START, START + HOUR / 6)) == []
    assert usage(marts, Interval(START + HOUR * 4 / 6, START + HOUR)) == []


def test_burn_rates_are_of_the_last_complete_hour_by_workload_or_pod() -> None:
    """Hour 25 has a missing sample, and hour 26 was not queried in the tenant's second cluster.

    The last complete hour is 24: of pod `a` it costs 3, and its day, which begins with hour 1,
    3 × 24; pod `b` ran in hours 0 and 1 only. `other` is in the first cluster alone, where hour 26
    is complete.
    """
    costs = {
        ("vision", "a", "c1"): dict.fromkeys(range(27), 3),
        ("vision", "b", "c2"): {0: 50, 1: 7},
        ("other", "o", "c1"): {24: 5, 26: 4},
        ("other", "past", "c1"): {0: 9},
    }
    pods = [
        {"tenant": tenant, "pod_uid": uid, "cluster_id": cluster, "belongs_to": "tenant"}
        | {"workload_kind": "Job", "workload_name": f"of-{tenant}", "currency": "USD"}
        | {"hour_started_at": START + hour * HOUR, "cost_nanos": Decimal(cost)}
        for (tenant, uid, cluster), hours in costs.items()
        for hour, cost in hours.items()
    ]
    coverage = [
        {"cluster_id": cluster, "source": source, "hour_started_at": START + hour * HOUR}
        | {"outcome": "not_asked" if (cluster, hour) == ("c2", 26) else "ok"}
        | {"missing_count": int((cluster, source, hour) == ("c1", "thanos", 25))}
        for cluster in ("c1", "c2")
        for source in ("kubernetes", "thanos")
        for hour in range(27)
    ]
    marts = facts({"fct_pod_hours": pods, "fct_coverage": coverage})

    def rates(by: str, tenant: str = "") -> list[tuple[object, ...]]:
        found = burn_rates(marts, "2026-10", by, tenant)
        return [
            (row.get("pod_uid"), row["last_hour_cost_nanos"], row["last_day_cost_nanos"])
            for row in found
        ]

    assert rates("workload") == [(None, 4, 9), (None, 3, 79)]
    assert rates("pod", "vision") == [("a", 3, 72), ("b", 0, 7)]
    assert rates("pod", "other") == [("o", 4, 9)]
    assert rates("pod", "speech") == []
    with pytest.raises(UnknownGrouping):
        rates("class")

    # After a waiver of hour 25 it is the last complete one: of pod `a` 3, and 24 × 3 in its day.
    marts.connection.execute("create schema quality")
    marts.connection.execute(
        "create table quality.coverage_statuses as select billing_period, cluster_id, source, "
        "hour_started_at, 'waived' as state from fct_coverage where missing_count > 0"
    )
    assert rates("workload") == [(None, 4, 9), (None, 3, 72)]
    assert rates("pod", "vision") == [("a", 3, 72)]


def test_credits_are_separate_from_usage() -> None:
    credit = {"tenant": "vision", "belongs_to": "tenant", "currency": "USD", "credit_nanos": -5}
    marts = facts({"fct_outage_credits": [credit, {**credit, "tenant": "x", "credit_nanos": 0}]})
    assert outage_credits(marts, "2026-10") == [("vision", "USD", -5)]


def test_an_unmeasured_hour_has_no_value_and_no_node() -> None:
    at = {"cluster_id": "c1", "hour_started_at": START}
    marts = facts(
        {
            "dim_clusters": CLUSTERS,
            "rpt_ccsp_hours": [{**at, "cluster_name": "east", "measurement": "not measured"}],
            "fct_cluster_hours": [{**at, "active_worker_nodes": 9, "sum_of_node_max": 9}],
            "fct_node_hours": [{**at, "node_name": "n", "unmeasured_seconds": 3600}],
        }
    )
    [cluster] = nodes.cluster_hour(marts, START)
    counts = ("active_worker_nodes", "sum_of_node_max", "simultaneous_max", "gpu_capacity")
    assert [cluster[name] for name in counts] == [None] * 4
    assert nodes.node_hour(marts, START) == []


def test_pods_that_end_and_start_at_one_second_do_not_overlap() -> None:
    half = START + HOUR / 2
    pods = [
        {**PIECE, "pod_uid": "a", "pod_name": "a", "node_name": "n", "segment_ended_at": half},
        {**PIECE, "pod_uid": "b", "pod_name": "b", "node_name": "n", "segment_started_at": half},
    ]
    node = {"cluster_id": "c1", "node_name": "n", "gpu_count_max": 2}
    marts = facts({"dim_clusters": CLUSTERS, "fct_pod_hours": pods, "fct_node_hours": [node]})
    assert [row["pods"] for row in nodes.node_hour(marts, START)] == [["vision/a"]]


def test_a_node_hour_has_its_bound_and_the_method_of_its_count() -> None:
    at = {"cluster_id": "c1", "hour_started_at": START, "unmeasured_seconds": 0}
    told = {**at, "node_name": "told", "gpu_count_max": 2, "gpu_count_max_bound": 1}
    told |= {"how_known": "by_devices", "is_lower_bound": False}
    silent = {**at, "node_name": "silent", "gpu_count_max": 1, "gpu_count_max_bound": 1}
    silent |= {"how_known": "layouts", "is_lower_bound": True}
    found = nodes.node_hour(
        facts({"dim_clusters": CLUSTERS, "fct_node_hours": [told, silent]}), START
    )
    shown = ("gpu_count_max", "gpu_count_max_bound", "how_known", "is_lower_bound")
    assert [tuple(row[name] for name in shown) for row in found] == [
        (1, 1, "layouts", True),
        (2, 1, "by_devices", False),
    ]
    assert "is_lower_bound" in _columns_to_show(nodes.NODE_COLUMNS, found)
    assert "is_lower_bound" not in _columns_to_show(nodes.NODE_COLUMNS, found[1:])


def test_devices_without_readings_are_marked_as_counted_only() -> None:
    device = {"cluster_id": "c1", "node_name": "n", "mig_profile": "whole", "device_count": 8}
    device |= {"how_known": "inferred from capacity", "last_seen_at": START + HOUR}
    marts = facts({"dim_clusters": CLUSTERS, "dim_devices": [device]})
    [row] = inventory.devices(marts, START)
    assert (row["device_count"], row["holder_known_by"]) == (8, "not known by device")
    assert inventory.devices(marts, START + HOUR) == []


def test_a_claimed_card_has_the_name_of_its_driver_and_its_holder() -> None:
    card = {"cluster_id": "c1", "node_name": "n", "mig_profile": "whole", "device_count": 1}
    card |= {"how_known": "resource slice", "last_seen_at": START + HOUR}
    pod = {**PIECE, "pod_name": "p", "node_name": "n", "resource": "gpu.nvidia.com/gpu-0"}
    marts = facts(
        {
            "dim_clusters": CLUSTERS,
            "dim_devices": [
                {**card, "device_name": "gpu.nvidia.com/gpu-0"},
                {**card, "device_name": "gpu.nvidia.com/gpu-1"},
            ],
            "fct_pod_hours": [pod],
        }
    )
    shown = ("device_name", "held_by", "holder_known_by")
    assert [tuple(row[name] for name in shown) for row in inventory.devices(marts, START)] == [
        ("gpu.nvidia.com/gpu-0", "vision/p", "claim"),
        ("gpu.nvidia.com/gpu-1", "", ""),
    ]


def test_a_quota_shows_its_free_devices() -> None:
    quota = {"tenant": "a", "cluster_id": "c1", "resource": "nvidia.com/gpu", "hard_count": 8}
    marts = facts(
        {
            "dim_clusters": CLUSTERS,
            "fct_quotas": [{**quota, "used_count": 3}, {**quota, "tenant": "b"}],
        }
    )
    [row] = quotas.quotas_of_hour(marts, START, "a")
    assert row["free_count"] == 5
    assert quotas.last_hour_of_quotas(facts({})) is None


def test_remembered_results_are_bounded_and_their_rows_are_copies() -> None:
    marts = replace(facts({}), remembered=RememberedResults(rows_limit=10))

    def draws(count: int) -> list[dict[str, object]]:
        """A result that differs each time that the statement runs."""
        return marts.rows("select random() as draw from range($n)", {"n": count})

    first = draws(4)
    copied = [dict(row) for row in first]
    first[0]["draw"] = -1
    assert draws(4) == copied
    assert draws(10) != draws(10)  # more rows than are remembered
    last = draws(5)
    assert draws(5) == last
    assert draws(4) != copied  # forgotten with the limit
