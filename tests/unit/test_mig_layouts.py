"""All layouts of a card, compared with published figures and an independent search."""

from __future__ import annotations

import pytest

from domain.gpu import parse_catalogue
from domain.mig import Geometry, InstanceProfile, MigProfile, layouts, parse_profile
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
EIGHT_SLOTS = [name for name, g in GEOMETRIES.items() if g.memory_slots == 8]

# Profile of an 8-slot card: starts, slots covered, compute slots, and the maximum count, from the
# output of `nvidia-smi mig -lgipp` on A100 and H100.
PLACES = {
    "1g": (range(7), 1, 1, 7),
    "me": (range(7), 1, 1, 1),
    "wide": ((0, 2, 4, 6), 2, 1, 4),
    "2g": ((0, 2, 4), 2, 2, 3),
    "3g": ((0, 4), 4, 3, 2),
    "4g": ((0,), 4, 4, 1),
    "7g": ((0,), 8, 7, 1),
}
BASE = ("1g", "2g", "3g", "4g", "7g")

# NVIDIA's 19 layouts of an A100, as slices from the first slot to the last.
NINETEEN = """1111111 · 1111,2,1 · 1111,3 · 11,2,111 · 11,2,2,1 · 11,2,3 · 2,11111 · 2,11,2,1
 · 2,11,3 · 2,2,111 · 2,2,2,1 · 2,2,3 · 3,111 · 3,2,1 · 3,3 · 4,111 · 4,2,1 · 4,3 · 7"""


def choices(names: tuple[str, ...]) -> list[tuple[str, frozenset[int], int]]:
    """Every possible instance, with the slots that it covers."""
    return [
        (name, frozenset(range(start, start + PLACES[name][1])), PLACES[name][2])
        for name in names
        for start in PLACES[name][0]
    ]


def compatible(chosen: list[tuple[str, frozenset[int], int]]) -> bool:
    slots = [slot for _, covered, _ in chosen for slot in covered]
    names = [name for name, _, _ in chosen]
    return (
        len(slots) == len(set(slots))
        and sum(compute for _, _, compute in chosen) <= 7
        and all(names.count(name) <= PLACES[name][3] for name in names)
    )


def every_layout(names: tuple[str, ...]) -> list[frozenset[tuple[str, frozenset[int], int]]]:
    """Include or omit each instance in turn; keep compatible sets."""
    found: list[list[tuple[str, frozenset[int], int]]] = [[]]
    for choice in choices(names):
        found += [[*chosen, choice] for chosen in found if compatible([*chosen, choice])]
    return [frozenset(chosen) for chosen in found if chosen]


def chosen_profiles(geometry: Geometry, names: tuple[str, ...]) -> list[MigProfile]:
    by_id = {"1g": 19, "me": 20, "wide": 15, "2g": 14, "3g": 9, "4g": 5, "7g": 0}
    return [p.profile for name in names for p in geometry.profiles if p.profile_id == by_id[name]]


@pytest.mark.parametrize(
    ("more", "positioned", "maximal", "placeable"),
    [((), 297, 19, 37), (("wide",), 722, 78, 77), (("wide", "me"), 2318, 239, 127)],
)
@pytest.mark.parametrize("name", EIGHT_SLOTS)
def test_every_8_slot_card_has_the_known_numbers_of_layouts(
    name: str, more: tuple[str, ...], positioned: int, maximal: int, placeable: int
) -> None:
    geometry = GEOMETRIES[name]
    found = layouts(geometry, chosen_profiles(geometry, BASE + more))
    counts = (len(found.positioned), len(found.maximal), len(found.placeable))
    assert counts == (positioned, maximal, placeable)


@pytest.mark.parametrize("more", [(), ("wide",), ("wide", "me")])
def test_an_independent_search_finds_the_same_layouts(more: tuple[str, ...]) -> None:
    geometry = GEOMETRIES["a100-40gb"]
    names = BASE + more
    by_id = dict(zip((19, 20, 15, 14, 9, 5, 0), PLACES, strict=True))
    short = {p.profile: by_id[p.profile_id] for p in geometry.profiles}
    found = layouts(geometry, chosen_profiles(geometry, names))
    as_sets = {
        layout: frozenset(
            (
                short[p.profile],
                frozenset(range(p.start, p.start + p.size)),
                PLACES[short[p.profile]][2],
            )
            for p in layout
        )
        for layout in found.positioned
    }
    expected = every_layout(names)
    assert set(as_sets.values()) == set(expected)
    assert len(as_sets) == len(expected)
    growing = choices(names)
    for layout, instances in as_sets.items():
        can_grow = any(c not in instances and compatible([*instances, c]) for c in growing)
        assert can_grow != (layout in found.maximal)


def test_the_maximal_layouts_are_nvidias_nineteen() -> None:
    geometry = GEOMETRIES["a100-40gb"]
    found = layouts(geometry, chosen_profiles(geometry, BASE))
    drawn = sorted("".join(c for c in text if c.isdigit()) for text in NINETEEN.split("·"))
    slices = sorted("".join(str(p.profile.gpu_slices) for p in lay) for lay in found.maximal)
    assert slices == drawn


def test_compute_slots_limit_a_layout_if_memory_slots_do_not() -> None:
    """On shipped cards the placements imply the limit of compute slots; on a new card
    they may not.
    """
    small = InstanceProfile(parse_profile("1g.5gb"), 0, 4, (0, 1, 2, 3), 1, 1)
    whole = InstanceProfile(parse_profile("3g.20gb"), 1, 1, (0,), 4, 3)
    found = layouts(Geometry("four memory slots and three compute slots", (small, whole)))
    assert max(len(layout) for layout in found.positioned) == 3


def test_an_a30_has_25_layouts_and_5_maximal_ones() -> None:
    found = layouts(
        GEOMETRIES["a30-24gb"], [parse_profile(p) for p in ("1g.6gb", "2g.12gb", "4g.24gb")]
    )
    assert (len(found.positioned), len(found.maximal)) == (25, 5)
    slices = sorted("".join(str(p.profile.gpu_slices) for p in lay) for lay in found.maximal)
    assert slices == ["1111", "112", "211", "22", "4"]


def test_one_instance_with_all_media_engines_excludes_others_with_some() -> None:
    found = layouts(GEOMETRIES["rtx-pro-6000-96gb"])
    everything = parse_profile("1g.24gb+me.all")
    beside = {p for pairs in found.placeable if everything in dict(pairs) for p in dict(pairs)}
    assert {str(p) for p in beside} == {"1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"}


def test_a_card_has_one_set_of_media_extensions() -> None:
    a30 = layouts(GEOMETRIES["a30-24gb"])
    both = {parse_profile("1g.6gb+me"), parse_profile("2g.12gb+me")}
    assert not [pairs for pairs in a30.placeable if both <= set(dict(pairs))]


@pytest.mark.parametrize("name", sorted(GEOMETRIES))
def test_every_profile_can_be_placed_up_to_its_maximum(name: str) -> None:
    geometry = GEOMETRIES[name]
    found = layouts(geometry).placeable
    for profile in geometry.profiles:
        most = max(dict(pairs).get(profile.profile, 0) for pairs in found)
        assert most == profile.max_count, str(profile.profile)
