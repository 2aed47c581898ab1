"""Properties of every device; no name, label or row ends classification with an exception."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from domain.gpu import (
    DeviceKind,
    Unclassified,
    WeightPolicy,
    classify,
    classify_claim,
    may_be_a_device,
    parse_catalogue,
    weight,
)
from domain.gpu.cards import physical_cards
from domain.gpu.product_tables import BadProductFacts
from domain.mig.profile import mangled
from warehouse.project import seed_text

PRODUCTS, PROFILES = seed_text("gpu_products"), seed_text("mig_profiles")
CATALOGUE = parse_catalogue(PRODUCTS, PROFILES)

product_names = sorted(name for name in CATALOGUE.products if "/" not in name)
resources = st.sampled_from(
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.5gb.me",
        "nvidia.com/mig-1g.24gb-me",
        "nvidia.com/mig-1c.3g.20gb",
        "nvidia.com/mig-3g.40gb.shared",
        "nvidia.com/GH100_H100_SXM5_80GB",
        "amd.com/gpu",
        "amd.com/cpx_nps4",
        "gpu.intel.com/i915",
        "habana.ai/gaudi",
        "gpu.nvidia.com/gpu-0",
        "gpu.nvidia.com/gpu-0-mig-1g5gb-19-0",
        "cpu",
    ]
)
suffixes = st.sampled_from(["", "-SHARED", "-MIG-1g.5gb", "-MIG-INVALID", "-MIG-3g.40gb-SHARED"])
label_names = st.sampled_from(
    [
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.count",
        "nvidia.com/gpu.replicas",
        "nvidia.com/mig.strategy",
        "nvidia.com/mig-1g.5gb.product",
        "nvidia.com/mig-1g.5gb.replicas",
        "label_nvidia_com_gpu_product",
        "label_nvidia_com_gpu_product_conflict1",
        "amd.com/gpu.product-name",
        "amd.com/gpu.compute-memory-partition",
        "amd.com/gpu.cu-count",
        "beta.amd.com/gpu.device-id.74a1",
        "gpu.intel.com/product",
        "gpu.intel.com/device.count",
        "",
        "label_",
    ]
)
label_values = st.one_of(
    st.builds("".join, st.tuples(st.sampled_from(product_names), suffixes)),
    st.sampled_from(["0", "1", "4", "8", "-1", "1e9", "cpx_nps4", "spx_nps1", "304", ""]),
    st.text(max_size=12),
)
label_sets = st.dictionaries(st.one_of(label_names, st.text(max_size=12)), label_values, max_size=7)


@given(st.one_of(resources, st.text(max_size=40)), label_sets)
@example("nvidia.com/mig-" + "9" * 5000, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"})
@example("\0", {"\0": "\0"})
def test_every_name_on_every_node_is_classified_or_has_a_reason(
    resource: str, labels: dict[str, str]
) -> None:
    """A device with exact shares, or a reason; never a default or an exception."""
    found = classify(resource, labels, CATALOGUE)
    if isinstance(found, Unclassified):
        assert found.explanation
        return
    assert isinstance(found, DeviceKind)
    assert 0 < found.compute_share <= 1
    assert 0 < found.memory_share <= 1
    assert found.replicas >= 1
    assert found.product in CATALOGUE.products
    assert may_be_a_device(resource) or "/" in found.product


@given(resources, label_sets)
def test_weights_lie_between_the_shares_and_their_maximum(
    resource: str, labels: dict[str, str]
) -> None:
    found = classify(resource, labels, CATALOGUE)
    if isinstance(found, DeviceKind):
        weights = {
            policy: weight(found, policy, CATALOGUE)
            for policy in WeightPolicy
            if policy is not WeightPolicy.TABLE
        }
        assert weights[WeightPolicy.MAX] == max(found.compute_share, found.memory_share)
        assert min(weights.values()) > 0
        if found.mig_profile == "whole" and found.replicas == 1:
            assert set(weights.values()) == {Fraction(1)}


@given(resources, st.sampled_from(product_names), suffixes, st.integers(0, 9))
def test_names_of_both_sources_agree_or_the_metric_is_ambiguous(
    resource: str, product: str, suffix: str, replicas: int
) -> None:
    labels = {"nvidia.com/gpu.product": product + suffix, "nvidia.com/gpu.replicas": str(replicas)}
    in_metrics = {f"label_{mangled(name)}": value for name, value in labels.items()}
    exact = classify(resource, labels, CATALOGUE)
    seen = classify(mangled(resource), in_metrics, CATALOGUE)
    if resource.startswith("gpu.nvidia.com/"):
        return  # no metric has claimed devices
    if isinstance(seen, DeviceKind):
        if isinstance(exact, Unclassified):  # a card with +me instances only cannot offer -me
            assert resource.endswith("-me")
            assert seen.mig_profile.endswith("+me")
            return
        assert (exact.share, exact.mig_profile) == (seen.share, seen.mig_profile)
    elif isinstance(exact, DeviceKind):
        assert seen.reason.value == "ambiguous"


@given(st.text(max_size=30), st.text(max_size=40), label_sets, label_sets)
def test_every_claimed_device_is_classified_or_has_a_reason(
    driver: str, device: str, labels: dict[str, str], attributes: dict[str, str]
) -> None:
    for name in (driver, "gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com"):
        found = classify_claim(name, device, labels, CATALOGUE, attributes)
        assert isinstance(found, DeviceKind | Unclassified)


@given(st.dictionaries(resources, st.integers(-2, 40), max_size=5), label_sets)
def test_bounds_of_the_cards_of_a_node_are_ordered(
    capacity: dict[str, int], labels: dict[str, str]
) -> None:
    cards = physical_cards(capacity, labels, CATALOGUE)
    assert 0 <= cards.least <= cards.most


cells = st.one_of(
    st.sampled_from(
        ["nvidia", "amd", "7", "8", "1", "", "8-slot-80gb", "A100-40GB", "=cmd()", "\0", '"', "#"]
    ),
    st.text(max_size=8),
)
header = "product,vendor,gpu_class,memory_mib,compute_slots,memory_slots,mig_geometry\n"


@given(st.lists(st.lists(cells, min_size=6, max_size=8).map(",".join), max_size=4).map("\n".join))
@example("X,nvidia,X,1,1,1," + "x" * 200_000)
def test_the_table_parsers_survive_any_row(rows: str) -> None:
    try:
        catalogue = parse_catalogue(PRODUCTS, PROFILES, header + rows)
    except BadProductFacts:
        return
    assert len(catalogue.products) >= len(CATALOGUE.products)


@given(st.text(max_size=200))
def test_a_table_is_read_completely_or_refused(text: str) -> None:
    """The whole catalogue or one error, never a part of a table."""
    try:
        catalogue = parse_catalogue(PRODUCTS, PROFILES, text)
    except BadProductFacts:
        return
    assert catalogue == CATALOGUE
