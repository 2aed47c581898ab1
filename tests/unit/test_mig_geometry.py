"""Shares of a card, and the profiles that follow from slots and gigabytes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from domain.gpu import parse_catalogue
from domain.mig import Share, family_geometry, parse_profile
from domain.mig.geometry import compute_sizes
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
A100 = GEOMETRIES["a100-40gb"]

# GPU memory in the profiles' names, as NVIDIA's documentation lists them.
NAMES = {
    "a100-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-94gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "h100-96gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "h200-141gb": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "gh200-144gb": "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "b200-180gb": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "gb200-186gb": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb",
    "b300-269gb": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "gb300-278gb": "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
    "a30-24gb": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_shipped_profiles_equal_nvidias_list(name: str) -> None:
    assert [str(p.profile) for p in GEOMETRIES[name].profiles] == NAMES[name].split()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_slots_and_gigabytes_define_a_card_of_a_known_family(name: str) -> None:
    shipped = GEOMETRIES[name]
    derived = family_geometry(f"{shipped.memory_slots}-slot-{name.rpartition('-')[2]}")
    assert derived is not None
    for ours, follows in zip(shipped.profiles, derived.profiles, strict=True):
        assert (ours.profile, ours.profile_id, ours.max_count, ours.starts) == (
            follows.profile,
            follows.profile_id,
            follows.max_count,
            follows.starts,
        )


@pytest.mark.parametrize(
    "name", ["", "8-slot", "8-slot-0gb", "8-slot-99999gb", "6-slot-80gb", "8-slot-80gb ", "x"]
)
def test_other_texts_define_no_geometry(name: str) -> None:
    assert family_geometry(name) is None


@pytest.mark.parametrize(
    ("profile", "compute", "memory"),
    [
        ("1g.5gb", "1/7", "1/8"),
        ("1g.5gb+me", "1/7", "1/8"),
        ("1g.10gb", "1/7", "2/8"),
        ("2g.10gb", "2/7", "2/8"),
        ("3g.20gb", "3/7", "4/8"),
        ("4g.20gb", "4/7", "4/8"),
        ("7g.40gb", "1", "1"),
        ("1c.3g.20gb", "1/7", "1/6"),
        ("2c.3g.20gb", "2/7", "1/3"),
        ("1c.7g.40gb", "1/7", "1/7"),
        ("2c.4g.20gb", "2/7", "1/4"),
    ],
)
def test_shares_are_slots_of_seven_and_of_eight(profile: str, compute: str, memory: str) -> None:
    expected = Share(Fraction(compute), Fraction(memory))
    assert A100.share(parse_profile(profile)) == expected


@pytest.mark.parametrize(
    ("profile", "fourths"), [("1g.6gb", 1), ("2g.12gb+me", 2), ("1c.2g.12gb", 1), ("4g.24gb", 4)]
)
def test_an_a30_is_divided_into_fourths(profile: str, fourths: int) -> None:
    part = Fraction(fourths, 4)
    assert GEOMETRIES["a30-24gb"].share(parse_profile(profile)) == Share(part, part)


@pytest.mark.parametrize("profile", ["1g.10gb+me", "5g.20gb", "3c.4g.20gb", "5c.7g.40gb", "2g.5gb"])
def test_an_unknown_profile_of_a_card_has_no_share(profile: str) -> None:
    assert A100.share(parse_profile(profile)) is None
    assert A100.canonical(parse_profile(profile)) is None


def test_one_name_means_different_shares_on_different_cards() -> None:
    """So the key of a price is class and profile, never the profile alone."""
    wide_or_narrow = parse_profile("1g.35gb")
    h200 = GEOMETRIES["h200-141gb"].share(wide_or_narrow)
    gb300 = GEOMETRIES["gb300-278gb"].share(wide_or_narrow)
    assert h200 is not None
    assert gb300 is not None
    assert (h200.memory, gb300.memory) == (Fraction(2, 8), Fraction(1, 8))


def test_a_gb200_has_the_profile_names_of_both_its_drivers() -> None:
    gb200 = GEOMETRIES["gb200-186gb"]
    assert gb200.canonical(parse_profile("1g.24gb")) == parse_profile("1g.23gb")
    assert gb200.canonical(parse_profile("3g.95gb")) == parse_profile("3g.93gb")
    assert gb200.canonical(parse_profile("1c.7g.189gb")) == parse_profile("1c.7g.186gb")


def test_compute_instances_have_nvidias_sizes() -> None:
    sizes = {slices: compute_sizes(slices) for slices in (1, 2, 3, 4, 7)}
    assert sizes == {1: (1,), 2: (1, 2), 3: (1, 2, 3), 4: (1, 2, 4), 7: (1, 2, 3, 4, 7)}
