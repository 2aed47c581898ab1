"""AMD's, Intel's and Habana's resources, and claimed devices of any driver."""

from __future__ import annotations

from fractions import Fraction

import pytest

from domain.gpu import (
    Classified,
    DeviceForm,
    DeviceKind,
    Reason,
    Unclassified,
    WeightPolicy,
    claimed_resource,
    classify,
    classify_claim,
    parse_catalogue,
    weight,
)
from warehouse.project import seed_text

CATALOGUE = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))
MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
CPX = {"amd.com/gpu.compute-memory-partition": "cpx_nps4"}
SPX = {"amd.com/gpu.compute-memory-partition": "spx_nps1"}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}


def ask(resource: str, labels: dict[str, str], **capacity: int) -> Classified:
    return classify(resource, labels, CATALOGUE, node_capacity=capacity or None)


def device(resource: str, labels: dict[str, str]) -> DeviceKind:
    found = ask(resource, labels)
    assert isinstance(found, DeviceKind), found
    return found


def reason(found: Classified) -> Reason:
    assert isinstance(found, Unclassified), found
    return found.reason


# AMD


def test_under_the_single_strategy_in_cpx_a_gpu_is_an_eighth_of_a_card() -> None:
    found = device("amd.com/gpu", MI300X | CPX)
    assert (found.kind, found.mig_profile) == (DeviceForm.PARTITION, "cpx_nps4")
    assert found.compute_share == found.memory_share == Fraction(1, 8)


def test_under_the_mixed_strategy_the_resource_names_the_partition() -> None:
    assert device("amd.com/cpx_nps4", MI300X) == device("amd_com_cpx_nps4", MI300X)
    assert device("amd.com/cpx_nps4", MI300X).compute_share == Fraction(1, 8)
    whole = device("amd.com/spx_nps1", MI300X)
    assert (whole.kind, whole.mig_profile, whole.compute_share) == (DeviceForm.WHOLE, "whole", 1)


@pytest.mark.parametrize(
    ("product", "partition", "part"),
    [
        ("AMD_Instinct_MI300X_OAM", "dpx_nps2", Fraction(1, 2)),
        ("AMD_Instinct_MI300X_OAM", "qpx_nps4", Fraction(1, 4)),
        ("AMD_Instinct_MI300A", "tpx_nps1", Fraction(1, 3)),
        ("AMD_Instinct_MI300A", "cpx_nps1", Fraction(1, 6)),
        ("AMD_Instinct_MI355X", "cpx_nps2", Fraction(1, 8)),
    ],
)
def test_a_partition_is_its_part_of_the_dies_of_its_card(
    product: str, partition: str, part: Fraction
) -> None:
    labels = {"amd.com/gpu.product-name": product}
    assert device(f"amd.com/{partition}", labels).share.compute == part


def test_a_label_or_the_compute_units_show_a_whole_card() -> None:
    assert device("amd.com/gpu", MI300X | SPX).kind is DeviceForm.WHOLE
    assert device("amd.com/gpu", MI300X | {"amd.com/gpu.cu-count": "304"}).kind is DeviceForm.WHOLE
    other_name = {"amd.com/compute-memory-partition": "spx_nps1"}
    assert device("amd.com/gpu", MI300X | other_name).kind is DeviceForm.WHOLE


def test_a_card_that_cannot_be_partitioned_needs_no_such_label() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI250X"}
    assert device("amd.com/gpu", labels).gpu_class == "MI250X"


def test_a_partitionable_card_is_not_whole_without_evidence() -> None:
    assert reason(ask("amd.com/gpu", MI300X)) is Reason.AMBIGUOUS
    parted = MI300X | {"amd.com/gpu.cu-count": "38"}
    assert reason(ask("amd.com/gpu", parted)) is Reason.CONTRADICTION


def test_the_pci_device_id_replaces_a_missing_name() -> None:
    for labels in (
        {"amd.com/gpu.device-id": "74a1"},
        {"beta.amd.com/gpu.device-id.74a1": "8"},
        {"label_beta_amd_com_gpu_device_id_74a1": "8"},
    ):
        assert device("amd.com/gpu", labels | SPX).gpu_class == "MI300X"


def test_a_product_in_a_beta_label_is_found_also_if_mangled() -> None:
    raw = {"beta.amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "8"}
    mangled = {
        "label_beta_amd_com_gpu_product_name_amd_instinct_mi300_x_oam": "8",
        "label_amd_com_gpu_compute_memory_partition": "cpx_nps4",
    }
    assert device("amd.com/gpu", raw | CPX).share == device("amd_com_gpu", mangled).share


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("amd.com/gpu", {}, Reason.NO_PRODUCT),
        ("amd.com/gpu", {"amd.com/gpu.product-name": "MI999"}, Reason.UNKNOWN_PRODUCT),
        ("amd.com/gpu", {"amd.com/gpu.device-id": "ffff"}, Reason.UNKNOWN_PRODUCT),
        ("amd.com/gpu", {"amd.com/gpu.product-name": "Tesla-T4"}, Reason.UNKNOWN_PRODUCT),
        ("amd.com/cpx_nps3", MI300X, Reason.UNKNOWN_RESOURCE),
        ("amd.com/xpu", MI300X, Reason.UNKNOWN_RESOURCE),
        ("amd.com/tpx_nps1", MI300X, Reason.UNKNOWN_PROFILE),
        (
            "amd.com/gpu",
            MI300X | {"amd.com/gpu.compute-memory-partition": "odd"},
            Reason.UNKNOWN_PROFILE,
        ),
        (
            "amd.com/gpu",
            MI300X | CPX | {"amd.com/compute-memory-partition": "spx_nps1"},
            Reason.HETEROGENEOUS,
        ),
        (
            "amd.com/gpu",
            {"beta.amd.com/gpu.device-id.74a1": "4", "beta.amd.com/gpu.device-id.740f": "4"},
            Reason.HETEROGENEOUS,
        ),
    ],
)
def test_an_unclassifiable_amd_resource_has_a_reason(
    resource: str, labels: dict[str, str], expected: Reason
) -> None:
    assert reason(ask(resource, labels)) is expected


# Intel and Habana


def test_intel_cards_by_product_label_or_pci_id() -> None:
    by_label = device("gpu.intel.com/i915", {"gpu.intel.com/product": "Max_1550"})
    by_id = device("gpu.intel.com/xe", {"gpu.intel.com/device-id.0380-0bd5.present": "true"})
    mangled = device("gpu_intel_com_i915", {"label_gpu_intel_com_product": "Max_1550"})
    assert by_label.gpu_class == by_id.gpu_class == mangled.gpu_class == "Max-1550"
    assert by_label.compute_share == 1


def test_a_shared_intel_card_is_visible_in_the_nodes_capacity() -> None:
    labels = {"gpu.intel.com/product": "Flex_170", "gpu.intel.com/device.count": "2"}
    shared = classify(
        "gpu.intel.com/i915", labels, CATALOGUE, node_capacity={"gpu.intel.com/i915": 20}
    )
    assert isinstance(shared, DeviceKind)
    assert (shared.kind, shared.compute_share) == (DeviceForm.REPLICA, Fraction(1, 10))
    odd = classify("gpu.intel.com/i915", labels, CATALOGUE, node_capacity={"gpu.intel.com/i915": 3})
    assert reason(odd) is Reason.CONTRADICTION


def test_gaudi_cards_by_pci_id() -> None:
    labels = {"feature.node.kubernetes.io/pci-1200_1da3_1020.present": "true"}
    assert device("habana.ai/gaudi", labels).gpu_class == "Gaudi2"


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("gpu.intel.com/i915", {}, Reason.NO_PRODUCT),
        ("gpu.intel.com/i915", {"gpu.intel.com/product": "Max_9000"}, Reason.UNKNOWN_PRODUCT),
        ("gpu.intel.com/i915_monitoring", {}, Reason.NOT_A_DEVICE),
        ("gpu.intel.com/millicores", {}, Reason.NOT_A_DEVICE),
        ("habana.ai/gaudi", {}, Reason.NO_PRODUCT),
        ("habana.ai/goya", {}, Reason.UNKNOWN_RESOURCE),
        (
            "gpu.intel.com/i915",
            {
                "gpu.intel.com/device-id.0380-0bd5.count": "1",
                "gpu.intel.com/device-id.0380-56c0.count": "1",
            },
            Reason.HETEROGENEOUS,
        ),
        (
            "habana.ai/gaudi",
            {"feature.node.kubernetes.io/pci-1200_1da3_9999.present": "true"},
            Reason.UNKNOWN_PRODUCT,
        ),
    ],
)
def test_an_unclassifiable_intel_resource_has_a_reason(
    resource: str, labels: dict[str, str], expected: Reason
) -> None:
    assert reason(ask(resource, labels)) is expected


# Claims


def test_claimed_cards_and_instances_are_classified_by_name() -> None:
    card = device("gpu.nvidia.com/gpu-0", A100)
    piece = device("gpu.nvidia.com/gpu-3-mig-3g20gb-9-4", A100)
    assert (card.kind, card.is_claimed, card.compute_share) == (DeviceForm.WHOLE, True, 1)
    assert (piece.kind, piece.mig_profile, piece.is_claimed) == (DeviceForm.MIG, "3g.20gb", True)
    assert piece.compute_share == Fraction(3, 7)


def test_the_profile_id_shows_whether_media_engines_are_included() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"}
    profiles = {
        name: device(f"gpu.nvidia.com/gpu-0-mig-{name}", labels).mig_profile
        for name in ("1g24gb-14-0", "1g24gb-me-21-0", "1g24gb-me-67-3")
    }
    assert list(profiles.values()) == ["1g.24gb", "1g.24gb+me", "1g.24gb-me"]


def test_attributes_take_precedence_over_names_and_labels() -> None:
    found = classify_claim(
        "gpu.nvidia.com",
        "gpu-0-mig-1g5gb-19-2",
        {"nvidia.com/gpu.product": "Tesla-T4"},
        CATALOGUE,
        {"type": "mig", "productName": "NVIDIA A100-SXM4-40GB", "profile": "1g.5gb"},
    )
    assert isinstance(found, DeviceKind)
    assert found.gpu_class == "A100-40GB"
    qualified = {
        "gpu.nvidia.com/productName": "NVIDIA A100-SXM4-40GB",
        "gpu.nvidia.com/type": "gpu",
    }
    card = classify_claim("gpu.nvidia.com", "any-name", {}, CATALOGUE, qualified)
    assert isinstance(card, DeviceKind)
    assert card.kind is DeviceForm.WHOLE


def test_a_claimed_card_for_a_virtual_machine_is_passed_through() -> None:
    attributes = {"type": "vfio", "productName": "NVIDIA L40S"}
    found = classify_claim("gpu.nvidia.com", "gpu-vfio-0", {}, CATALOGUE, attributes)
    assert isinstance(found, DeviceKind)
    assert found.kind is DeviceForm.PASSTHROUGH


def test_a_card_may_have_its_uuid_as_its_name() -> None:
    name = "gpu-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
    assert device(f"gpu.nvidia.com/{name}", A100).kind is DeviceForm.WHOLE


def test_claimed_amd_and_intel_devices() -> None:
    part = device("gpu.amd.com/gpu-1-129", MI300X | CPX)
    assert (part.kind, part.is_claimed) == (DeviceForm.PARTITION, True)
    stated = classify_claim(
        "gpu.amd.com",
        "gpu-1-129",
        {},
        CATALOGUE,
        {"productName": "AMD Instinct MI300X OAM", "partitionProfile": "dpx_nps1"},
    )
    assert isinstance(stated, DeviceKind)
    assert stated.compute_share == Fraction(1, 2)
    card = device("gpu.intel.com/0000-03-00-0-0x56c0", {})
    assert (card.gpu_class, card.is_claimed) == ("Flex-170", True)


@pytest.mark.parametrize(
    ("driver", "name", "labels", "attributes", "expected"),
    [
        ("gpu.nvidia.com", "gpu-0", {}, {}, Reason.NO_PRODUCT),
        ("gpu.nvidia.com", "nic-0", A100, {}, Reason.UNKNOWN_RESOURCE),
        ("gpu.nvidia.com", "x", A100, {"type": "imex"}, Reason.UNKNOWN_RESOURCE),
        ("gpu.nvidia.com", "gpu-0", {}, {"productName": "NVIDIA R100"}, Reason.UNKNOWN_PRODUCT),
        ("gpu.nvidia.com", "gpu-0-mig-9g5gb-19-0", A100, {}, Reason.UNKNOWN_PROFILE),
        ("gpu.nvidia.com", "gpu-0-mig-1g5gb-99-0", A100, {}, Reason.UNKNOWN_PROFILE),
        ("gpu.nvidia.com", "m", A100, {"type": "mig", "profile": "x"}, Reason.UNKNOWN_PROFILE),
        (
            "gpu.nvidia.com",
            "gpu-0-mig-1g5gb-19-0",
            A100,
            {"profile": "2g.10gb"},
            Reason.CONTRADICTION,
        ),
        ("gpu.amd.com", "gpu-x", MI300X, {}, Reason.UNKNOWN_RESOURCE),
        ("gpu.amd.com", "gpu-1-2", {}, {"productName": "MI9"}, Reason.UNKNOWN_PRODUCT),
        ("gpu.amd.com", "gpu-1-2", {}, {}, Reason.NO_PRODUCT),
        ("gpu.intel.com", "card0", {}, {}, Reason.UNKNOWN_RESOURCE),
        ("gpu.intel.com", "0000-03-00-0-0xffff", {}, {}, Reason.NO_PRODUCT),
        ("nic.example.com", "nic-0", {}, {}, Reason.UNKNOWN_RESOURCE),
    ],
)
def test_an_unclassifiable_claimed_device_has_a_reason(
    driver: str, name: str, labels: dict[str, str], attributes: dict[str, str], expected: Reason
) -> None:
    assert reason(classify_claim(driver, name, labels, CATALOGUE, attributes)) is expected


# --- shares of claimed devices --------------------------------------------------------------------

MEMORY = {"memory": "40Gi"}


@pytest.mark.parametrize(
    ("consumed", "capacity", "expected"),
    [
        ({"memory": "10Gi"}, MEMORY, "gpu.nvidia.com/gpu-0:1/4"),
        ({"memory": "15Gi"}, {"memory": "40960Mi"}, "gpu.nvidia.com/gpu-0:3/8"),
        ({"gpu.nvidia.com/memory": "10737418240"}, MEMORY, "gpu.nvidia.com/gpu-0:1/4"),
        ({"memory": "40Gi"}, MEMORY, "gpu.nvidia.com/gpu-0"),
        # No memory of its own: its pods divide the memory.
        ({}, MEMORY, "gpu.nvidia.com/gpu-0"),
        ({"lanes": "2"}, MEMORY, "gpu.nvidia.com/gpu-0"),
        # More than the capacity, of a device without a slice, and invalid quantities.
        ({"memory": "41Gi"}, MEMORY, "gpu.nvidia.com/gpu-0:unknown"),
        ({"memory": "10Gi"}, {}, "gpu.nvidia.com/gpu-0:unknown"),
        ({"memory": "0"}, MEMORY, "gpu.nvidia.com/gpu-0:unknown"),
        ({"memory": "-1"}, MEMORY, "gpu.nvidia.com/gpu-0:unknown"),
        ({"memory": "much"}, {"memory": "0"}, "gpu.nvidia.com/gpu-0:unknown"),
    ],
)
def test_a_share_is_named_by_its_exact_part_of_the_devices_memory(
    consumed: dict[str, str], capacity: dict[str, str], expected: str
) -> None:
    assert claimed_resource("gpu.nvidia.com", "gpu-0", consumed, capacity) == expected


def test_a_share_weighs_its_part_under_every_policy() -> None:
    found = classify("gpu.nvidia.com/gpu-0:3/8", A100, CATALOGUE)
    assert isinstance(found, DeviceKind)
    assert (found.kind, found.gpu_class, found.mig_profile) == (
        DeviceForm.SHARE,
        "A100-40GB",
        "whole",
    )
    assert found.is_claimed
    for policy in WeightPolicy:
        assert weight(found, policy, CATALOGUE) == Fraction(3, 8)


@pytest.mark.parametrize("part", ["unknown", "0/4", "", "1/0", "4", "1/4/2", "5/4"])
def test_a_share_of_unknown_size_is_not_classified(part: str) -> None:
    found = classify(f"gpu.nvidia.com/gpu-0:{part}", A100, CATALOGUE)
    assert isinstance(found, Unclassified)
    assert "whose memory no ResourceSlice states" in found.explanation


def test_a_share_of_a_mig_instance_is_not_classified() -> None:
    found = classify("gpu.nvidia.com/gpu-0-mig-1g5gb-19-0:1/2", A100, CATALOGUE)
    assert isinstance(found, Unclassified)
    assert "a share of a mig device, not of a card" in found.explanation
