"""Intel's resources: data-centre GPUs (`gpu.intel.com/i915`, `…/xe`) and Gaudi (`habana.ai/gaudi`).

Put here: the labels of node feature discovery, for resources of these domains.
Not here: other vendors, or claims (`domain.gpu.claims`).

Intel's plugin can offer one GPU several times, which no label shows. The capacity of the node
divided by the label `gpu.intel.com/device.count` shows it; without the capacity a device is a card.
"""

from __future__ import annotations

import re

from domain.errors import shown
from domain.gpu.catalogue import Catalogue, GpuProduct, Vendor
from domain.gpu.kinds import Classified, DeviceForm, Reason, Unclassified, whole_card
from domain.gpu.labels import NodeLabels
from domain.gpu.names import ResourceName

PRODUCT_LABEL = "gpu.intel.com/product"
COUNT_LABEL = "gpu.intel.com/device.count"
_GPU_NAMES = ("i915", "xe")
_GAUDI_NAMES = ("gaudi",)
_INTEL_PCI = re.compile(r"[0-9a-f]{4}_([0-9a-f]{4})_(?:count|present)", re.ASCII)
_GAUDI_PCI = re.compile(r"[0-9a-f]{4}_1da3_([0-9a-f]{4})_present", re.ASCII)


def classify_intel(
    name: ResourceName, labels: NodeLabels, catalogue: Catalogue, capacity: int | None
) -> Classified:
    """Classify a resource of the domain gpu.intel.com on a node with these labels."""
    if name.local not in _GPU_NAMES:
        return _unknown(name, "gpu.intel.com/i915 nor gpu.intel.com/xe")
    product = intel_product(labels, catalogue)
    if isinstance(product, Unclassified):
        return product
    cards = labels.count(COUNT_LABEL)
    evidence = f"the node's labels name {product.product}"
    if capacity is None or not cards or capacity == cards:
        return whole_card(product, DeviceForm.WHOLE, evidence)
    if capacity % cards:
        return Unclassified(
            Reason.CONTRADICTION,
            f"the node offers {capacity} of {name.text}, no multiple of its {cards} cards",
        )
    evidence = f"{evidence}; it offers {capacity} of its {cards} cards"
    return whole_card(product, DeviceForm.REPLICA, evidence, capacity // cards)


def classify_habana(name: ResourceName, labels: NodeLabels, catalogue: Catalogue) -> Classified:
    """Classify a resource of the domain habana.ai on a node with these labels."""
    if name.local not in _GAUDI_NAMES:
        return _unknown(name, "habana.ai/gaudi")
    ids = _pci_ids(labels, "feature.node.kubernetes.io/pci-", _GAUDI_PCI)
    product = _by_pci(ids, Vendor.HABANA, catalogue)
    if isinstance(product, Unclassified):
        return product
    return whole_card(product, DeviceForm.WHOLE, f"the node has the PCI device 1da3:{ids[0]}")


def intel_product(labels: NodeLabels, catalogue: Catalogue) -> GpuProduct | Unclassified:
    """The card: by its product label, else by its PCI device id."""
    values = labels.values(PRODUCT_LABEL)
    if not values:
        ids = _pci_ids(labels, "gpu.intel.com/device-id.", _INTEL_PCI)
        return _by_pci(ids, Vendor.INTEL, catalogue)
    if len(values) > 1:
        seen = " and ".join(values[:2])
        return Unclassified(Reason.AMBIGUOUS, f"the label {PRODUCT_LABEL} is both {seen}")
    product = catalogue.product(values[0])
    if product is None or product.vendor != Vendor.INTEL:
        return Unclassified(
            Reason.UNKNOWN_PRODUCT,
            f"the catalogue has no Intel product {shown(values[0])}; add it as one row",
        )
    return product


def _by_pci(ids: list[str], vendor: Vendor, catalogue: Catalogue) -> GpuProduct | Unclassified:
    if not ids:
        return Unclassified(Reason.NO_PRODUCT, "the node's labels do not say which card it has")
    found = {p.gpu_class: p for text in ids for p in catalogue.products_by_pci(vendor, text)}
    if len(found) == 1 and len(ids) == 1:
        return next(iter(found.values()))
    seen = " and ".join(ids[:2])
    if found:
        return Unclassified(Reason.HETEROGENEOUS, f"the node has PCI devices {seen}")
    return Unclassified(Reason.UNKNOWN_PRODUCT, f"the catalogue has no PCI device id {seen}")


def _pci_ids(labels: NodeLabels, prefix: str, form: re.Pattern[str]) -> list[str]:
    """The PCI device ids in the names of labels, such as `device-id.0380-0bd5.present`."""
    matches = (form.fullmatch(rest) for rest, _ in labels.mangled_names(prefix))
    return sorted({match[1] for match in matches if match})


def _unknown(name: ResourceName, known: str) -> Unclassified:
    return Unclassified(Reason.UNKNOWN_RESOURCE, f"{shown(name.text)} is neither {known}")
