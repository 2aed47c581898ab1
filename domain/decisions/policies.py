"""The policies of the ledger: their defaults, and the form of their values.

Put here: the names, their default values and versions, and the form of each value.
Not here: the effect of a policy on a number.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from domain.decisions import cells
from domain.decisions.cells import Cell
from domain.decisions.rows import Policy, PolicyName
from domain.gpu.weights import WeightPolicy


class BillableState(StrEnum):
    """Running time alone, or the time in which a pod held its devices without running, too."""

    RUNNING = "running"
    HELD = "held"


VALUE_FORMS: dict[PolicyName, Cell[Any]] = {
    PolicyName.BILLABLE_STATE: cells.one_of(BillableState),
    PolicyName.MIG_WEIGHT: cells.one_of(WeightPolicy),
    PolicyName.UNCERTAINTY_LIMIT: cells.share(),
    PolicyName.ONE_SOURCE_LIMIT: cells.share(),
    PolicyName.GRACE_DAYS: cells.whole_number(0, 60),
    PolicyName.CURRENCY: cells.currency(),
}

DEFAULT_VERSION = "default-1"

_DEFAULT_VALUES = {
    PolicyName.BILLABLE_STATE: ("running", "use is what a tenant could compute on"),
    PolicyName.MIG_WEIGHT: ("max", "a slice weighs what it denies to others"),
    PolicyName.UNCERTAINTY_LIMIT: ("0.005", "more doubt than half a percent is not billed unseen"),
    PolicyName.ONE_SOURCE_LIMIT: ("0.05", "one source may fill a hole, not carry the month"),
    PolicyName.GRACE_DAYS: ("2", "evidence that is late by a day still counts"),
}

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)

DEFAULT_POLICIES: dict[PolicyName, Policy] = {
    name: Policy(
        policy=name,
        version=DEFAULT_VERSION,
        value=value,
        valid_from=_BEGINNING,
        reason=reason,
        decided_by="gpu-ledger",
        decided_on=date(2026, 11, 1),
    )
    for name, (value, reason) in _DEFAULT_VALUES.items()
}
"""There is no default currency: without a policy it is the one that the rates are in."""


def value_of(policy: Policy) -> Any:
    """The value of a policy: a word, an exact share, a number of days."""
    return VALUE_FORMS[policy.policy].read(policy.value)
