"""On how few cards a set of instances can lie, over all layouts that a node can have.

Put here: the exact smallest number, and the plain bound when a search would take too long.
Not here: how many cards a node has, and which of its numbers say so (`domain.gpu.cards`).

A node offers instances on so many cards; which instance is on which card is not known. Some of
the instances are allocated. The result is the smallest number of cards that can hold those,
while all that the node offers still lies on its cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from domain.mig.geometry import Geometry
from domain.mig.layouts import Instances, layouts
from domain.mig.profile import MigProfile

MOST_STEPS = 20_000
"""Of the search, about a tenth of a second; a node of 16 cards in mixed layouts takes hundreds."""

MOST_INSTANCES = 1_024
"""On one node; 16 cards have 112. Beyond it only the plain bound is given."""

PACKINGS_REMEMBERED = 65_536
"""The same nodes have few states in a month, so most queries repeat."""

Vector = tuple[int, ...]


class Packing(NamedTuple):
    """A number of cards, and whether it is the smallest one or only no larger than that."""

    card_count: int
    is_exact: bool


class _TooLong(Exception):
    """The search took more steps than it may."""


def pack(
    geometry: Geometry,
    allocated: Mapping[MigProfile, int],
    offered: Mapping[MigProfile, int],
    cards: int | None,
) -> Packing:
    """The fewest cards on which the allocated GPU instances can lie.

    `offered` are all instances of the node's cards, `cards` how many cards those are on (None:
    not known). Contradicting numbers (more allocated than offered, more offered than the cards
    can hold) give the number for the allocated instances alone.
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
        return Packing(_plain_bound(geometry, allocated), is_exact=False)
    try:
        fewest = _Search(geometry, names).fewest_for(tuple(count for _, count in allocated))
    except _TooLong:
        return Packing(_plain_bound(geometry, allocated), is_exact=False)
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


def _plain_bound(geometry: Geometry, counts: Instances) -> int:
    """By adding up slots: never more than the true number."""
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
        """The fewest cards that hold these instances."""
        cards = self._bound(counts)
        while not self._packs(counts, cards):
            cards += 1
        return cards

    def fewest_of(self, wanted: Vector, there: Vector, cards: int, at_least: int) -> int:
        """The fewest of `cards` that can hold `wanted`, when they hold `there` altogether."""
        for covering in range(at_least, cards + 1):
            if self._covers(there, wanted, covering, cards - covering):
                return covering
        return at_least  # the cards cannot hold the offered instances: contradicting numbers

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _TooLong

    def _packs(self, counts: Vector, cards: int) -> bool:
        """Whether so many cards hold these instances; each card is filled as far as it goes."""
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
        """Whether `covering` cards hold all wanted instances, and `others` the rest."""
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
        """At least so many cards, by adding up slots; at least one for anything."""
        return _plain_bound(self._geometry, tuple(zip(self._names, counts, strict=True)))

    def _fullest(self, counts: Vector) -> list[Vector]:
        """The maximal sets of these instances on one card.

        Moving an instance onto a card never makes another card worse, so fuller is enough. A
        placeable set stays placeable without one of its instances, so one more instance decides.
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
