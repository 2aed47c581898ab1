"""The product tables: shipped rows, an added row, and refused rows."""

from __future__ import annotations

from fractions import Fraction

import pytest

from domain.errors import UnknownName
from domain.gpu import DeviceKind, Vendor, WeightPolicy, classify, parse_catalogue, weight
from domain.gpu.product_tables import LARGEST_TABLE_CHARACTERS, BadProductFacts
from domain.mig import layouts, parse_profile
from warehouse.project import seed_text

PRODUCTS, PROFILES = seed_text("gpu_products"), seed_text("mig_profiles")
CATALOGUE = parse_catalogue(PRODUCTS, PROFILES)
HEADER = "product,vendor,gpu_class,memory_mib,compute_slots,memory_slots,mig_geometry"
DECIDED = f"{HEADER},reason,decided_by,decided_on"

# One product name of each card in NVIDIA's MIG tables, and the memory of its profiles.
CARDS = {
    "NVIDIA-A100-SXM4-40GB": "1g.5gb",
    "NVIDIA-A100-PCIE-40GB": "1g.5gb",
    "NVIDIA-A800-SXM4-80GB": "1g.10gb",
    "NVIDIA-A100-SXM4-80GB": "1g.10gb",
    "NVIDIA-A100-80GB-PCIe": "1g.10gb",
    "NVIDIA-H100-80GB-HBM3": "1g.10gb",
    "NVIDIA-H100-PCIe": "1g.10gb",
    "NVIDIA-H800": "1g.10gb",
    "NVIDIA-H100-NVL": "1g.12gb",
    "NVIDIA-H800-NVL": "1g.12gb",
    "NVIDIA-GH200-480GB": "1g.12gb",
    "NVIDIA-H20": "1g.12gb",
    "NVIDIA-H200": "1g.18gb",
    "NVIDIA-H200-NVL": "1g.18gb",
    "NVIDIA-GH200-144G-HBM3e": "1g.18gb",
    "NVIDIA-B200": "1g.23gb",
    "NVIDIA-GB200": "1g.23gb",
    "NVIDIA-B300-SXM6-AC": "1g.34gb",
    "NVIDIA-GB300": "1g.35gb",
    "NVIDIA-A30": "1g.6gb",
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": "1g.24gb",
    "NVIDIA-RTX-PRO-5000-Blackwell": "1g.12gb",
}


@pytest.mark.parametrize(("name", "smallest"), sorted(CARDS.items()))
def test_every_card_with_mig_is_shipped_with_its_profiles(name: str, smallest: str) -> None:
    product = CATALOGUE.product(name)
    assert product is not None
    assert product.geometry is not None
    assert str(product.geometry.profiles[0].profile) == smallest


@pytest.mark.parametrize(
    ("name", "gpu_class"),
    [
        ("Tesla-T4", "T4"),
        ("Tesla-V100-SXM2-16GB", "V100"),
        ("Tesla-V100-PCIE-32GB", "V100"),
        ("Tesla-K80", "K80"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-A10", "A10"),
        ("NVIDIA-A40", "A40"),
        ("AMD_Instinct_MI210", "MI210"),
        ("Max_1550", "Max-1550"),
        ("Gaudi2", "Gaudi2"),
    ],
)
def test_cards_without_mig_have_one_slot(name: str, gpu_class: str) -> None:
    product = CATALOGUE.product(name)
    assert product is not None
    assert (product.gpu_class, product.geometry) == (gpu_class, None)
    assert (product.compute_slots, product.memory_slots) == (1, 1)


def test_spaces_and_dashes_in_names_are_equal() -> None:
    assert CATALOGUE.product("NVIDIA A100-SXM4-40GB") == CATALOGUE.product("NVIDIA-A100-SXM4-40GB")


def test_the_published_weights_are_exact_fractions() -> None:
    """Of the Digital Research Alliance of Canada: 0.57 of 4.0, 2.3 of 4.0, 1.74 of 12.2, …"""
    published = {
        ("a100-40gb", "1g.5gb"): Fraction(57, 400),
        ("a100-40gb", "2g.10gb"): Fraction(114, 400),
        ("a100-40gb", "3g.20gb"): Fraction(1, 2),
        ("a100-40gb", "4g.20gb"): Fraction(23, 40),
        ("h100-80gb", "1g.10gb"): Fraction(174, 1220),
        ("h100-80gb", "2g.20gb"): Fraction(348, 1220),
        ("h100-80gb", "3g.40gb"): Fraction(1, 2),
        ("h100-80gb", "4g.40gb"): Fraction(70, 122),
    }
    shipped = {
        (name, str(profile.profile)): profile.table_weight
        for name, geometry in CATALOGUE.geometries.items()
        for profile in geometry.profiles
        if profile.table_weight is not None
    }
    assert shipped == published


def test_a_new_card_is_one_row_and_no_code() -> None:
    """A row for an unknown card suffices to classify, weight and partition it."""
    row = "NVIDIA-R100,nvidia,R100-288GB,294912,7,8,8-slot-288gb,bought,an,2027-01-01"
    catalogue = parse_catalogue(PRODUCTS, PROFILES, f"{DECIDED}\n{row}\n")
    labels = {"nvidia.com/gpu.product": "NVIDIA-R100"}
    card = classify("nvidia.com/gpu", labels, catalogue)
    piece = classify("nvidia.com/mig-1g.72gb", labels, catalogue)
    assert isinstance(card, DeviceKind)
    assert isinstance(piece, DeviceKind)
    assert (card.gpu_class, weight(card, WeightPolicy.MAX, catalogue)) == ("R100-288GB", 1)
    assert (piece.compute_share, piece.memory_share) == (Fraction(1, 7), Fraction(2, 8))
    assert weight(piece, WeightPolicy.MAX, catalogue) == Fraction(1, 4)
    assert len(layouts(catalogue.geometries["8-slot-288gb"]).maximal) == 239


def test_a_new_passthrough_card_is_one_row() -> None:
    row = "nvidia.com/RUBIN_R100,nvidia,R100-288GB,294912,1,1,"
    catalogue = parse_catalogue(PRODUCTS, PROFILES, f"{HEADER}\n{row}\n")
    kind = classify("nvidia.com/RUBIN_R100", {}, catalogue)
    assert isinstance(kind, DeviceKind)
    assert kind.gpu_class == "R100-288GB"


def test_a_decided_row_replaces_a_shipped_one() -> None:
    row = "Tesla-T4,nvidia,T4-small,15360,1,1,"
    catalogue = parse_catalogue(PRODUCTS, PROFILES, f"{HEADER}\n{row}\n")
    assert catalogue.products["Tesla-T4"].gpu_class == "T4-small"
    assert len(catalogue.products) == len(CATALOGUE.products)


def test_an_empty_decision_table_changes_nothing() -> None:
    for text in ("", "\n", "\N{ZERO WIDTH NO-BREAK SPACE}\r\n", f"{DECIDED}\n# none yet\n"):
        assert parse_catalogue(PRODUCTS, PROFILES, text) == CATALOGUE


def test_byte_order_mark_and_crlf_of_a_spreadsheet_are_accepted() -> None:
    row = 'NVIDIA-X1,nvidia,X1,1024,1,1,,"a reason, with comma",an,2027-01-01'
    text = f"\N{ZERO WIDTH NO-BREAK SPACE}{DECIDED}\r\n{row}\r\n,,,,,,,,,\r\n"
    assert parse_catalogue(PRODUCTS, PROFILES, text).products["NVIDIA-X1"].gpu_class == "X1"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("X,nvidia,X,1,1,1", "6 cells under 7 columns"),
        ("=cmd(),nvidia,X,1,1,1,", "product is '=cmd()', not a name"),
        ("X\0,nvidia,X,1,1,1,", "not a name"),
        ("X,acme,X,1,1,1,", "vendor is 'acme'"),
        ("X,nvidia,,1,1,1,", "gpu_class is '', not a name"),
        ("X,nvidia,X,1,1,-1,", "memory_slots is '-1', not a whole number from 1 to 16"),
        ("X,nvidia,X,1,0,1,", "compute_slots is '0'"),
        ("X,nvidia,X,1,,1,", "compute_slots is empty"),
        ("X,nvidia,X,1,1e0,1,", "compute_slots is '1e0'"),
        ("X,nvidia,X,1,99,1,", "compute_slots is '99'"),
        ("X,nvidia,X,lots,1,1,", "memory_mib is 'lots'"),
        ("X,nvidia,X,1,7,8,9-slot-1gb", "mig_geometry '9-slot-1gb' is neither"),
        ("X,nvidia,X,1,1,1,8-slot-80gb", "8-slot-80gb has 7 and 8"),
        ("X,nvidia,H100-80GB,1,7,8,8-slot-88gb", "H100-80GB has two MIG geometries"),
        ("X,nvidia,H100-80GB,1,1,1,", "H100-80GB has two MIG geometries: h100-80gb, none"),
        ('X,nvidia,"X,1,1,1,', "line 2: unexpected end of data"),
        ("X,nvidia,X,1,1,1,\nX,nvidia,X,1,1,1,", "line 3: X is there twice"),
    ],
)
def test_an_invalid_row_is_refused_with_file_line_and_value(row: str, problem: str) -> None:
    with pytest.raises(BadProductFacts) as caught:
        parse_catalogue(PRODUCTS, PROFILES, f"{HEADER}\n{row}\n", "decisions/products.csv")
    assert problem in caught.value.seen
    is_about_one_row = "two MIG geometries" not in problem
    assert ("decisions/products.csv line" in caught.value.seen) is is_about_one_row


def test_all_problems_are_shown_at_once() -> None:
    rows = "A,acme,A,1,1,1,\nB,nvidia,B,1,x,1,\n"
    with pytest.raises(BadProductFacts) as caught:
        parse_catalogue(PRODUCTS, PROFILES, f"{HEADER}\n{rows}")
    assert "line 2: vendor" in caught.value.seen
    assert "line 3: compute_slots" in caught.value.seen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("product\nX\n", "lacks the columns vendor"),
        (f"{HEADER},product\n", "names a column twice"),
        ("x" * (LARGEST_TABLE_CHARACTERS + 1), "characters, more than"),
        ("\0\0\0", "lacks the columns"),
    ],
)
def test_a_table_with_another_header_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadProductFacts) as caught:
        parse_catalogue(PRODUCTS, PROFILES, text)
    assert problem in caught.value.seen


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("a100-40gb,1g.5gb,,", "a100-40gb,1g.5gb,1g.10gb,", "1g.10gb is there twice"),
        ("a100-40gb,1g.5gb,,", "a100-40gb,1g,,", "it is not of the form"),
        ("a100-40gb,1g.5gb,,", "a100-40gb,1c.2g.5gb,,", "whole instances of one size"),
        ("a100-40gb,1g.5gb,,", "a100-40gb,1g.5gb,2g.6gb,", "whole instances of one size"),
        ("7,1,0 1 2 3 4 5 6,1,1,0,4864", "7,1,a b,1,1,0,4864", "placements are slots"),
        ("7,1,0 1 2 3 4 5 6,1,1,0,4864", "7,1,0 1 2 3 4 5 6,2,1,0,4864", "has 1 compute slots"),
        ("57,400", "57,", "a numerator and a denominator"),
        ("57,400", "57,0", "table_weight_denominator is '0'"),
    ],
)
def test_an_invalid_profile_row_is_refused(old: str, new: str, problem: str) -> None:
    assert old in PROFILES
    with pytest.raises(BadProductFacts) as caught:
        parse_catalogue(PRODUCTS, PROFILES.replace(old, new, 1))
    assert problem in caught.value.seen


def test_names_of_product_class_and_geometry_ignore_case() -> None:
    for text in ("nvidia-a100-sxm4-40gb", "A100-40GB", " a100-40gb ", "NVIDIA A100-SXM4-40GB"):
        assert CATALOGUE.choose(text).gpu_class == "A100-40GB"
    with pytest.raises(UnknownName, match="did you mean"):
        CATALOGUE.choose("A100-4OGB")
    with pytest.raises(UnknownName):
        CATALOGUE.choose("")


def test_a_class_contains_the_pci_ids_of_all_its_cards() -> None:
    assert CATALOGUE.pci_device_ids("NVIDIA-A100-SXM4-40GB") == {"20B0"}
    assert CATALOGUE.pci_device_ids("A100-40GB") == {"20B0", "20B1", "20F1"}


def test_pci_ids_of_the_documented_cards_have_their_geometry() -> None:
    documented = {
        "a100-40gb": "20B0 20B1 20F1 20F6",
        "a100-80gb": "20B2 20B5 20F3 20F5",
        "h100-80gb": "2322 2324 2330 2331",
        "h100-94gb": "2321 233A",
        "h100-96gb": "2342 233D 20B6 2329",
        "h200-141gb": "2335 233B",
        "gh200-144gb": "2348",
        "b200-180gb": "2901",
        "gb200-186gb": "2941",
        "b300-269gb": "3182",
        "gb300-278gb": "31C2",
        "a30-24gb": "20B7",
        "rtx-pro-6000-96gb": "2BB5",
    }
    for name, ids in documented.items():
        for device_id in ids.split():
            found = CATALOGUE.products_by_pci(Vendor.NVIDIA, device_id.lower())
            assert {p.geometry.name for p in found if p.geometry is not None} == {name}, device_id


def test_mig_queries_for_a_card_without_mig_are_refused() -> None:
    with pytest.raises(UnknownName):
        CATALOGUE.geometry_of(CATALOGUE.choose("Tesla-T4"))


def test_within_a_class_a_profile_has_one_meaning() -> None:
    """The rule of the parser, checked here for every shipped row."""
    meanings: dict[tuple[str, str], set[object]] = {}
    for product in CATALOGUE.products.values():
        for profile in product.geometry.profiles if product.geometry is not None else ():
            key = (product.gpu_class, str(profile.profile))
            assert product.geometry is not None
            meanings.setdefault(key, set()).add(product.geometry.share(profile.profile))
    assert meanings
    assert all(len(shares) == 1 for shares in meanings.values())
    assert meanings[("A100-40GB", "1g.10gb")] != meanings[("A100-80GB", "1g.10gb")]
    assert parse_profile("1g.10gb")
