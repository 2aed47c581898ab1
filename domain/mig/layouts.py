"""Every layout that a card can have: which instances, at which slots. Exhaustive and exact.

Put here: positioned layouts, the maximal ones among them, and the sets that can be placed.
Not here: whether one given set fits, and in which order it is made (`domain.mig.placing`).

On an 8-slot card there are 297 positioned layouts of {1g, 2g, 3g, 4g, 7g}; 19 of them are
maximal, which is the number usually quoted for an A100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from domain.mig.geometry import Geometry, InstanceProfile
from domain.mig.profile import MigProfile

PROFILE_SETS_REMEMBERED = 256
"""The catalogue has fewer geometries than this; each has a few thousand layouts at most."""


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """One instance on the slots `[start, start + size)`."""

    start: int
    size: int
    profile: MigProfile

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}:{self.size}"


Layout = tuple[Placement, ...]
Instances = tuple[tuple[MigProfile, int], ...]  # a multiset: profile and count, ordered


@dataclass(frozen=True, slots=True)
class OccupiedParts:
    """The parts of a card that the instances so far occupy."""

    slots: int = 0  # as bits
    compute_slots: int = 0
    media_engines: int = 0
    counts: tuple[tuple[MigProfile, int], ...] = ()

    def count(self, profile: MigProfile) -> int:
        return dict(self.counts).get(profile, 0)

    def with_instance(self, profile: InstanceProfile, start: int) -> OccupiedParts:
        counts = dict(self.counts)
        counts[profile.profile] = counts.get(profile.profile, 0) + 1
        return OccupiedParts(
            self.slots | covered(profile, start),
            self.compute_slots + profile.compute_slots,
            self.media_engines + profile.media_engines,
            tuple(sorted(counts.items())),
        )


def covered(profile: InstanceProfile, start: int) -> int:
    """The slots of an instance, as bits."""
    return ((1 << profile.memory_slots) - 1) << start


def can_take(
    geometry: Geometry, taken: OccupiedParts, profile: InstanceProfile, start: int
) -> bool:
    """Whether one more instance fits: free slots, compute, media engines, and its own limit."""
    return (
        not taken.slots & covered(profile, start)
        and start + profile.memory_slots <= geometry.memory_slots
        and taken.compute_slots + profile.compute_slots <= geometry.compute_slots
        and taken.media_engines + profile.media_engines <= geometry.media_engines
        and taken.count(profile.profile) < profile.max_count
    )


@dataclass(frozen=True, slots=True)
class Layouts:
    """All non-empty layouts of some profiles of one card."""

    positioned: tuple[Layout, ...]
    maximal: frozenset[Layout]

    @property
    def placeable(self) -> tuple[Instances, ...]:
        """The distinct sets of instances, independent of their slots."""
        return tuple(sorted({instances_of(layout) for layout in self.positioned}))


def instances_of(layout: Layout) -> Instances:
    return tuple(sorted(Counter(placement.profile for placement in layout).items()))


def layouts(geometry: Geometry, profiles: Collection[MigProfile] | None = None) -> Layouts:
    """Every layout with the chosen profiles (default: all that the card has)."""
    chosen = None if profiles is None else frozenset(profiles)
    return _layouts(geometry, chosen)


@lru_cache(maxsize=PROFILE_SETS_REMEMBERED)
def _layouts(geometry: Geometry, chosen: frozenset[MigProfile] | None) -> Layouts:
    options = tuple(p for p in geometry.profiles if chosen is None or p.profile in chosen)
    found = [pair for pair in _grow(geometry, options, 0, (), OccupiedParts()) if pair[0]]
    maximal = [layout for layout, taken in found if not _can_grow(geometry, options, taken)]
    return Layouts(tuple(sorted(layout for layout, _ in found)), frozenset(maximal))


def _grow(
    geometry: Geometry,
    options: tuple[InstanceProfile, ...],
    slot: int,
    layout: Layout,
    taken: OccupiedParts,
) -> Iterator[tuple[Layout, OccupiedParts]]:
    """Walk the slots from left to right: leave each one free, or start an instance there."""
    if slot >= geometry.memory_slots:
        yield layout, taken
        return
    yield from _grow(geometry, options, slot + 1, layout, taken)
    for profile in options:
        if slot in profile.starts and can_take(geometry, taken, profile, slot):
            placement = Placement(slot, profile.memory_slots, profile.profile)
            end = slot + profile.memory_slots
            more = taken.with_instance(profile, slot)
            yield from _grow(geometry, options, end, (*layout, placement), more)


def _can_grow(
    geometry: Geometry, options: tuple[InstanceProfile, ...], taken: OccupiedParts
) -> bool:
    return any(
        can_take(geometry, taken, profile, start) for profile in options for start in profile.starts
    )
