"""NVIDIA's resources: every way in which a node can offer a card or a part of one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from domain.gpu import (
    Classified,
    DeviceForm,
    DeviceKind,
    Reason,
    Unclassified,
    classify,
    may_be_a_device,
    parse_catalogue,
)
from warehouse.project import seed_text

CATALOGUE = parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"))
A100 = "NVIDIA-A100-SXM4-40GB"
RTX = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"


def node(product: str, **more: str) -> dict[str, str]:
    """A node's labels; `count="8"` is `nvidia.com/gpu.count=8`."""
    return {"nvidia.com/gpu.product": product} | {f"nvidia.com/gpu.{k}": v for k, v in more.items()}


def mangled_labels(labels: dict[str, str]) -> dict[str, str]:
    """The labels as kube-state-metrics shows them, including its conflicts."""
    names = ["label_" + "".join(c if c.isalnum() else "_" for c in name).lower() for name in labels]
    shown = {}
    for index, (name, value) in enumerate(zip(names, labels.values(), strict=True)):
        count = names[: index + 1].count(name)
        shown[f"{name}_conflict{count}" if names.count(name) > 1 else name] = value
    return shown


def ask(resource: str, labels: dict[str, str]) -> Classified:
    return classify(resource, labels, CATALOGUE)


def device(resource: str, labels: dict[str, str]) -> DeviceKind:
    """The classification, after a check that it is equal for every spelling of resource
    and labels.
    """
    found = ask(resource, labels)
    assert isinstance(found, DeviceKind), found
    mangled = "".join(c if c.isalnum() or c == "_" else "_" for c in resource)
    in_metrics = ask(mangled, mangled_labels(labels))
    assert isinstance(in_metrics, DeviceKind), in_metrics
    assert in_metrics.share == found.share
    assert (in_metrics.kind, in_metrics.mig_profile) == (found.kind, found.mig_profile)
    return found


def reason(resource: str, labels: dict[str, str]) -> Reason:
    found = ask(resource, labels)
    assert isinstance(found, Unclassified), found
    assert found.explanation
    return found.reason


def test_a_whole_card() -> None:
    found = device("nvidia.com/gpu", node(A100, count="8", replicas="1"))
    assert (found.kind, found.gpu_class, found.mig_profile) == (
        DeviceForm.WHOLE,
        "A100-40GB",
        "whole",
    )
    assert (found.compute_share, found.memory_share, found.unit_share) == (1, 1, 1)


def test_a_mig_instance_under_the_mixed_strategy() -> None:
    labels = node(A100, count="8", replicas="0") | {
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig-3g.20gb.product": f"{A100}-MIG-3g.20gb",
        "nvidia.com/mig-3g.20gb.count": "16",
        "nvidia.com/mig-3g.20gb.replicas": "1",
    }
    found = device("nvidia.com/mig-3g.20gb", labels)
    assert (found.kind, found.mig_profile) == (DeviceForm.MIG, "3g.20gb")
    assert (found.compute_share, found.memory_share) == (Fraction(3, 7), Fraction(4, 8))


def test_under_the_single_strategy_the_product_defines_a_gpu() -> None:
    labels = node(f"{A100}-MIG-1g.5gb", count="56", replicas="1") | {
        "nvidia.com/mig.strategy": "single"
    }
    found = device("nvidia.com/gpu", labels)
    assert (found.kind, found.mig_profile, found.product) == (DeviceForm.MIG, "1g.5gb", A100)
    assert found.compute_share == Fraction(1, 7)


def test_an_invalid_single_strategy_is_heterogeneous() -> None:
    assert reason("nvidia.com/gpu", node(f"{A100}-MIG-INVALID", count="0", replicas="0")) is (
        Reason.HETEROGENEOUS
    )


def test_replicas_of_a_card_hold_their_part_of_it() -> None:
    labels = node(f"{A100}-SHARED", count="8", replicas="4")
    labels |= {"nvidia.com/gpu.sharing-strategy": "time-slicing"}
    found = device("nvidia.com/gpu", labels)
    assert (found.kind, found.mig_profile, found.replicas) == (DeviceForm.REPLICA, "whole", 4)
    assert found.compute_share == found.memory_share == found.unit_share == Fraction(1, 4)


def test_renamed_replicas_are_recognised_by_the_resource() -> None:
    found = device("nvidia.com/gpu.shared", node("Tesla-T4", count="1", replicas="10"))
    assert (found.kind, found.compute_share) == (DeviceForm.REPLICA, Fraction(1, 10))


def test_replicas_of_mig_instances_under_both_strategies() -> None:
    single = device("nvidia.com/gpu", node(f"{A100}-MIG-3g.20gb-SHARED", replicas="2"))
    mixed_labels = node(A100, replicas="0") | {
        "nvidia.com/mig-3g.20gb.product": f"{A100}-MIG-3g.20gb-SHARED",
        "nvidia.com/mig-3g.20gb.replicas": "2",
    }
    mixed = device("nvidia.com/mig-3g.20gb", mixed_labels)
    renamed_labels = node(A100, replicas="0") | {
        "nvidia.com/mig-3g.20gb.product": f"{A100}-MIG-3g.20gb",
        "nvidia.com/mig-3g.20gb.replicas": "2",
    }
    renamed = device("nvidia.com/mig-3g.20gb.shared", renamed_labels)
    for found in (single, mixed, renamed):
        assert (found.kind, found.mig_profile) == (DeviceForm.MIG_REPLICA, "3g.20gb")
        assert (found.compute_share, found.memory_share) == (Fraction(3, 14), Fraction(1, 4))
        assert found.unit_share == Fraction(1, 2)


def test_a_compute_instance_has_its_part_of_the_instances_memory() -> None:
    found = device("nvidia.com/mig-1c.3g.20gb", node(A100))
    assert (found.mig_profile, found.memory_share) == ("1c.3g.20gb", Fraction(4, 8) / 3)


def test_media_extensions_are_spelled_with_a_dot() -> None:
    assert device("nvidia.com/mig-1g.5gb.me", node(A100)).mig_profile == "1g.5gb+me"


@pytest.mark.parametrize(
    ("resource", "profile"),
    [("nvidia.com/mig-1g.24gb.me", "1g.24gb+me"), ("nvidia.com/mig-1g.24gb-me", "1g.24gb-me")],
)
def test_profiles_with_and_without_media_engines_differ_by_name(
    resource: str, profile: str
) -> None:
    found = ask(resource, node(RTX))
    assert isinstance(found, DeviceKind)
    assert found.mig_profile == profile


def test_mangled_profiles_are_ambiguous_without_a_label() -> None:
    mangled = "nvidia_com_mig_1g_24gb_me"
    assert reason(mangled, mangled_labels(node(RTX))) is Reason.AMBIGUOUS
    for profile in ("1g.24gb.me", "1g.24gb-me"):
        only = node(RTX) | {f"nvidia.com/mig-{profile}.product": f"{RTX}-MIG-{profile}"}
        found = ask(mangled, mangled_labels(only))
        assert isinstance(found, DeviceKind)
        assert found.mig_profile == profile.replace(".me", "+me")
        counted = node(RTX) | {f"nvidia.com/mig-{profile}.count": "4"}
        by_key = ask(mangled, counted)
        assert isinstance(by_key, DeviceKind)
        assert by_key.mig_profile == found.mig_profile


def test_both_profiles_on_one_node_are_ambiguous_in_metrics() -> None:
    both = node(RTX) | {
        f"nvidia.com/mig-{profile}.product": f"{RTX}-MIG-{profile}"
        for profile in ("1g.24gb.me", "1g.24gb-me")
    }
    assert reason("nvidia_com_mig_1g_24gb_me", mangled_labels(both)) is Reason.AMBIGUOUS
    assert reason("nvidia_com_mig_1g_24gb_me", both) is Reason.AMBIGUOUS


def test_the_nodes_own_labels_are_not_confused_by_mangling() -> None:
    """One of two profiles with one mangled name is shared, the other is not."""
    labels = node(RTX, replicas="0") | {
        "nvidia.com/mig-1g.24gb.me.product": f"{RTX}-MIG-1g.24gb.me-SHARED",
        "nvidia.com/mig-1g.24gb.me.replicas": "2",
        "nvidia.com/mig-1g.24gb-me.product": f"{RTX}-MIG-1g.24gb-me",
        "nvidia.com/mig-1g.24gb-me.replicas": "1",
    }
    shared = ask("nvidia.com/mig-1g.24gb.me", labels)
    alone = ask("nvidia.com/mig-1g.24gb-me", labels)
    assert isinstance(shared, DeviceKind)
    assert isinstance(alone, DeviceKind)
    assert (shared.kind, shared.replicas) == (DeviceForm.MIG_REPLICA, 2)
    assert (alone.kind, alone.replicas) == (DeviceForm.MIG, 1)


def test_profiles_with_all_and_some_media_engines_differ() -> None:
    assert device("nvidia.com/mig-1g.24gb.me.all", node(RTX)).mig_profile == "1g.24gb+me.all"


def test_a_name_of_another_driver_has_the_price_of_the_usual_one() -> None:
    assert device("nvidia.com/mig-3g.95gb", node("NVIDIA-GB200")).mig_profile == "3g.93gb"


def test_one_name_is_another_share_on_another_card() -> None:
    wide = device("nvidia.com/mig-1g.10gb", node(A100))
    narrow = device("nvidia.com/mig-1g.10gb", node("NVIDIA-H100-80GB-HBM3"))
    assert (wide.memory_share, narrow.memory_share) == (Fraction(2, 8), Fraction(1, 8))


def test_a_label_selects_the_model_of_a_mig_resource() -> None:
    labels = node("Tesla-T4") | {"nvidia.com/mig-1g.6gb.product": "NVIDIA-A30-MIG-1g.6gb"}
    assert device("nvidia.com/mig-1g.6gb", labels).gpu_class == "A30-24GB"


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/GH100_H100_SXM5_80GB", "nvidia.com/H100_SXM5_80GB", "nvidia_com_H100_SXM5_80GB"],
)
def test_a_passthrough_card_needs_no_labels(resource: str) -> None:
    found = ask(resource, {})
    assert isinstance(found, DeviceKind)
    assert (found.kind, found.gpu_class, found.mig_profile) == (
        DeviceForm.PASSTHROUGH,
        "H100-80GB",
        "whole",
    )


def test_the_case_of_a_passthrough_name_is_kept() -> None:
    assert reason("nvidia.com/h100_sxm5_80gb", {}) is Reason.UNKNOWN_RESOURCE


def test_a_quotas_name_equals_the_resources_name() -> None:
    found = ask("requests.nvidia.com/gpu", node(A100))
    assert isinstance(found, DeviceKind)


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("nvidia.com/gpu", {}, Reason.NO_PRODUCT),
        ("nvidia.com/gpu", {"nvidia.com/gpu.product": ""}, Reason.NO_PRODUCT),
        ("nvidia.com/mig-1g.5gb", {}, Reason.NO_PRODUCT),
        ("nvidia.com/gpu", node("NVIDIA-R100"), Reason.UNKNOWN_PRODUCT),
        ("nvidia.com/gpu", node("AMD_Instinct_MI210-x"), Reason.UNKNOWN_PRODUCT),
        ("nvidia.com/mig-1g.99gb", node(A100), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/mig-bogus", node(A100), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/mig-", node(A100), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/mig-1g.5gb", node("Tesla-T4"), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/gpu", node(f"{A100}-MIG-1g.99gb"), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/gpu", node(f"{A100}-MIG-junk"), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/gpu", node("Tesla-T4-MIG-1g.5gb"), Reason.UNKNOWN_PROFILE),
        ("nvidia.com/gpu", node(f"{A100}-SHARED"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(f"{A100}-SHARED", replicas="1"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(A100, replicas="4"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(A100, replicas="0"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(A100, replicas="many"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(A100, replicas="-1"), Reason.CONTRADICTION),
        ("nvidia.com/gpu", node(A100, replicas="9999999"), Reason.CONTRADICTION),
        ("nvidia.com/gpu.shared", node(A100), Reason.CONTRADICTION),
        ("nvidia.com/gpu.shared", node(A100, replicas="1"), Reason.CONTRADICTION),
        ("nvidia.com/sriov-vf", node(A100), Reason.UNKNOWN_RESOURCE),
        ("nvidia.com/", node(A100), Reason.UNKNOWN_RESOURCE),
        ("nvidia.com/hostdev", node(A100), Reason.NOT_A_DEVICE),
        ("example.com/gpu", node(A100), Reason.UNKNOWN_RESOURCE),
        ("cpu", node(A100), Reason.UNKNOWN_RESOURCE),
        ("", {}, Reason.UNKNOWN_RESOURCE),
        ("x" * 10_000, {}, Reason.UNKNOWN_RESOURCE),
    ],
)
def test_an_unclassifiable_resource_has_a_reason(
    resource: str, labels: dict[str, str], expected: Reason
) -> None:
    assert reason(resource, labels) is expected


def test_a_name_beyond_the_limit_is_not_parsed() -> None:
    found = ask("nvidia.com/mig-" + "1g.5gb" * 1000, node(A100))
    assert isinstance(found, Unclassified)
    assert "too long for a name" in found.explanation
    assert len(found.explanation) < 200


def test_two_products_under_one_mangled_label_are_ambiguous() -> None:
    labels = {
        "label_nvidia_com_gpu_product_conflict1": A100,
        "label_nvidia_com_gpu_product_conflict2": "Tesla-T4",
    }
    assert reason("nvidia_com_gpu", labels) is Reason.AMBIGUOUS


def test_a_mig_resource_on_two_models_is_heterogeneous() -> None:
    labels = {
        "label_nvidia_com_mig_1g_10gb_product_conflict1": f"{A100}-MIG-1g.10gb",
        "label_nvidia_com_mig_1g_10gb_product_conflict2": "NVIDIA-H100-PCIe-MIG-1g.10gb",
    }
    assert reason("nvidia_com_mig_1g_10gb", labels) is Reason.HETEROGENEOUS


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia_com_mig_1g_5gb", True),
        ("nvidia.com/GH100_H100_SXM5_80GB", True),
        ("requests.nvidia.com/gpu", True),
        ("amd.com/cpx_nps4", True),
        ("gpu.intel.com/i915", True),
        ("habana.ai/gaudi", True),
        ("aliyun.com/gpu-mem", True),
        ("google.com/tpu", True),
        ("example.com/mig-like", True),
        ("cpu", False),
        ("memory", False),
        ("hugepages-2Mi", False),
        ("ephemeral-storage", False),
        ("pods", False),
        ("rdma/hca", False),
        ("example.com/migration", False),
    ],
)
def test_possible_devices_are_recognised_by_name(resource: str, expected: bool) -> None:
    assert may_be_a_device(resource) is expected
