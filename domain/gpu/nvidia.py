"""NVIDIA's resources: whole cards, MIG under both strategies, shared replicas.

Put here: the labels of GPU feature discovery, for resources of the domain nvidia.com.
Not here: passthrough cards, which any vendor's virtual machines have (`domain.gpu.classify`), or
claims (`domain.gpu.claims`).

The product label carries suffixes: `…-MIG-1g.5gb` under the single strategy, `…-MIG-INVALID` when
the cards of such a node differ, `…-SHARED` when replicas are offered under the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from domain.errors import shown
from domain.gpu.catalogue import Catalogue, GpuProduct
from domain.gpu.kinds import Classified, DeviceForm, Reason, Unclassified, part_of_card, whole_card
from domain.gpu.labels import NodeLabels
from domain.gpu.names import ResourceName
from domain.mig.geometry import Geometry
from domain.mig.profile import MigProfile, NotAMigProfile, mangled, parse_resource_profile

GPU = "nvidia.com/gpu"
INVALID = "INVALID"

GEOMETRIES_REMEMBERED = 256
"""The catalogue has a few dozen."""
_SHARED_SUFFIX = "-SHARED"
_MIG_INFIX = "-MIG-"
_RENAMED_SUFFIX = "_shared"


@dataclass(frozen=True, slots=True)
class ProductLabel:
    """The parts of a product label's value."""

    model: str
    profile: str  # empty for a whole card
    is_shared: bool


def parse_product_label(value: str) -> ProductLabel:
    is_shared = value.endswith(_SHARED_SUFFIX)
    model, _, profile = value.removesuffix(_SHARED_SUFFIX).partition(_MIG_INFIX)
    return ProductLabel(model, profile, is_shared)


def classify_nvidia(name: ResourceName, labels: NodeLabels, catalogue: Catalogue) -> Classified:
    """Classify a resource of the domain nvidia.com on a node with these labels."""
    if name.local in ("gpu", "gpu" + _RENAMED_SUFFIX):
        return _gpu(name.local != "gpu", labels, catalogue)
    if name.local.startswith("mig_"):
        return _mig(name, labels, catalogue)
    return Unclassified(
        Reason.UNKNOWN_RESOURCE,
        f"{shown(name.text)} is neither nvidia.com/gpu nor nvidia.com/mig-… nor a passthrough "
        "card that the catalogue knows",
    )


def _gpu(is_renamed: bool, labels: NodeLabels, catalogue: Catalogue) -> Classified:
    """Classify `nvidia.com/gpu` or `nvidia.com/gpu.shared`: the product label has the profile."""
    found = _product_label(labels, catalogue)
    if isinstance(found, Unclassified):
        return found
    label, product = found
    if label.profile == INVALID:
        return Unclassified(
            Reason.HETEROGENEOUS,
            "the MIG strategy is `single` and the node's cards differ (…-MIG-INVALID)",
        )
    replicas = _replicas(GPU, labels, is_renamed=is_renamed, is_shared=label.is_shared)
    if isinstance(replicas, Unclassified):
        return replicas
    evidence = f"the node label {GPU}.product={labels.value(f'{GPU}.product')}"
    if label.profile:
        return _mig_instance(product, label.profile, replicas, evidence)
    kind = DeviceForm.REPLICA if replicas > 1 else DeviceForm.WHOLE
    return whole_card(product, kind, evidence, replicas)


def _product_label(
    labels: NodeLabels, catalogue: Catalogue
) -> tuple[ProductLabel, GpuProduct] | Unclassified:
    values = labels.values(f"{GPU}.product")
    if not values:
        return Unclassified(Reason.NO_PRODUCT, f"the node has no label {GPU}.product")
    if len(values) > 1:
        both = " and ".join(values[:2])
        return Unclassified(Reason.AMBIGUOUS, f"the label {GPU}.product is both {both}")
    label = parse_product_label(values[0])
    product = catalogue.product(label.model)
    if product is None:
        return _unknown_product(label.model)
    return label, product


def _unknown_product(model: str) -> Unclassified:
    return Unclassified(
        Reason.UNKNOWN_PRODUCT, f"the catalogue has no product {shown(model)}; add it as one row"
    )


def _replicas(
    resource: str, labels: NodeLabels, *, is_renamed: bool, is_shared: bool
) -> int | Unclassified:
    """The number of replicas of one device: the label `replicas` of a shared resource, else 1.

    A shared resource has the suffix `.shared` in its name, or `-SHARED` in its product label. It
    must have the label. A resource without these suffixes must not have a number above 1.
    """
    texts = labels.values(f"{resource}.replicas")
    replicas = labels.count(f"{resource}.replicas")
    if texts and replicas is None:
        seen = " and ".join(shown(text) for text in texts[:2])
        return Unclassified(Reason.CONTRADICTION, f"the label {resource}.replicas is {seen}")
    if is_renamed or is_shared:
        if replicas is None or replicas < 2:
            return Unclassified(
                Reason.CONTRADICTION,
                f"devices are shared, but the label {resource}.replicas is {replicas}",
            )
        return replicas
    if replicas == 0:
        return Unclassified(
            Reason.CONTRADICTION,
            f"the label {resource}.replicas is 0: the node offers none under this name",
        )
    if replicas is not None and replicas > 1:
        return Unclassified(
            Reason.CONTRADICTION,
            f"the label {resource}.replicas is {replicas}, but neither the resource nor the "
            "product says that it is shared",
        )
    return 1


def _mig(name: ResourceName, labels: NodeLabels, catalogue: Catalogue) -> Classified:
    """`nvidia.com/mig-<profile>` under the mixed strategy."""
    found = _mig_product(name, labels, catalogue)
    if isinstance(found, Unclassified):
        return found
    product, is_shared = found
    profile = _named_profile(name, product, labels)
    if isinstance(profile, Unclassified):
        return profile
    is_renamed = name.local.endswith(_RENAMED_SUFFIX)
    resource = profile.resource_name
    replicas = _replicas(resource, labels, is_renamed=is_renamed, is_shared=is_shared)
    if isinstance(replicas, Unclassified):
        return replicas
    evidence = f"the resource's name on a node with {product.product}"
    return _mig_instance(product, str(profile), replicas, evidence)


def _mig_product(
    name: ResourceName, labels: NodeLabels, catalogue: Catalogue
) -> tuple[GpuProduct, bool] | Unclassified:
    """The product of the cards of a MIG resource, and whether the resource is shared.

    The product label of the resource takes precedence over that of the node.
    """
    own = _own_product_labels(name, labels)
    models = {label.model for label in own}
    if len(models) > 1:
        seen = " and ".join(sorted(models)[:2])
        return Unclassified(Reason.HETEROGENEOUS, f"{shown(name.text)} is on cards of {seen}")
    if models:
        product = catalogue.product(next(iter(models)))
        if product is None:
            return _unknown_product(next(iter(models)))
        return product, any(label.is_shared for label in own)
    found = _product_label(labels, catalogue)
    return found if isinstance(found, Unclassified) else (found[1], False)


def _own_product_labels(name: ResourceName, labels: NodeLabels) -> list[ProductLabel]:
    local = name.local.removesuffix(_RENAMED_SUFFIX)
    if name.raw_local is not None:
        local = name.raw_local.removesuffix(".shared")
    values = labels.values(f"nvidia.com/{local}.product")
    return [parse_product_label(value) for value in values]


def _named_profile(
    name: ResourceName, product: GpuProduct, labels: NodeLabels
) -> MigProfile | Unclassified:
    """The one profile of the card that the resource names."""
    if product.geometry is None:
        return _no_such_profile(name.text, product)
    spelling = name.raw_local if name.raw_local is not None else name.local
    named = set(_profiles_by_name(product.geometry).get((spelling, name.raw_local is not None), ()))
    if len(named) > 1:
        named = _matching_meanings(named, name, labels) or named
    if not named:
        return _no_such_profile(name.text, product)
    if len(named) > 1:
        meanings = " or ".join(sorted(str(profile) for profile in named))
        return Unclassified(
            Reason.AMBIGUOUS,
            f"{shown(name.text)} can mean {meanings} on {product.product}, and no label tells",
        )
    return named.pop()


@lru_cache(maxsize=GEOMETRIES_REMEMBERED)
def _profiles_by_name(geometry: Geometry) -> dict[tuple[str, bool], frozenset[MigProfile]]:
    """Profiles by the part after the domain: by the exact name, and by the mangled one.

    An exact name means one profile; a mangled one can mean two.
    """
    found: dict[tuple[str, bool], frozenset[MigProfile]] = {}
    for profile in geometry.every_profile():
        exact = profile.resource_name.partition("/")[2]
        for spelling in (exact, f"{exact}.shared"):
            for key in ((spelling, True), (mangled(spelling), False)):
                found[key] = found.get(key, frozenset()) | {profile}
    return found


def _matching_meanings(
    named: set[MigProfile], name: ResourceName, labels: NodeLabels
) -> set[MigProfile]:
    """The profiles of `named` that labels of the node confirm; empty if no label does."""
    seen = set()
    for label in _own_product_labels(name, labels):
        try:
            seen.add(parse_resource_profile(label.profile))
        except NotAMigProfile:
            continue
    by_name = {p for p in named if labels.has_exactly(f"{p.resource_name}.count")}
    return (seen & named) | by_name


def _mig_instance(product: GpuProduct, text: str, replicas: int, evidence: str) -> Classified:
    try:
        profile = parse_resource_profile(text)
    except NotAMigProfile as error:
        return Unclassified(Reason.UNKNOWN_PROFILE, error.seen)
    geometry = product.geometry
    canonical = geometry.canonical(profile) if geometry is not None else None
    share = geometry.share(profile) if geometry is not None else None
    if canonical is None or share is None:
        return _no_such_profile(text, product)
    kind = DeviceForm.MIG_REPLICA if replicas > 1 else DeviceForm.MIG
    return part_of_card(product, kind, str(canonical), share, evidence, replicas)


def _no_such_profile(text: str, product: GpuProduct) -> Unclassified:
    return Unclassified(
        Reason.UNKNOWN_PROFILE, f"{product.product} has no MIG profile {shown(text)}"
    )
