"""The grammar of MIG profiles, compared with mig-parted's own rules."""

from __future__ import annotations

import pytest

from domain.mig import MigProfile, parse_profile, parse_resource_profile
from domain.mig.profile import NotAMigProfile, mangled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g.5gb", MigProfile(1, 1, 5)),
        ("7g.141gb", MigProfile(7, 7, 141)),
        ("1c.3g.20gb", MigProfile(1, 3, 20)),
        ("3c.3g.20gb", MigProfile(3, 3, 20)),
        ("1g.5gb+me", MigProfile(1, 1, 5, ("me",))),
        ("1g.24gb-me", MigProfile(1, 1, 24, (), ("me",))),
        ("1g.24gb+me.all", MigProfile(1, 1, 24, ("me.all",))),
        ("4g.96gb+gfx", MigProfile(4, 4, 96, ("gfx",))),
        ("1c.2g.10gb+me,gfx", MigProfile(1, 2, 10, ("gfx", "me"))),
        ("0g.0gb", MigProfile(0, 0, 0)),
    ],
)
def test_profiles_have_the_format_of_mig_parted(text: str, expected: MigProfile) -> None:
    assert parse_profile(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bogus",
        "1g",
        "1g.5",
        "5gb",
        "g.gb",
        " 1g.5gb",
        "1g.5gb ",
        "1g.5gb\n",
        "1g.5gb+",
        "1g.5gb-",
        "1g.5gb+me-me",
        "1g.5gb+me,",
        "1g.5gb+me,me",
        "1g.5gb+1me",
        "1g.5gb+.me",
        "1g.5gb+me.",
        "1g.5gb+m_e",
        "1g.5gb.me",
        "1c.1g.5gb.me",
        "c.3g.20gb",
        "-1g.5gb",
        "1G.5GB",
        "1g.5.5gb",
        "١g.5gb",
        "1g.9223372036854775808gb",
        "1g." + "9" * 300 + "gb",
    ],
)
def test_profiles_that_mig_parted_refuses_are_refused(text: str) -> None:
    with pytest.raises(NotAMigProfile):
        parse_profile(text)


def test_both_signs_at_once_are_named() -> None:
    with pytest.raises(NotAMigProfile, match=r"both \+ and - attributes"):
        parse_profile("1g.5gb+me-me")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1g.5gb.me", "1g.5gb+me"),
        ("1g.24gb.me.all", "1g.24gb+me.all"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("1c.3g.20gb", "1c.3g.20gb"),
        ("1g.5gb+me", "1g.5gb+me"),
    ],
)
def test_a_resource_spells_the_plus_as_a_dot(text: str, canonical: str) -> None:
    assert str(parse_resource_profile(text)) == canonical


@pytest.mark.parametrize("text", ["1g.5gb.", "1g.5gb..me", "1g.5gb.5", "1g.5gb.me-me", "x"])
def test_an_invalid_resource_spelling_is_refused(text: str) -> None:
    with pytest.raises(NotAMigProfile):
        parse_resource_profile(text)


def test_a_full_compute_instance_is_the_instance_itself() -> None:
    assert str(parse_profile("3c.3g.20gb")) == "3g.20gb"
    assert parse_profile("1c.3g.20gb").instance == parse_profile("3g.20gb")


def test_profiles_with_and_without_media_engines_have_one_mangled_name() -> None:
    added = parse_profile("1g.24gb+me").resource_name
    removed = parse_profile("1g.24gb-me").resource_name
    assert (added, removed) == ("nvidia.com/mig-1g.24gb.me", "nvidia.com/mig-1g.24gb-me")
    assert mangled(added) == mangled(removed) == "nvidia_com_mig_1g_24gb_me"
