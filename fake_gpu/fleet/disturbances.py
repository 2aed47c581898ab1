"""Early ends of pods: changes of nodes, deletions of namespaces, faults of the fleet.

Put here: the events that come from nodes, namespaces and faults, and the pods that they affect.
Not here: the effect of a stop on one pod (`play`).

Pods with exact times do as they are written; only generated pods are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.lives import End, SimulatedPod
from fake_gpu.fleet.model import Fault, Node, Run
from fake_gpu.fleet.namespaces import Namespaces
from fake_gpu.fleet.order import CHANGES
from fake_gpu.fleet.play import ClusterSimulation
from fake_gpu.fleet.stops import lose, stop, strand
from fake_gpu.scenario.seeds import stream

# The default toleration of unreachable and not-ready: after this, pods are asked to go.
TOLERATED_SECONDS = 300

# A fault that finds no pod to touch looks again after so long.
LOOK_AGAIN_SECONDS = 60


def expect_nodes(play: ClusterSimulation, nodes: Sequence[Node]) -> None:
    """Every change of a node's state, and its end, is an event."""
    for node in nodes:
        for state in node.states:
            play.at(state.from_at, CHANGES, lambda now, n=node: _node_changes(play, n, now))  # type: ignore[misc]
        if node.gone_at is not None:
            play.at(node.gone_at, CHANGES, lambda now, n=node: _delete_node(play, n, now))  # type: ignore[misc]


def _node_changes(play: ClusterSimulation, node: Node, now: int) -> None:
    play.room.refresh(node.name, now)
    state = play.room.node_at(node.name, now)
    if state is None:
        return
    there = set(state.device_ids)
    for life in play.room.pods_on(node.name):
        held = {b.device.device_id for lot in life.taken for b in lot.bookings}
        if not held <= there:
            # The MIG manager cuts only unused cards: their pods have ended by then.
            stop(play, life, now, "deleted", after=0)
    if state.ready != "True":
        play.at(now + TOLERATED_SECONDS, CHANGES, lambda t: _not_ready_too_long(play, node, now, t))
    play.retry_pending(now)


def _not_ready_too_long(play: ClusterSimulation, node: Node, since: int, now: int) -> None:
    lasting = [s for s in node.states if s.from_at < now and (s.until_at or FOR_EVER) > since]
    if any(s.ready == "True" for s in lasting) or play.room.node_at(node.name, now) is None:
        return
    state = play.room.node_at(node.name, now)
    if state is None or state.ready == "True":
        return
    back = [s.from_at for s in node.states if s.from_at > now and s.ready == "True"]
    for life in play.room.pods_on(node.name):
        if state.ready == "False":
            stop(play, life, now, "deleted")
        else:
            strand(play, life, now, min(back, default=None))


def _delete_node(play: ClusterSimulation, node: Node, now: int) -> None:
    """The node object is deleted: its pods are collected, without an end."""
    for life in play.pods_once_on(node.name):
        lose(play, life, now)
    play.room.refresh(node.name, now)


def expect_namespaces(play: ClusterSimulation, namespaces: Namespaces) -> None:
    for life in namespaces.lives:
        if life.terminating_at is not None:
            play.at(
                life.terminating_at,
                CHANGES,
                lambda now, name=life.name: _delete_namespace(play, name, now),  # type: ignore[misc]
            )


def _delete_namespace(play: ClusterSimulation, name: str, now: int) -> None:
    for life in list(play.living.values()):
        if life.spec.namespace != name or life.exact:
            continue
        if life.finished_at is not None:
            play.delete_pod(life, now)
        else:
            stop(play, life, now, "deleted", replace_it=False)


# --- faults -------------------------------------------------------------------------------------

_ENDS: dict[str, End] = {
    "evicted_without_end": "evicted_without_end",
    "pods_replaced": "deleted",
    "preemption": "deleted",
}


def expect_faults(play: ClusterSimulation, faults: Sequence[Fault]) -> None:
    """The fleet's faults that touch running pods."""
    for fault in faults:
        if fault.cluster_id not in ("", play.cluster_id):
            continue
        if fault.kind in _ENDS:
            play.at(fault.from_at, CHANGES, lambda now, f=fault: _end_pods(play, f, now))  # type: ignore[misc]
        elif fault.kind == "crash_loop":
            play.at(fault.from_at, CHANGES, lambda now, f=fault: _crash_loop(play, f, now))  # type: ignore[misc]
        elif fault.kind == "terminal_pods_kept":
            play.keepers.append(fault)


def chosen(play: ClusterSimulation, fault: Fault) -> list[SimulatedPod]:
    """Running pods that a fault is about, by its filters and its seed."""
    share = fault.parameters.get("share")
    lives = []
    for life in sorted(play.living.values(), key=lambda p: (p.spec.namespace, p.name, p.uid)):
        running = life.scheduled_at is not None and life.finished_at is None and not life.exact
        fits = (
            str(fault.parameters.get("namespace") or life.spec.namespace) == life.spec.namespace
            and life.name.startswith(str(fault.parameters.get("pod") or ""))
            and str(fault.parameters.get("node") or life.node_name) == life.node_name
        )
        if running and fits:
            numerator, denominator = getattr(share, "as_integer_ratio", lambda: (1, 1))()
            if stream(fault.seed, life.uid).chance(numerator, denominator):
                lives.append(life)
    return lives


def _end_pods(play: ClusterSimulation, fault: Fault, now: int) -> None:
    lives = chosen(play, fault)
    if not lives:
        _retry_later(play, now, fault, _end_pods)
    for life in lives:
        plans = life.version
        if fault.kind == "preemption":
            grace = fault.parameters["grace"]
            assert isinstance(grace, int), "the catalogue says a duration"
            stop(play, life, now, "deleted", after=grace)
        else:
            stop(play, life, now, _ENDS[fault.kind])
        if life.version != plans:  # some were asked to go already
            play.count_fault(fault)


def _retry_later(
    play: ClusterSimulation,
    now: int,
    fault: Fault,
    act: Callable[[ClusterSimulation, Fault, int], None],
) -> None:
    """No pod was there: the fault waits for one, as long as it lasts."""
    later = now + LOOK_AGAIN_SECONDS
    if later < fault.until_at:
        play.at(later, CHANGES, lambda t: act(play, fault, t))


def _crash_loop(play: ClusterSimulation, fault: Fault, now: int) -> None:
    every, pause = fault.parameters["every"], fault.parameters["pause"]
    assert isinstance(every, int), "the catalogue says a duration"
    assert isinstance(pause, int), "the catalogue says a duration"
    lives = chosen(play, fault)
    if not lives:
        _retry_later(play, now, fault, _crash_loop)
    for life in lives:
        end = life.planned_end if life.planned_end is not None else FOR_EVER
        if life.started_at is None or life.started_at >= now or end <= now + pause:
            continue
        before = [run for run in life.main_runs if run.started_at < now]
        runs = [*before[:-1], Run(before[-1].started_at, now, 1, "Error")]
        at = now + pause
        while at + every + pause < min(fault.until_at, end):
            runs.append(Run(at, at + every, 1, "Error"))
            at += every + pause
        last = life.main_runs[-1]
        life.main_runs = [*runs, Run(at, last.ended_at, last.exit_code, last.reason)]
        play.count_fault(fault)
