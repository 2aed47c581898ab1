"""A pod is stopped before its time: deleted, evicted, stranded on a silent node, lost with one.

Put here: the effect on one pod.
Not here: the causes and times of stops (`disturbances`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.lives import End, SimulatedPod
from fake_gpu.fleet.order import ENDS

if TYPE_CHECKING:
    from fake_gpu.fleet.play import ClusterSimulation


def stop(
    play: ClusterSimulation,
    life: SimulatedPod,
    now: int,
    how: End,
    *,
    replace_it: bool = True,
    after: int | None = None,
) -> None:
    """A pod ends before its time, by deletion or eviction, `after` some seconds."""
    if life.exact or life.finished_at is not None or life.deletion_requested_at is not None:
        return
    life.version += 1
    life.end = how
    if how == "deleted":
        life.deletion_requested_at = now
        life.grace_seconds = max(life.grace_seconds, after or 0)
        if replace_it:
            play.replace_pod(life, now, terminating=True)
    if life.scheduled_at is None:
        play.quotas.count(life, -1)
        play.delete_pod(life, now)
        return
    stopping = play.stopping_seconds(life, play.draw_for(life, "stopped"))
    _end_at(play, life, now + (stopping if after is None else after), now)


def _end_at(play: ClusterSimulation, life: SimulatedPod, at: int, now: int) -> None:
    """The containers end at `at`, or as planned when that is sooner."""
    if life.planned_end is not None:
        at = min(at, max(life.planned_end, now))
    life.exit_code = 143 if life.end == "deleted" else 137
    life.cut_runs(at, life.exit_code, "Error")
    version = life.version
    play.at(at, ENDS, lambda t: play.ends(life, version, t))


def strand(play: ClusterSimulation, life: SimulatedPod, now: int, back_at: int | None) -> None:
    """Its node is not heard of: asked to go, it runs on until the node is back."""
    if life.exact or life.finished_at is not None or life.deletion_requested_at is not None:
        return
    life.version += 1
    life.end = "deleted"
    life.deletion_requested_at = now
    life.stays_until = FOR_EVER if back_at is None else back_at + 1
    play.replace_pod(life, now, terminating=True)
    stopping = play.stopping_seconds(life, play.draw_for(life, "stopped"))
    end = FOR_EVER if back_at is None else back_at + stopping
    if min(end, life.planned_end or FOR_EVER) < FOR_EVER:
        _end_at(play, life, end, now)


def lose(play: ClusterSimulation, life: SimulatedPod, now: int) -> None:
    """Its node is gone: the object is collected, without a status of how the containers ended."""
    if life.exact or life.uid not in play.living:
        return
    if life.finished_at is None:
        life.version += 1
        life.end = "gone"
        if life.deletion_requested_at is None:
            life.deletion_requested_at = now
            play.replace_pod(life, now, terminating=True)
        life.cut_runs(now, 137, "Error")
        life.finished_at = now
        play.released(life, now)
    play.delete_pod(life, now)
