"""Named queries on facts of a few rows, with results calculated by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.errors import FileDamaged, UnknownName
from tests.marts_in_memory import facts
from warehouse.reports import named_queries
from warehouse.reports.named_queries import (
    NamedQuery,
    ask,
    question,
)
from warehouse.reports.named_queries import questions as every_question
from warehouse.reports.opened_facts import Facts, NoFactsYet

NINTH = datetime(2026, 10, 9, 14, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHO = {"cluster_id": "c1", "tenant": "vision", "belongs_to": "tenant", "currency": "USD"}
CLUSTERS = [{"cluster_id": "c1", "cluster_name": "east", "sample_interval_seconds": 30}]


def answer(facts: Facts, name: str, **given: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in ask(facts, question(name), given).rows]


def piece(hours: int = 0, **said: Any) -> dict[str, Any]:
    """One hour of a pod with two cards at 1.80."""
    return {
        **WHO,
        "hour_started_at": NINTH + hours * HOUR,
        "state": "running",
        "method": "confirmed",
        "method_reason": "agree",
        "device_count": 2,
        "billable_seconds": 3600,
        "lifecycle_seconds": 3600,
        "sampled_seconds": 3600,
        "cost_nanos": 3_600_000_000,
        **said,
    }


def test_each_query_has_a_question_and_a_sentence_for_no_rows() -> None:
    assert len(every_question()) >= 23
    for one in every_question():
        assert one.title.endswith("?")
        assert one.meaning
        assert one.when_empty.endswith(".")
        assert one.parameters["period"] == "newest"


@pytest.mark.parametrize("one", every_question(), ids=lambda one: one.name)
def test_every_query_on_empty_facts_has_an_empty_result(one: NamedQuery) -> None:
    assert ask(facts({}), one, {}).rows == []


def test_cost_of_a_gap_shows_billed_and_unbilled_usage() -> None:
    """Half an hour by the journal alone; an hour with samples that may not be billed."""
    hole = piece(1, method="lifecycle_only", method_reason="sample_gap", billable_seconds=1800)
    hole |= {"lifecycle_seconds": 1800, "sampled_seconds": 0, "cost_nanos": 1_800_000_000}
    lost = piece(2, method="disputed", method_reason="unseen", billable_seconds=0)
    lost |= {"cost_nanos": 0, "uncertainty_seconds": 40, "lifecycle_seconds": 0}
    short = piece(3, method="lifecycle_only", method_reason="too_short")
    marts = facts({"fct_pod_hours": [piece(), hole, lost, short]})
    expected = [
        ("vision", "2026-10-09", "disputed", "unseen", "", 0, 7200, 80, "0", "USD"),
        ("vision", "2026-10-09", "lifecycle_only", "sample_gap", "", 3600, 0, 0, "1.8", "USD"),
    ]
    assert answer(marts, "cost-of-a-gap", day="2026-10-09") == expected
    assert answer(marts, "cost-of-a-gap") == expected
    assert answer(marts, "cost-of-a-gap", day="2026-10-10") == []


def test_the_hourly_cost_of_a_pod_is_its_cost_by_its_billed_hours() -> None:
    """Two cards for an hour and a half at 1.80 each, and a slice for half an hour at 0.40."""
    pod = {"pod_uid": "p", "resource": "nvidia.com/gpu"}
    half = {**pod, "billable_seconds": 1800, "cost_nanos": 1_800_000_000}
    part = {**half, "resource": "nvidia.com/mig-1g.5gb", "cost_nanos": 200_000_000}
    held = {**half, "billable_seconds": 0, "cost_nanos": 0}
    rows = [piece(**pod), piece(1, **half), piece(1, **part), piece(2, **held)]
    rows.append(piece(**pod, belongs_to="provider", tenant="nvidia"))
    marts = facts({"fct_pod_hours": rows})
    assert answer(marts, "hourly-cost-of-pods") == [("vision", "c1", "p", "4", "USD")]


def test_gaps_are_listed_with_their_seconds() -> None:
    gap = {"cluster_id": "c1", "source": "thanos", "gap_started_at": NINTH}
    gap |= {"gap_ended_at": NINTH + timedelta(seconds=601)}
    marts = facts({"dim_clusters": CLUSTERS, "fct_gaps": [gap]})
    assert answer(marts, "gaps-by-cluster") == [
        ("east", "thanos", NINTH, NINTH + timedelta(seconds=601), 601)
    ]


def test_idle_cost_is_shown_by_workload_for_tenants_only() -> None:
    """Two idle device-hours of one Job at 1.80; a busy hour and the provider's do not count."""
    pod = {"cluster_id": "c1", "tenant": "vision", "currency": "USD", "pod_uid": "p"}
    pod |= {"workload_kind": "Job", "workload_name": "train"}
    idle = {"cluster_id": "c1", "tenant": "vision", "pod_uid": "p", "is_idle": True}
    idle |= {"idle_seconds": 3600, "idle_nanos": 1_800_000_000}
    marts = facts(
        {
            "dim_tenants": [
                {"tenant": "vision", "belongs_to": "tenant"},
                {"tenant": "nvidia", "belongs_to": "provider"},
            ],
            "fct_pod_periods": [pod, {**pod, "tenant": "nvidia", "pod_uid": "q"}],
            "fct_gpu_use": [
                idle,
                {**idle, "hour_started_at": NINTH},
                {**idle, "is_idle": False},
                {**idle, "tenant": "nvidia", "pod_uid": "q"},
            ],
        }
    )
    assert answer(marts, "idle-money-by-workload") == [
        ("vision", "Job", "train", 2, 7200, "3.6", "USD")
    ]


def test_a_busy_device_without_a_pod_has_its_busiest_hour() -> None:
    use = {"cluster_id": "c1", "node_name": "n", "gpu_index": "3", "device_uuid": "GPU-1"}
    use |= {"is_used_unallocated": True, "namespace": "who"}
    marts = facts(
        {
            "dim_clusters": CLUSTERS,
            "fct_gpu_use": [
                {**use, "use_millionths_maximum": 10},
                {**use, "use_millionths_maximum": 990_000, "hour_started_at": NINTH},
                {**use, "is_used_unallocated": False},
            ],
        }
    )
    assert answer(marts, "used-without-allocation") == [
        ("east", "n", "3", "", "GPU-1", "who", 2, 990_000)
    ]


def test_credits_are_negative_and_exact() -> None:
    credit = {**WHO, "gpu_class": "A100", "mig_profile": "whole", "credit_started_at": NINTH}
    credit |= {"credit_ended_at": NINTH + HOUR, "device_seconds": 3600, "reason": "flood (bob)"}
    credit |= {"credit_nanos": -1_800_000_001}
    marts = facts({"fct_outage_credits": [credit]})
    assert answer(marts, "outage-credits") == [
        ("vision", "A100", "whole", NINTH, NINTH + HOUR, "flood (bob)", 3600, "-1.800000001", "USD")
    ]


def test_exceeded_budgets_come_first_and_a_missing_budget_is_not_zero() -> None:
    one = {"tenant": "a", "currency": "USD", "cost_nanos": 10**9, "forecast_nanos": 5 * 10**9}
    one |= {"subject": "tenant"}
    marts = facts(
        {
            "fct_forecasts": [
                one,
                {**one, "tenant": "b", "has_budget": True, "budget_nanos": 4 * 10**9},
                {**one, "tenant": "c", "has_budget": True, "budget_nanos": 5 * 10**9},
            ]
        }
    )
    rows = ask(marts, question("forecast-against-budget"), {}).rows
    assert [(row["tenant"], row["budget"], row["will_exceed"]) for row in rows] == [
        ("b", "4", True),
        ("c", "5", False),
        ("a", None, None),
    ]


def test_a_month_is_compared_with_the_month_before_over_new_year() -> None:
    row = {"tenant": "a", "belongs_to": "tenant", "currency": "USD"}
    marts = facts(
        {
            "fct_tenant_periods": [
                {**row, "billing_period": "2026-12", "cost_nanos": 10 * 10**9},
                {**row, "billing_period": "2027-01", "cost_nanos": 7 * 10**9},
                {**row, "billing_period": "2027-01", "cost_nanos": 10**9, "mig_profile": "x"},
                {**row, "billing_period": "2026-11", "cost_nanos": 99 * 10**9},
            ]
        },
        periods=("2026-11", "2026-12", "2027-01"),
    )
    assert answer(marts, "month-against-month") == [("a", "8", "10", "-2", "USD")]


def test_share_seconds_are_rounded_down() -> None:
    """Fifteen eighths of a card-second are one whole one; a float would round them to two."""
    share = {"cluster_id": "c1", "gpu_class": "A100", "dimension": "memory", "node_name": "n"}
    share |= {"share_denominator": 8, "installed_share_seconds": 80, "unsold_share_seconds": 15}
    marts = facts({"dim_clusters": CLUSTERS, "fct_node_share_hours": [share]})
    assert answer(marts, "unsold-remainder") == [("east", "n", "A100", "memory", 1, 10)]
    [row] = ask(marts, question("capacity-accounted-for"), {}).rows
    assert (row["installed_seconds"], row["unsold_seconds"]) == (10, 1)


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName) as refused:
        question("tenants-by-burnrate")
    assert "tenants-by-burn-rate" in refused.value.remedy


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b"-- Which tenants?\nselect 1\n", "no line `-- empty: "),
        (b"-- Tenants\n-- empty: Nothing.\nselect 1\n", "no question in the first line"),
        (b"select 1\n", "its comment has no"),
        (b"-- Which\xff?\n-- empty: Nothing.\nselect 1\n", "UnicodeDecodeError"),
    ],
)
def test_a_malformed_query_file_does_not_affect_other_queries(
    body: bytes, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine.sql").write_text("-- Which tenants?\n-- empty: None.\nselect 1 as tenant\n")
    (tmp_path / "malformed.sql").write_bytes(body)
    monkeypatch.setattr(named_queries, "questions_folder", lambda: tmp_path)
    assert ask(facts({}), question("fine"), {}).rows == [{"tenant": 1}]
    with pytest.raises(FileDamaged, match=r"malformed\.sql") as refused:
        question("malformed")
    assert seen in refused.value.seen
    with pytest.raises(FileDamaged, match=r"malformed\.sql"):
        every_question()


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(UnknownName):
        ask(facts({}), question("usage-by-day"), {"tenant": "vision"})


def test_a_period_that_was_never_counted_is_an_error() -> None:
    with pytest.raises(NoFactsYet):
        ask(facts({}), question("usage-by-day"), {"period": "2026-09"})


def test_utilisation_is_averaged_over_the_hours_with_readings() -> None:
    """One of three hours has no power, like a partition after the first: no average counts it."""
    hour = {"cluster_id": "c1", "model_name": "MI300X", "tenant": "vision"}
    rows = [
        {**hour, "use_millionths_average": 400_000, "memory_used_mib_average": 1000}
        | {"power_milliwatts_average": 300_000, "power_milliwatts_maximum": 500_000},
        {**hour, "use_millionths_average": 600_000, "memory_used_mib_average": 3000}
        | {"power_milliwatts_average": 400_000, "power_milliwatts_maximum": 600_000},
        {**hour, "use_millionths_average": None, "memory_used_mib_average": 5000}
        | {"power_milliwatts_average": None, "power_milliwatts_maximum": None},
        {**hour, "tenant": "", "use_millionths_average": 0, "memory_used_mib_average": 4}
        | {"power_milliwatts_average": 100_000, "power_milliwatts_maximum": 100_000},
    ]
    told = answer(
        facts({"fct_gpu_use": rows, "dim_clusters": CLUSTERS}),
        "use-by-cluster-product-and-tenant",
    )
    assert told == [
        ("east", "MI300X", "vision", 3, 500_000, 3000, 350_000, 600_000),
        ("east", "MI300X", "", 1, 0, 4, 100_000, 100_000),
    ]


def test_anomalies_are_listed_by_device_with_their_largest_hour() -> None:
    hot = {
        "cluster_id": "c1",
        "node_name": "n",
        "device_uuid": "G",
        "gpu_index": "0",
        "rule_name": "unlike_own_history",
        "reading": "temperature_millicelsius",
        "status": "anomaly",
        "expected": 60_000,
        "deviation_limit": 15_000,
    }
    rows = [
        {**hot, "hour_started_at": NINTH, "observed": 80_000},
        {**hot, "hour_started_at": NINTH + HOUR, "observed": 92_000},
        {**hot, "hour_started_at": NINTH, "status": "not_enough_history", "observed": None},
    ]
    told = answer(
        facts({"fct_device_anomalies": rows, "dim_clusters": CLUSTERS}), "device-anomalies"
    )
    [row] = told
    assert row[5:] == (
        *("unlike_own_history", "temperature_millicelsius", 2, NINTH, NINTH + HOUR),
        *(92_000, 60_000, 15_000),
    )
