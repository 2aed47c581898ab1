"""The instants at which a driven clock has to stop, so that a watcher misses no change.

Put here: the instants. Not here: driving (`fake_gpu.serve`), or any clock.

Most changes of a pod are in its status with their own time, so they may be sent later. A change
that is known only by *the time of its event* needs a stop of its own: pods that vanish or fail
without saying when they ended, nodes, quotas, budgets, claims and namespaces that change, and
faults. The owner of a pod must be queried while it exists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from fake_gpu.fleet.model import Fault
from fake_gpu.kubernetes.objects import Change, ObjectHistory

HOUR_SECONDS = 3600
# Bookmarks of a real server come once a minute; a driven one may be much coarser.
EVERY_SECONDS = HOUR_SECONDS

# Watched by a collector besides pods; owners of pods are read, not watched.
WATCHED_KINDS = frozenset(
    {"Node", "Namespace", "ResourceQuota", "GpuBudget", "ResourceClaim", "ResourceSlice"}
)


def stops(
    history: ObjectHistory,
    started_at: int,
    ended_at: int,
    faults: Iterable[Fault] = (),
    every_seconds: int = EVERY_SECONDS,
    *,
    quota_use: bool = True,
) -> list[int]:
    """The seconds after `started_at`, until and with `ended_at`, in order.

    Without `quota_use`, a quota's used amounts are sent with the next event, once an hour at the
    latest: every pod changes them.
    """
    first_hour = started_at - started_at % HOUR_SECONDS
    wanted = set(range(first_hour, ended_at, HOUR_SECONDS))
    wanted |= set(range(first_hour, ended_at, every_seconds))
    # Just before an hour ends too: a journal's hour has the events sent within it, and the hour
    # after the last measured one is not queried.
    wanted |= {_hour_end(change.at) - 1 for change in history.changes if change.kind == "Pod"}
    wanted |= {
        change.at
        for change in history.changes
        if _is_seen_only_in_watch(change)
        and (quota_use or (change.kind, change.verb) != ("ResourceQuota", "MODIFIED"))
    }
    for fault in faults:
        if fault.cluster_id in ("", history.cluster_id):
            # Just before a fault too: the events until then are sent in time.
            wanted |= {fault.from_at - 1, fault.from_at, fault.until_at}
    wanted |= _seconds_before_owners_end(history, sorted(wanted))
    return sorted({at for at in wanted if started_at < at < ended_at} | {ended_at})


def _hour_end(second: int) -> int:
    return second - second % HOUR_SECONDS + HOUR_SECONDS


def _is_seen_only_in_watch(change: Change) -> bool:
    if change.kind != "Pod":
        return change.kind in WATCHED_KINDS
    if change.verb == "ADDED":
        return False
    document = change.object
    status = document["status"]
    containers = status.get("containerStatuses", [])
    still_runs = any("running" in container["state"] for container in containers)
    over = change.verb == "DELETED" or status["phase"] in ("Succeeded", "Failed")
    return over and (still_runs or not containers)


def _seconds_before_owners_end(history: ObjectHistory, planned: list[int]) -> set[int]:
    """A second for each owner that would be gone before the last event of its pods."""
    came_at: dict[str, int] = {}  # the owner's UID → when its last pod came
    for change in history.changes:
        if change.kind == "Pod" and change.verb == "ADDED":
            for owner in change.object["metadata"].get("ownerReferences", []):
                came_at[owner["uid"]] = change.at
    extra = set()
    for change in history.changes:
        came = came_at.get(change.uid)
        if change.verb != "DELETED" or came is None:
            continue
        if bisect_left(planned, came) == bisect_right(planned, change.at - 1):
            extra.add(change.at - 1)
    return extra
