"""What pods call a resource of which only the name in a metric is known.

Put here: the way back from `nvidia_com_mig_1g_5gb` to `nvidia.com/mig-1g.5gb`.
Not here: what the resource is (`domain.gpu.classify`); a name is shown, and never decided with.
"""

from __future__ import annotations

from collections.abc import Iterator

from domain.gpu.catalogue import Catalogue
from domain.mig.profile import mangled

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
    """The names that pods can ask for, by the name that a metric makes of each."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._names: dict[str, set[str]] = {}
        for name in _names(catalogue):
            self._names.setdefault(mangled(name), set()).add(name)

    def of(self, resource: str) -> str:
        """As pods ask for it; as it was seen, where no name or more than one is mangled to it."""
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
