"""Weights under the four policies, compared with fractions written by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from domain.gpu import DeviceKind, WeightPolicy, classify, parse_catalogue, weight
from warehouse.project import seed_text

CATALOGUE = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
SHARED = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "3"}
SHARED_MIG = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED",
    "nvidia.com/gpu.replicas": "3",
}
CPX = {
    "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
    "amd.com/gpu.compute-memory-partition": "cpx_nps4",
}


def device(resource: str, labels: dict[str, str]) -> DeviceKind:
    found = classify(resource, labels, CATALOGUE)
    assert isinstance(found, DeviceKind), found
    return found


@pytest.mark.parametrize(
    ("resource", "labels", "by_max", "by_compute", "by_memory", "by_table"),
    [
        ("nvidia.com/gpu", A100, "1", "1", "1", "1"),
        ("nvidia.com/mig-1g.5gb", A100, "1/7", "1/7", "1/8", "57/400"),
        ("nvidia.com/mig-2g.10gb", A100, "2/7", "2/7", "1/4", "57/200"),
        ("nvidia.com/mig-3g.20gb", A100, "1/2", "3/7", "1/2", "1/2"),
        ("nvidia.com/mig-4g.20gb", A100, "4/7", "4/7", "1/2", "23/40"),
        ("nvidia.com/mig-1c.3g.20gb", A100, "1/6", "1/7", "1/6", "1/6"),
        ("nvidia.com/gpu", SHARED, "1/3", "1/3", "1/3", "1/3"),
        ("nvidia.com/gpu", SHARED_MIG, "1/6", "1/7", "1/6", "1/6"),
    ],
)
def test_weights_are_exact_fractions(
    resource: str,
    labels: dict[str, str],
    by_max: str,
    by_compute: str,
    by_memory: str,
    by_table: str,
) -> None:
    found = device(resource, labels)
    expected = dict(zip(WeightPolicy, (by_max, by_compute, by_memory, by_table), strict=True))
    assert {p: weight(found, p, CATALOGUE) for p in WeightPolicy} == {
        policy: Fraction(text) for policy, text in expected.items()
    }


def test_under_max_a_3g_and_a_4g_weigh_more_than_their_card() -> None:
    both = [device(f"nvidia.com/mig-{p}", A100) for p in ("3g.20gb", "4g.20gb")]
    assert sum(weight(d, WeightPolicy.MAX, CATALOGUE) for d in both) == Fraction(15, 14)
    assert sum(weight(d, WeightPolicy.MEMORY, CATALOGUE) for d in both) == 1


def test_four_wide_instances_use_all_memory_and_weigh_a_whole_card() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    wide = device("nvidia.com/mig-1g.20gb", labels)
    assert 4 * weight(wide, WeightPolicy.MAX, CATALOGUE) == 1
    assert 4 * weight(wide, WeightPolicy.COMPUTE, CATALOGUE) == Fraction(4, 7)


@pytest.mark.parametrize(
    ("resource", "labels"),
    [
        ("nvidia.com/mig-1g.10gb", A100),
        ("nvidia.com/mig-7g.40gb", A100),
        ("nvidia.com/mig-1g.18gb", {"nvidia.com/gpu.product": "NVIDIA-H200"}),
        ("amd.com/gpu", CPX),
    ],
)
def test_the_table_has_no_weight_by_default(resource: str, labels: dict[str, str]) -> None:
    assert weight(device(resource, labels), WeightPolicy.TABLE, CATALOGUE) is None
