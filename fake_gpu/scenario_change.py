"""A change of the served scenario: its past must equal the past that was served.

Put here: the scenario from now on, the comparison of two fleets, the numbers of changes.
Not here: switching the servers (`serve`), or joining two configurations (`scenario.succession`).

A scenario has times: its past must be the same to the second. A configuration has no times: it
applies from the next second on.
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
from fake_gpu.scenario.succession import join_scenarios

# A running clock advances while a new fleet is simulated, which takes at most this long.
SIMULATION_SECONDS = 2


@dataclass(slots=True)
class ScenarioChanges:
    """The numbers of accepted and refused attempts to change the scenario."""

    accepted: int = 0
    refused: int = 0
    is_last_accepted: bool = True


def continue_scenario(
    old: LoadedScenario | None, new: LoadedScenario, clock: VirtualClock
) -> LoadedScenario:
    """The scenario to serve from now on: the new one, or two configurations joined at now."""
    if old is None or not (old.is_timeless and new.is_timeless):
        return new
    at = first_free_second(clock)
    return replace(new, scenario=join_scenarios(old.scenario, new.scenario, at))


def first_free_second(clock: VirtualClock) -> int:
    """The first second that is not served while a changed fleet is simulated."""
    ahead = clock.speed * SIMULATION_SECONDS if clock.mode == "running" else 0
    return clock.now_seconds() + 1 + int(ahead)


def require_same_past(old: Fleet, new: Fleet, now: int) -> None:
    """Raise if the fleets differ in data that could be served until `now`."""
    served = {cluster.cluster_id: cluster for cluster in old.clusters}
    changed = {cluster.cluster_id: cluster for cluster in new.clusters}
    if set(served) != set(changed):
        raise _refusal(f"clusters {sorted(set(served) ^ set(changed))} come or go", now)
    for cluster_id in sorted(served):
        _require_same_objects(served[cluster_id], changed[cluster_id], now)
        _require_same_samples(served[cluster_id], changed[cluster_id], now)
    begun = [_faults_until(fleet.faults, now) for fleet in (old, new)]
    if begun[0] != begun[1]:
        others = sorted(set(map(str, begun[0])) ^ set(map(str, begun[1])))
        raise _refusal(f"a fault that has begun is another: {others[0]}", now)


def _require_same_objects(served: SimulatedCluster, changed: SimulatedCluster, now: int) -> None:
    """Compare objects before faults change them; to read changed ones would count as serving."""
    before = [c for c in ObjectHistory(served).changes if c.at <= now]
    after = [c for c in ObjectHistory(changed).changes if c.at <= now]
    for ours, theirs in zip_longest(before, after):
        if theirs is None or (ours is not None and _sort_key(ours) < _sort_key(theirs)):
            raise _refusal(f"{_change_text(ours)} would not have happened", now)
        if ours is None or _sort_key(ours) > _sort_key(theirs):
            raise _refusal(f"{_change_text(theirs)} would have happened", now)
        # With resource version 0: versions are numbered by the earlier changes, which are equal.
        _require_equal(_change_text(ours), ours.build(0), theirs.build(0), now)


def _sort_key(change: Change) -> tuple[int, str, str, str, str, str]:
    return change.at, change.kind, change.namespace, change.name, change.verb, change.uid


def _change_text(change: Change) -> str:
    name = f"{change.namespace}/{change.name}" if change.namespace else change.name
    return f"{change.kind} {name} {change.verb} at {format_instant(instant(change.at))}"


def _require_equal(who: str, served: object, changed: object, now: int) -> None:
    if served != changed:
        raise _refusal(f"{who}: {next(_differences(served, changed))}", now)


def _differences(served: Any, changed: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values of one type differ, with both values."""
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


# --- data that only samples and the topology show -------------------------------------------------


def _require_same_samples(served: SimulatedCluster, changed: SimulatedCluster, now: int) -> None:
    versions = [(c.name, c.kubernetes_version, c.openshift_version) for c in (served, changed)]
    if versions[0] != versions[1] or served.monitoring != changed.monitoring:
        raise _refusal(f"{served.name} was monitored otherwise", now)
    nodes = {node.name: node for node in changed.nodes}
    for node in served.nodes:
        if node.created_at <= now:
            would_be = nodes[node.name].known_by(now)
            _require_equal(f"node {node.name}", node.known_by(now), would_be, now)
    pods = {pod.uid: pod for pod in changed.pods}
    for pod in served.pods:
        if pod.holds and pod.holds[0].held_from <= now:
            who = f"pod {pod.namespace}/{pod.name}"
            _require_equal(who, _devices_until(pod, now), _devices_until(pods[pod.uid], now), now)
            _require_same_use(who, pod, pods[pod.uid], now)


def _devices_until(pod: PodLifetime, now: int) -> dict[str, Sequence[DeviceHold]]:
    """The devices of a pod without their use, which is compared separately."""
    plain = [replace(h, utilisation=None, memory_used_mib=None, later=()) for h in pod.holds]
    return {"devices": [replace(h, held_until=_end_until(h.held_until, now)) for h in plain]}


def _end_until(end: int | None, now: int) -> int | None:
    return end if end is not None and end <= now else None


def _require_same_use(who: str, served: PodLifetime, changed: PodLifetime, now: int) -> None:
    for hold, other in zip(served.holds, changed.holds, strict=True):
        known = [(p.loads(h), p.memory_used_pct) for p, h in ((served, hold), (changed, other))]
        if known[0] == known[1]:
            continue
        ours, theirs = _use_by_second(served, hold, now), _use_by_second(changed, other, now)
        was = would_be = "idle"
        for at in sorted({*ours, *theirs}):
            was, would_be = ours.get(at, was), theirs.get(at, would_be)
            if was != would_be:
                both = f"{was} at {format_instant(instant(at))}, and would have been {would_be}"
                raise _refusal(f"{who} was {both}", now)


def _use_by_second(pod: PodLifetime, hold: DeviceHold, now: int) -> dict[int, str]:
    """The use of a device by a pod, by the second from which it holds."""
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


def _faults_until(faults: Sequence[Fault], now: int) -> list[tuple[object, ...]]:
    """The faults that started until `now`; an end after `now` may change."""
    return [
        (f.fault_id, f.cluster_id, f.from_at, min(f.until_at, now + 1), f.seed, dict(f.parameters))
        for f in faults
        if f.from_at <= now
    ]


def _refusal(seen: str, now: int) -> SimulatedPastIsFixed:
    return SimulatedPastIsFixed(
        where="the scenario to take over",
        seen=seen,
        why=f"watches received other events, up to {format_instant(instant(now))}",
        remedy="start the changes later (`from:`, `at:`), and keep the seed and the names",
    )
