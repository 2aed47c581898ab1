"""Faults of a Kubernetes API: the ones in force now, and counts of the responses that they changed.

Put here: finding a fault by its kind, and its parameters.
Not here: the effect of a fault on a response (`request_faults`, `lists`, `watch`, `timeline`,
`distortion`), or its description (`fake_gpu.faults.fault_catalogue`).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from random import Random

from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault


class ApiFaults:
    """The faults of one cluster's API server."""

    def __init__(self, cluster_id: str, faults: Iterable[Fault], ledger: FaultLedger) -> None:
        self.cluster_id = cluster_id
        self.ledger = ledger
        self._faults = [f for f in faults if f.cluster_id in ("", cluster_id)]

    def active(self, kind: str, at: int, resource: str = "") -> Fault | None:
        """The fault of this kind that is in force for this resource, if any."""
        for fault in self._faults:
            in_force = fault.kind == kind and fault.covers(self.cluster_id, at)
            if in_force and touches(fault, resource):
                return fault
        return None

    def of_kind(self, kind: str, resource: str = "") -> list[Fault]:
        return [f for f in self._faults if f.kind == kind and touches(f, resource)]

    def meets(self, kind: str, at: int, detail: str, resource: str = "") -> Fault | None:
        """The fault that this request meets; it is counted, and only so many requests meet it."""
        fault = self.active(kind, at, resource)
        if fault is None:
            return None
        limit = whole(fault, "requests", 0)
        if limit and self.ledger.count(fault.fault_id) >= limit:
            return None
        self.fire(fault, at, detail)
        return fault

    def fire(self, fault: Fault, at: int, detail: str) -> None:
        self.ledger.fire(fault.fault_id, self.cluster_id, at, detail)


def touches(fault: Fault, resource: str) -> bool:
    """Whether a fault is about this resource: about all when it names none."""
    return not resource or text(fault, "resource") in ("", resource)


def forbids(fault: Fault, namespace: str) -> bool:
    """Whether lost rights forbid reading a namespace (of "", all), and not only hide things."""
    named = text(fault, "namespace")
    return text(fault, "mode", "forbidden") != "fewer" and named in ("", namespace)


def text(fault: Fault, name: str, default: str = "") -> str:
    return str(fault.parameters.get(name, default))


def whole(fault: Fault, name: str, default: int) -> int:
    return int(str(fault.parameters.get(name, default)))


def share(fault: Fault) -> Fraction:
    return Fraction(str(fault.parameters.get("share", 1)))


def drawn(fault: Fault, key: str) -> bool:
    """Whether this one is among the fault's share: the same for the same fault."""
    return Random(f"{fault.seed}/{key}").random() < share(fault)


def chosen(fault: Fault, population: Iterable[str]) -> set[str]:
    """The fault's share of a population, rounded down: the same for the same fault."""
    candidates = sorted(population)
    count = len(candidates) * share(fault).numerator // share(fault).denominator
    return set(Random(fault.seed).sample(candidates, count))
