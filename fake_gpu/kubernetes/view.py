"""The present state of one API server: its resource version, and the oldest version that it keeps.

Put here: the state at the present time of the clock.
Not here: requests (`lists`, `watch`), or the states of other times (`timeline`).
"""

from __future__ import annotations

from datetime import datetime

from fake_gpu.clock import VirtualClock
from fake_gpu.kubernetes.faults import ApiFaults, whole
from fake_gpu.kubernetes.objects import FIRST_RESOURCE_VERSION, ObjectHistory
from fake_gpu.kubernetes.texts import ObjectTexts
from fake_gpu.kubernetes.timeline import Timeline, set_back


class View:
    """The state of one API server at the present time of its clock."""

    def __init__(
        self, history: ObjectHistory, clock: VirtualClock, faults: ApiFaults, history_seconds: int
    ) -> None:
        self.clock = clock
        self.faults = faults
        self.history_seconds = history_seconds
        self.texts = ObjectTexts()
        self._steps = (clock.now_seconds(), clock.now_seconds())
        self._original = Timeline.of(history)
        self._restored = [
            (fault, set_back(history, fault.from_at, whole(fault, "back", 1800)))
            for fault in faults.of_kind("etcd_restored")
        ]

    def step(self, instant: datetime) -> None:
        """Note that a driven clock advanced to `instant`."""
        self._steps = (self._steps[1], int(instant.timestamp()))

    def second(self) -> int:
        return self.clock.now_seconds()

    def timeline(self, at: int) -> Timeline:
        """The state of the store at a second; after a restore, that of the last restored backup."""
        current = self._original
        for fault, restored in self._restored:
            if at >= fault.from_at:
                current = restored
        return current

    def version(self, at: int) -> int:
        return self.timeline(at).version_at(at)

    def oldest_version(self, at: int, resource: str = "") -> int:
        """The oldest resource version; those before it are compacted."""
        # A driven clock jumps, and no request can arrive between two steps. The version of the
        # previous step is therefore kept, for steps of any length.
        kept_from = min(at - self.history_seconds, self._steps[0])
        since = self.timeline(at).version_at(kept_from)
        oldest = max(FIRST_RESOURCE_VERSION, since)
        for fault in self.faults.of_kind("watch_dropped", resource):
            if at >= fault.until_at:
                # Events during the fault are lost when the server responds again.
                oldest = max(oldest, self.version(fault.until_at))
        return min(oldest, self.version(at))
