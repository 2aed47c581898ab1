"""Early ends of pods: changes of nodes, deletions of namespaces, faults of the fleet.

Put here: the events that come from nodes, namespaces and faults, and the pods that they affect.
Not here: the effect of a stop on one pod (`cluster_simulation`).

Pods with exact times do as they are written; only generated pods are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.cluster_simulation import ClusterSimulation
from fake_gpu.fleet.model import Fault, Node, Run
from fake_gpu.fleet.namespaces import Namespaces
from fake_gpu.fleet.order import CHANGES
from fake_gpu.fleet.simulated_pods import End, SimulatedPod
from fake_gpu.fleet.stops import lose, stop, strand
from fake_gpu.scenario.seeds import stream

# The default toleration of unreachable and not-ready: after this, pods are evicted.
TOLERATED_SECONDS = 300

# A fault that finds no pod to touch looks again after so long.
LOOK_AGAIN_SECONDS = 60


def expect_nodes(simulation: ClusterSimulation, nodes: Sequence[Node]) -> None:
    """Every change of a node's state, and its end, is an event."""
    for node in nodes:
        for state in node.states:
            simulation.at(state.from_at, CHANGES, partial(_node_changes, simulation, node))
        if node.gone_at is not None:
            simulation.at(node.gone_at, CHANGES, partial(_delete_node, simulation, node))


def _node_changes(simulation: ClusterSimulation, node: Node, now: int) -> None:
    simulation.cluster_nodes.refresh(node.name, now)
    state = simulation.cluster_nodes.node_at(node.name, now)
    if state is None:
        return
    there = set(state.device_ids)
    for pod in simulation.cluster_nodes.pods_on(node.name):
        held = {b.device.device_id for grant in pod.grants for b in grant.bookings}
        if not held <= there:
            # The MIG manager cuts only unused cards: their pods have ended by then.
            stop(simulation, pod, now, "deleted", after=0)
    if state.ready != "True":
        simulation.at(
            now + TOLERATED_SECONDS,
            CHANGES,
            lambda t: _not_ready_too_long(simulation, node, now, t),
        )
    simulation.retry_pending(now)


def _not_ready_too_long(simulation: ClusterSimulation, node: Node, since: int, now: int) -> None:
    lasting = [s for s in node.states if s.from_at < now and (s.until_at or FOR_EVER) > since]
    if (
        any(s.ready == "True" for s in lasting)
        or simulation.cluster_nodes.node_at(node.name, now) is None
    ):
        return
    state = simulation.cluster_nodes.node_at(node.name, now)
    if state is None or state.ready == "True":
        return
    back = [s.from_at for s in node.states if s.from_at > now and s.ready == "True"]
    for pod in simulation.cluster_nodes.pods_on(node.name):
        if state.ready == "False":
            stop(simulation, pod, now, "deleted")
        else:
            strand(simulation, pod, now, min(back, default=None))


def _delete_node(simulation: ClusterSimulation, node: Node, now: int) -> None:
    """The node object is deleted: its pods are collected, without an end."""
    for pod in simulation.pods_once_on(node.name):
        lose(simulation, pod, now)
    simulation.cluster_nodes.refresh(node.name, now)


def expect_namespaces(simulation: ClusterSimulation, namespaces: Namespaces) -> None:
    for namespace in namespaces.lifetimes:
        if namespace.terminating_at is not None:
            simulation.at(
                namespace.terminating_at,
                CHANGES,
                partial(_delete_namespace, simulation, namespace.name),
            )


def _delete_namespace(simulation: ClusterSimulation, name: str, now: int) -> None:
    for pod in list(simulation.existing.values()):
        if pod.spec.namespace != name or pod.exact:
            continue
        if pod.finished_at is not None:
            simulation.delete_pod(pod, now)
        else:
            stop(simulation, pod, now, "deleted", replace_it=False)


# --- faults -------------------------------------------------------------------------------------

_ENDS: dict[str, End] = {
    "evicted_without_end": "evicted_without_end",
    "pods_replaced": "deleted",
    "preemption": "deleted",
}


def expect_faults(simulation: ClusterSimulation, faults: Sequence[Fault]) -> None:
    """The fleet's faults that touch running pods."""
    for fault in faults:
        if fault.cluster_id not in ("", simulation.cluster_id):
            continue
        if fault.kind in _ENDS:
            simulation.at(fault.from_at, CHANGES, partial(_end_pods, simulation, fault))
        elif fault.kind == "crash_loop":
            simulation.at(fault.from_at, CHANGES, partial(_crash_loop, simulation, fault))
        elif fault.kind == "terminal_pods_kept":
            simulation.keeping_faults.append(fault)


def chosen(simulation: ClusterSimulation, fault: Fault) -> list[SimulatedPod]:
    """Running pods that a fault is about, by its filters and its seed."""
    share = fault.parameters.get("share")
    pods = []
    for pod in sorted(
        simulation.existing.values(), key=lambda p: (p.spec.namespace, p.name, p.uid)
    ):
        running = pod.scheduled_at is not None and pod.finished_at is None and not pod.exact
        fits = (
            str(fault.parameters.get("namespace") or pod.spec.namespace) == pod.spec.namespace
            and pod.name.startswith(str(fault.parameters.get("pod") or ""))
            and str(fault.parameters.get("node") or pod.node_name) == pod.node_name
        )
        if running and fits:
            numerator, denominator = getattr(share, "as_integer_ratio", lambda: (1, 1))()
            if stream(fault.seed, pod.uid).chance(numerator, denominator):
                pods.append(pod)
    return pods


def _end_pods(simulation: ClusterSimulation, fault: Fault, now: int) -> None:
    pods = chosen(simulation, fault)
    if not pods:
        _retry_later(simulation, now, fault, _end_pods)
    for pod in pods:
        plans = pod.version
        if fault.kind == "preemption":
            grace = fault.parameters["grace"]
            assert isinstance(grace, int), "by the catalogue, a duration"
            stop(simulation, pod, now, "deleted", after=grace)
        else:
            stop(simulation, pod, now, _ENDS[fault.kind])
        if pod.version != plans:  # some are being evicted already
            simulation.count_fault(fault)


def _retry_later(
    simulation: ClusterSimulation,
    now: int,
    fault: Fault,
    act: Callable[[ClusterSimulation, Fault, int], None],
) -> None:
    """No pod was there: the fault waits for one, as long as it lasts."""
    later = now + LOOK_AGAIN_SECONDS
    if later < fault.until_at:
        simulation.at(later, CHANGES, lambda t: act(simulation, fault, t))


def _crash_loop(simulation: ClusterSimulation, fault: Fault, now: int) -> None:
    every, pause = fault.parameters["every"], fault.parameters["pause"]
    assert isinstance(every, int), "by the catalogue, a duration"
    assert isinstance(pause, int), "by the catalogue, a duration"
    pods = chosen(simulation, fault)
    if not pods:
        _retry_later(simulation, now, fault, _crash_loop)
    for pod in pods:
        end = pod.planned_end if pod.planned_end is not None else FOR_EVER
        if pod.started_at is None or pod.started_at >= now or end <= now + pause:
            continue
        before = [run for run in pod.main_runs if run.started_at < now]
        runs = [*before[:-1], Run(before[-1].started_at, now, 1, "Error")]
        at = now + pause
        while at + every + pause < min(fault.until_at, end):
            runs.append(Run(at, at + every, 1, "Error"))
            at += every + pause
        last = pod.main_runs[-1]
        pod.main_runs = [*runs, Run(at, last.ended_at, last.exit_code, last.reason)]
        simulation.count_fault(fault)
