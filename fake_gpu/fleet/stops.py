"""A pod is stopped before its time: deleted, evicted, stranded on a silent node, lost with one.

Put here: the effect on one pod.
Not here: the causes and times of stops (`disturbances`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.order import ENDS
from fake_gpu.fleet.simulated_pods import End, SimulatedPod

if TYPE_CHECKING:
    from fake_gpu.fleet.cluster_simulation import ClusterSimulation


def stop(
    simulation: ClusterSimulation,
    pod: SimulatedPod,
    now: int,
    how: End,
    *,
    replace_it: bool = True,
    after: int | None = None,
) -> None:
    """A pod ends before its time, by deletion or eviction, `after` some seconds."""
    if pod.exact or pod.finished_at is not None or pod.deletion_requested_at is not None:
        return
    pod.version += 1
    pod.end = how
    if how == "deleted":
        pod.deletion_requested_at = now
        pod.grace_seconds = max(pod.grace_seconds, after or 0)
        if replace_it:
            simulation.replace_pod(pod, now, terminating=True)
    if pod.scheduled_at is None:
        simulation.quotas.count(pod, -1)
        simulation.delete_pod(pod, now)
        return
    stopping = simulation.stopping_seconds(pod, simulation.draw_for(pod, "stopped"))
    _end_at(simulation, pod, now + (stopping if after is None else after), now)


def _end_at(simulation: ClusterSimulation, pod: SimulatedPod, at: int, now: int) -> None:
    """The containers end at `at`, or as planned when that is sooner."""
    if pod.planned_end is not None:
        at = min(at, max(pod.planned_end, now))
    pod.exit_code = 143 if pod.end == "deleted" else 137
    pod.cut_runs(at, pod.exit_code, "Error")
    version = pod.version
    simulation.at(at, ENDS, lambda t: simulation.ends(pod, version, t))


def strand(simulation: ClusterSimulation, pod: SimulatedPod, now: int, back_at: int | None) -> None:
    """Its node sends no heartbeat: the evicted pod runs until the node is back."""
    if pod.exact or pod.finished_at is not None or pod.deletion_requested_at is not None:
        return
    pod.version += 1
    pod.end = "deleted"
    pod.deletion_requested_at = now
    pod.stays_until = FOR_EVER if back_at is None else back_at + 1
    simulation.replace_pod(pod, now, terminating=True)
    stopping = simulation.stopping_seconds(pod, simulation.draw_for(pod, "stopped"))
    end = FOR_EVER if back_at is None else back_at + stopping
    if min(end, pod.planned_end or FOR_EVER) < FOR_EVER:
        _end_at(simulation, pod, end, now)


def lose(simulation: ClusterSimulation, pod: SimulatedPod, now: int) -> None:
    """Its node is gone: the object is collected, without a status of how the containers ended."""
    if pod.exact or pod.uid not in simulation.existing:
        return
    if pod.finished_at is None:
        pod.version += 1
        pod.end = "gone"
        if pod.deletion_requested_at is None:
            pod.deletion_requested_at = now
            simulation.replace_pod(pod, now, terminating=True)
        pod.cut_runs(now, 137, "Error")
        pod.finished_at = now
        simulation.released(pod, now)
    simulation.delete_pod(pod, now)
