"""A change of the served scenario: its past must equal the past that was served.

Put here: the scenario that goes on, comparing the past of two fleets, counting the attempts.
Not here: switching the servers over (`serve`), or how one configuration follows another
(`scenario.succession`).

A scenario has times, and its past has to be the same to the second. A configuration has none: it
holds from the next second on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import zip_longest
from typing import Any

from domain.interval import format_instant
from fake_gpu.clock import SimulatedPastIsFixed, VirtualClock
from fake_gpu.exporters.devices import phases
from fake_gpu.fleet.model import DeviceHold, Fault, Fleet, PodLifetime, SimulatedCluster, instant
from fake_gpu.kubernetes.objects import Change, ObjectHistory
from fake_gpu.scenario.load import LoadedScenario
from fake_gpu.scenario.succession import succeeded

# A clock that runs goes on while a new fleet is simulated; that takes so long at most.
PLAYING_SECONDS = 2


@dataclass(slots=True)
class TakeOvers:
    """The number of attempts to take over a scenario, by result."""

    taken: int = 0
    refused: int = 0
    is_last_taken: bool = True


def going_on(
    old: LoadedScenario | None, new: LoadedScenario, clock: VirtualClock
) -> LoadedScenario:
    """The new scenario; of configurations without times, the old one until now and then the new."""
    if old is None or not (old.is_timeless and new.is_timeless):
        return new
    at = first_free_second(clock)
    return replace(new, scenario=succeeded(old.scenario, new.scenario, at))


def first_free_second(clock: VirtualClock) -> int:
    """The first second that is not served while a changed fleet is simulated."""
    ahead = clock.speed * PLAYING_SECONDS if clock.mode == "running" else 0
    return clock.now_seconds() + 1 + int(ahead)


def require_same_past(old: Fleet, new: Fleet, now: int) -> None:
    """Raise when the two differ in anything that shows until `now`."""
    served = {cluster.cluster_id: cluster for cluster in old.clusters}
    changed = {cluster.cluster_id: cluster for cluster in new.clusters}
    if set(served) != set(changed):
        raise _refused(f"clusters {sorted(set(served) ^ set(changed))} come or go", now)
    for cluster_id in sorted(served):
        _same_objects(served[cluster_id], changed[cluster_id], now)
        _is_same_before(served[cluster_id], changed[cluster_id], now)
    begun = [_begun(fleet.faults, now) for fleet in (old, new)]
    if begun[0] != begun[1]:
        others = sorted(set(map(str, begun[0])) ^ set(map(str, begun[1])))
        raise _refused(f"a fault that has begun is another: {others[0]}", now)


def _same_objects(served: SimulatedCluster, changed: SimulatedCluster, now: int) -> None:
    """As they are before faults distort them: reading those would count as serving them."""
    before = [c for c in ObjectHistory(served).changes if c.at <= now]
    after = [c for c in ObjectHistory(changed).changes if c.at <= now]
    for ours, theirs in zip_longest(before, after):
        if theirs is None or (ours is not None and _what(ours) < _what(theirs)):
            raise _refused(f"{_change(ours)} would not have happened", now)
        if ours is None or _what(ours) > _what(theirs):
            raise _refused(f"{_change(theirs)} would have happened", now)
        # Their numbers follow from the changes before them.
        _same(_change(ours), ours.build(0), theirs.build(0), now)


def _what(change: Change) -> tuple[int, str, str, str, str, str]:
    return change.at, change.kind, change.namespace, change.name, change.verb, change.uid


def _change(change: Change) -> str:
    name = f"{change.namespace}/{change.name}" if change.namespace else change.name
    return f"{change.kind} {name} {change.verb} at {format_instant(instant(change.at))}"


def _same(who: str, served: object, changed: object, now: int) -> None:
    if served != changed:
        raise _refused(f"{who}: {next(_differences(served, changed))}", now)


def _differences(served: Any, changed: Any, path: str = "") -> Iterator[str]:
    """Where two values of one form differ, and how."""
    if served == changed:
        return
    if isinstance(served, Mapping) and isinstance(changed, Mapping):
        for key in {**served, **changed}:
            yield from _differences(served.get(key), changed.get(key), f"{path}{key}.")
    elif isinstance(served, list | tuple) and isinstance(changed, list | tuple):
        for number, (was, would_be) in enumerate(zip_longest(served, changed)):
            yield from _differences(was, would_be, f"{path}{number}.")
    elif is_dataclass(served) and is_dataclass(changed):
        for name in (each.name for each in fields(served)):
            yield from _differences(getattr(served, name), getattr(changed, name), f"{path}{name}.")
    else:
        yield f"{path.rstrip('.')} was {served}, and would have been {changed}"


# --- shown by samples and the topology only -------------------------------------------------------


def _is_same_before(served: SimulatedCluster, changed: SimulatedCluster, now: int) -> None:
    versions = [(c.name, c.kubernetes_version, c.openshift_version) for c in (served, changed)]
    if versions[0] != versions[1] or served.monitoring != changed.monitoring:
        raise _refused(f"{served.name} was monitored otherwise", now)
    nodes = {node.name: node for node in changed.nodes}
    for node in served.nodes:
        if node.created_at <= now:
            would_be = nodes[node.name].known_by(now)
            _same(f"node {node.name}", node.known_by(now), would_be, now)
    pods = {pod.uid: pod for pod in changed.pods}
    for pod in served.pods:
        if pod.holds and pod.holds[0].held_from <= now:
            who = f"pod {pod.namespace}/{pod.name}"
            _same(who, _held(pod, now), _held(pods[pod.uid], now), now)
            _same_use(who, pod, pods[pod.uid], now)


def _held(pod: PodLifetime, now: int) -> dict[str, Sequence[DeviceHold]]:
    """Its devices; how it uses them is compared apart."""
    plain = [replace(h, utilisation=None, memory_used_mib=None, later=()) for h in pod.holds]
    return {"devices": [replace(h, held_until=_known(h.held_until, now)) for h in plain]}


def _known(end: int | None, now: int) -> int | None:
    return end if end is not None and end <= now else None


def _same_use(who: str, served: PodLifetime, changed: PodLifetime, now: int) -> None:
    for hold, other in zip(served.holds, changed.holds, strict=True):
        known = [(p.loads(h), p.memory_used_pct) for p, h in ((served, hold), (changed, other))]
        if known[0] == known[1]:
            continue
        ours, theirs = _use(served, hold, now), _use(changed, other, now)
        was = would_be = "idle"
        for at in sorted({*ours, *theirs}):
            was, would_be = ours.get(at, was), theirs.get(at, would_be)
            if was != would_be:
                both = f"{was} at {format_instant(instant(at))}, and would have been {would_be}"
                raise _refused(f"{who} was {both}", now)


def _use(pod: PodLifetime, hold: DeviceHold, now: int) -> dict[int, str]:
    """How a pod uses a device, from each second at which that changes."""
    loads = pod.loads(hold)
    ends = [*(load.from_at for load in loads[1:]), now + 1]
    used = {}
    for load, end in zip(loads, ends, strict=False):
        mib, pct = load.memory_used_mib, pod.memory_used_pct
        memory = f"{pct} % of the memory" if mib is None else f"{mib} MiB"
        for begins, _, busy in phases(load.utilisation, 0, min(end, now + 1) - load.from_at):
            used[load.from_at + begins] = f"{busy} % busy with {memory}"
    return used


# --- faults ---------------------------------------------------------------------------------------


def _begun(faults: Sequence[Fault], now: int) -> list[tuple[object, ...]]:
    """Faults that may have touched something; an end that is still to come may change."""
    return [
        (f.fault_id, f.cluster_id, f.from_at, min(f.until_at, now + 1), f.seed, dict(f.parameters))
        for f in faults
        if f.from_at <= now
    ]


def _refused(seen: str, now: int) -> SimulatedPastIsFixed:
    return SimulatedPastIsFixed(
        where="the scenario to take over",
        seen=seen,
        why=f"watches received other events, up to {format_instant(instant(now))}",
        remedy="start the changes later (`from:`, `at:`), and keep the seed and the names",
    )
