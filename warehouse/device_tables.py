"""The kind of every device in the evidence. Each pair of a node's label set and a resource is
classified once.

Put here: the raw tables `claimed_devices`, `resources`, `device_kinds`, `device_weights` and
`labelled_cards`.
Not here: the rules (`domain.gpu`), or the labels of each node over time (`dbt/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from math import lcm
from typing import Any

import duckdb

from domain.decisions import Decisions, canonical_files
from domain.decisions.rows import PolicyName, TableName
from domain.gpu import (
    Catalogue,
    Classified,
    DeviceKind,
    Reason,
    RequestedNames,
    Unclassified,
    WeightPolicy,
    claimed_resource,
    classify,
    consumes_memory,
    may_be_a_device,
    parse_catalogue,
    weight,
)
from domain.gpu.cards import HowKnown, physical_cards
from domain.interval import Interval
from warehouse.project import seed_text
from warehouse.raw_schema import create_table

Row = Mapping[str, Any]
NO_LABELS = "no labels"
"""The label set of a node without observed labels."""

_RESOURCES = """
    select resource from raw.kubernetes_pod_requests
    union select resource from raw.kubernetes_node_resources
    union select labels['resource'] from raw.thanos_series
        where metric like 'kube_%' and labels['resource'] is not null
    union select resource from raw.claimed_devices
    union select driver || '/' || device from raw.kubernetes_slice_devices
    order by 1
"""
_CLAIMED = """
    with offered as (
        select cluster_id, driver, pool, device, arg_max(capacity, observed_at) as capacity
        from raw.kubernetes_slice_devices
        where not deleted
        group by all
    )
    select distinct cluster_id, claim_uid, driver, pool, device, coalesce(share_id, ''),
        consumed_capacity, capacity
    from raw.kubernetes_claim_observations
    left join offered using (cluster_id, driver, pool, device)
    where device <> ''
"""
_LABEL_SETS = """
    select labels_sha256, any_value(labels) as labels from (
        select labels_sha256, labels from raw.kubernetes_node_observations
        union all
        select labels_sha256, labels from raw.thanos_series where labels_sha256 is not null
    ) as seen
    group by labels_sha256
    order by labels_sha256
"""


def create_device_kinds(
    connection: duckdb.DuckDBPyConnection, decisions: Decisions, window: Interval
) -> None:
    """Classify every resource that may be a device, under every label set that nodes had."""
    catalogue = catalogue_of(decisions)
    claimed = (_claimed_device(*row) for row in connection.execute(_CLAIMED).fetchall())
    create_table(connection, "claimed_devices", claimed)
    resources = [row[0] for row in connection.execute(_RESOURCES).fetchall()]
    requested = RequestedNames(catalogue)
    create_table(connection, "resources", (_resource(name, requested) for name in resources))
    devices = [name for name in resources if may_be_a_device(name)]
    label_sets = [(NO_LABELS, {}), *connection.execute(_LABEL_SETS).fetchall()]
    kinds = [
        (labels_sha256, resource, classify(resource, labels, catalogue))
        for labels_sha256, labels in label_sets
        for resource in devices
    ]
    units = _class_units(kind for _, _, kind in kinds if isinstance(kind, DeviceKind))
    kinds = [(s, r, _require_whole_units(kind, units)) for s, r, kind in kinds]
    known = [(s, r, kind) for s, r, kind in kinds if isinstance(kind, DeviceKind)]
    geometries = {
        product.gpu_class: product.geometry.name
        for product in catalogue.products.values()
        if product.geometry is not None
    }
    create_table(connection, "device_kinds", (_kind(*kind, units, geometries) for kind in kinds))
    create_table(connection, "device_weights", _weights(known, catalogue, decisions, window))
    create_table(connection, "labelled_cards", _labelled_cards(label_sets, catalogue))


def catalogue_of(decisions: Decisions) -> Catalogue:
    """The shipped products, and those of products.csv."""
    rows = {TableName.PRODUCTS: decisions.products}
    decided = canonical_files(lambda table: rows.get(table, ())).get("products.csv", "")
    return parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"), decided)


def _claimed_device(
    cluster_id: str,
    claim_uid: str,
    driver: str,
    pool: str,
    device: str,
    share_id: str,
    consumed: Mapping[str, str] | None,
    capacity: Mapping[str, str] | None,
) -> Row:
    """One claimed device. Its holders share it if they have the same `holding_key`."""
    resource, key = f"{driver}/{device}", claim_uid
    if share_id:
        resource = claimed_resource(driver, device, consumed or {}, capacity or {})
        key = f"{claim_uid}/{share_id}" if consumes_memory(consumed or {}) else f"{pool}/{device}"
    return {
        "cluster_id": cluster_id,
        "claim_uid": claim_uid,
        "driver": driver,
        "pool": pool,
        "device": device,
        "share_id": share_id,
        "holding_key": key,
        "resource": resource,
    }


def resource_key(resource: str) -> str:
    """One spelling for a resource, as kube-state-metrics writes it."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in resource)


def _resource(name: str, requested: RequestedNames) -> Row:
    return {
        "resource": name,
        "resource_key": resource_key(name),
        "requested_name": requested.of(name),
        "is_gpu": may_be_a_device(name),
    }


Units = Mapping[str, tuple[int, int]]


UNIT_LIMIT = 10**11
"""With at most so many units per card, the unit-seconds of a node and a month fit into 63 bits."""


def _class_units(kinds: Iterable[DeviceKind]) -> Units:
    """For each class and dimension, the number of units of a card in which all shares are whole.

    A share of memory in bytes that would need more than UNIT_LIMIT units is left out.
    """
    units: dict[str, tuple[int, int]] = {}
    for kind in sorted(kinds, key=lambda kind: kind.memory_share.denominator):
        compute, memory = units.get(kind.gpu_class, (1, 1))
        finer = (
            lcm(compute, kind.compute_share.denominator),
            lcm(memory, kind.memory_share.denominator),
        )
        if max(finer) <= UNIT_LIMIT:
            units[kind.gpu_class] = finer
    return units


def _require_whole_units(kind: Classified, units: Units) -> Classified:
    """The kind, if its shares are whole numbers in units of its class; else unclassified."""
    if not isinstance(kind, DeviceKind):
        return kind
    compute, memory = units.get(kind.gpu_class, (1, 1))
    if compute % kind.compute_share.denominator or memory % kind.memory_share.denominator:
        return Unclassified(
            Reason.UNKNOWN_RESOURCE,
            f"{kind.memory_share} of a card has no unit in common with other shares of its class",
        )
    return kind


def _kind(
    labels_sha256: str,
    resource: str,
    kind: Classified,
    units: Units,
    geometries: Mapping[str, str],
) -> Row:
    known = isinstance(kind, DeviceKind)
    compute = kind.compute_share if isinstance(kind, DeviceKind) else Fraction(0)
    memory = kind.memory_share if isinstance(kind, DeviceKind) else Fraction(0)
    return {
        "labels_sha256": labels_sha256,
        "resource": resource,
        "vendor": kind.vendor.value if isinstance(kind, DeviceKind) else "",
        "kind": kind.kind.value if isinstance(kind, DeviceKind) else "unclassified",
        "product": kind.product if isinstance(kind, DeviceKind) else "",
        "gpu_class": kind.gpu_class if isinstance(kind, DeviceKind) else "",
        "mig_profile": kind.mig_profile if isinstance(kind, DeviceKind) else "",
        "mig_geometry": geometries.get(kind.gpu_class, "") if isinstance(kind, DeviceKind) else "",
        "compute_share_numerator": compute.numerator,
        "compute_share_denominator": compute.denominator,
        "memory_share_numerator": memory.numerator,
        "memory_share_denominator": memory.denominator,
        "class_compute_unit": units[kind.gpu_class][0] if isinstance(kind, DeviceKind) else 1,
        "class_memory_unit": units[kind.gpu_class][1] if isinstance(kind, DeviceKind) else 1,
        "replica_count": kind.replicas if isinstance(kind, DeviceKind) else 1,
        "is_claimed": isinstance(kind, DeviceKind) and kind.is_claimed,
        "unclassified_reason": "" if known else _reason(kind),
    }


def _labelled_cards(
    label_sets: Iterable[tuple[str, Mapping[str, str]]], catalogue: Catalogue
) -> Iterator[Row]:
    """The number of cards in each set of labels that states one."""
    for labels_sha256, labels in label_sets:
        for count in physical_cards({}, labels, catalogue).counts:
            if count.how_known is HowKnown.LABEL:
                yield {
                    "labels_sha256": labels_sha256,
                    "gpu_class": count.gpu_class,
                    "card_count": count.least,
                }


def _reason(kind: DeviceKind | Unclassified) -> str:
    return f"{kind.reason.value}: {kind.explanation}" if isinstance(kind, Unclassified) else ""


def _weights(
    kinds: Iterable[tuple[str, str, DeviceKind]],
    catalogue: Catalogue,
    decisions: Decisions,
    window: Interval,
) -> Iterator[Row]:
    """The weights by interval of the policy."""
    pieces = window.split_at(decisions.cut_points(window, [TableName.POLICIES]))
    for labels_sha256, resource, kind in kinds:
        for piece in pieces:
            found = _weight(kind, catalogue, decisions, piece.started_at)
            if found is not None:
                policy = decisions.policy(PolicyName.MIG_WEIGHT, piece.started_at)
                yield {
                    "labels_sha256": labels_sha256,
                    "resource": resource,
                    "weight_policy": f"{policy.value} ({policy.version})",
                    "weight_numerator": found.numerator,
                    "weight_denominator": found.denominator,
                    "valid_from": piece.started_at,
                    "valid_until": piece.ended_at,
                }


def _weight(
    kind: DeviceKind, catalogue: Catalogue, decisions: Decisions, instant: datetime
) -> Fraction | None:
    """The weight. None if the table has none: the use has no price, and a finding reports it."""
    return weight(kind, WeightPolicy(decisions.mig_weight(instant).value), catalogue)
