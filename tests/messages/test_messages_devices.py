"""The messages about devices, word for word: MIG-001 … MIG-008, GPU-001 … GPU-003, POD-001."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import LedgerError
from domain.gpu import Catalogue, DeviceKind, WeightPolicy, classify, parse_catalogue, weight
from domain.gpu.errors import NotClassified
from domain.mig import parse_profile
from domain.mig.errors import LayoutDoesNotFit, LayoutUnknown
from domain.mig.parted import parse_parted_file
from domain.mig.reconfiguration import CardState, plan_instances
from domain.request import effective_request_of_pod
from warehouse.project import seed_text

GOLDEN = Path(__file__).parent / "golden"
PRODUCTS, PROFILES = seed_text("gpu_products"), seed_text("mig_profiles")
CATALOGUE = parse_catalogue(PRODUCTS, PROFILES)


def file_that_mig_parted_refuses() -> None:
    text = "version: v1\nmig-configs:\n  all-1g:\n  - devices: {}\n    mig-enabled: true\n"
    parse_parted_file(text, "config.yaml")


def file_that_does_not_fit() -> None:
    raise LayoutDoesNotFit("config.yaml", 1, 5)


def mig_on_a_card_without_it() -> None:
    kept = {n: p for n, p in CATALOGUE.products.items() if p.gpu_class in ("T4", "H100-80GB")}
    catalogue = Catalogue(kept, CATALOGUE.geometries)
    catalogue.geometry_of(catalogue.choose("Tesla-T4"))


def weight_that_the_table_lacks() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    found = classify("nvidia.com/mig-1g.18gb", labels, CATALOGUE)
    assert isinstance(found, DeviceKind)
    weight(found, WeightPolicy.TABLE, CATALOGUE)


def configuration_that_is_not_there() -> None:
    text = "version: v1\nmig-configs: {all-disabled: [{devices: all, mig-enabled: false}]}"
    parse_parted_file(text).chosen("config.yaml", "all-balanced")


def instances_that_no_card_holds() -> None:
    geometry = CATALOGUE.geometries["a100-40gb"]
    wanted = {parse_profile("3g.20gb"): 2, parse_profile("1g.5gb"): 1}
    plan_instances(geometry, [CardState(0, None)], wanted)


def _raise(error: LedgerError) -> None:
    raise error


def product_row_with_mistakes() -> None:
    header = "product,vendor,gpu_class,memory_mib,compute_slots,memory_slots,mig_geometry"
    rows = "NVIDIA-R100,nvida,R100,294912,7,8,8-slot-288gb\nNVIDIA-R200,nvidia,R200,,x,8,"
    parse_catalogue(PRODUCTS, PROFILES, f"{header}\n{rows}\n", "decisions/products.csv")


def product_that_nobody_knows() -> None:
    CATALOGUE.choose("NVIDIA-A100-SXM4-4OGB")


def resource_that_is_ambiguous() -> None:
    product = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"
    labels = {"label_nvidia_com_gpu_product": product}
    found = classify("nvidia_com_mig_1g_24gb_me", labels, CATALOGUE)
    assert not isinstance(found, DeviceKind)
    raise NotClassified("nvidia_com_mig_1g_24gb_me", f"{found.reason}: {found.explanation}")


def pod_that_asks_for_half_a_device() -> None:
    spec = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "500m"}}}]}
    effective_request_of_pod(spec, lambda resource: True)


PROVOKED: dict[str, Callable[[], object]] = {
    "MIG-001": lambda: parse_profile("1g.5gb.me"),
    "MIG-002": file_that_mig_parted_refuses,
    "MIG-003": file_that_does_not_fit,
    "MIG-004": mig_on_a_card_without_it,
    "MIG-005": weight_that_the_table_lacks,
    "MIG-006": configuration_that_is_not_there,
    "MIG-007": instances_that_no_card_holds,
    "MIG-008": lambda: _raise(
        LayoutUnknown("gpu-1", "the node has no label nvidia.com/mig.config")
    ),
    "GPU-001": product_row_with_mistakes,
    "GPU-002": product_that_nobody_knows,
    "GPU-003": resource_that_is_ambiguous,
    "POD-001": pod_that_asks_for_half_a_device,
}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_the_message_is_the_agreed_one(code: str) -> None:
    with pytest.raises(LedgerError) as caught:
        PROVOKED[code]()
    assert caught.value.code == code
    expected = (GOLDEN / f"{code}.txt").read_text(encoding="utf-8")
    assert caught.value.message() + "\n" == expected
