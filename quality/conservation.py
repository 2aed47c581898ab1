"""Conservation: sums that are the same thing by definition must be the same number, with `==`.

Put here: the names of the identities, and what a broken one means.
Not here: their statements (`sql/identities`), identities that dbt's own tests hold, or running
these (`run`).

Each statement returns one row per thing compared, with `place`, `left_sum` and `right_sum`. Each
compares the clusters of the calendar as well as the rows, so that a month without use is evaluated
too, and a check that returns no row at all has not looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from domain.findings import Check, Finding
from quality.catalogue import CATALOGUE


@dataclass(frozen=True, slots=True, order=True)
class Comparison:
    """Two numbers that must be one."""

    place: str
    left_sum: int
    right_sum: int

    @property
    def holds(self) -> bool:
        return self.left_sum == self.right_sum


FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        "shares_add_up_to_capacity": "capacity_not_conserved",
        "no_node_gives_more_than_it_has": "more_allocated_than_capacity",
    }
)
"""What a broken identity is called when it is more than two sums that differ."""

IDENTITIES = (
    "shares_add_up_to_capacity",
    "no_node_gives_more_than_it_has",
    "pod_seconds_add_up_to_charges",
    "pod_costs_add_up_to_charges",
    "no_pod_holds_a_device_twice",
    "no_pod_hour_leaves_its_hour",
)
"""Each is a statement of its name in `sql/identities`."""


def check_of(name: str, comparisons: Sequence[Comparison]) -> Check:
    """How much a named check looked at, and how much of it failed."""
    return Check(name, len(comparisons), sum(not c.holds for c in comparisons))


def sum_findings(name: str, comparisons: Iterable[Comparison]) -> list[Finding]:
    """One finding per broken place."""
    kind = CATALOGUE[FINDINGS.get(name, "sums_differ")]
    return [
        kind.finding(
            where=f"{name}: {broken.place}",
            seen=f"{broken.left_sum} and {broken.right_sum}, "
            f"a difference of {broken.left_sum - broken.right_sum}",
        )
        for broken in sorted(comparisons)
        if not broken.holds
    ]
