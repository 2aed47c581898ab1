"""The GPU feature discovery of a fake node: the labels that its hardware gives it.

Put here: labels by GFD, NFD and AMD's node labeller, from cards, layout and sharing.
Not here: allocatable resources (`device_plugin`), or a scenario's own labels (`nodes`).

Pure functions from hardware to labels, so that a version for a real node only has to patch
the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fake_gpu.fleet.hardware import (
    HardwareProduct,
    PlacedInstance,
    products,
    profiles,
    split_profile,
)
from fake_gpu.fleet.model import Card
from fake_gpu.scenario.spec_hardware import NodeSpec

_LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class CardCut:
    """One card and its instances: None is a whole card, () is MIG with nothing made."""

    card: Card
    placed: tuple[PlacedInstance, ...] | None


def node_labels(spec: NodeSpec, name: str, cuts: Sequence[CardCut]) -> dict[str, str]:
    """All labels that discovery sets on a node."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    labels |= {f"node-role.kubernetes.io/{role}": "" for role in spec.roles}
    if not spec.product or not spec.discovery:
        return labels
    product = products()[spec.product]
    if product.vendor == "amd":
        return labels | amd_labels(spec, product)
    labels["feature.node.kubernetes.io/pci-10de.present"] = "true"
    if spec.passthrough:
        return labels | {"nvidia.com/gpu.workload.config": "vm-passthrough"}
    return labels | nvidia_labels(spec, product, cuts)


def nvidia_labels(
    spec: NodeSpec, product: HardwareProduct, cuts: Sequence[CardCut]
) -> dict[str, str]:
    """The labels of GPU feature discovery for NVIDIA cards."""
    major, _, minor = product.compute_capability.partition(".")
    driver = spec.driver_version.split(".")
    runtime_major, _, runtime_minor = spec.cuda_version.partition(".")
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(len(cuts)),
        "nvidia.com/gpu.memory": str(spec.memory_mib or product.memory_mib),
        "nvidia.com/gpu.family": product.gpu_family,
        "nvidia.com/gpu.machine": "Fake-GPU-Node",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/cuda.driver-version.full": spec.driver_version,
        "nvidia.com/cuda.driver-version.major": driver[0],
        "nvidia.com/cuda.driver-version.minor": driver[1] if len(driver) > 1 else "0",
        "nvidia.com/cuda.driver-version.revision": driver[2] if len(driver) > 2 else "0",
        "nvidia.com/cuda.driver.major": driver[0],
        "nvidia.com/cuda.driver.minor": driver[1] if len(driver) > 1 else "0",
        "nvidia.com/cuda.driver.rev": driver[2] if len(driver) > 2 else "0",
        "nvidia.com/cuda.runtime-version.full": spec.cuda_version,
        "nvidia.com/cuda.runtime-version.major": runtime_major,
        "nvidia.com/cuda.runtime-version.minor": runtime_minor or "0",
        "nvidia.com/cuda.runtime.major": runtime_major,
        "nvidia.com/cuda.runtime.minor": runtime_minor or "0",
        "nvidia.com/mig.strategy": spec.mig.strategy if spec.mig else "none",
        "nvidia.com/mig.capable": "true" if product.mig_family else "false",
        "nvidia.com/mps.capable": "true" if _mps(spec) else "false",
        "nvidia.com/vgpu.present": "false",
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.gpu-feature-discovery": "true",
    }
    labels |= _sharing_labels(spec, product.product, "nvidia.com/gpu")
    if spec.mig:
        labels |= _mig_labels(spec, product, cuts)
    return labels


def _mps(spec: NodeSpec) -> bool:
    return spec.sharing is not None and spec.sharing.kind == "mps"


def _sharing_labels(spec: NodeSpec, product: str, prefix: str) -> dict[str, str]:
    if spec.sharing is None:
        return {
            f"{prefix}.product": product[:_LABEL_LENGTH],
            f"{prefix}.replicas": "1",
            f"{prefix}.sharing-strategy": "none",
        }
    shown = product if spec.sharing.rename else f"{product}-SHARED"
    return {
        f"{prefix}.product": shown[:_LABEL_LENGTH],
        f"{prefix}.replicas": str(spec.sharing.replicas),
        f"{prefix}.sharing-strategy": spec.sharing.kind,
    }


def _mig_labels(
    spec: NodeSpec, product: HardwareProduct, cuts: Sequence[CardCut]
) -> dict[str, str]:
    assert spec.mig is not None, "asked only for nodes with MIG"
    if all(cut.placed is None for cut in cuts):
        return {}  # MIG is enabled on no card: labels as without MIG
    made = [(cut, placed) for cut in cuts for placed in cut.placed or ()]
    names = Counter(name for _, placed in made for name in instance_names(placed))
    if spec.mig.strategy == "single":
        return _single_labels(spec, product, cuts, names)
    labels: dict[str, str] = {}
    for name in sorted(names):
        placed = next(p for _, p in made if name in instance_names(p))
        prefix = "nvidia.com/mig-" + name.replace("+", ".")
        labels |= _sharing_labels(spec, f"{product.product}-MIG-{_dotted(name)}", prefix)
        labels |= {f"{prefix}.count": str(names[name])}
        labels |= _instance_labels(prefix, placed, name)
    if all(cut.placed is not None for cut in cuts):
        labels["nvidia.com/gpu.replicas"] = "0"
    return labels


def _single_labels(
    spec: NodeSpec, product: HardwareProduct, cuts: Sequence[CardCut], names: Mapping[str, int]
) -> dict[str, str]:
    """Strategy single: `gpu.count` and the rest describe MIG instances, not cards."""
    if len(names) != 1 or any(cut.placed is None for cut in cuts):
        return {
            "nvidia.com/gpu.product": f"{product.product}-MIG-INVALID"[:_LABEL_LENGTH],
            "nvidia.com/gpu.count": "0",
            "nvidia.com/gpu.replicas": "0",
            "nvidia.com/gpu.memory": "0",
            "nvidia.com/gpu.sharing-strategy": "",
        }
    name, count = next(iter(names.items()))
    placed = next(p for cut in cuts for p in cut.placed or ())
    labels = _sharing_labels(spec, f"{product.product}-MIG-{_dotted(name)}", "nvidia.com/gpu")
    labels |= {"nvidia.com/gpu.count": str(count)}
    return labels | _instance_labels("nvidia.com/gpu", placed, name)


# Engines of an instance by its compute slots: copy engines, decoders, JPEG decoders, flow units.
_AMPERE = {1: (1, 0, 0, 0), 2: (2, 1, 0, 0), 3: (3, 2, 0, 0), 4: (4, 2, 0, 0), 7: (7, 5, 1, 1)}
_AMPERE_OF_FOUR = {1: (1, 0, 0, 0), 2: (2, 2, 0, 0), 4: (4, 4, 1, 1)}
_LATER = {1: (1, 1, 1, 0), 2: (2, 2, 2, 0), 3: (3, 3, 3, 0), 4: (4, 4, 4, 0), 7: (8, 7, 7, 1)}


def _instance_labels(prefix: str, placed: PlacedInstance, name: str) -> dict[str, str]:
    """Labels of an instance, or of a compute instance in it: that has its own multiprocessors."""
    profile = placed.profile
    slots = profile.compute_slots
    computes = split_profile(name)[0] or slots
    multiprocessors = profile.multiprocessors
    if computes < slots:
        of_one = min(p.multiprocessors for p in profiles(profile.mig_family).values())
        multiprocessors = computes * of_one
    copy, decoders, jpeg, flow = _engines(profile.mig_family, slots)
    if profile.profile.endswith("+me"):  # with the media engines of the card
        decoders, jpeg, flow = max(decoders, 1), max(jpeg, 1), 1
    return {
        f"{prefix}.memory": str(profile.memory_mib),
        f"{prefix}.multiprocessors": str(multiprocessors),
        f"{prefix}.slices.gi": str(slots),
        f"{prefix}.slices.ci": str(computes),
        f"{prefix}.engines.copy": str(copy),
        f"{prefix}.engines.decoder": str(decoders),
        f"{prefix}.engines.encoder": "0",
        f"{prefix}.engines.jpeg": str(jpeg),
        f"{prefix}.engines.ofa": str(flow),
    }


def _engines(mig_family: str, slots: int) -> tuple[int, int, int, int]:
    by_slots = _LATER
    if mig_family.startswith("a"):
        by_slots = _AMPERE_OF_FOUR if mig_family == "a30" else _AMPERE
    return by_slots[slots]


def instance_names(placed: PlacedInstance) -> tuple[str, ...]:
    """The profiles under which an instance is offered: its compute instances, or itself."""
    return placed.compute_instances or (placed.profile.profile,)


def _dotted(profile: str) -> str:
    return profile.replace("+", ".")


def amd_labels(spec: NodeSpec, product: HardwareProduct) -> dict[str, str]:
    """The labels of AMD's node labeller."""
    compute, _, memory = (spec.partition or "spx_nps1").partition("_")
    values = {
        "device-id": product.pci_device[2:].lower(),
        "product-name": product.product,
        "driver-version": spec.driver_version,
        "vram": f"{round(product.memory_mib / 1024)}G",
        "simd-count": "1216",
        "cu-count": "304",
        "family": product.gpu_family.upper(),
        "compute-memory-partition": f"{compute}_{memory}",
        "compute-partitioning-supported": "true",
        "memory-partitioning-supported": "true",
    }
    labels = {f"amd.com/gpu.{name}": value for name, value in values.items()}
    counted = ("device-id", "product-name", "vram", "simd-count", "cu-count", "family")
    labels |= {f"beta.amd.com/gpu.{n}.{values[n]}": str(spec.cards) for n in counted}
    return labels | {"feature.node.kubernetes.io/amd-gpu": "true"}
