"""The faults of one cluster's samples: the kinds, and counts of the responses that they changed.

Put here: finding faults by kind, reading their parameters, drawing shares.
Not here: the effect of a fault (`scrape_faults`, `series_faults`, `answer_faults`), its description
(`fake_gpu.faults`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from fractions import Fraction
from functools import lru_cache

from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault


class SampleFaults:
    """The faults of one cluster, or ('') those of the Thanos itself."""

    def __init__(
        self, cluster_id: str, faults: Iterable[Fault] = (), ledger: FaultLedger | None = None
    ) -> None:
        self.cluster_id = cluster_id
        self.ledger = ledger or FaultLedger()
        self._by_kind: dict[str, list[Fault]] = {}
        for fault in faults:
            if not cluster_id or fault.cluster_id in ("", cluster_id):
                self._by_kind.setdefault(fault.kind, []).append(fault)

    def of(self, *kinds: str) -> Sequence[Fault]:
        """All faults of some kinds, whenever they are."""
        return [fault for kind in kinds for fault in self._by_kind.get(kind, ())]

    def active(self, kind: str, at: int) -> list[Fault]:
        """The faults of a kind that are in force at a second."""
        return [f for f in self._by_kind.get(kind, ()) if f.from_at <= at < f.until_at]

    def fire(self, fault: Fault, at: int, detail: str) -> None:
        self.ledger.fire(fault.fault_id, self.cluster_id or fault.cluster_id, at, detail)

    def unheard(self) -> SampleFaults:
        """The same faults with their counts; further changes are not counted."""
        other = copy(self)
        other.ledger = self.ledger.copy()
        return other

    def count(self, fault: Fault) -> int:
        return self.ledger.count(fault.fault_id)


def text(fault: Fault, name: str, default: str = "") -> str:
    return str(fault.parameters.get(name, default))


def whole(fault: Fault, name: str, default: int) -> int:
    return int(str(fault.parameters.get(name, default)))


@lru_cache(maxsize=1024)
def _share(written: str) -> tuple[int, int]:
    return Fraction(written).as_integer_ratio()


def words(fault: Fault, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    value = fault.parameters.get(name, default)
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else default


def drawn(fault: Fault, *names: object) -> bool:
    """Whether the thing with these names is in the fault's share; the same every time."""
    numerator, denominator = _share(str(fault.parameters.get("share", 1)))
    if numerator >= denominator:
        return True
    return _word(fault, names) * denominator < numerator << 64


def pick(fault: Fault, items: Sequence[str], *names: object) -> str:
    """One of some items for the thing with these names."""
    return items[_word(fault, names) % len(items)]


def _word(fault: Fault, names: tuple[object, ...]) -> int:
    parts = "\n".join([str(fault.seed), fault.kind, *map(str, names)])
    return int.from_bytes(hashlib.sha256(parts.encode()).digest()[:8], "big")


def for_job(fault: Fault, job: str, default: str = "") -> bool:
    """Whether the fault is about targets of this job."""
    wanted = text(fault, "job", default)
    return wanted in ("", job)


def for_metric(fault: Fault, metric: str) -> bool:
    return text(fault, "metric") in ("", metric)
