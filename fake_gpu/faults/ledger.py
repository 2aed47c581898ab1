"""Which injected faults really happened: a fault that did not fire proves nothing.

Put here: counting.
Not here: the kinds of faults (`fault_catalogue`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from domain.interval import format_instant
from fake_gpu.fleet.model import Fault, instant
from fake_gpu.scenario.errors import InvalidScenario

# The first details of every fault are kept, the rest is counted: a dropped scrape may be one of
# a million, and they are all alike.
KEPT_DETAILS = 100


@dataclass(frozen=True, slots=True)
class Firing:
    """One time that a fault touched something."""

    fault_id: str
    cluster_id: str
    at: int
    detail: str


class FaultLedger:
    """Counts how often each fault touched an answer; safe to be used by many threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._in_history: Mapping[str, int] = {}
        self._kept: dict[str, list[Firing]] = {}
        self._lock = threading.Lock()

    def fire(self, fault_id: str, cluster_id: str, at: int, detail: str = "") -> None:
        """The fault with this ID changed a response."""
        with self._lock:
            self._counts[fault_id] += 1
            kept = self._kept.setdefault(fault_id, [])
            if len(kept) < KEPT_DETAILS:
                kept.append(Firing(fault_id, cluster_id, at, detail))

    def fired_before(self, fault_id: str, count: int) -> None:
        """Another process, with a ledger of its own, has counted so many."""
        with self._lock:
            self._counts[fault_id] += count

    def set_history(self, fired: Mapping[str, int]) -> None:
        """The counts of the fleet's own faults in its history; each history has its own."""
        with self._lock:
            self._in_history = dict(fired)

    def count(self, fault_id: str) -> int:
        with self._lock:
            return self._counts[fault_id] + self._in_history.get(fault_id, 0)

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted((self._counts + Counter(self._in_history)).items()))

    def copy(self) -> FaultLedger:
        """A copy that continues from here and is not read."""
        other = FaultLedger()
        other.set_history(self.counts())
        return other

    def firings(self, fault_id: str) -> list[Firing]:
        with self._lock:
            return list(self._kept.get(fault_id, ()))

    def require_fired(self, faults: Iterable[Fault]) -> None:
        """Raise when one of the faults never fired."""
        silent = [fault for fault in faults if not self.count(fault.fault_id)]
        if silent:
            listed = ", ".join(
                f"{fault.fault_id} ({format_instant(instant(fault.from_at))})" for fault in silent
            )
            raise InvalidScenario(
                where="the faults of the scenario",
                seen=f"never fired: {listed}",
                why="a test that passes without its fault has tested nothing",
                remedy="check that the time was queried, and that the target of the fault exists",
            )
