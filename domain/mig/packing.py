"""The smallest number of cards that can hold a set of MIG instances.

Put here: the exact smallest number, and a lower bound where a search would take too long.
Not here: the number of cards of a node, and its source (`domain.gpu.cards`).

A node offers instances on a number of cards; the card of each instance is not known. Some of the
instances are allocated. The result is the smallest number of cards that can hold the allocated
instances, while all offered instances still fit on the cards of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from domain.mig.geometry import Geometry
from domain.mig.layouts import Instances, layouts
from domain.mig.profile import MigProfile

MOST_STEPS = 20_000
"""Of a search: about 0.1 s. A node of 16 cards in mixed layouts needs some hundred steps."""

MOST_INSTANCES = 1_024
"""On one node; 16 cards have 112. For more instances the result is the lower bound."""

PACKINGS_REMEMBERED = 65_536
"""A node has few different states in a month, so most calls have the same arguments."""

Vector = tuple[int, ...]


class Packing(NamedTuple):
    """A number of cards, and whether it is the smallest number or only a lower bound."""

    card_count: int
    is_exact: bool


class _TooLong(Exception):
    """The search exceeded MOST_STEPS."""


def pack(
    geometry: Geometry,
    allocated: Mapping[MigProfile, int],
    offered: Mapping[MigProfile, int],
    cards: int | None,
) -> Packing:
    """The smallest number of cards that can hold the allocated GPU instances.

    `offered`: all instances of the node. `cards`: the number of its cards (None: not known). If
    the numbers contradict each other (more allocated than offered, or more offered than the cards
    can hold), only the allocated instances count.
    """
    return _pack(geometry, _instances(allocated), _instances(offered), cards)


def _instances(counts: Mapping[MigProfile, int]) -> Instances:
    return tuple(sorted((profile, count) for profile, count in counts.items() if count > 0))


@lru_cache(maxsize=PACKINGS_REMEMBERED)
def _pack(
    geometry: Geometry, allocated: Instances, offered: Instances, cards: int | None
) -> Packing:
    names = tuple(profile for profile, _ in allocated)
    if sum(count for _, count in allocated) > MOST_INSTANCES:
        return Packing(_lower_bound(geometry, allocated), is_exact=False)
    try:
        fewest = _Search(geometry, names).fewest_for(tuple(count for _, count in allocated))
    except _TooLong:
        return Packing(_lower_bound(geometry, allocated), is_exact=False)
    every = tuple(sorted({*names, *(profile for profile, _ in offered)}))
    wanted = tuple(dict(allocated).get(name, 0) for name in every)
    there = tuple(max(dict(offered).get(name, 0), w) for name, w in zip(every, wanted, strict=True))
    if cards is None or sum(there) > MOST_INSTANCES:
        return Packing(fewest, is_exact=cards is None)
    try:
        found = _Search(geometry, every).fewest_of(wanted, there, cards, fewest)
    except _TooLong:
        return Packing(fewest, is_exact=False)
    return Packing(found, is_exact=True)


def _lower_bound(geometry: Geometry, counts: Instances) -> int:
    """A lower bound of the number of cards: the sum of slots, divided by the slots of a card."""
    found = [(geometry.find(profile), count) for profile, count in counts]
    known = [(profile, count) for profile, count in found if profile is not None]
    sums = (
        (sum(p.compute_slots * count for p, count in known), geometry.compute_slots),
        (sum(p.memory_slots * count for p, count in known), geometry.memory_slots),
        (sum(p.media_engines * count for p, count in known), geometry.media_engines),
        *((count, profile.max_count) for profile, count in known),
    )
    return max((-(-taken // room) for taken, room in sums if taken), default=0)


class _Search:
    """Packing of instance counts onto cards, as vectors over a few profiles of one geometry."""

    def __init__(self, geometry: Geometry, names: tuple[MigProfile, ...]) -> None:
        self._geometry = geometry
        self._names = names
        self._cards = _placeable_vectors(geometry, names)
        self._most = tuple(max(column) for column in zip(*self._cards, strict=True))
        self._steps = 0
        self._fullest_within: dict[Vector, list[Vector]] = {}
        self._packed: dict[tuple[Vector, int], bool] = {}
        self._covered: dict[tuple[Vector, Vector, int, int], bool] = {}

    def fewest_for(self, counts: Vector) -> int:
        """The smallest number of cards that can hold these instances."""
        cards = self._bound(counts)
        while not self._packs(counts, cards):
            cards += 1
        return cards

    def fewest_of(self, wanted: Vector, there: Vector, cards: int, at_least: int) -> int:
        """The smallest part of `cards` that can hold `wanted`, if all `cards` hold `there`."""
        for covering in range(at_least, cards + 1):
            if self._covers(there, wanted, covering, cards - covering):
                return covering
        return at_least  # the cards cannot hold the offered instances: contradicting numbers

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _TooLong

    def _packs(self, counts: Vector, cards: int) -> bool:
        """Whether so many cards can hold these instances; each card gets a maximal set."""
        if not any(counts):
            return True
        key = (counts, cards)
        if key not in self._packed:
            self._step()
            first = next(index for index, count in enumerate(counts) if count)
            self._packed[key] = self._bound(counts) <= cards and any(
                self._packs(_minus(counts, card), cards - 1)
                for card in self._fullest(counts)
                if card[first]
            )
        return self._packed[key]

    def _covers(self, there: Vector, wanted: Vector, covering: int, others: int) -> bool:
        """Whether `covering` cards can hold all wanted instances, and `others` the rest."""
        if not any(wanted):
            return self._packs(there, covering + others)
        key = (there, wanted, covering, others)
        if key not in self._covered:
            self._step()
            possible = self._bound(wanted) <= covering
            possible = possible and self._bound(there) <= covering + others
            self._covered[key] = possible and any(
                self._covers(_minus(there, card), _minus(wanted, card), covering - 1, others)
                for card in self._fullest(there)
                if any(a and b for a, b in zip(card, wanted, strict=True))
            )
        return self._covered[key]

    def _bound(self, counts: Vector) -> int:
        """A lower bound of the number of cards for these instances."""
        return _lower_bound(self._geometry, tuple(zip(self._names, counts, strict=True)))

    def _fullest(self, counts: Vector) -> list[Vector]:
        """The maximal sets of these instances on one card.

        Only maximal sets are needed, because an instance that moves to this card makes room on
        another card. A set is maximal if no set with one more instance is placeable: a placeable
        set stays placeable without one of its instances.
        """
        reachable = tuple(min(count, most) for count, most in zip(counts, self._most, strict=True))
        if reachable not in self._fullest_within:
            fitting = {card for card in self._cards if _within(card, reachable)}
            self._fullest_within[reachable] = [
                card for card in sorted(fitting) if fitting.isdisjoint(_with_one_more(card))
            ]
        return self._fullest_within[reachable]


def _with_one_more(card: Vector) -> list[Vector]:
    return [(*card[:i], card[i] + 1, *card[i + 1 :]) for i in range(len(card))]


def _minus(left: Vector, right: Vector) -> Vector:
    return tuple(max(a - b, 0) for a, b in zip(left, right, strict=True))


def _within(left: Vector, right: Vector) -> bool:
    return all(a <= b for a, b in zip(left, right, strict=True))


@lru_cache(maxsize=256)
def _placeable_vectors(geometry: Geometry, names: tuple[MigProfile, ...]) -> tuple[Vector, ...]:
    placeable = layouts(geometry, names).placeable
    return tuple(sorted(tuple(dict(found).get(name, 0) for name in names) for found in placeable))
