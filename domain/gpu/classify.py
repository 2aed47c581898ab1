"""Classification of a resource by its name and the labels of its node at binding time.

Put here: the choice of the vendor whose rules apply.
Not here: those rules (`domain.gpu.nvidia`, `amd`, `intel`, `claims`).
"""

from __future__ import annotations

from collections.abc import Mapping

from domain.errors import shown
from domain.gpu.amd import classify_amd
from domain.gpu.catalogue import Catalogue, Vendor
from domain.gpu.claims import CLAIM_DRIVERS, classify_claim
from domain.gpu.intel import classify_habana, classify_intel
from domain.gpu.kinds import Classified, DeviceForm, Reason, Unclassified, whole_card
from domain.gpu.labels import NodeLabels
from domain.gpu.names import LONGEST_RESOURCE, parse_resource
from domain.gpu.nvidia import classify_nvidia
from domain.mig.profile import mangled


def classify(
    resource: str,
    node_labels: Mapping[str, str] | NodeLabels,
    catalogue: Catalogue,
    *,
    node_capacity: Mapping[str, int] | None = None,
) -> Classified:
    """The kind of one device of `resource`, or the reason why it is not known.

    Names of resources and labels may be as the node has them or as kube-state-metrics mangles
    them; for many resources of one node, create `NodeLabels` once.
    `gpu.nvidia.com/gpu-0` (driver/device) is a claimed device. Never raises on strange text.
    """
    if len(resource) > LONGEST_RESOURCE:
        return Unclassified(Reason.UNKNOWN_RESOURCE, f"{shown(resource)} is too long for a name")
    name = parse_resource(resource)
    known = catalogue.product_by_resource(name.text)
    if known is not None and not known.is_device:
        return Unclassified(Reason.NOT_A_DEVICE, f"{known.product} is no part of a card")
    if known is not None:
        return whole_card(
            known, DeviceForm.PASSTHROUGH, f"the passthrough resource {known.product}"
        )
    driver, _, device = name.text.partition("/")
    labels = NodeLabels.of(node_labels)
    if driver in CLAIM_DRIVERS and name.local not in ("i915", "xe"):
        return classify_claim(driver, device, labels, catalogue)
    match name.vendor:
        case Vendor.NVIDIA:
            return classify_nvidia(name, labels, catalogue)
        case Vendor.AMD:
            return classify_amd(name, labels, catalogue)
        case Vendor.INTEL:
            capacity = _capacity(resource, node_capacity)
            return classify_intel(name, labels, catalogue, capacity)
        case Vendor.HABANA:
            return classify_habana(name, labels, catalogue)
        case _:
            return Unclassified(
                Reason.UNKNOWN_RESOURCE, f"{shown(name.text)} is of no vendor that is known"
            )


def _capacity(resource: str, node_capacity: Mapping[str, int] | None) -> int | None:
    """How many the node offers, whichever spelling its capacity uses."""
    by_name = {mangled(name): count for name, count in (node_capacity or {}).items()}
    return by_name.get(mangled(resource))
