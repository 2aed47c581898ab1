"""Files of mig-parted: accepted and refused ones, and the layouts that they define."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest

from domain.errors import InvalidValue
from domain.gpu import parse_catalogue
from domain.mig import PlacedLayout, Share, parse_profile
from domain.mig.parted import PartedEntry, fit_entry, parse_parted_file, slices_add_up, sold_share
from domain.mig.yaml_tree import LARGEST_FILE_BYTES, MOST_LEVELS, MOST_VALUES, NotAMigPartedFile
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from warehouse.project import seed_text

GEOMETRIES = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles")).geometries
A100 = GEOMETRIES["a100-40gb"]


def entry_text(text: str) -> str:
    """A file with one configuration of one entry."""
    return f"{{version: v1, mig-configs: {{only: [{text}]}}}}"


def only_entry(text: str) -> PartedEntry:
    return parse_parted_file(entry_text(text)).configs["only"][0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "version: v1",
        "{version: v1, mig-configs: {off: [{devices: all, mig-enabled: false}]}}",
        entry_text("{devices: all, mig-enabled: true, mig-devices: {}}"),
        entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 2}}'),
        entry_text('{devices: [0, 1, 2], mig-enabled: true, mig-devices: {"0g.0gb": 100}}'),
        entry_text("{device-filter: MODEL, devices: all, mig-enabled: false}"),
        entry_text("{device-filter: [A, B], devices: all, mig-enabled: false}"),
        entry_text("{devices: all, mig-enabled: false, mig-devices: {}}"),
        entry_text("{devices: all, mig-enabled: false, mig-devices: null}"),
        entry_text("{devices: [], mig-enabled: null}"),
        entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0, "2g.10gb": 1}}'),
    ],
)
def test_files_that_mig_parted_accepts_are_accepted(text: str) -> None:
    assert parse_parted_file(text).warnings == () or "device-filter" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "unknown version"),
        ("[]", "the file is not a mapping"),
        ("version: v2", "unknown version: 'v2'"),
        ("version: 1", "unknown version: 1"),
        ("mig-configs: {a: [{devices: all, mig-enabled: false}]}", "`version` is missing"),
        ("{version: v1, bogus: field}", "unexpected field: 'bogus'"),
        ("{version: v1, mig-configs: {}}", "at least one configuration"),
        ("{version: v1, mig-configs: null}", "at least one configuration"),
        ("{version: v1, mig-configs: {a: []}}", "needs at least one entry"),
        ("{version: v1, mig-configs: {a: null}}", "needs at least one entry"),
        ("{version: v1, mig-configs: {a: [null]}}", "is no mapping"),
        (entry_text("{mig-enabled: false}"), "missing required field: devices"),
        (entry_text("{devices: all}"), "missing required field: mig-enabled"),
        (entry_text("{devices: all, mig-enabled: true}"), "mig-devices is missing"),
        (entry_text("{devices: all, mig-enabled: true, mig-devices: null}"), "is missing"),
        (entry_text("{devices: all, mig-enabled: true, mig-devices: []}"), "no mapping"),
        (
            entry_text('{devices: all, mig-enabled: false, mig-devices: {"1g.5gb": 1}}'),
            "but mig-enabled is false",
        ),
        (entry_text("{devices: all, mig-enabled: false, bogus: 1}"), "unexpected field"),
        (entry_text("{devices: bogus, mig-enabled: false}"), "only text allowed is `all`"),
        (entry_text("{devices: 0.5, mig-enabled: false}"), "neither `all` nor a list"),
        (entry_text("{devices: {}, mig-enabled: false}"), "neither `all` nor a list"),
        (entry_text('{devices: [0, "1"], mig-enabled: false}'), "neither `all` nor a list"),
        (entry_text("{devices: [true], mig-enabled: false}"), "neither `all` nor a list"),
        (entry_text('{devices: all, mig-enabled: "true"}'), "no boolean"),
        (entry_text("{device-filter: 1, devices: all, mig-enabled: false}"), "neither text nor"),
        (entry_text("{device-filter: [1], devices: all, mig-enabled: false}"), "neither text nor"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"bogus": 1}}'), "'bogus'"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"bogus": 0}}'), "'bogus'"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 0}}'), "are 0"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": -1}}'), "negative"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 1.5}}'), "no whole"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": "1"}}'), "no whole"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": yes}}'), "no whole"),
        (entry_text('{devices: all, mig-enabled: true, mig-devices: {"1g.5gb.me": 1}}'), "'1g.5gb"),
        ("version: [", "it is no YAML"),
        ("version: v1\0", "it is no YAML"),
        ("a: &a [*a]", "an alias contains itself"),
    ],
)
def test_files_that_mig_parted_refuses_are_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(NotAMigPartedFile) as caught:
        parse_parted_file(text)
    assert problem in caught.value.seen


def test_all_problems_are_shown_at_once_with_their_lines() -> None:
    text = "version: v2\nmig-configs:\n  a:\n  - devices: {}\n    mig-enabled: maybe\n"
    with pytest.raises(NotAMigPartedFile) as caught:
        parse_parted_file(text, "a.yaml")
    assert caught.value.where == "a.yaml"
    assert caught.value.seen == (
        "line 1: unknown version: 'v2'; line 5: mig-enabled is 'maybe', no boolean; "
        "line 4: devices is neither `all` nor a list of whole numbers"
    )


def test_a_single_number_of_devices_is_read_with_a_warning() -> None:
    text = entry_text("{devices: 0, mig-enabled: false}")
    parsed = parse_parted_file(text)
    assert parsed.configs["only"][0].devices == (0,)
    assert not parsed.is_accepted
    assert parsed.warnings == (
        "line 1: devices is the single number 0; mig-parted wants a list, [0]",
    )
    with pytest.raises(NotAMigPartedFile):
        parse_parted_file(entry_text("{devices: true, mig-enabled: false}"))


BARE = """\
version: v1
mig-configs:
  all-1g.5gb.me:
    - device-filter: ["0x20B010DE", "0x20F110DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.5gb+me": 1
        "1g.5gb": 6
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: default-mig-parted-config}
data:
  config.yaml: |
""" + "".join(f"    {line}\n" for line in BARE.splitlines())


def test_a_file_in_a_config_map_equals_the_plain_file() -> None:
    bare, mapped = parse_parted_file(BARE), parse_parted_file(CONFIG_MAP)
    assert bare == mapped
    entry = bare.configs["all-1g.5gb.me"][0]
    assert {str(p): n for p, n in entry.mig_devices.items()} == {"1g.5gb+me": 1, "1g.5gb": 6}
    assert entry.filtered_ids() == {"20B0", "20F1"}


def test_a_config_map_among_other_objects_is_found() -> None:
    objects = f"kind: DaemonSet\nspec: {{}}\n---\n{CONFIG_MAP}"
    assert parse_parted_file(objects).configs == parse_parted_file(BARE).configs


def test_several_config_maps_and_lists_are_read_together() -> None:
    other = CONFIG_MAP.replace("default-mig-parted-config", "second")
    parsed = parse_parted_file(f"{CONFIG_MAP}---\n{other}")
    assert list(parsed.configs) == ["all-1g.5gb.me", "second/all-1g.5gb.me"]
    items = "".join(
        f"{'- ' if first else '  '}{line}\n"
        for text in (CONFIG_MAP, other)
        for first, line in zip([True] + [False] * 99, text.splitlines(), strict=False)
    )
    assert parse_parted_file(f"apiVersion: v1\nkind: List\nitems:\n{items}") == parsed


DESIGN_EXAMPLE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: mig-parted-config
data:
  config.yaml: |
    version: v1
    mig-configs:
      profil1:
        - devices: 0
          mig-enabled: true
          mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}
        - devices: 1
          mig-enabled: true
          mig-devices: {"1g.5gb": 5, "2g.10gb": 1}
"""


def test_a_scenario_accepts_a_file_with_single_device_numbers(tmp_path: Path) -> None:
    (tmp_path / "mig.yaml").write_text(DESIGN_EXAMPLE)
    (tmp_path / "scenario.yaml").write_text("""\
name: cut
from: 2026-10-01
until: 2026-10-02
mig_configs: mig.yaml
clusters:
  - name: east
    nodes: [{name: n1, product: NVIDIA-A100-SXM4-40GB, cards: 2, mig: {layout: profil1}}]
""")
    loaded = load_scenario(tmp_path / "scenario.yaml")
    assert [w.rsplit(": ", 1)[1] for w in loaded.warnings] == [
        "devices is the single number 0; mig-parted wants a list, [0]",
        "devices is the single number 1; mig-parted wants a list, [1]",
    ]
    [cluster] = build_fleet(loaded).clusters
    found = sorted(device.profile for device in cluster.nodes[0].devices)
    assert found == ["1g.5gb"] * 7 + ["2g.10gb"] * 2 + ["3g.20gb"]


def test_a_config_map_without_the_file_is_refused() -> None:
    with pytest.raises(NotAMigPartedFile) as caught:
        parse_parted_file("kind: ConfigMap\ndata: {a: x, b: y}")
    assert caught.value.seen == "the ConfigMap has 2 texts and none under config.yaml"


def test_bom_and_line_ends_of_editors_are_ignored() -> None:
    windows = ("\N{ZERO WIDTH NO-BREAK SPACE}" + BARE.replace("\n", "\r\n")).encode()
    assert parse_parted_file(windows) == parse_parted_file(BARE)


def test_suspicious_but_accepted_values_raise_a_warning() -> None:
    text = (
        "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: false}]\n"
        "  a: [{device-filter: A100, devices: [1], mig-enabled: false}]\n---\nmore: here\n"
    )
    warnings = parse_parted_file(text).warnings
    assert any("'a' is there twice" in warning for warning in warnings)
    assert any("'A100' is no id such as 0x20B010DE" in warning for warning in warnings)
    assert any("only the first YAML document" in warning for warning in warnings)


def test_merged_keys_and_octal_numbers_are_read_as_in_mig_parted() -> None:
    text = """\
version: v1
mig-configs:
  a: [&whole {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 010}}]
  b: [{<<: *whole, devices: [0x1, 2.0]}]
"""
    entry = parse_parted_file(text).configs["b"][0]
    assert entry.devices == (1, 2)
    assert entry.mig_devices == {parse_profile("1g.5gb"): 8}


@pytest.mark.parametrize(
    "body",
    [
        "x" * (LARGEST_FILE_BYTES + 1),
        b"#" * 100_000_000,
        "[" * 500_000,
        "- " * 500_000,
        "? " * 500_000,
        "{a: " * 250_000,
        "[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1),
        b"\xff\xfev\x00",
        b"version: \xff",
        "x0: &x0 [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"x{i}: &x{i} [{','.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 20)),
        "2024-99-99: 2024-99-99",
        "!!python/object:os.system {}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_hostile_files_are_refused_quickly(body: str | bytes) -> None:
    started = time.monotonic()
    with pytest.raises(NotAMigPartedFile):
        parse_parted_file(body)
    assert time.monotonic() - started < 2


def test_exponential_aliases_are_refused() -> None:
    cards = ",".join(["0"] * 10_000)
    entry = f"&e {{devices: [{cards}], mig-enabled: false}}"
    entries = f"&l [{entry}{',*e' * 5_000}]"
    configs = "".join(f"  c{n}: *l\n" for n in range(1_000))
    with pytest.raises(NotAMigPartedFile, match="counting aliases"):
        parse_parted_file(f"version: v1\nmig-configs:\n  c: {entries}\n{configs}")


def test_the_limits_admit_every_real_file() -> None:
    assert LARGEST_FILE_BYTES == 1024 * 1024
    many = "".join(
        f'  c{n}: [{{devices: all, mig-enabled: true, mig-devices: {{"1g.5gb": 7}}}}]\n'
        for n in range(MOST_VALUES // 20)
    )
    assert len(parse_parted_file(f"version: v1\nmig-configs:\n{many}").configs) == MOST_VALUES // 20


def test_an_unknown_configuration_cannot_be_selected() -> None:
    parsed = parse_parted_file(BARE)
    assert parsed.chosen("f", None) == parsed.configs
    with pytest.raises(InvalidValue):
        parsed.chosen("f", "all-balanced")


def test_an_entry_for_all_cards_includes_an_entry_for_some() -> None:
    text = """\
version: v1
mig-configs:
  mixed:
    - {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
    - {devices: [2, 3], mig-enabled: false}
    - {device-filter: "0x20F110DE", devices: [3], mig-enabled: true, mig-devices: {"7g.40gb": 1}}
"""
    entries = parse_parted_file(text).configs["mixed"]
    assert entries[0].covers(entries[1])
    assert not entries[1].covers(entries[0])
    assert not entries[2].covers(entries[1])


# Rows of mig-parted's own test table for sets of profiles on an A100.
KNOWN_TABLE = [
    ({}, True),
    ({"1g.5gb": 7}, True),
    ({"1g.5gb": 8}, False),
    ({"1g.5gb": 6}, True),
    ({"1g.5gb": 3, "2g.10gb": 2}, True),
    ({"1g.5gb": 2, "2g.10gb": 2}, True),
    ({"1g.5gb": 2, "2g.10gb": 1}, True),
    ({"1g.5gb": 4, "2g.10gb": 2}, False),
    ({"3g.20gb": 2, "1g.5gb": 1}, True),  # the card itself refuses it
]


@pytest.mark.parametrize(("counts", "accepted"), KNOWN_TABLE)
def test_counting_slices_agrees_with_mig_parteds_table(
    counts: dict[str, int], accepted: bool
) -> None:
    asked = {parse_profile(name): count for name, count in counts.items()}
    assert slices_add_up(A100, asked) is accepted


def test_mig_parted_accepts_sets_that_the_card_cannot_hold() -> None:
    entry = only_entry(
        '{devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}'
    )
    fit = fit_entry(entry, A100)
    assert fit.slices_add_up
    assert not fit.fits
    assert fit.sold == Share(Fraction(0), Fraction(0))


def test_two_3g_leave_one_compute_slot_unsold() -> None:
    entry = only_entry('{devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2}}')
    fit = fit_entry(entry, A100)
    assert fit.fits
    assert fit.sold == Share(Fraction(6, 7), Fraction(1))
    assert fit.unsold == Share(Fraction(1, 7), Fraction(0))


def test_four_wide_instances_leave_three_of_seven_compute_slots_unsold() -> None:
    sold = sold_share(A100, {parse_profile("1g.10gb"): 4})
    assert sold == Share(Fraction(4, 7), Fraction(1))


def test_without_mig_no_slice_is_sold_or_unsold() -> None:
    fit = fit_entry(only_entry("{devices: all, mig-enabled: false}"), A100)
    assert isinstance(fit.placed, PlacedLayout)
    assert fit.sold == fit.unsold == Share(Fraction(0), Fraction(0))


def test_a_card_in_mig_mode_without_instances_is_unsold_whole() -> None:
    fit = fit_entry(only_entry("{devices: all, mig-enabled: true, mig-devices: {}}"), A100)
    assert fit.fits
    assert fit.unsold == Share(Fraction(1), Fraction(1))


@pytest.mark.parametrize("name", sorted(GEOMETRIES))
def test_every_shipped_all_configuration_fits_its_card(name: str) -> None:
    """`all-<profile>` at its maximum, and the balanced layouts that the operator ships."""
    geometry = GEOMETRIES[name]
    for profile in geometry.profiles:
        count = f'{{"{profile.profile}": {profile.max_count}}}'
        text = f"{{devices: all, mig-enabled: true, mig-devices: {count}}}"
        assert fit_entry(only_entry(text), geometry).fits, str(profile.profile)
    plain = {
        p.profile.gpu_slices: p.profile for p in reversed(geometry.profiles) if p.media_engines == 0
    }
    if geometry.memory_slots == 8:
        balanced = {plain[1]: 2, plain[2]: 1, plain[3]: 1}
        assert slices_add_up(geometry, balanced)
        assert sold_share(geometry, balanced) == Share(Fraction(1), Fraction(1))
