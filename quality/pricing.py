"""Every charge priced a second time, by the arithmetic that is not SQL.

Put here: the check that `fct_charges` and `domain.money` agree to the nano.
Not here: which rate applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from domain.findings import Check
from domain.money import price_nanos

PRICED_EXACTLY = "charges_are_priced_exactly"


@dataclass(frozen=True, slots=True, order=True)
class PricedCharge:
    """What a charge says it is, and what it costs."""

    cluster_id: str
    rate_id: str
    device_seconds: int
    weight: Fraction
    rate_nanos_per_hour: int
    cost_nanos: int

    @property
    def is_exact(self) -> bool:
        """Without a rate there is no cost; with one it is seconds × weight × rate, rounded once."""
        if not self.rate_id:
            return self.cost_nanos == 0
        expected = price_nanos(self.device_seconds, self.weight, self.rate_nanos_per_hour)
        return self.cost_nanos == expected


def priced_exactly(charges_by_cluster: Mapping[str, Sequence[PricedCharge]]) -> Check:
    """One row per cluster of the calendar and one per charge, so that an idle month counts too."""
    charges = [charge for found in charges_by_cluster.values() for charge in found]
    wrong = [charge for charge in charges if not charge.is_exact]
    clusters = {charge.cluster_id for charge in wrong}
    return Check(PRICED_EXACTLY, len(charges_by_cluster) + len(charges), len(wrong) + len(clusters))
