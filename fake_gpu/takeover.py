"""Going on with a changed scenario: what was told so far may not become untrue.

Put here: comparing the past of two histories.
Not here: switching the servers over (`serve`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from domain.errors import WrongUse
from domain.interval import format_instant
from fake_gpu.estate.model import Cluster, Estate, Fault, instant

if TYPE_CHECKING:
    from fake_gpu.kubernetes.objects import ObjectHistory


class PastWouldChange(WrongUse):
    """A scenario that is taken over says something else about what was already told."""

    code = "FAKE-009"


def require_same_past(
    old: Estate,
    new: Estate,
    told: Mapping[str, ObjectHistory],
    telling: Mapping[str, ObjectHistory],
    now: int,
) -> None:
    """Raise when the two differ in anything that shows before `now`."""
    if set(told) != set(telling):
        raise _refused(f"clusters {sorted(set(told) ^ set(telling))} come or go", now)
    for cluster_id in sorted(told):
        _same_objects(told[cluster_id], telling[cluster_id], now)
        _same_use(old.cluster(cluster_id), new.cluster(cluster_id), now)
    begun = [_begun(estate.faults, now) for estate in (old, new)]
    if begun[0] != begun[1]:
        others = sorted(set(map(str, begun[0])) ^ set(map(str, begun[1])))
        raise _refused(f"a fault that has begun is another: {others[0]}", now)


def _same_objects(told: ObjectHistory, telling: ObjectHistory, now: int) -> None:
    before = [c for c in told.changes if c.at <= now]
    after = [c for c in telling.changes if c.at <= now]
    for ours, theirs in zip(before, after, strict=False):
        if ours.object != theirs.object:
            meta = ours.object["metadata"]
            name = "/".join(n for n in (meta.get("namespace", ""), meta["name"]) if n)
            when = format_instant(instant(ours.at))
            raise _refused(f"{ours.kind} {name} was otherwise at {when}", now)
    if len(before) != len(after):
        more = (before if len(before) > len(after) else after)[min(len(before), len(after))]
        raise _refused(f"{more.kind} changes at {format_instant(instant(more.at))}", now)


def _same_use(old: Cluster, new: Cluster, now: int) -> None:
    """What only samples show: how busy pods were, and how they were looked at."""
    if old.monitoring != new.monitoring:
        raise _refused(f"{old.name} was monitored otherwise", now)
    busy = {p.uid: (p.utilisation, p.memory_used_pct) for p in new.pods}
    for pod in old.pods:
        known = (pod.utilisation, pod.memory_used_pct)
        if pod.created_at <= now and busy.get(pod.uid, known) != known:
            raise _refused(f"pod {pod.namespace}/{pod.name} was busy otherwise", now)


def _begun(faults: Sequence[Fault], now: int) -> list[tuple[object, ...]]:
    """Faults that may have touched something; an end that is still to come may change."""
    return [
        (f.kind, f.cluster_id, f.from_at, min(f.until_at, now + 1), f.seed, dict(f.parameters))
        for f in faults
        if f.from_at <= now
    ]


def _refused(seen: str, now: int) -> PastWouldChange:
    return PastWouldChange(
        where="the scenario to take over",
        seen=seen,
        why=f"watchers were told otherwise, up to {format_instant(instant(now))}",
        remedy="let what is new begin later (`from:`, `at:`), and keep the seed and the names",
    )
