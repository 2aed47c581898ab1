"""Names of resources: which vendor they are of, raw (`nvidia.com/gpu`) or mangled.

Put here: taking a resource's name apart, and telling which names may be devices at all.
Not here: what the device is (`domain.gpu.classify`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from domain.gpu.catalogue import Vendor
from domain.mig.profile import mangled

LONGEST_RESOURCE = 400
"""In characters; a qualified name in Kubernetes has at most 253 + 1 + 63."""

QUOTA_PREFIX = "requests."
"""Quotas name `requests.nvidia.com/gpu`."""

VENDOR_DOMAINS = {
    "nvidia.com": Vendor.NVIDIA,
    "amd.com": Vendor.AMD,
    "gpu.intel.com": Vendor.INTEL,
    "habana.ai": Vendor.HABANA,
}
_DEVICE_WORDS = re.compile(
    r"(?:^|[^a-z])(?:v?gpu|mig(?![a-z])|[nthx]pu|mlu|gaudi|ascend)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A resource's name: its domain's vendor and, mangled, what follows the domain."""

    text: str
    vendor: Vendor | None
    local: str  # mangled: `gpu`, `mig_1g_5gb`
    raw_local: str | None  # as it stands after the slash; None when the name came mangled


def parse_resource(text: str) -> ResourceName:
    """Take a name apart; a name of no known vendor has vendor None."""
    text = text.strip().removeprefix(QUOTA_PREFIX)
    domain, slash, raw_local = text.partition("/")
    if slash:
        return ResourceName(text, VENDOR_DOMAINS.get(domain), mangled(raw_local), raw_local)
    for known, vendor in VENDOR_DOMAINS.items():
        prefix = mangled(known) + "_"
        if text.startswith(prefix):
            return ResourceName(text, vendor, text.removeprefix(prefix), None)
    return ResourceName(text, None, text, None)


def may_be_a_device(text: str) -> bool:
    """Whether a name must be classified: a GPU vendor's, or one that speaks of accelerators.

    Names of a vendor's domain are taken whole, because passthrough cards are called after their
    model. Whatever else speaks of a GPU is taken too, so that it is found and not overlooked.
    """
    name = parse_resource(text)
    if name.vendor is not None:
        return True
    return bool(_DEVICE_WORDS.search(text.strip().removeprefix(QUOTA_PREFIX).lower()))
