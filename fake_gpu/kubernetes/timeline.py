"""The store of one API server by resource version: states and changes between them.

Put here: reading an ordered history by number, and a server whose store was set back.
Not here: how the history comes about (`objects`), or the clock (`server`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

from fake_gpu.kubernetes.events import event_changes
from fake_gpu.kubernetes.objects import Change, ObjectHistory

Key = tuple[str, str]  # namespace, name
State = dict[Key, Change]

# Paged lists of this many different versions are remembered; older ones are worked out again.
_REMEMBERED_STATES = 8


class Timeline:
    """Changes in the order of their numbers, and the number that belongs to a second."""

    def __init__(self, changes: Sequence[Change], version_at: Callable[[int], int]) -> None:
        self.changes = changes
        self.version_at = version_at
        self._by_kind: dict[str, list[Change]] = {}
        for change in changes:
            self._by_kind.setdefault(change.kind, []).append(change)
        self._cursors: dict[str, tuple[int, State]] = {}
        self._remembered: dict[tuple[str, int], State] = {}

    @classmethod
    def of(cls, history: ObjectHistory) -> Timeline:
        return cls(history.changes, history.resource_version_at)

    def between(self, kind: str, after: int, until: int) -> Sequence[Change]:
        """The changes of a kind with `after < resource version <= until`."""
        if kind == "Event" and kind not in self._by_kind:
            self._by_kind[kind] = event_changes(self.changes, self.version_at)
        changes = self._by_kind.get(kind, [])
        number = attrgetter("resource_version")
        return changes[
            bisect_right(changes, after, key=number) : bisect_right(changes, until, key=number)
        ]

    def state(self, kind: str, version: int) -> State:
        """The objects of a kind at a resource version; not to be changed by the caller."""
        reached, state = self._cursors.get(kind, (-1, {}))
        if version < reached:
            return self._earlier_state(kind, version)
        _apply(state, self.between(kind, reached, version))
        self._cursors[kind] = (version, state)
        return state

    def _earlier_state(self, kind: str, version: int) -> State:
        key = (kind, version)
        if key not in self._remembered:
            while len(self._remembered) >= _REMEMBERED_STATES:
                del self._remembered[next(iter(self._remembered))]
            state: State = {}
            _apply(state, self.between(kind, -1, version))
            self._remembered[key] = state
        return self._remembered[key]


def _apply(state: State, changes: Sequence[Change]) -> None:
    for change in changes:
        key = (change.namespace, change.name)
        if change.verb == "DELETED":
            state.pop(key, None)
        else:
            state[key] = change


# After this time the controllers have repeated the changes that the backup lacks.
REPAIR_SECONDS = 120


def set_back(history: ObjectHistory, at: int, lost_seconds: int) -> Timeline:
    """The store after a backup of `at - lost_seconds` was restored at `at`.

    Numbers continue from the backup's, so they repeat. Lost changes are repeated by the controllers
    REPAIR_SECONDS later: until then, deleted pods are back.
    """
    backup_at = at - lost_seconds
    kept = [change for change in history.changes if change.at <= backup_at]
    later = [
        replace(change, at=max(change.at, at + REPAIR_SECONDS))
        for change in history.changes
        if change.at > backup_at
    ]
    later.sort(key=attrgetter("at"))
    base = history.resource_version_at(backup_at)
    renumbered = [
        replace(change, resource_version=base + change.at - at + count)
        for count, change in enumerate(later, start=1)
    ]

    def version_at(second: int) -> int:
        count = bisect_right(renumbered, second, key=attrgetter("at"))
        return base + max(0, second - at) + count

    return Timeline([*kept, *renumbered], version_at)
