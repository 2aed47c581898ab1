"""Every message about devices, from an input that causes it: MIG and GPU.

Put here: messages of `domain.mig`, `domain.gpu` and `domain.request`.
Not here: messages of other packages.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import LedgerError
from domain.gpu import Catalogue, DeviceKind, classify, parse_catalogue
from domain.gpu.kinds import NotClassified
from domain.mig import parse_profile
from domain.mig.parted import LayoutDoesNotFit, parse_parted_file
from domain.mig.reconfiguration import CardState, LayoutUnknown, plan_instances
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


def unknown_product() -> None:
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
    "VALUE-001-count": pod_that_asks_for_half_a_device,
    "VALUE-001-profile": lambda: parse_profile("1g.5gb.me"),
    "VALUE-001-choice": configuration_that_is_not_there,
    "DEC-001-product": product_row_with_mistakes,
    "NAME-001-product": unknown_product,
    "NAME-001-mig": mig_on_a_card_without_it,
    "GPU-001": resource_that_is_ambiguous,
    "MIG-001": file_that_mig_parted_refuses,
    "MIG-002": file_that_does_not_fit,
    "MIG-002-node": instances_that_no_card_holds,
    "MIG-003": lambda: _raise(
        LayoutUnknown("gpu-1", "the node has no label nvidia.com/mig.config")
    ),
}


@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_message_is_the_golden_one(name: str) -> None:
    with pytest.raises(LedgerError) as caught:
        PROVOKED[name]()
    assert name.startswith(caught.value.code)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(f"{caught.value.message()}\n", encoding="utf-8")
    assert f"{caught.value.message()}\n" == golden.read_text(encoding="utf-8")
