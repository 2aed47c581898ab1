"""The catalogue: every GPU product with its class and its slots, every geometry with its profiles.

Put here: the facts as values, and finding a product by its name on a node, in a command or in a
virtual machine.
Not here: reading the tables (`domain.gpu.product_tables`), or classifying a resource (`classify`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from domain.errors import UnknownName, shown
from domain.mig.geometry import Geometry
from domain.mig.profile import mangled

NOT_A_DEVICE = "not-a-device"
"""The class of a resource that a vendor's plugin offers and that is not a part of a card."""


Key = TypeVar("Key")


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    HABANA = "habana"


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """One GPU product, under the name by which a node calls it."""

    product: str  # a label's value, or with a `/` the resource name of a passthrough card
    vendor: Vendor
    gpu_class: str
    compute_slots: int
    memory_slots: int
    memory_mib: int | None = None  # shown, never counted with
    geometry: Geometry | None = None
    multiprocessors: int | None = None
    pci_device_ids: frozenset[str] = frozenset()

    @property
    def is_resource(self) -> bool:
        return "/" in self.product

    @property
    def is_device(self) -> bool:
        return self.gpu_class != NOT_A_DEVICE


@dataclass(frozen=True)
class Catalogue:
    """Products by name and geometries by name."""

    products: Mapping[str, GpuProduct]
    geometries: Mapping[str, Geometry]

    def product(self, name: str) -> GpuProduct | None:
        """The product that a node's label names; spaces are dashes there."""
        found = self.products.get(name.replace(" ", "-"))
        return found if found is not None and not found.is_resource else None

    def product_by_resource(self, resource: str) -> GpuProduct | None:
        """A passthrough card (or a resource known to be no device) by its resource's name."""
        if "/" in resource:
            return self.products.get(resource)
        candidates = self._resources_by_mangled_name.get(resource, ())
        facts = {(p.vendor, p.gpu_class, p.compute_slots, p.memory_slots) for p in candidates}
        return candidates[0] if len(facts) == 1 else None

    def products_by_pci(self, vendor: Vendor, device_id: str) -> tuple[GpuProduct, ...]:
        """The products with a PCI device id such as `20B0`."""
        return self._by_pci.get((vendor, device_id.upper()), ())

    def of_vendor(self, vendor: Vendor) -> tuple[GpuProduct, ...]:
        return tuple(p for p in self.products.values() if p.vendor == vendor and not p.is_resource)

    def choose(self, text: str) -> GpuProduct:
        """The product of a name in any case, a class or a geometry."""
        wanted = text.strip().replace(" ", "-").lower()
        devices = [product for product in self.products.values() if product.is_device]
        for name in (_product_name, _class_name, _geometry_name):
            for product in devices:
                if wanted and name(product).lower() == wanted:
                    return product
        known = sorted({name(p) for p in devices for name in (_product_name, _class_name)})
        similar = difflib.get_close_matches(text, known, n=3)
        meant = f"did you mean {', '.join(similar)}? " if similar else ""
        raise UnknownName(
            where="the catalogue of GPU products",
            seen=f"{shown(text)} is neither a product nor a GPU class",
            why="only a card with a row has slots, shares and a class",
            remedy=f"{meant}Add a new card as one row to decisions/products.csv",
        )

    def pci_device_ids(self, text: str) -> frozenset[str]:
        """The PCI device ids of a product, or of all cards of a class."""
        product = self.choose(text)
        if text.strip().lower() != product.gpu_class.lower():
            return product.pci_device_ids
        same_class = (p for p in self.products.values() if p.gpu_class == product.gpu_class)
        return frozenset[str]().union(*(p.pci_device_ids for p in same_class))

    def geometry_of(self, product: GpuProduct) -> Geometry:
        """The geometry of a product; raises UnknownName without one."""
        if product.geometry is None:
            raise UnknownName(
                where=f"the product {shown(product.product)}",
                seen="its row in the catalogue has no MIG geometry",
                why="without slots there are no layouts and no shares",
                remedy=f"choose one of {self._some_mig_classes}; add a new card as one row to "
                "decisions/products.csv",
            )
        return product.geometry

    @cached_property
    def _resources_by_mangled_name(self) -> Mapping[str, tuple[GpuProduct, ...]]:
        return _grouped((mangled(p.product), p) for p in self.products.values() if p.is_resource)

    @cached_property
    def _by_pci(self) -> Mapping[tuple[Vendor, str], tuple[GpuProduct, ...]]:
        return _grouped(
            ((product.vendor, device_id), product)
            for product in self.products.values()
            if not product.is_resource
            for device_id in sorted(product.pci_device_ids)
        )

    @property
    def _some_mig_classes(self) -> str:
        classes = sorted({p.gpu_class for p in self.products.values() if p.geometry is not None})
        return ", ".join(classes)


def _product_name(product: GpuProduct) -> str:
    return product.product


def _class_name(product: GpuProduct) -> str:
    return product.gpu_class


def _geometry_name(product: GpuProduct) -> str:
    return product.geometry.name if product.geometry is not None else ""


def _grouped(pairs: Iterable[tuple[Key, GpuProduct]]) -> Mapping[Key, tuple[GpuProduct, ...]]:
    groups: dict[Key, tuple[GpuProduct, ...]] = {}
    for key, product in pairs:
        groups[key] = (*groups.get(key, ()), product)
    return groups
