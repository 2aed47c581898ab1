"""Problems of GPUs: rows, proposed credits, and problems by workload."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from domain.billing_period import BillingPeriod
from tests.marts_in_memory import START, facts
from warehouse.reports.health import (
    MEANINGS,
    XIDS,
    credits_proposed,
    outages_proposed,
    owners,
    problems,
)

OCTOBER = BillingPeriod("2026-10")


def row(problem: str, hour: int, observed: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "billing_period": "2026-10",
        "cluster_id": "c",
        "node_name": "n",
        "device_uuid": "GPU-1",
        "gpu_index": "0",
        "hour_started_at": START + timedelta(hours=hour),
        "problem": problem,
        "observed": observed,
        "is_new": True,
        "is_fault_of_provider": True,
        "currency": "USD",
        **more,
    }


def pod(name: str, cost: int, tenant: str = "a") -> dict[str, Any]:
    names = {"namespace": tenant, "pod_name": name, "pod_uid": f"uid-{name}", "tenant": tenant}
    return {**names, "cost_nanos": Decimal(cost), "running_seconds": 3600}


HEALTH = [
    row("xid", 1, 79, **pod("p", 500)),
    row("xid", 2, 79, is_new=False, **pod("p", 500)),
    row("rows_remapped", 1, 2, **pod("p", 500)),
    row("rows_remapped", 1, 2, **pod("q", 300, "b")),
    row("xid", 3, 31, is_fault_of_provider=False, device_uuid="GPU-2", **pod("q", 300, "b")),
    row("node_not_ready", 4, 100, device_uuid="", gpu_index="", **pod("p", 900)),
]


def test_a_problem_is_one_row_with_the_pods_that_it_affected() -> None:
    found = problems(facts({"fct_gpu_health": HEALTH, "dim_clusters": []}), OCTOBER)
    shown = [(r["problem"], r["device"], r["observed"], r["hour_count"], r["pods"]) for r in found]
    assert shown == [
        ("rows_remapped", "GPU-1", 2, 1, ["a/p", "b/q"]),
        ("xid", "GPU-1", 79, 2, ["a/p"]),
        ("xid", "GPU-2", 31, 1, ["b/q"]),
        ("node_not_ready", "", 100, 1, ["a/p"]),
    ]
    assert [r["meaning"] for r in found][1:3] == [XIDS[79], XIDS[31]]
    assert found[0]["meaning"] == MEANINGS["rows_remapped"]


def test_a_tenant_sees_only_problems_of_its_pods() -> None:
    found = problems(facts({"fct_gpu_health": HEALTH, "dim_clusters": []}), OCTOBER, "b")
    assert [(r["problem"], r["tenants"], r["pods"]) for r in found] == [
        ("rows_remapped", ["b"], ["b/q"]),
        ("xid", ["b"], ["b/q"]),
    ]


def test_a_proposed_credit_counts_an_hour_of_a_pod_once() -> None:
    """Tenant a: 500 for the pod in hour 1 (two problems), 900 for the node in hour 4."""
    found = credits_proposed(facts({"fct_gpu_health": HEALTH, "dim_clusters": []}), OCTOBER)
    assert [(r["tenant"], r["credit_nanos"], r["hour_count"]) for r in found] == [
        ("a", Decimal(1400), 2),
        ("b", Decimal(300), 1),
    ]


def test_a_proposed_outage_is_of_a_pod_or_of_a_node_and_merges_hours() -> None:
    more = row("ecc_uncorrected", 2, 1, **pod("p", 500))
    marts = facts({"fct_gpu_health": [*HEALTH, more], "dim_clusters": []})
    found = outages_proposed(marts, OCTOBER)
    shown = [(r["node_name"], r["pod_uid"], _hours(r), r["reason"]) for r in found]
    rows, ecc = MEANINGS["rows_remapped"], MEANINGS["ecc_uncorrected"]
    assert shown == [
        ("", "uid-p", (1, 3), f"GPU-1: {rows}; GPU-1: {XIDS[79]}; GPU-1: {ecc}"),
        ("", "uid-q", (1, 2), f"GPU-1: {rows}"),
        ("n", "", (4, 5), MEANINGS["node_not_ready"]),
    ]
    assert [r["pod_uid"] for r in outages_proposed(marts, OCTOBER, "b")] == ["uid-q"]


def _hours(outage: dict[str, Any]) -> tuple[int, int]:
    begin, end = outage["started_at"] - START, outage["ended_at"] - START
    return begin // timedelta(hours=1), end // timedelta(hours=1)


def test_workloads_have_status_idle_time_and_cost() -> None:
    def hour(uid: str, kind: str, until: int, cost: int) -> dict[str, Any]:
        return {
            "billing_period": "2026-10",
            "cluster_id": "c",
            "tenant": "a",
            "pod_uid": uid,
            "workload_kind": kind,
            "workload_name": "w",
            "running_seconds": 3600,
            "device_count": 2,
            "cost_nanos": Decimal(cost),
            "currency": "USD",
            "segment_ended_at": START + timedelta(hours=until),
        }

    used = {
        "billing_period": "2026-10",
        "tenant": "a",
        "pod_uid": "u2",
        "idle_seconds": 1800,
        "idle_nanos": Decimal(70),
    }
    marts = {
        "fct_pod_hours": [
            hour("u1", "Notebook", 2, 100),
            hour("u2", "InferenceService", 9, 300),
            hour("uid-p", "RayCluster", 9, 200),
        ],
        "fct_gpu_use": [used],
        "fct_gpu_health": HEALTH,
    }
    found = owners(facts(marts), OCTOBER)
    columns = ("workload_kind", "status", "problem_hours", "device_seconds", "idle_seconds")
    assert [tuple(r[c] for c in columns) for r in found] == [
        ("InferenceService", "running", 0, 7200, 1800),
        ("RayCluster", "affected", 3, 7200, 0),
        ("Notebook", "ended", 0, 7200, 0),
    ]
    assert [r["idle_nanos"] for r in found] == [70, 0, 0]
