"""Devices that a ResourceClaim allocates (dynamic resource allocation), by driver and name.

Put here: reading a device's name and, where they are known, its attributes.
Not here: which pods share a claim, and how (k pods hold 1/k each).

Several claims can share a device. Then each consumes a part of its memory, which stands behind
the device's name as an exact fraction: `gpu.nvidia.com/gpu-0:1/4`.

NVIDIA's driver names a card `gpu-0` and a MIG instance `gpu-0-mig-1g5gb-19-0`: card, profile
without its dots, profile id, first slot. No request metric shows such a device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from domain.errors import shown
from domain.gpu.amd import amd_partition, amd_product, classify_amd
from domain.gpu.catalogue import Catalogue, GpuProduct, Vendor
from domain.gpu.intel import intel_product
from domain.gpu.kinds import (
    Classified,
    DeviceForm,
    DeviceKind,
    Reason,
    Unclassified,
    part_of_card,
    whole_card,
)
from domain.gpu.labels import NodeLabels
from domain.gpu.names import parse_resource
from domain.gpu.nvidia import GPU, parse_product_label
from domain.mig.geometry import InstanceProfile
from domain.mig.profile import NotAMigProfile, parse_resource_profile
from domain.request import parse_quantity

CLAIM_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PART = re.compile(r"([1-9][0-9]{0,17})/([1-9][0-9]{0,17})", re.ASCII)
_CARD = re.compile(rf"(?:gpu-)?(?:[0-9]{{1,4}}|{_UUID})", re.ASCII)
_MIG = re.compile(r"gpu-[0-9]{1,4}-mig-([0-9a-z-]+)-([0-9]{1,3})-([0-9]{1,2})", re.ASCII)
_AMD_CARD = re.compile(r"gpu-[0-9]{1,4}-[0-9]{1,4}", re.ASCII)
_INTEL_CARD = re.compile(r"[0-9a-f]{4}-[0-9a-f]{2}-[0-9a-f]{2}-[0-7]-0x([0-9a-f]{4})", re.ASCII)


SHARE_MARK = ":"
UNKNOWN_SHARE = "unknown"


def claimed_resource(
    driver: str, device: str, consumed: Mapping[str, str], capacity: Mapping[str, str]
) -> str:
    """The resource name of a claim: the device, or the consumed part of its memory.

    A claim that consumes no memory of a shared device has the plain name of the device; its pods
    then share it evenly.
    """
    name = f"{driver}/{device}"
    used = _memory(consumed)
    if used is None:
        return name
    part, whole = parse_quantity(used), parse_quantity(_memory(capacity))
    if part is None or whole is None or not 0 < part <= whole:
        return f"{name}{SHARE_MARK}{UNKNOWN_SHARE}"
    share = part / whole
    return name if share == 1 else f"{name}{SHARE_MARK}{share.numerator}/{share.denominator}"


def consumes_memory(consumed: Mapping[str, str]) -> bool:
    """Whether a claim says how much of a device's memory it consumes."""
    return _memory(consumed) is not None


def _memory(amounts: Mapping[str, str]) -> str | None:
    """A dimension is named `memory`, or `<domain>/memory`."""
    named = [text for name, text in amounts.items() if name.rpartition("/")[2] == "memory"]
    return named[0] if len(named) == 1 else None


def classify_claim(
    driver: str,
    device: str,
    node_labels: Mapping[str, str] | NodeLabels,
    catalogue: Catalogue,
    attributes: Mapping[str, str] | None = None,
) -> Classified:
    """Classify a claimed device: attributes (`productName`, `profile`) before name and labels."""
    labels = NodeLabels.of(node_labels)
    known = {str(key).rpartition("/")[2]: str(value) for key, value in (attributes or {}).items()}
    readers = {"gpu.nvidia.com": _nvidia, "gpu.amd.com": _amd, "gpu.intel.com": _intel}
    reader = readers.get(driver)
    if reader is None:
        return Unclassified(
            Reason.UNKNOWN_RESOURCE, f"no device of the driver {shown(driver)} is known"
        )
    name, mark, part = device.partition(SHARE_MARK)
    found = reader(name, known, labels, catalogue)
    if mark and isinstance(found, DeviceKind):
        found = _share(found, part)
    return replace(found, is_claimed=True) if isinstance(found, DeviceKind) else found


def _share(device: DeviceKind, part: str) -> Classified:
    """A part of a claimed card. The card is not divided by compute: its users take turns."""
    match = _PART.fullmatch(part)
    share = Fraction(int(match[1]), int(match[2])) if match else None
    if share is None or share > 1:
        return Unclassified(
            Reason.UNKNOWN_RESOURCE,
            "a share of a device whose memory no ResourceSlice states, or states as less",
        )
    if device.kind is not DeviceForm.WHOLE:
        return Unclassified(
            Reason.UNKNOWN_RESOURCE, f"a share of a {device.kind.value} device, not of a card"
        )
    return replace(
        device,
        kind=DeviceForm.SHARE,
        compute_share=share,
        memory_share=share,
        evidence=f"{part} of {device.evidence}",
    )


def _nvidia(
    device: str, attributes: Mapping[str, str], labels: NodeLabels, catalogue: Catalogue
) -> Classified:
    product = _nvidia_product(attributes, labels, catalogue)
    if isinstance(product, Unclassified):
        return product
    evidence = f"the claimed device {device} on {product.product}"
    if match := _MIG.fullmatch(device):
        return _mig_device(product, match[1], int(match[2]), attributes, evidence)
    if profile := attributes.get("profile"):
        return _instance(product, _by_name(product, profile), profile, evidence)
    device_type = attributes.get("type", "gpu")
    if device_type not in ("gpu", "vfio"):
        return Unclassified(Reason.UNKNOWN_RESOURCE, f"a device of the type {shown(device_type)}")
    if "type" not in attributes and not _CARD.fullmatch(device):
        return _unknown_device(device)
    kind = DeviceForm.PASSTHROUGH if device_type == "vfio" else DeviceForm.WHOLE
    return whole_card(product, kind, evidence)


def _nvidia_product(
    attributes: Mapping[str, str], labels: NodeLabels, catalogue: Catalogue
) -> GpuProduct | Unclassified:
    stated = attributes.get("productName", "")
    names = (stated,) if stated else labels.values(f"{GPU}.product")
    if not names:
        return Unclassified(
            Reason.NO_PRODUCT, f"no attribute productName and no node label {GPU}.product"
        )
    product = catalogue.product(parse_product_label(names[0]).model) if len(names) == 1 else None
    if product is None:
        seen = " and ".join(shown(name) for name in names[:2])
        return Unclassified(Reason.UNKNOWN_PRODUCT, f"the catalogue has no product {seen}")
    return product


def _mig_device(
    product: GpuProduct, text: str, profile_id: int, attributes: Mapping[str, str], evidence: str
) -> Classified:
    """A MIG instance by its profile ID, which separates `+me` from `-me`; its name must agree."""
    profiles = product.geometry.profiles if product.geometry is not None else ()
    found = next((p for p in profiles if p.profile_id == profile_id), None)
    if found is None or text not in {_without_marks(str(name)) for name in found.names}:
        return Unclassified(
            Reason.UNKNOWN_PROFILE,
            f"{product.product} has no profile {shown(text)} with the id {profile_id}",
        )
    stated = attributes.get("profile")
    if stated is not None and _by_name(product, stated) != found:
        return Unclassified(
            Reason.CONTRADICTION, f"its name says {found.profile}, its attribute {shown(stated)}"
        )
    return _instance(product, found, str(found.profile), evidence)


def _without_marks(profile: str) -> str:
    """As a device's name has it: lower case, `1g5gb`, `1g24gb-me`."""
    return profile.replace(".", "").replace("+", "-").replace(",", "-").lower()


def _by_name(product: GpuProduct, text: str) -> InstanceProfile | None:
    try:
        profile = parse_resource_profile(text)
    except NotAMigProfile:
        return None
    return product.geometry.find(profile) if product.geometry is not None else None


def _instance(
    product: GpuProduct, found: InstanceProfile | None, text: str, evidence: str
) -> Classified:
    share = (
        product.geometry.share(found.profile)
        if found is not None and product.geometry is not None
        else None
    )
    if found is None or share is None:
        return Unclassified(
            Reason.UNKNOWN_PROFILE, f"{product.product} has no MIG profile {shown(text)}"
        )
    return part_of_card(product, DeviceForm.MIG, str(found.profile), share, evidence)


def _amd(
    device: str, attributes: Mapping[str, str], labels: NodeLabels, catalogue: Catalogue
) -> Classified:
    if not _AMD_CARD.fullmatch(device):
        return _unknown_device(device)
    stated = attributes.get("productName", "").replace(" ", "_")
    product = catalogue.product(stated) if stated else amd_product(labels, catalogue)
    if product is None:
        return Unclassified(Reason.UNKNOWN_PRODUCT, f"the catalogue has no {shown(stated)}")
    if isinstance(product, Unclassified):
        return product
    partition = attributes.get("partitionProfile", "").lower()
    if partition:
        return amd_partition(product, partition, f"the claimed device {device}")
    return classify_amd(parse_resource("amd.com/gpu"), labels, catalogue)


def _intel(
    device: str, attributes: Mapping[str, str], labels: NodeLabels, catalogue: Catalogue
) -> Classified:
    match = _INTEL_CARD.fullmatch(device)
    if match is None:
        return _unknown_device(device)
    by_id = catalogue.products_by_pci(Vendor.INTEL, match[1])
    product = by_id[0] if by_id else intel_product(labels, catalogue)
    if isinstance(product, Unclassified):
        return product
    return whole_card(product, DeviceForm.WHOLE, f"the claimed device {device}")


def _unknown_device(device: str) -> Unclassified:
    return Unclassified(
        Reason.UNKNOWN_RESOURCE, f"{shown(device)} is no device name that its driver gives"
    )
