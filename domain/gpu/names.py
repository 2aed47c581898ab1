"""Names of resources: which vendor they are of, raw (`nvidia.com/gpu`) or mangled.

Put here: taking a resource's name apart, and telling which names may be devices at all.
Not here: what the device is (`domain.gpu.classify`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

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
"""Of vendors whose products the catalogue can name."""

DEVICE_DOMAINS = (
    *VENDOR_DOMAINS,
    "birentech.com",
    "cambricon.com",
    "cloud-tpus.google.com",
    "enflame.com",
    "furiosa.ai",
    "graphcore.ai",
    "huawei.com",
    "hygon.com",
    "iluvatar.com",
    "kunlunxin.com",
    "metax-tech.com",
    "mthreads.com",
    "npu.intel.com",
    "qualcomm.com",
    "rebellions.ai",
    "tenstorrent.com",
)
"""Whose resources are accelerators, whatever they are called. A new vendor is a new line."""

_MANGLED_DOMAINS = tuple(f"{mangled(domain)}_" for domain in DEVICE_DOMAINS)
_DEVICE_WORDS = re.compile(
    r"(?:^|[^a-z])(?:v?gpu|mig(?![a-z])|[nthx]pu|mlu|gaudi|ascend|neuron|qaic)", re.ASCII
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


@lru_cache(maxsize=4096)  # asked of each container of every list
def may_be_a_device(text: str) -> bool:
    """Whether a name must be classified: a GPU vendor's, or one that speaks of accelerators.

    Names of a vendor's domain are taken whole, because passthrough cards are called after their
    model. Whatever else speaks of a GPU is taken too, so that it is found and not overlooked.
    Both sources ask this: what the one counts and the other leaves out would be a dispute.
    """
    name = text.strip().removeprefix(QUOTA_PREFIX)
    of_vendor = name.partition("/")[0] in DEVICE_DOMAINS or name.startswith(_MANGLED_DOMAINS)
    return of_vendor or bool(_DEVICE_WORDS.search(name.lower()))
