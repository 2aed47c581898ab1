"""The smallest number of cards, compared with every way to place instances on cards."""

from __future__ import annotations

import itertools

import pytest

from domain.gpu import parse_catalogue
from domain.mig import layouts, parse_profile
from domain.mig.packing import MOST_INSTANCES, pack
from domain.mig.profile import MigProfile
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
A100 = GEOMETRIES["a100-40gb"]
NAMES = tuple(parse_profile(p) for p in ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"))
ON_ONE_CARD = {
    tuple(dict(found).get(name, 0) for name in NAMES) for found in layouts(A100, NAMES).placeable
} | {(0, 0, 0, 0, 0)}

Vector = tuple[int, ...]


def counts(vector: Vector) -> dict[MigProfile, int]:
    return dict(zip(NAMES, vector, strict=True))


def added(cards: tuple[Vector, ...]) -> Vector:
    return tuple(sum(column) for column in zip(*cards, strict=True))


def by_trying_all(allocated: Vector, offered: Vector, cards: int) -> int | None:
    """Place the offered instances on the cards in every way; the fewest cards of the allocated
    ones.
    """
    best = None
    for layout in itertools.combinations_with_replacement(sorted(ON_ONE_CARD), cards):
        if added(layout) != offered:
            continue
        for touched in range(cards + 1):
            if best is not None and touched >= best:
                break
            for chosen in itertools.combinations(layout, touched):
                total = added(chosen) if chosen else (0,) * len(NAMES)
                if all(a <= t for a, t in zip(allocated, total, strict=True)):
                    best = touched
                    break
    return best


CASES = [
    # allocated, offered, cards
    ((1, 0, 0, 0, 0), (7, 0, 0, 0, 0), 1),
    ((2, 0, 1, 0, 0), (7, 0, 2, 0, 0), 2),
    ((7, 0, 1, 0, 0), (7, 0, 2, 0, 0), 2),
    ((0, 2, 1, 0, 0), (0, 3, 2, 0, 0), 2),
    ((0, 0, 2, 0, 0), (3, 0, 2, 1, 0), 2),
    ((0, 0, 2, 0, 0), (0, 0, 2, 2, 0), 2),
    ((0, 0, 2, 0, 0), (0, 0, 2, 2, 0), 3),
    ((3, 0, 1, 0, 0), (3, 0, 2, 2, 0), 3),
    ((1, 0, 0, 1, 0), (3, 0, 0, 1, 1), 2),
    ((1, 0, 0, 0, 1), (7, 0, 0, 0, 1), 2),
    ((4, 0, 0, 0, 0), (6, 1, 2, 0, 0), 2),
    ((6, 0, 0, 0, 0), (6, 1, 2, 0, 0), 2),
    ((3, 1, 1, 1, 0), (3, 1, 1, 1, 0), 2),
    ((2, 2, 0, 0, 0), (4, 2, 1, 1, 0), 3),
    ((0, 0, 3, 0, 0), (3, 0, 3, 0, 0), 3),
]


@pytest.mark.parametrize(("allocated", "offered", "cards"), CASES)
def test_the_bound_is_the_true_minimum_over_all_layouts(
    allocated: Vector, offered: Vector, cards: int
) -> None:
    expected = by_trying_all(allocated, offered, cards)
    assert expected is not None, "the case itself must be possible"
    assert pack(A100, counts(allocated), counts(offered), cards).card_count == expected


def test_other_offered_instances_can_force_more_cards() -> None:
    """Two 3g fit one card; if two 4g are offered too, each of them shares a card with one 3g."""
    allocated = counts((0, 0, 2, 0, 0))
    assert pack(A100, allocated, {}, None).card_count == 1
    assert pack(A100, allocated, counts((0, 0, 2, 2, 0)), 2).card_count == 2
    assert pack(A100, allocated, counts((0, 0, 2, 2, 0)), 3).card_count == 1


@pytest.mark.parametrize(("count", "cards"), [(0, 0), (1, 1), (7, 1), (8, 2), (14, 2), (15, 3)])
def test_small_slices_fill_card_after_card(count: int, cards: int) -> None:
    assert pack(A100, {NAMES[0]: count}, {}, None).card_count == cards


def test_inconsistent_counts_give_the_need_of_the_allocated_alone() -> None:
    assert pack(A100, counts((9, 0, 0, 0, 0)), counts((1, 0, 0, 0, 0)), 1).card_count == 2
    assert pack(A100, counts((1, 0, 0, 0, 0)), counts((70, 0, 0, 0, 0)), 2).card_count == 1


def test_too_many_instances_get_the_simple_bound() -> None:
    many = MOST_INSTANCES + 1
    assert pack(A100, {NAMES[0]: many}, {NAMES[0]: many}, None).card_count == -(-many // 7)
    both = {NAMES[2]: many, NAMES[0]: 1}
    assert pack(A100, both, both, None).card_count == -(-(4 * many + 1) // 8)


def test_a_large_mixed_node_is_calculated_in_limited_time() -> None:
    """A wide mixture on 16 cards; the result may be the relaxed bound."""
    geometry = GEOMETRIES["rtx-pro-6000-96gb"]
    offered = {p.profile: 5 for p in geometry.profiles if p.media_engines <= 1}
    allocated = dict.fromkeys(offered, 3)
    found = pack(geometry, allocated, offered, 40).card_count
    assert found >= -(-sum(allocated.values()) // 4)
