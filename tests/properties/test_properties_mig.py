"""Properties of every set of instances; no text ends a parser of MIG with an exception."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from domain.gpu import parse_catalogue
from domain.mig import (
    MigProfile,
    PlacedLayout,
    layouts,
    parse_profile,
    parse_resource_profile,
    place,
)
from domain.mig.packing import pack
from domain.mig.parted import fit_entry, parse_parted_file, sold_share
from domain.mig.placing import gpu_instances
from domain.mig.profile import NotAMigProfile
from domain.mig.yaml_tree import NotAMigPartedFile
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
geometry_names = st.sampled_from(sorted(GEOMETRIES))


@st.composite
def sets_of_instances(draw: st.DrawFn) -> tuple[str, dict[MigProfile, int]]:
    name = draw(geometry_names)
    names = [profile.profile for profile in GEOMETRIES[name].profiles]
    return name, draw(st.dictionaries(st.sampled_from(names), st.integers(0, 8), max_size=4))


@given(sets_of_instances())
def test_a_set_fits_exactly_when_a_layout_holds_it(case: tuple[str, dict[MigProfile, int]]) -> None:
    name, counts = case
    geometry = GEOMETRIES[name]
    wanted = tuple(sorted((profile, count) for profile, count in counts.items() if count))
    assert place(geometry, counts).fits is (not wanted or wanted in layouts(geometry).placeable)


@given(sets_of_instances())
def test_a_set_that_fits_holds_at_most_the_whole_card(
    case: tuple[str, dict[MigProfile, int]],
) -> None:
    name, counts = case
    geometry = GEOMETRIES[name]
    if not isinstance(place(geometry, counts), PlacedLayout):
        return
    sold = sold_share(geometry, counts)
    for part in (sold.compute, sold.memory):
        assert isinstance(part, Fraction)
        assert 0 <= part <= 1


@given(sets_of_instances())
def test_removing_an_instance_keeps_a_set_possible(
    case: tuple[str, dict[MigProfile, int]],
) -> None:
    name, counts = case
    geometry = GEOMETRIES[name]
    if not place(geometry, counts).fits:
        return
    for profile, count in counts.items():
        if count:
            assert place(geometry, {**counts, profile: count - 1}).fits


@given(sets_of_instances(), st.integers(1, 4))
def test_the_fewest_cards_lie_between_adding_up_and_one_card_each(
    case: tuple[str, dict[MigProfile, int]], copies: int
) -> None:
    name, counts = case
    geometry = GEOMETRIES[name]
    many = {profile: count * copies for profile, count in counts.items()}
    cards = pack(geometry, many, {}, None).card_count
    sold = sold_share(geometry, many)
    assert max(sold.compute, sold.memory) <= cards <= sum(many.values())
    if place(geometry, counts).fits:
        assert cards <= copies


@given(st.dictionaries(st.sampled_from(["1c.3g.20gb", "2c.3g.20gb", "3g.20gb"]), st.integers(0, 6)))
def test_compute_instances_need_as_many_instances_as_the_best_filling(
    counts: dict[str, int],
) -> None:
    """An instance of 3 holds 3, 2+1, 1+1+1 or less: the expected number is calculated by hand."""
    ones, twos, threes = (counts.get(p, 0) for p in ("1c.3g.20gb", "2c.3g.20gb", "3g.20gb"))
    beside_twos = min(ones, twos)
    expected = threes + twos + -(-(ones - beside_twos) // 3)
    asked = {parse_profile(name): count for name, count in counts.items()}
    found = dict(gpu_instances(GEOMETRIES["a100-40gb"], asked))
    assert sum(found.values()) == expected


@given(st.text(max_size=40))
@example("1g.5gb+")
@example("9" * 5000 + "g.5gb")
def test_the_profile_parsers_survive_any_text(text: str) -> None:
    for parse in (parse_profile, parse_resource_profile):
        try:
            profile = parse(text)
        except NotAMigProfile:
            continue
        assert parse_resource_profile(str(profile)) == profile


profiles = st.builds(
    MigProfile,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 300),
    st.lists(st.sampled_from(["me", "me.all", "gfx"]), unique=True).map(lambda a: tuple(sorted(a))),
    st.just(()),
)


@given(profiles)
def test_a_profile_survives_being_written_and_read(profile: MigProfile) -> None:
    assert parse_profile(str(profile)) == profile


pieces = st.sampled_from(
    [
        "version: v1\n",
        "version: v2\n",
        "mig-configs:\n",
        "  a:\n",
        "    - devices: all\n",
        "    - devices: [0, 1]\n",
        "      devices: 0\n",
        "      mig-enabled: true\n",
        "      mig-enabled: false\n",
        "      mig-devices: {}\n",
        '      mig-devices: {"1g.5gb": 7}\n',
        '      mig-devices: {"bogus": 1}\n',
        '      device-filter: ["0x20B010DE"]\n',
        "kind: ConfigMap\n",
        "data: {config.yaml: 'version: v1'}\n",
        "---\n",
        "&a ",
        "*a ",
        "<<: *a\n",
        "!!binary x\n",
        "[",
        "}",
        "\t",
        "\0",
        "\N{ZERO WIDTH NO-BREAK SPACE}",
        "=cmd()",
        "? ",
    ]
)


@given(st.lists(pieces, max_size=14).map("".join))
def test_the_file_parser_survives_any_yaml(text: str) -> None:
    try:
        parsed = parse_parted_file(text)
    except NotAMigPartedFile:
        return
    for entries in parsed.configs.values():
        for entry in entries:
            assert fit_entry(entry, GEOMETRIES["a100-40gb"]).geometry


@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b"%YAML 9.9\n---\n")
def test_the_file_parser_survives_any_bytes(body: bytes) -> None:
    try:
        parsed = parse_parted_file(body)
    except NotAMigPartedFile:
        return
    assert all(entries for entries in parsed.configs.values())
