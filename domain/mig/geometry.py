"""The geometry of a card: its slots, its profiles, and the share of each profile.

Put here: the MIG facts of a card, shares as exact fractions, and two families of geometries that
give the profiles of a new card.
Not here: the table of shipped facts (`dbt/seeds/mig_profiles.csv`, read by `domain.gpu`), or the
sets of instances that fit on a card (`domain.mig.layouts`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from domain.mig.profile import MigProfile

LARGEST_CARD_GB = 65_536
"""Far above the memory of any card; a larger number in a geometry's name is a typing error."""


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """The exact part of a physical card that a device has, in each dimension."""

    compute: Fraction
    memory: Fraction

    def times(self, factor: Fraction) -> Share:
        return Share(self.compute * factor, self.memory * factor)

    def __add__(self, other: Share) -> Share:
        return Share(self.compute + other.compute, self.memory + other.memory)


WHOLE = Share(Fraction(1), Fraction(1))


@dataclass(frozen=True, slots=True)
class InstanceProfile:
    """One GPU instance profile of one geometry."""

    profile: MigProfile
    profile_id: int
    max_count: int
    starts: tuple[int, ...]
    memory_slots: int  # also the number of slots that the instance covers
    compute_slots: int
    media_engines: int = 0  # of the scarcest media engine of the card
    aliases: tuple[MigProfile, ...] = ()  # other names of the same instance
    memory_mib: int | None = None
    multiprocessors: int | None = None
    table_weight: Fraction | None = None

    @property
    def names(self) -> tuple[MigProfile, ...]:
        return (self.profile, *self.aliases)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The slots of a card and the profiles that can be placed on them."""

    name: str
    profiles: tuple[InstanceProfile, ...]
    compute_slots: int = field(init=False)
    memory_slots: int = field(init=False)
    media_engines: int = field(init=False)

    def __post_init__(self) -> None:
        for dimension in ("compute_slots", "memory_slots", "media_engines"):
            largest = max(getattr(profile, dimension) for profile in self.profiles)
            object.__setattr__(self, dimension, largest)

    def __hash__(self) -> int:
        return hash(self.name)  # equal geometries have equal names; hashing every profile is slow

    def find(self, profile: MigProfile) -> InstanceProfile | None:
        """The instance that `profile` names, or that contains the named compute instance."""
        wanted = profile.instance
        return next((p for p in self.profiles if wanted in p.names), None)

    def canonical(self, profile: MigProfile) -> MigProfile | None:
        """The name under which a profile has its price; None if the card has no such profile."""
        found = self.find(profile)
        if found is None or profile.compute_slices not in compute_sizes(profile.gpu_slices):
            return None
        return found.profile.with_compute_slices(profile.compute_slices)

    def share(self, profile: MigProfile) -> Share | None:
        """The share of the card; of a compute instance, its slices of the share of its instance."""
        found = self.find(profile)
        if found is None or self.canonical(profile) is None:
            return None
        part = Fraction(profile.compute_slices, profile.gpu_slices)
        return Share(
            Fraction(found.compute_slots, self.compute_slots) * part,
            Fraction(found.memory_slots, self.memory_slots) * part,
        )

    def every_profile(self) -> tuple[MigProfile, ...]:
        """All names of resources: of instances, their aliases, and their compute instances."""
        return tuple(
            name.with_compute_slices(size)
            for profile in self.profiles
            for name in profile.names
            for size in reversed(compute_sizes(name.gpu_slices))
        )


def compute_sizes(gpu_slices: int) -> tuple[int, ...]:
    """The sizes of compute instances in an instance of so many GPU slices, up to its own size.

    No compute instance has 5 or 6 slices, and a 4g instance has none of 3.
    """
    parts = [size for size in (1, 2, 3, 4) if size < gpu_slices and (gpu_slices, size) != (4, 3)]
    return (*parts, gpu_slices)


_FAMILY = re.compile(r"(8|4)-slot-([0-9]{1,5})gb", re.ASCII)

# (GPU slices, memory slots, attributes, profile id, count, starts, media engines)
_Row = tuple[int, int, tuple[str, ...], int, int, tuple[int, ...], int]
_EIGHT_SLOTS: tuple[_Row, ...] = (
    (1, 1, (), 19, 7, (0, 1, 2, 3, 4, 5, 6), 0),
    (1, 1, ("me",), 20, 1, (0, 1, 2, 3, 4, 5, 6), 1),
    (1, 2, (), 15, 4, (0, 2, 4, 6), 0),
    (2, 2, (), 14, 3, (0, 2, 4), 0),
    (3, 4, (), 9, 2, (0, 4), 0),
    (4, 4, (), 5, 1, (0,), 0),
    (7, 8, (), 0, 1, (0,), 1),
)
_FOUR_SLOTS: tuple[_Row, ...] = (
    (1, 1, (), 14, 4, (0, 1, 2, 3), 0),
    (1, 1, ("me",), 21, 1, (0, 1, 2, 3), 1),
    (2, 2, (), 5, 2, (0, 2), 0),
    (2, 2, ("me",), 6, 1, (0, 2), 1),
    (4, 4, (), 0, 1, (0,), 1),
)


def family_geometry(name: str) -> Geometry | None:
    """`8-slot-288gb` and `4-slot-32gb`: the profiles that follow from slots and gigabytes.

    A new card of a known family therefore needs only one row. The gigabytes in a profile's name
    are those of NVIDIA's library: the memory of its slots, rounded to whole gigabytes.
    """
    match = _FAMILY.fullmatch(name)
    if not match or not 0 < int(match[2]) <= LARGEST_CARD_GB:
        return None
    slots, total_gb = int(match[1]), int(match[2])
    rows = _EIGHT_SLOTS if slots == 8 else _FOUR_SLOTS
    return Geometry(name, tuple(_instance(row, slots, total_gb) for row in rows))


def _instance(row: _Row, slots: int, total_gb: int) -> InstanceProfile:
    slices, memory_slots, attributes, profile_id, count, starts, media = row
    memory_gb = round_half_up(Fraction(memory_slots * total_gb, slots))
    return InstanceProfile(
        profile=MigProfile(slices, slices, memory_gb, attributes),
        profile_id=profile_id,
        max_count=count,
        starts=starts,
        memory_slots=memory_slots,
        compute_slots=slices,
        media_engines=media,
    )


def round_half_up(number: Fraction) -> int:
    """The nearest whole number, halves upwards, as Go rounds positive numbers."""
    return int(number + Fraction(1, 2))
