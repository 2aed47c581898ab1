"""GpuBudgets: the definition of the resource, compared with budgets.csv, and the rows of
a journal.
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from domain.budgets import (
    DEFAULT_ACTUAL_STEPS,
    DEFAULT_FORECAST_STEPS,
    LARGEST_STEP,
    STEPS_LIMIT,
)
from domain.decisions.price_tables import BUDGETS
from ingestion.kubernetes.lifecycle_rows import rows_of
from ingestion.kubernetes.line_schema import check_form
from ingestion.kubernetes.projections import TEXT_LIMIT, budget

DEFINITION = Path(__file__).parents[2] / "deploy" / "budgets" / "definition.yaml"
CELLS = {column.name: column.cell for column in BUDGETS.columns}
COLUMN_OF = {
    "amount": "amount",
    "currency": "currency",
    "billingPeriod": "billing_period",
    "workload": "workload",
    "label": "label",
    "actualSteps": "actual_steps",
    "forecastSteps": "forecast_steps",
}


def fields() -> dict[str, Any]:
    [version] = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return dict(spec["properties"])


def observed(spec: dict[str, Any], via: str = "added") -> dict[str, Any]:
    """The row of one observation of a budget of the namespace `vision`."""
    meta = {"name": "team", "namespace": "vision", "uid": "u-1", "resourceVersion": "7"}
    document = {"metadata": meta | {"creationTimestamp": "2026-10-01T08:00:00Z"}, "spec": spec}
    line = {"line": "object", "at": "2026-10-02T00:00:00Z", "position": 3}
    line |= {"resource": "gpubudgets", "via": via, "object": budget(document)}
    check_form(line)
    [(table, row)] = rows_of(line)
    assert table == "budget_observations"
    return row


def test_the_resource_has_the_columns_of_the_table() -> None:
    of_people = {"tenant", "reason", "decided_by", "decided_on"}  # namespace; the editing user
    assert set(COLUMN_OF) == set(fields())
    assert set(COLUMN_OF.values()) == set(CELLS) - of_people


def test_the_resource_has_the_defaults_and_limits_of_the_table() -> None:
    for name, default in (
        ("actualSteps", DEFAULT_ACTUAL_STEPS),
        ("forecastSteps", DEFAULT_FORECAST_STEPS),
    ):
        field = fields()[name]
        assert tuple(field["default"]) == default
        assert field["maxItems"] == STEPS_LIMIT
        assert (field["items"]["minimum"], field["items"]["maximum"]) == (1, LARGEST_STEP)
    for name in ("workload", "label"):
        assert fields()[name]["maxLength"] <= TEXT_LIMIT


@pytest.mark.parametrize("name", ["amount", "currency", "billingPeriod", "workload", "label"])
@given(data=st.data())
def test_the_table_reads_every_text_that_the_resource_accepts(
    name: str, data: st.DataObject
) -> None:
    field = fields()[name]
    text = data.draw(st.from_regex(field["pattern"], fullmatch=True))
    if len(text) <= field.get("maxLength", len(text)):
        assert CELLS[COLUMN_OF[name]].read(text) is not None


@given(steps=st.lists(st.integers(1, LARGEST_STEP), unique=True, max_size=STEPS_LIMIT).map(sorted))
def test_steps_mean_the_same_in_both_sources(steps: list[int]) -> None:
    row = observed({"amount": "1", "currency": "USD", "actualSteps": steps})
    assert row["actual_steps"] == (" ".join(map(str, steps)) or "none")
    assert CELLS["actual_steps"].read(row["actual_steps"]) == tuple(steps)
    assert row["forecast_steps"] == "100"


def test_a_budget_of_a_workload_is_one_row_with_nanos() -> None:
    spec = {"amount": "1200.5", "currency": "USD", "workload": "Deployment/chat"}
    row = observed(spec | {"billingPeriod": "2026-10", "actualSteps": [80]}, via="gone")
    assert row["budget_nanos"] == "1200500000000"
    assert (row["namespace"], row["budget_name"]) == ("vision", "team")
    assert (row["workload_kind"], row["workload_name"]) == ("Deployment", "chat")
    assert (row["billing_period"], row["actual_steps"]) == ("2026-10", "80")
    assert row["deleted"]
    assert row["invalid"] == ""


def test_an_amount_may_be_a_number() -> None:
    assert observed({"amount": 0, "currency": "USD"})["budget_nanos"] == "0"
    assert observed({"amount": 12000, "currency": "USD"})["budget_nanos"] == "12000000000000"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"amount": "-1", "currency": "USD"}, "-1"),
        ({"amount": 1.5, "currency": "USD"}, "''"),
        ({"amount": "1", "currency": "usd"}, "usd"),
        ({"amount": "1", "currency": "USD", "billingPeriod": "october"}, "october"),
        ({"amount": "1", "currency": "USD", "workload": "chat"}, "chat"),
        ({"amount": "1", "currency": "USD", "actualSteps": [90, 50]}, "90 50"),
        ({"amount": "1", "currency": "USD", "workload": "Job/a", "label": "a=b"}, "workload"),
        ({}, "''"),
        ("no spec", "''"),
    ],
)
def test_a_budget_that_the_table_refuses_is_invalid_with_a_reason(spec: Any, reason: str) -> None:
    """A cluster may have the resource without our definition's checks."""
    row = observed(spec)
    assert "budget_nanos" not in row
    assert reason in row["invalid"]


@given(
    spec=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(string.printable, max_size=300),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(list(COLUMN_OF)), inner),
    )
)
def test_any_object_is_a_row(spec: Any) -> None:
    row = observed(spec)
    assert ("budget_nanos" in row) is (row["invalid"] == "")
