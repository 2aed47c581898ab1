"""The result of classification: a device of a known kind and share, or the reason why not.

Put here: the two results.
Not here: the rules of classification (`domain.gpu.classify`), or weights (`domain.gpu.weights`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from domain.errors import CheckFailed, shown
from domain.gpu.catalogue import GpuProduct, Vendor
from domain.mig.geometry import WHOLE, Share

WHOLE_CARD = "whole"
"""The profile of everything that is priced as a card or as a plain part of one."""


class DeviceForm(StrEnum):
    """How a device relates to its physical card."""

    WHOLE = "whole"  # the card itself
    MIG = "mig"  # a MIG instance, or a compute instance in one
    REPLICA = "replica"  # one of n that share a card in time (time-slicing, MPS)
    MIG_REPLICA = "mig_replica"  # one of n that share a MIG instance
    PASSTHROUGH = "passthrough"  # the card itself, given to a virtual machine
    SHARE = "share"  # the part of a card that one of several claims consumes
    PARTITION = "partition"  # one of n parts into which an AMD card is partitioned


class Reason(StrEnum):
    """Why a resource is not classified."""

    NOT_A_DEVICE = "not_a_device"  # known, and no part of a card
    UNKNOWN_RESOURCE = "unknown_resource"  # not the name of a device in the catalogue
    NO_PRODUCT = "no_product"  # the node's labels do not say which card it has
    UNKNOWN_PRODUCT = "unknown_product"  # the catalogue does not have the card of the labels
    UNKNOWN_PROFILE = "unknown_profile"  # the card has no such profile or partition
    AMBIGUOUS = "ambiguous"  # the name or the labels mean more than one thing
    HETEROGENEOUS = "heterogeneous"  # the node's cards differ, and one name stands for all
    CONTRADICTION = "contradiction"  # name and labels, or two labels, exclude each other


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One device of a resource: its card, and its part of the card."""

    vendor: Vendor
    kind: DeviceForm
    product: str
    gpu_class: str
    mig_profile: str  # "whole", a MIG profile such as 1g.5gb, or a partition such as cpx_nps4
    compute_share: Fraction
    memory_share: Fraction
    replicas: int = 1  # how many share the card, instance or partition that the name stands for
    is_claimed: bool = False  # allocated by a ResourceClaim, which no request metric shows
    evidence: str = ""  # the label or name that shows it, in words

    @property
    def share(self) -> Share:
        return Share(self.compute_share, self.memory_share)

    @property
    def unit_share(self) -> Fraction:
        """The part of the named profile, for prices by profile: 1, or 1/n for a replica."""
        return self.memory_share if self.kind is DeviceForm.SHARE else Fraction(1, self.replicas)


@dataclass(frozen=True, slots=True)
class Unclassified:
    """A resource that cannot be classified: it becomes a finding, never a default."""

    reason: Reason
    explanation: str


Classified = DeviceKind | Unclassified


class NotClassified(CheckFailed):
    """A resource that cannot be classified."""

    code = "GPU-001"

    def __init__(self, resource: str, why_not: str) -> None:
        super().__init__(
            where=f"the resource {shown(resource)}",
            seen=why_not,
            why="an unknown device has no class, no share and no price, and blocks the close",
            remedy="give the node's labels with --label, or add the product as one row to "
            "decisions/products.csv",
        )


def whole_card(
    product: GpuProduct, kind: DeviceForm, evidence: str, replicas: int = 1
) -> DeviceKind:
    """A card, or one of n replicas of it."""
    return part_of_card(product, kind, WHOLE_CARD, WHOLE, evidence, replicas)


def part_of_card(
    product: GpuProduct,
    kind: DeviceForm,
    profile: str,
    share: Share,
    evidence: str,
    replicas: int = 1,
) -> DeviceKind:
    """A named part of a card, or one of n replicas of that part."""
    each = share.times(Fraction(1, replicas))
    return DeviceKind(
        vendor=product.vendor,
        kind=kind,
        product=product.product,
        gpu_class=product.gpu_class,
        mig_profile=profile,
        compute_share=each.compute,
        memory_share=each.memory,
        replicas=replicas,
        evidence=evidence,
    )
