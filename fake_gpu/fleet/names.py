"""Who has which name at a time: as an API server has it, one name is one object's.

Put here: the names of pods during the simulation, and those of their owners after it.
Not here: how names are made (`pod_arrivals`), or names that a scenario writes twice
(`scenario.identities`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from domain.interval import format_instant
from fake_gpu.fleet.calendar import FOR_EVER
from fake_gpu.fleet.model import WorkloadLifetime, instant
from fake_gpu.fleet.simulated_pods import SimulatedPod
from fake_gpu.scenario.errors import InvalidScenario


@dataclass(slots=True)
class Names:
    """The pods of one cluster by namespace and name."""

    _holders: dict[tuple[str, str], SimulatedPod] = field(default_factory=dict)

    def is_free(self, namespace: str, name: str, at: int) -> bool:
        holder = self._holders.get((namespace, name))
        return holder is None or (holder.gone_at is not None and holder.gone_at <= at)

    def take(self, pod: SimulatedPod) -> None:
        """The pod is created: its name is taken until it is gone."""
        key = (pod.spec.namespace, pod.name)
        if not self.is_free(*key, pod.created_at):
            raise pod_name_taken(pod, self._holders[key])
        self._holders[key] = pod

    def give_back(self, pod: SimulatedPod) -> None:
        key = (pod.spec.namespace, pod.name)
        if self._holders.get(key) is pod:
            del self._holders[key]


def pod_name_taken(pod: SimulatedPod, other: SimulatedPod) -> InvalidScenario:
    since = format_instant(instant(other.created_at))
    gone = other.gone_at
    until = "with no end" if gone is None else f"until {format_instant(instant(gone))}"
    return InvalidScenario(
        where=f"pod {pod.spec.namespace}/{pod.name}",
        seen=f"workload {pod.spec.name} makes it at {format_instant(instant(pod.created_at))}, "
        f"and one that workload {other.spec.name} made is there from {since} {until}",
        why="a name belongs to one pod at a time, because samples identify pods by name",
        remedy="rename one of the two, or let it come when the other is gone",
    )


def require_own_names(owners: Iterable[WorkloadLifetime]) -> None:
    """Raise when two owner objects of one kind and name are there at one time."""
    by_name: dict[tuple[str, str, str], list[WorkloadLifetime]] = {}
    for owner in owners:
        by_name.setdefault((owner.namespace, owner.kind, owner.name), []).append(owner)
    for (namespace, kind, name), lifetimes in by_name.items():
        for before, after in pairwise(sorted(lifetimes, key=lambda lifetime: lifetime.created_at)):
            if after.created_at < (FOR_EVER if before.gone_at is None else before.gone_at):
                raise InvalidScenario(
                    where=f"{kind} {namespace}/{name}",
                    seen="two workloads make one of that name, and both are there at "
                    + format_instant(instant(after.created_at)),
                    why="a name is one object's at a time, and pods name their owners by it",
                    remedy="rename one of the two workloads",
                )
