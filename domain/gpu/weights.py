"""Weights: by which fraction of a card's price a device is billed, under a named policy.

Put here: the four policies.
Not here: shares, which are conserved (`domain.mig.geometry`), or money.

Under `max` the weight is the share of the card that other tenants cannot use: 3g and 4g together
weigh 15/14. A whole card weighs 1 under every policy.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from domain.gpu.catalogue import Catalogue
from domain.gpu.kinds import WHOLE_CARD, DeviceForm, DeviceKind
from domain.mig.profile import parse_profile


class WeightPolicy(StrEnum):
    """How a share of a card becomes a weight."""

    MAX = "max"
    COMPUTE = "compute"
    MEMORY = "memory"
    TABLE = "table"  # the weights that mig_profiles.csv states


def weight(kind: DeviceKind, policy: WeightPolicy, catalogue: Catalogue) -> Fraction | None:
    """The weight of one device; None where the table has none."""
    match policy:
        case WeightPolicy.MAX:
            return max(kind.compute_share, kind.memory_share)
        case WeightPolicy.COMPUTE:
            return kind.compute_share
        case WeightPolicy.MEMORY:
            return kind.memory_share
        case WeightPolicy.TABLE:
            stated = _table_weight(kind, catalogue)
            return None if stated is None else stated * kind.unit_share


def _table_weight(kind: DeviceKind, catalogue: Catalogue) -> Fraction | None:
    """The table's weight of the instance; a compute instance has its part of it."""
    if kind.mig_profile == WHOLE_CARD:
        return Fraction(1)
    product = catalogue.products[kind.product]
    if kind.kind is DeviceForm.PARTITION or product.geometry is None:
        return None
    profile = parse_profile(kind.mig_profile)
    found = product.geometry.find(profile)
    if found is None or found.table_weight is None:
        return None
    return found.table_weight * Fraction(profile.compute_slices, profile.gpu_slices)
