"""Whether a set of instances fits, in which order, and the reason if not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.gpu import parse_catalogue
from domain.mig import (
    Geometry,
    InstanceProfile,
    PlacedLayout,
    Unplaceable,
    layouts,
    parse_profile,
    place,
)
from domain.mig.profile import MigProfile
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
A100 = GEOMETRIES["a100-40gb"]


def requested(**counts: int) -> dict[MigProfile, int]:
    """`g1=2` is two 1g.5gb, and so on."""
    names = {"g1": "1g.5gb", "g2": "2g.10gb", "g3": "3g.20gb", "g4": "4g.20gb", "g7": "7g.40gb"}
    names |= {"wide": "1g.10gb", "me": "1g.5gb+me", "c1g3": "1c.3g.20gb", "c2g3": "2c.3g.20gb"}
    names |= {"c1g7": "1c.7g.40gb", "c2g7": "2c.7g.40gb", "c3g7": "3c.7g.40gb"}
    return {parse_profile(names[name]): count for name, count in counts.items()}


@pytest.mark.parametrize(
    ("counts", "fits"),
    [
        ({}, True),
        ({"g1": 7}, True),
        ({"g1": 8}, False),
        ({"g1": 6}, True),
        ({"g1": 3, "g2": 2}, True),
        ({"g1": 2, "g2": 2}, True),
        ({"g1": 2, "g2": 1}, True),
        ({"g1": 4, "g2": 2}, False),
        ({"g3": 2}, True),
        ({"g3": 2, "g1": 1}, False),  # although the slices add up to 7
        ({"g3": 1, "g4": 1}, True),
        ({"g4": 2}, False),
        ({"g7": 1}, True),
        ({"g7": 1, "g1": 1}, False),
        ({"wide": 4}, True),
        ({"wide": 4, "g1": 1}, False),
        ({"wide": 3, "g1": 2}, True),  # a wide one must take the last two slots
        ({"me": 1, "g1": 6}, True),
        ({"me": 2}, False),
        ({"c1g3": 6}, True),
        ({"c1g3": 6, "g1": 1}, False),
        ({"c1g3": 3, "g4": 1}, True),
        ({"c2g3": 2}, True),
        ({"c2g3": 3}, False),  # a 3g has no room for two 2c
        ({"c2g3": 2, "c1g3": 2}, True),
        ({"c2g3": 2, "c1g3": 3}, False),
        ({"c2g7": 3, "c1g7": 1}, True),
        ({"c3g7": 2, "c1g7": 1}, True),
        ({"c1g7": 8}, False),
        ({"c1g7": 1, "g1": 1}, False),
    ],
)
def test_known_sets_of_an_a100(counts: dict[str, int], fits: bool) -> None:
    assert place(A100, requested(**counts)).fits is fits


def test_a_fitting_set_has_an_order_and_disjoint_slots() -> None:
    placed = place(A100, requested(g3=1, g2=1, g1=2))
    assert isinstance(placed, PlacedLayout)
    covered = [slot for p in placed.order for slot in range(p.start, p.start + p.size)]
    assert sorted(covered) == list(range(8))
    assert sorted(str(p.profile) for p in placed.order) == [
        "1g.5gb",
        "1g.5gb",
        "2g.10gb",
        "3g.20gb",
    ]


def lowest_free_starts(geometry: Geometry, order: list[MigProfile]) -> list[int] | None:
    """Create one instance after another at the lowest free slots, as a driver may do."""
    taken: set[int] = set()
    starts = []
    for name in order:
        profile = geometry.find(name)
        assert profile is not None
        for start in profile.starts:
            slots = set(range(start, start + profile.memory_slots))
            if not slots & taken:
                taken |= slots
                starts.append(start)
                break
        else:
            return None
    return starts


@pytest.mark.parametrize("name", ["a100-40gb", "a30-24gb", "rtx-pro-6000-96gb"])
def test_the_order_of_every_fitting_set_works_at_the_lowest_free_slots(
    name: str,
) -> None:
    geometry = GEOMETRIES[name]
    for instances in layouts(geometry).placeable:
        placed = place(geometry, dict(instances))
        assert isinstance(placed, PlacedLayout)
        order = [placement.profile for placement in placed.order]
        assert lowest_free_starts(geometry, order) == [p.start for p in placed.order]
        assert sorted(order) == sorted(p for p, count in instances for _ in range(count))


def test_larger_instances_are_created_first_as_in_mig_parted() -> None:
    placed = place(A100, requested(g1=1, g2=1))
    assert isinstance(placed, PlacedLayout)
    assert [str(p.profile) for p in placed.order] == ["2g.10gb", "1g.5gb"]


def test_exactly_one_set_whose_slices_add_up_cannot_be_placed() -> None:
    """Of {1g, 2g, 3g, 4g, 7g}: two 3g and one 1g, which mig-parted accepts."""
    names = [parse_profile(p) for p in ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")]
    adding_up = [
        dict(zip(names, (a, b, c, d, e), strict=True))
        for a in range(8)
        for b in range(4)
        for c in range(3)
        for d in range(2)
        for e in range(2)
        if 0 < a + 2 * b + 3 * c + 4 * d + 7 * e <= 7
    ]
    refused = [counts for counts in adding_up if not place(A100, counts).fits]
    assert [{str(p): n for p, n in counts.items() if n} for counts in refused] == [
        {"1g.5gb": 1, "3g.20gb": 2}
    ]


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"g1": 8}, "8 compute slots are requested, and the card has 7"),
        ({"g4": 1, "wide": 2, "g1": 2}, "8 compute"),
        ({"me": 2}, "2 instances of 1g.5gb+me are requested, and the card has 1"),
        ({"g3": 2, "g1": 1}, "the slices add up to 7 of 7, but 9 memory slots are requested"),
    ],
)
def test_a_set_that_does_not_fit_has_a_reason(counts: dict[str, int], reason: str) -> None:
    placed = place(A100, requested(**counts))
    assert isinstance(placed, Unplaceable)
    assert reason in placed.reason


def test_the_reason_names_the_starts_if_every_sum_fits() -> None:
    """No shipped card has such a set; a new one may have one."""
    narrow = InstanceProfile(parse_profile("1g.5gb"), 0, 3, (1, 2, 3), 1, 1)
    wide = InstanceProfile(parse_profile("2g.10gb"), 1, 2, (0, 2), 2, 2)
    whole = InstanceProfile(parse_profile("4g.20gb"), 2, 1, (0,), 4, 4)
    card = Geometry("odd", (narrow, wide, whole))
    placed = place(card, {narrow.profile: 2, wide.profile: 1})
    assert isinstance(placed, PlacedLayout)
    assert place(card, {narrow.profile: 3}).fits
    crowded = Geometry("odder", (replace(narrow, starts=(1, 2)), wide, whole))
    refused = place(crowded, {narrow.profile: 2, wide.profile: 1})
    assert isinstance(refused, Unplaceable)
    assert refused.reason == (
        "the slices add up to 4 of 4, but no slots are left: "
        "1 × 2g.10gb (covers 2 of 4 slots, starts at 0 or 2), "
        "2 × 1g.5gb (covers 1 of 4 slots, starts at 1 or 2)"
    )


def test_an_unknown_profile_is_named() -> None:
    placed = place(A100, {parse_profile("1g.99gb"): 1})
    assert isinstance(placed, Unplaceable)
    assert placed.reason == "a100-40gb has no profile 1g.99gb"


def test_media_engines_are_counted_over_profiles() -> None:
    card = GEOMETRIES["rtx-pro-6000-96gb"]
    both = {parse_profile("1g.24gb+me.all"): 1, parse_profile("1g.24gb"): 1}
    placed = place(card, both)
    assert isinstance(placed, Unplaceable)
    assert placed.reason == "5 media engines are requested, and the card has 4"


def test_huge_counts_get_a_quick_result() -> None:
    assert not place(A100, requested(g1=10**18)).fits
    assert not place(A100, requested(c1g7=10**18)).fits
    assert not place(A100, requested(g1=-1)).fits
