"""Tables about money: rates, weights, budgets, and the policies printed beside them.

Put here: their columns, meanings, examples, and the checks of whole rows.
Not here: which rate applies (`rates`), or whether a change was signed twice (`price_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from domain.budgets import DEFAULT_ACTUAL_STEPS, DEFAULT_FORECAST_STEPS
from domain.decisions import cells
from domain.decisions.cells import CellRefused
from domain.decisions.columns import (
    ANY_CLUSTER_ID,
    SIGNED,
    VALID_FROM,
    VALID_UNTIL,
    dated,
    second_name,
    two_people,
)
from domain.decisions.policies import DEFAULT_POLICIES, DEFAULT_VERSION, VALUE_FORMS
from domain.decisions.rows import Budget, Policy, PolicyName, Rate, TableName
from domain.decisions.table_form import DecisionColumn, DecisionTable, Objection

LARGEST_RATE_UNITS = 1_000_000_000
"""A billion an hour, in any currency; seconds × weight × it still fit into 38 digits."""

LARGEST_BUDGET_UNITS = 10**15

STEPS = cells.steps()


def _check_rate(row: Rate) -> Iterable[Objection]:
    yield from dated(row)
    if row.second_name:
        yield from two_people(row)


def _check_budget(row: Budget) -> Iterable[Objection]:
    if row.workload != ("", "") and row.label != ("", ""):
        remedy = "limit either a workload or a label in one row"
        yield Objection("label", "a label beside a workload", remedy)


def _check_policy(row: Policy) -> Iterable[Objection]:
    yield from dated(row)
    try:
        VALUE_FORMS[row.policy].read(row.value)
    except CellRefused as refused:
        yield Objection("value", f"{refused.seen} for {row.policy.value}", refused.remedy)
    if row.version == DEFAULT_VERSION:
        seen = f"{DEFAULT_VERSION!r}, the name of the shipped defaults"
        yield Objection("version", seen, "give the version a name of your own, such as 2026-1")


RATES = DecisionTable(
    TableName.RATES,
    "Prices. The most specific row (cluster, profile) applies; an ambiguity is an error.",
    Rate,
    (
        ANY_CLUSTER_ID,
        DecisionColumn(
            "gpu_class",
            cells.product(),
            "the GPU class of the product table",
            "A100-40GB",
        ),
        DecisionColumn(
            "mig_profile",
            cells.profile(),
            "`whole`: a card, and its slices by weight; a profile: one instance of it",
            "whole",
        ),
        DecisionColumn("currency", cells.currency(), "three letters of ISO 4217", "EUR"),
        DecisionColumn(
            "rate_per_hour",
            cells.amount_nanos(LARGEST_RATE_UNITS),
            "the price of one device for one hour, at most nine decimals",
            "1.803",
            field="rate_nanos_per_hour",
        ),
        VALID_FROM,
        VALID_UNTIL,
        *SIGNED,
        second_name("when a price changes by more than a quarter", always=False),
    ),
    _check_rate,
)

BUDGETS = DecisionTable(
    TableName.BUDGETS,
    "Budgets of tenants. A row for one month replaces the row for every month.",
    Budget,
    (
        DecisionColumn("tenant", cells.namespace(), "the tenant (its namespace)", "team-a"),
        DecisionColumn(
            "billing_period",
            cells.optional(cells.billing_period()),
            "the month, such as 2026-10; empty: every month",
            "2026-10",
        ),
        DecisionColumn("currency", cells.currency(), "three letters of ISO 4217", "EUR"),
        DecisionColumn(
            "amount",
            cells.amount_nanos(LARGEST_BUDGET_UNITS),
            "the budget of one month",
            "12000",
            field="amount_nanos",
        ),
        *SIGNED,
        DecisionColumn(
            "workload",
            cells.optional(cells.pair("/", "Deployment/chat"), ("", "")),
            "kind and name of a workload, to limit its cost only; empty: the whole tenant",
            "",
            may_be_absent=True,
        ),
        DecisionColumn(
            "label",
            cells.optional(cells.pair("=", "team=vision"), ("", "")),
            "a recorded pod label, to limit the cost of these pods only",
            "",
            may_be_absent=True,
        ),
        DecisionColumn(
            "actual_steps",
            cells.optional(STEPS, DEFAULT_ACTUAL_STEPS),
            "percentages of the amount at which the cost is reported; empty is 50 75 90 100",
            "50 75 90 100",
            may_be_absent=True,
        ),
        DecisionColumn(
            "forecast_steps",
            cells.optional(STEPS, DEFAULT_FORECAST_STEPS),
            "percentages at which the forecast is reported, or none; empty is 100",
            "100",
            may_be_absent=True,
        ),
    ),
    _check_budget,
)


def read_budget(tenant: str, texts: Mapping[str, str]) -> tuple[Budget | None, str]:
    """A GpuBudget, whose texts are the cells of a row of budgets.csv; or none, and why."""
    values: dict[str, Any] = {}
    try:
        for column in BUDGETS.columns:
            if column.name in texts:
                values[column.attribute] = column.cell.read(texts[column.name])
    except CellRefused as refused:
        return None, f"{refused.seen}: {refused.remedy}"
    budget = Budget(tenant=tenant, reason="", decided_by="", decided_on=date.min, **values)
    for objection in _check_budget(budget):
        return None, f"{objection.seen}: {objection.remedy}"
    return budget, ""


def budget_columns(budget: Budget) -> dict[str, str]:
    """The values of a budget as the warehouse has them, from either source."""
    return {
        "currency": budget.currency,
        "budget_nanos": str(budget.amount_nanos),
        "workload_kind": budget.workload[0],
        "workload_name": budget.workload[1],
        "label_key": budget.label[0],
        "label_value": budget.label[1],
        "actual_steps": STEPS.write(budget.actual_steps),
        "forecast_steps": STEPS.write(budget.forecast_steps),
    }


def _with_default(name: PolicyName) -> str:
    default = DEFAULT_POLICIES[name].value if name in DEFAULT_POLICIES else "that of the prices"
    return f"{name.value} ({default})"


POLICIES = DecisionTable(
    TableName.POLICIES,
    "Rules that are printed on each invoice. A policy without a row has a default.",
    Policy,
    (
        DecisionColumn(
            "policy",
            cells.one_of(PolicyName),
            "one of (default in brackets): " + ", ".join(map(_with_default, PolicyName)),
            "mig_weight",
        ),
        DecisionColumn(
            "version", cells.text(), "a name for this value, not used for any other", "2026-1"
        ),
        DecisionColumn(
            "value",
            cells.text(),
            "running, held; max, compute, memory, table; a share such as 0.005; days; a currency",
            "memory",
        ),
        VALID_FROM,
        VALID_UNTIL,
        *SIGNED,
    ),
    _check_policy,
)
