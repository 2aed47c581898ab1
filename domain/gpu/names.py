"""Names of resources, as pods request them (`nvidia.com/gpu`) or as metrics mangle them.

Put here: parsing a name, recognising names of devices, and the requested name of a mangled one.
Not here: the kind of the device (`domain.gpu.classify`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from domain.gpu.catalogue import Catalogue, Vendor
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
"""All resources of these domains are accelerators. A new vendor is a new line."""

_MANGLED_DOMAINS = tuple(f"{mangled(domain)}_" for domain in DEVICE_DOMAINS)
_DEVICE_WORDS = re.compile(
    r"(?:^|[^a-z])(?:v?gpu|mig(?![a-z])|[nthx]pu|mlu|gaudi|ascend|neuron|qaic)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ResourceName:
    """A resource's name: the vendor of its domain and, mangled, the part after the domain."""

    text: str
    vendor: Vendor | None
    local: str  # mangled: `gpu`, `mig_1g_5gb`
    raw_local: str | None  # the text after the slash; None for a mangled name


def parse_resource(text: str) -> ResourceName:
    """Parse a name; a name of no known vendor has vendor None."""
    text = text.strip().removeprefix(QUOTA_PREFIX)
    domain, slash, raw_local = text.partition("/")
    if slash:
        return ResourceName(text, VENDOR_DOMAINS.get(domain), mangled(raw_local), raw_local)
    for known, vendor in VENDOR_DOMAINS.items():
        prefix = mangled(known) + "_"
        if text.startswith(prefix):
            return ResourceName(text, vendor, text.removeprefix(prefix), None)
    return ResourceName(text, None, text, None)


@lru_cache(maxsize=4096)  # called for each container of every list
def may_be_a_device(text: str) -> bool:
    """Whether a name must be classified: of a GPU vendor, or with a word for accelerators.

    All names of a vendor's domain count, because passthrough cards are named after their model.
    Names of other domains count if they contain a word such as `gpu`, so that no device is missed.
    Both sources use this rule: a resource that only one of them counts would be a dispute.
    """
    name = text.strip().removeprefix(QUOTA_PREFIX)
    of_vendor = name.partition("/")[0] in DEVICE_DOMAINS or name.startswith(_MANGLED_DOMAINS)
    return of_vendor or bool(_DEVICE_WORDS.search(name.lower()))


_OF_EVERY_CARD = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    *(f"amd.com/{cut}_nps{memory}" for cut in ("spx", "dpx", "tpx", "qpx", "cpx")
      for memory in (1, 2, 4, 8)),
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)  # fmt: skip
_SHARED = ".shared"


class RequestedNames:
    """The requested name of a resource of which only the mangled name of a metric is known.

    It is for display only.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._names: dict[str, set[str]] = {}
        for name in _names(catalogue):
            self._names.setdefault(mangled(name), set()).add(name)

    def of(self, resource: str) -> str:
        """The requested name; the mangled one, where no name or more than one is mangled to it."""
        names = self._names.get(resource, set())
        return next(iter(names)) if len(names) == 1 else resource


def _names(catalogue: Catalogue) -> Iterator[str]:
    yield from _OF_EVERY_CARD
    yield f"nvidia.com/gpu{_SHARED}"
    yield from (product.product for product in catalogue.products.values() if product.is_resource)
    for geometry in catalogue.geometries.values():
        for profile in geometry.every_profile():
            yield profile.resource_name
            yield f"{profile.resource_name}{_SHARED}"
