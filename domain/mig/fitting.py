"""Whether mig-parted's configurations fit the cards they are meant for, and what those then sell.

Put here: one entry against one geometry, with slots, shares and what stays unsold.
Not here: reading files (`domain.mig.parted`), or which cards there are (`domain.gpu`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from domain.mig.geometry import Geometry, Share
from domain.mig.parted import PartedEntry
from domain.mig.placing import Placed, Unplaceable, place
from domain.mig.profile import MigProfile

NOTHING = Share(Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class EntryFit:
    """One entry of a configuration on one card."""

    geometry: str
    slices_add_up: bool  # what counting slices alone says, as mig-parted's own table does
    placed: Placed | Unplaceable
    sold: Share
    unsold: Share

    @property
    def fits(self) -> bool:
        return self.placed.fits


def fit_entry(entry: PartedEntry, geometry: Geometry) -> EntryFit:
    """Prove that an entry fits a card, and say which shares it sells."""
    placed = place(geometry, entry.mig_devices)
    sold = sold_share(geometry, entry.mig_devices) if placed.fits and entry.mig_enabled else NOTHING
    whole = Share(Fraction(1), Fraction(1)) if entry.mig_enabled else NOTHING
    return EntryFit(
        geometry=geometry.name,
        slices_add_up=slices_add_up(geometry, entry.mig_devices),
        placed=placed,
        sold=sold,
        unsold=Share(whole.compute - sold.compute, whole.memory - sold.memory),
    )


def sold_share(geometry: Geometry, counts: Mapping[MigProfile, int]) -> Share:
    """The share of one card that these instances are, per dimension."""
    total = NOTHING
    for profile, count in counts.items():
        share = geometry.share(profile)
        if count and share is not None:
            total = total + share.times(Fraction(count))
    return total


def slices_add_up(geometry: Geometry, counts: Mapping[MigProfile, int]) -> bool:
    """Whether the profiles exist and their compute slices add up to a card's or less.

    mig-parted's table of known configurations knows no more than that: it takes two 3g and one 1g
    for valid, although two 3g leave no slot.
    """
    if any(geometry.canonical(profile) is None for profile in counts):
        return False
    slices = sum(profile.compute_slices * count for profile, count in counts.items())
    return slices <= geometry.compute_slots
