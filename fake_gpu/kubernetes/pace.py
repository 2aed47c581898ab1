"""At which instants a driven clock has to stop, so that whoever watches misses no moment.

Put here: the instants. Not here: driving (`fake_gpu.serve`), or any clock.

Most of what happens to a pod is written in its status with its own time, so it may be told later.
What is known only from *when it was told* needs a stop of its own: pods that vanish or fail
without saying when they ended, nodes, quotas, claims and namespaces that change, and faults.
"""

from __future__ import annotations

from collections.abc import Iterable

from fake_gpu.estate.model import Fault
from fake_gpu.kubernetes.objects import Change, ObjectHistory

HOUR_SECONDS = 3600
# Bookmarks of a real server come once a minute; a driven one may be much coarser.
EVERY_SECONDS = 900


def stops(
    history: ObjectHistory,
    started_at: int,
    ended_at: int,
    faults: Iterable[Fault] = (),
    every_seconds: int = EVERY_SECONDS,
) -> list[int]:
    """The seconds after `started_at`, until and with `ended_at`, in order."""
    first_hour = started_at - started_at % HOUR_SECONDS
    wanted = set(range(first_hour, ended_at, HOUR_SECONDS))
    wanted |= set(range(started_at, ended_at, every_seconds))
    wanted |= {change.at for change in history.changes if _is_known_by_its_telling(change)}
    for fault in faults:
        if fault.cluster_id in ("", history.cluster_id):
            # Just before a fault too: what was told until then was told in time.
            wanted |= {fault.from_at - 1, fault.from_at, fault.until_at}
    return sorted({at for at in wanted if started_at < at < ended_at} | {ended_at})


def _is_known_by_its_telling(change: Change) -> bool:
    if change.kind != "Pod":
        return True
    if change.verb == "ADDED":
        return False
    document = change.object
    status = document["status"]
    containers = status.get("containerStatuses", [])
    still_runs = any("running" in container["state"] for container in containers)
    over = change.verb == "DELETED" or status["phase"] in ("Succeeded", "Failed")
    return over and (still_runs or not containers)
