"""The number of physical cards of a node, from its capacity and labels."""

from __future__ import annotations

import pytest

from domain.gpu import parse_catalogue
from domain.gpu.cards import HowKnown, NodeCards, physical_cards
from warehouse.project import seed_text

CATALOGUE = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))
A100 = "NVIDIA-A100-SXM4-40GB"
MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
CPX = MI300X | {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}


def node(product: str, **more: str) -> dict[str, str]:
    return {"nvidia.com/gpu.product": product} | {f"nvidia.com/gpu.{k}": v for k, v in more.items()}


def bounds(found: NodeCards) -> tuple[int, int]:
    return found.least, found.most


@pytest.mark.parametrize(
    ("capacity", "labels", "least", "most", "how_known"),
    [
        ({"nvidia.com/gpu": 8}, node(A100, count="8"), 8, 8, HowKnown.LABEL),
        ({"nvidia.com/gpu": 8}, node(A100), 8, 8, HowKnown.CAPACITY),
        # an unhealthy card reduces allocatable and not capacity; an outdated label is overruled
        ({"nvidia.com/gpu": 8}, node(A100, count="4"), 8, 8, HowKnown.CAPACITY),
        # MIG, mixed: the label counts cards
        ({"nvidia.com/mig-1g.5gb": 14}, node(A100, count="8"), 8, 8, HowKnown.LABEL),
        ({"nvidia.com/mig-1g.5gb": 14}, node(A100), 2, 14, HowKnown.LAYOUTS),
        # MIG, single: label and capacity count slices
        ({"nvidia.com/gpu": 56}, node(f"{A100}-MIG-1g.5gb", count="56"), 8, 56, HowKnown.LAYOUTS),
        # replicas: capacity is count x replicas
        (
            {"nvidia.com/gpu": 40},
            node(f"{A100}-SHARED", count="4", replicas="10"),
            4,
            4,
            HowKnown.LABEL,
        ),
        (
            {"nvidia.com/gpu.shared": 40},
            node(A100, replicas="10"),
            4,
            4,
            HowKnown.CAPACITY,
        ),
        # cards that offer nothing, because they are being reconfigured
        ({"nvidia.com/gpu": 0}, node(A100, count="8", replicas="0"), 8, 8, HowKnown.LABEL),
        # AMD: 64 for 8, and both kinds together
        ({"amd.com/gpu": 64}, CPX, 8, 8, HowKnown.CAPACITY),
        ({"amd.com/spx_nps1": 5, "amd.com/cpx_nps1": 24}, MI300X, 8, 8, HowKnown.CAPACITY),
    ],
)
def test_the_cards_of_a_node(
    capacity: dict[str, int], labels: dict[str, str], least: int, most: int, how_known: HowKnown
) -> None:
    found = physical_cards(capacity | {"cpu": 64, "memory": 2**40}, labels, CATALOGUE)
    assert bounds(found) == (least, most)
    assert [count.how_known for count in found.counts] == [how_known]
    assert found.is_exact is (least == most)


def test_cards_of_several_products_are_counted_separately() -> None:
    capacity = {"nvidia.com/gpu": 2, "nvidia.com/GA100_A30_PCIE": 3, "amd.com/gpu": 16}
    found = physical_cards(capacity, node("Tesla-T4", count="2") | CPX, CATALOGUE)
    assert {(c.gpu_class, c.least) for c in found.counts} == {
        ("T4", 2),
        ("A30-24GB", 3),
        ("MI300X", 2),
    }
    assert found.least == 7


def test_an_unknown_product_is_reported_and_makes_the_count_inexact() -> None:
    found = physical_cards({"nvidia.com/gpu": 2, "nvidia.com/odd": 1}, node("Tesla-T4"), CATALOGUE)
    assert [resource for resource, _ in found.unclassified] == ["nvidia.com/odd"]
    assert not found.is_exact
    monitoring = {"gpu.intel.com/i915_monitoring": 1}
    assert physical_cards(monitoring, {}, CATALOGUE).unclassified == ()


def test_damaged_numbers_are_ignored() -> None:
    capacity = {"nvidia.com/mig-1g.5gb": 10**15, "nvidia.com/gpu": -3}
    assert physical_cards(capacity, node(A100), CATALOGUE).least > 0
