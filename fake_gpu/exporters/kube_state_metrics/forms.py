"""Small forms that several families share: names of resources, quantities, times, conditions.

Put here: how kube-state-metrics writes one value.
Not here: any family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from fake_gpu.exporters.exposition import FamilyHead, Pairs, SeriesLine

Document = Mapping[str, Any]
# Labels beyond the object's own, and the value.
Rows = Iterable[tuple[Pairs, float]]

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "P": 10**15, "E": 10**18, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
    "Ei": 2**60,
}  # fmt: skip
_QUANTITY = re.compile(r"(-?[\d.]+(?:[eE]-?\d+)?)((?:[numkMGTPE]|[KMGTPE]i)?)")
_NOT_OF_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_CAPITAL = re.compile(r"([a-z0-9])([A-Z])")
_STATUSES = ("True", "False", "Unknown")


@dataclass(frozen=True, slots=True)
class ObjectMetric:
    """One metric of one kind of object."""

    head: FamilyHead
    kind: str  # of the objects: "Pod"
    own: Callable[[Document], Pairs]  # the labels that name the object
    rows: Callable[[Document], Rows]

    def lines(self, document: Document) -> Iterator[SeriesLine]:
        own = self.own(document)
        for labels, value in self.rows(document):
            yield SeriesLine((*own, *labels), float(value))


@lru_cache(maxsize=4096)
def sanitised(name: str) -> str:
    """`nvidia.com/mig-1g.5gb` becomes `nvidia_com_mig_1g_5gb`; the case is kept."""
    return _NOT_OF_A_LABEL.sub("_", name)


@lru_cache(maxsize=4096)
def quantity(text: str) -> float:
    """A quantity in its base unit: `512Gi`, `500m`, `1k`."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number, factor = match.group(1), _SUFFIXES[match.group(2)]
    whole = number.lstrip("-").isdigit() and isinstance(factor, int)
    return float(int(number) * factor) if whole else round(float(number) * factor, 3)


@lru_cache(maxsize=1 << 15)
def epoch(text: str) -> float:
    """A time as the API server writes it, in seconds."""
    return datetime.fromisoformat(text).timestamp()


def truth(value: object) -> float:
    return 1.0 if value else 0.0


def by_status(status: str) -> Iterator[tuple[str, float]]:
    """One row for each status that a condition can have."""
    for possible in _STATUSES:
        yield possible.lower(), truth(status == possible)


def resource_rows(amounts: Mapping[str, str]) -> Iterator[tuple[Pairs, float]]:
    """Resource and unit of every resource that is shown at all."""
    for name in sorted(amounts):
        unit = unit_of(name)
        if unit:
            yield (("resource", sanitised(name)), ("unit", unit)), quantity(amounts[name])


@lru_cache(maxsize=4096)
def unit_of(resource: str) -> str:
    """The unit of a resource; '' for one that kube-state-metrics leaves out."""
    if resource == "cpu":
        return "core"
    if resource in ("memory", "storage", "ephemeral-storage"):
        return "byte"
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return "byte"
    extended = "/" in resource and "kubernetes.io/" not in resource
    return "integer" if extended or resource == "pods" else ""


def prometheus_labels(prefix: str, labels: Mapping[str, str]) -> Pairs:
    """Kubernetes labels as labels of a series; names that meet are numbered `_conflictN`."""
    written: list[list[str]] = []
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for key in sorted(labels):
        snake = _CAPITAL.sub(r"\1_\2", sanitised(key)).lower()
        name = f"{prefix}_{snake}"
        if name in first:
            if count[name] == 1:
                written[first[name]][0] = f"{name}_conflict1"
            count[name] += 1
            written.append([f"{name}_conflict{count[name]}", labels[key]])
        else:
            first[name], count[name] = len(written), 1
            written.append([name, labels[key]])
    return tuple((name, value) for name, value in written)


def allowed(labels: Mapping[str, str], allow: Sequence[str]) -> Mapping[str, str]:
    """The labels of an allow-list; `*` allows all."""
    if "*" in allow:
        return labels
    return {key: labels[key] for key in allow if key in labels}


def metadata(document: Document) -> Document:
    found: Document = document.get("metadata", {})
    return found


def created(document: Document) -> Rows:
    at = metadata(document).get("creationTimestamp")
    return [((), epoch(at))] if at else []


def owner_rows(document: Document) -> Rows:
    """One row per owner; an orphan has one with empty labels."""
    owners = metadata(document).get("ownerReferences") or []
    if not owners:
        return [((("owner_kind", ""), ("owner_name", ""), ("owner_is_controller", "")), 1)]
    return [
        (
            (
                ("owner_kind", owner["kind"]),
                ("owner_name", owner["name"]),
                ("owner_is_controller", "true" if owner.get("controller") else "false"),
            ),
            1,
        )
        for owner in owners
    ]
