"""With a driven clock: all events of one instant in one order, independent of thread scheduling.

Put here: delaying the events of some watches until all watches have reached the instant.
Not here: the driver of the clock. With a real clock events are not delayed.
"""

from __future__ import annotations

from datetime import datetime

from ingestion.kubernetes.observations import Bookmark, Broken
from ingestion.kubernetes.watcher import Item, NeedsList


class InstantBarrier:
    """Items by resource, until each watch has sent its last one of the instant, or needs a list."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._held: dict[str, list[Item]] = {resource: [] for resource in resources}
        self._done_at: dict[str, datetime] = {}
        self._wanting: dict[str, NeedsList] = {}  # watches that cannot begin without a list
        self.told_at: datetime | None = None  # the driver stopped here for this cluster

    def is_between_stops(self, now: datetime) -> bool:
        """Whether the clock stands where it was stopped for other clusters only.

        A failure at such an instant is ignored: its effects would depend on thread scheduling.
        """
        return self.told_at is not None and now != self.told_at

    def step(self, item: Item, now: datetime) -> list[Item]:
        """The items that may be processed now, in the order of the resources."""
        held = self._held[item.resource]
        if isinstance(item, Broken) and self.is_between_stops(item.at):
            return []
        if isinstance(item, NeedsList):
            if self.is_between_stops(now):
                return [item]
            # Its watch waits for the list, and continues after it.
            self._wanting[item.resource] = item
            return self._release(now)
        again = isinstance(item, Broken) and self._done_at.get(item.resource) == item.at
        if not again:
            held.append(item)
        if isinstance(item, Bookmark | Broken):
            self._done_at[item.resource] = item.at
        return self._release(now)

    def list_failed(self, resource: str, now: datetime) -> list[Item]:
        """The items to process after a failed list: the other watches do not wait for it."""
        self._done_at[resource] = now
        return self._release(now)

    def _release(self, now: datetime) -> list[Item]:
        if any(r not in self._wanting and self._done_at.get(r) != now for r in self._held):
            return []
        released: list[Item] = []
        for resource, items in self._held.items():
            released += items
            if resource in self._wanting:
                released.append(self._wanting[resource])
        self._held = {resource: [] for resource in self._held}
        self._wanting = {}
        return released
