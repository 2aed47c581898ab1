"""Going on with a changed scenario: what was told so far may not become untrue.

Put here: comparing the past of two histories.
Not here: switching the servers over (`serve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from domain.errors import WrongUse
from domain.interval import format_instant
from fake_gpu.estate.model import instant

if TYPE_CHECKING:
    from fake_gpu.kubernetes.objects import ObjectHistory


class PastWouldChange(WrongUse):
    """A scenario that is taken over says something else about what was already told."""

    code = "FAKE-009"


def require_same_past(
    old: Mapping[str, ObjectHistory], new: Mapping[str, ObjectHistory], now: int
) -> None:
    """Raise when the two differ in clusters, or in any change up to `now`."""
    if set(old) != set(new):
        raise _refused(f"clusters {sorted(set(old) ^ set(new))} come or go", now)
    for cluster_id in sorted(old):
        before = [c for c in old[cluster_id].changes if c.at <= now]
        after = [c for c in new[cluster_id].changes if c.at <= now]
        for ours, theirs in zip(before, after, strict=False):
            if ours.object != theirs.object:
                meta = ours.object["metadata"]
                name = "/".join(n for n in (meta.get("namespace", ""), meta["name"]) if n)
                when = format_instant(instant(ours.at))
                raise _refused(f"{ours.kind} {name} was otherwise at {when}", now)
        if len(before) != len(after):
            more = (before if len(before) > len(after) else after)[min(len(before), len(after))]
            raise _refused(f"{more.kind} changes at {format_instant(instant(more.at))}", now)


def _refused(seen: str, now: int) -> PastWouldChange:
    return PastWouldChange(
        where="the scenario to take over",
        seen=seen,
        why=f"watchers were told otherwise, up to {format_instant(instant(now))}",
        remedy="let what is new begin later (`from:`, `at:`), and keep the seed and the names",
    )
