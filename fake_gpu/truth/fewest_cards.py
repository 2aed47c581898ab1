"""The fewest cards that running requests can lie on, by trying everything.

Put here: the bound that can be known without knowing devices.
Not here: the true number, which needs devices (`node_hours`).

Whole cards are a card each. n replicas of a card, or partitions, need ⌈r / n⌉. MIG instances need
the smallest number of cards over all layouts that the node's capacity allows: all ways to deal
the node's instances to its MIG cards so that each card can be cut so are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

Counts = tuple[tuple[str, int], ...]  # (profile, how many), sorted


@dataclass(frozen=True)
class ProfilePlacement:
    """How instances of one profile lie on a card."""

    profile: str
    max_count: int
    size: int
    starts: tuple[int, ...]
    compute_slots: int


def cuts_of(rows: list[Mapping[str, object]], family: str) -> tuple[ProfilePlacement, ...]:
    return tuple(
        ProfilePlacement(
            str(row["mig_profile"]),
            int(str(row["max_count"])),
            int(str(row["placement_size"])),
            tuple(int(s) for s in str(row["placement_starts"]).split()),
            int(str(row["compute_slots"])),
        )
        for row in rows
        if row["mig_family"] == family
    )


@cache
def fits_one_card(cuts: tuple[ProfilePlacement, ...], wanted: Counts, compute_slots: int) -> bool:
    """Whether these instances can be placed on one card together."""
    known = {cut.profile: cut for cut in cuts}
    listed: list[ProfilePlacement] = []
    for profile, count in wanted:
        if profile not in known or count > known[profile].max_count:
            return False
        listed += [known[profile]] * count
    if sum(cut.compute_slots for cut in listed) > compute_slots:
        return False
    return _placeable(tuple(sorted(listed, key=lambda c: -c.size)), frozenset())


def _placeable(cuts: tuple[ProfilePlacement, ...], used: frozenset[int]) -> bool:
    if not cuts:
        return True
    for start in cuts[0].starts:
        slots = frozenset(range(start, start + cuts[0].size))
        if not slots & used and _placeable(cuts[1:], used | slots):
            return True
    return False


@cache
def fewest_mig_cards(
    cuts: tuple[ProfilePlacement, ...],
    capacity: Counts,
    running: Counts,
    cards: int,
    compute_slots: int,
) -> int:
    """The smallest number of cards with something running, over all allowed layouts."""
    if not any(count for _, count in running):
        return 0
    for used in range(1, cards + 1):
        if _dealt(cuts, capacity, running, used, cards - used, compute_slots):
            return used
    return cards


@cache
def _dealt(
    cuts: tuple[ProfilePlacement, ...],
    capacity: Counts,
    running: Counts,
    used: int,
    unused: int,
    compute_slots: int,
) -> bool:
    """Whether used + unused cards can have the capacity, with all that runs on the used ones."""
    if used == 0 and unused == 0:
        return not any(n for _, n in capacity) and not any(n for _, n in running)
    if used == 0 and any(n for _, n in running):
        return False
    for card in _card_layouts(cuts, capacity, compute_slots):
        left = _minus(capacity, card)
        if used:
            still = tuple((p, max(0, n - dict(card).get(p, 0))) for p, n in running)
            if _dealt(cuts, left, still, used - 1, unused, compute_slots):
                return True
        elif _dealt(cuts, left, running, 0, unused - 1, compute_slots):
            return True
    return False


def _card_layouts(
    cuts: tuple[ProfilePlacement, ...], capacity: Counts, compute_slots: int
) -> Iterator[Counts]:
    """Every part of the capacity that one card can be cut into, the largest first."""
    for chosen in _parts(list(capacity)):
        if fits_one_card(cuts, tuple((p, n) for p, n in chosen if n), compute_slots):
            yield tuple(chosen)


def _parts(capacity: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    if not capacity:
        yield []
        return
    (profile, count), rest = capacity[0], capacity[1:]
    for number in range(min(count, 8), -1, -1):
        for others in _parts(rest):
            yield [(profile, number), *others]


def _minus(capacity: Counts, card: Counts) -> Counts:
    used = dict(card)
    return tuple((profile, count - used.get(profile, 0)) for profile, count in capacity)
