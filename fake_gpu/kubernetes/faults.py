"""Faults of a Kubernetes API: which are in force now, and that they touched an answer.

Put here: asking for a fault by its kind, and its parameters read strictly.
Not here: what a fault does to an answer (`server`, `watch`, `timeline`), or its description
(`fake_gpu.faults.catalogue`).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from fake_gpu.estate.model import Fault
from fake_gpu.faults.ledger import FaultLedger


class ApiFaults:
    """The faults of one cluster's API server."""

    def __init__(self, cluster_id: str, faults: Iterable[Fault], ledger: FaultLedger) -> None:
        self.cluster_id = cluster_id
        self.ledger = ledger
        self._faults = [f for f in faults if f.cluster_id in ("", cluster_id)]

    def active(self, kind: str, at: int) -> Fault | None:
        """The fault of this kind that is in force, if any."""
        for fault in self._faults:
            if fault.kind == kind and fault.covers(self.cluster_id, at):
                return fault
        return None

    def of_kind(self, kind: str) -> list[Fault]:
        return [fault for fault in self._faults if fault.kind == kind]

    def fire(self, fault: Fault, at: int, detail: str) -> None:
        self.ledger.fire(fault.fault_id, self.cluster_id, at, detail)

    def count(self, fault: Fault) -> int:
        return self.ledger.count(fault.fault_id)


def whole(fault: Fault, name: str, default: int) -> int:
    value = fault.parameters.get(name, default)
    return int(str(value))


def names(fault: Fault, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A list of names, or one name."""
    value = fault.parameters.get(name, default)
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else default


def touches(fault: Fault, plural: str) -> bool:
    """Whether a fault is about this resource: `resources` names them, pods when nothing is said."""
    wanted = names(fault, "resources", ("pods",))
    return plural in wanted or "*" in wanted


def chosen(fault: Fault, population: list[str], share_pct: int) -> set[str]:
    """A part of a population, the same for the same fault."""
    count = len(population) * share_pct // 100
    return set(Random(fault.seed).sample(sorted(population), count))
