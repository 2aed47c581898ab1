"""On how few cards a set of instances can lie, over all layouts that a node can have.

Put here: the exact smallest number, and the plain bound when a search would take too long.
Not here: how many cards a node has, and which of its numbers say so (`domain.gpu.cards`).

A node offers instances on so many cards; which instance is on which card is not known. Some of
the instances are allocated. What is proved is the smallest number of cards that can hold those,
while all that the node offers still lies on its cards.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from domain.mig.geometry import Geometry
from domain.mig.layouts import layouts
from domain.mig.profile import MigProfile

MOST_STEPS = 20_000
"""Of the search, about a tenth of a second; a node of 16 cards in mixed layouts takes hundreds."""

MOST_INSTANCES = 1_024
"""On one node; 16 cards have 112. Beyond it only the plain bound is given."""

Vector = tuple[int, ...]


class _TooLong(Exception):
    """The search took more steps than it may."""


def fewest_cards(
    geometry: Geometry,
    allocated: Mapping[MigProfile, int],
    offered: Mapping[MigProfile, int],
    cards: int | None,
) -> int:
    """The fewest cards on which the allocated GPU instances can lie.

    `offered` are all instances of the node's cards, `cards` how many cards those are on (None:
    not known). Contradicting numbers (more allocated than offered, more offered than the cards
    can hold) give what the allocated instances alone need.
    """
    names = tuple(sorted(profile for profile in allocated if allocated[profile] > 0))
    if sum(allocated[name] for name in names) > MOST_INSTANCES:
        return _plain_bound(geometry, allocated)
    every = tuple(sorted({*names, *(profile for profile in offered if offered[profile] > 0)}))
    wanted = tuple(allocated.get(name, 0) for name in every)
    there = tuple(max(offered.get(name, 0), allocated.get(name, 0)) for name in every)
    alone = _Search(geometry, names)
    try:
        fewest = alone.fewest_for(tuple(allocated[name] for name in names))
    except _TooLong:
        return _plain_bound(geometry, allocated)
    if cards is None or sum(there) > MOST_INSTANCES:
        return fewest
    try:
        return _Search(geometry, every).fewest_of(wanted, there, cards, fewest)
    except _TooLong:
        return fewest


def _plain_bound(geometry: Geometry, counts: Mapping[MigProfile, int]) -> int:
    """By adding up slots: never more than the true number."""
    bounds = [0]
    for slots in ("compute_slots", "memory_slots"):
        taken = sum(
            getattr(found, slots) * count
            for profile, count in counts.items()
            if (found := geometry.find(profile)) is not None
        )
        bounds.append(-(-taken // getattr(geometry, slots)))
    return max(bounds)


class _Search:
    """Packing of instance counts onto cards, as vectors over a few profiles of one geometry."""

    def __init__(self, geometry: Geometry, names: tuple[MigProfile, ...]) -> None:
        self._cards = _placeable_vectors(geometry, names)
        self._steps = 0
        self._packed: dict[tuple[Vector, int], bool] = {}
        self._covered: dict[tuple[Vector, Vector, int, int], bool] = {}

    def fewest_for(self, counts: Vector) -> int:
        """The fewest cards that hold these instances."""
        cards = 0
        while not self._packs(counts, cards):
            cards += 1
        return cards

    def fewest_of(self, wanted: Vector, there: Vector, cards: int, at_least: int) -> int:
        """The fewest of `cards` that can hold `wanted`, when they hold `there` altogether."""
        for covering in range(at_least, cards + 1):
            if self._covers(there, wanted, covering, cards - covering):
                return covering
        return at_least  # the cards cannot hold what is offered: the numbers contradict each other

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
            self._packed[key] = cards > 0 and any(
                self._packs(_minus(counts, card), cards - 1)
                for card in self._fullest(counts)
                if card[first]
            )
        return self._packed[key]

    def _covers(self, there: Vector, wanted: Vector, covering: int, others: int) -> bool:
        """Whether `covering` cards hold all that is wanted, and `others` what is then left."""
        if not any(wanted):
            return self._packs(there, covering + others)
        key = (there, wanted, covering, others)
        if key not in self._covered:
            self._step()
            self._covered[key] = covering > 0 and any(
                self._covers(_minus(there, card), _minus(wanted, card), covering - 1, others)
                for card in self._fullest(there)
                if any(a and b for a, b in zip(card, wanted, strict=True))
            )
        return self._covered[key]

    def _fullest(self, counts: Vector) -> list[Vector]:
        """What one card can hold of these, leaving out what can be part of more.

        Moving an instance onto a card never makes another card worse, so fuller is enough.
        """
        fitting = [card for card in self._cards if _within(card, counts)]
        return [
            card
            for card in fitting
            if not any(card != other and _within(card, other) for other in fitting)
        ]


def _minus(left: Vector, right: Vector) -> Vector:
    return tuple(max(a - b, 0) for a, b in zip(left, right, strict=True))


def _within(left: Vector, right: Vector) -> bool:
    return all(a <= b for a, b in zip(left, right, strict=True))


@lru_cache(maxsize=256)
def _placeable_vectors(geometry: Geometry, names: tuple[MigProfile, ...]) -> tuple[Vector, ...]:
    placeable = layouts(geometry, names).placeable
    return tuple(sorted(tuple(dict(found).get(name, 0) for name in names) for found in placeable))
