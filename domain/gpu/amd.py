"""AMD's resources: whole cards and partitions, under both naming strategies.

Put here: the labels of the node labeller, for resources of the domain amd.com.
Not here: other vendors, or claims (`domain.gpu.claims`).

Under the single strategy everything is `amd.com/gpu`: a node of 8 cards in CPX shows 64 of them.
Which it is, stands in the label `compute-memory-partition`, or follows from the number of
compute units that one device has.
"""

from __future__ import annotations

import re
from fractions import Fraction

from domain.errors import shown
from domain.gpu.catalogue import Catalogue, GpuProduct, Vendor
from domain.gpu.kinds import Classified, DeviceForm, Reason, Unclassified, part_of_card, whole_card
from domain.gpu.labels import NodeLabels, prometheus_label
from domain.gpu.names import ResourceName
from domain.mig.geometry import Share

GPU = "amd.com/gpu"
PARTITION_LABELS = ("amd.com/gpu.compute-memory-partition", "amd.com/compute-memory-partition")

_PARTITION = re.compile(r"(spx|dpx|tpx|qpx|cpx)_nps([1248])", re.ASCII)
_PARTS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}  # cpx: as many as the card has compute slots


def classify_amd(name: ResourceName, labels: NodeLabels, catalogue: Catalogue) -> Classified:
    """Classify a resource of the domain amd.com on a node with these labels."""
    if name.local != "gpu" and not _PARTITION.fullmatch(name.local):
        return Unclassified(
            Reason.UNKNOWN_RESOURCE,
            f"{shown(name.text)} is neither amd.com/gpu nor a partition such as amd.com/cpx_nps4",
        )
    product = amd_product(labels, catalogue)
    if isinstance(product, Unclassified):
        return product
    if name.local != "gpu":
        return amd_partition(product, name.local, f"the resource's name on {product.product}")
    return _unnamed_partition(product, labels)


def amd_product(labels: NodeLabels, catalogue: Catalogue) -> GpuProduct | Unclassified:
    """The card: by its product name, else by its PCI device id; plain labels before beta ones."""
    values = labels.values(f"{GPU}.product-name") or _beta_values(labels, "product-name")
    found = {product for value in values if (product := _product_named(value, catalogue))}
    if values and not found:
        return Unclassified(
            Reason.UNKNOWN_PRODUCT,
            f"the catalogue has no product {shown(values[0])}; add it as one row",
        )
    if not values:
        values = labels.values(f"{GPU}.device-id") or _beta_values(labels, "device-id")
        found = {p for v in values for p in catalogue.products_by_pci(Vendor.AMD, v.strip()[-4:])}
        if values and not found:
            return Unclassified(
                Reason.UNKNOWN_PRODUCT, f"the catalogue has no AMD device id {shown(values[0])}"
            )
    if not values:
        return Unclassified(Reason.NO_PRODUCT, f"the node has no label {GPU}.product-name")
    if len(values) > 1 or len({product.gpu_class for product in found}) > 1:
        seen = " and ".join(shown(value) for value in values[:2])
        return Unclassified(Reason.HETEROGENEOUS, f"the node has cards of {seen}")
    return min(found, key=lambda product: product.product)


def _product_named(value: str, catalogue: Catalogue) -> GpuProduct | None:
    """A product by its label's value, or by a value that came mangled in a label's name."""
    if (product := catalogue.product(value)) is not None and product.vendor == Vendor.AMD:
        return product
    mangled_alike = (
        p for p in catalogue.of_vendor(Vendor.AMD) if prometheus_label(p.product) == value
    )
    return next(mangled_alike, None)


def _beta_values(labels: NodeLabels, what: str) -> tuple[str, ...]:
    """`beta.amd.com/gpu.device-id.74a1=8`: the value is the end of the label's name."""
    return tuple(rest for rest, _ in labels.mangled_names(f"beta.{GPU}.{what}.") if rest)


def _unnamed_partition(product: GpuProduct, labels: NodeLabels) -> Classified:
    """`amd.com/gpu`: a card or a part of one, by the partition label or the compute units."""
    partitions = sorted({v.lower() for name in PARTITION_LABELS for v in labels.values(name)})
    if len(partitions) > 1:
        return Unclassified(
            Reason.HETEROGENEOUS,
            f"the node's cards are partitioned as {' and '.join(partitions[:2])}",
        )
    if partitions:
        evidence = f"the node label {PARTITION_LABELS[0]}={partitions[0]}"
        return amd_partition(product, partitions[0], evidence)
    if product.compute_slots == 1:
        return whole_card(product, DeviceForm.WHOLE, f"{product.product} cannot be partitioned")
    units = labels.values(f"{GPU}.cu-count") or _beta_values(labels, "cu-count")
    if len(units) == 1 and units[0] == str(product.multiprocessors):
        return whole_card(product, DeviceForm.WHOLE, f"a device has all {units[0]} compute units")
    return Unclassified(
        Reason.CONTRADICTION if units else Reason.AMBIGUOUS,
        f"{product.product} can be partitioned, and the node has neither a label "
        f"{PARTITION_LABELS[0]} nor devices with all {product.multiprocessors} compute units",
    )


def amd_partition(product: GpuProduct, text: str, evidence: str) -> Classified:
    """One of the parts into which a partition style cuts a card."""
    match = _PARTITION.fullmatch(text)
    parts = _PARTS.get(match[1], product.compute_slots) if match else 0
    if parts == 0 or product.compute_slots % parts:
        return Unclassified(
            Reason.UNKNOWN_PROFILE, f"{product.product} has no partition {shown(text)}"
        )
    if parts == 1:
        return whole_card(product, DeviceForm.WHOLE, evidence)
    each = Fraction(1, parts)
    return part_of_card(product, DeviceForm.PARTITION, text, Share(each, each), evidence)
