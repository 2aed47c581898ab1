"""The arrival, the name and the owners of each pod of a workload.

Put here: arrivals, names, owner chains and owner objects.
Not here: the pod's lifetime (`cluster_simulation`).

Every random value has its own stream, named by cluster, namespace, workload and number. A new
workload therefore changes no other workload.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from fake_gpu.fleet.model import OwnerRef, WorkloadChange, WorkloadLifetime
from fake_gpu.scenario.seeds import RandomStream, StreamFamily
from fake_gpu.scenario.spec_work import WorkloadSpec
from fake_gpu.scenario.utilisation import Load, parse_load

# A workload without `from` was created before the start of the scenario, at most so many seconds.
LONGEST_BEFORE_SECONDS = 3 * 86_400
SHORTEST_BEFORE_SECONDS = 3_600
MONDAY_TO_FRIDAY = range(5)
DAY = 86_400

LOAD_ANNOTATION = "run.ai/simulated-gpu-utilization"

FOREVER_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


@dataclass(frozen=True, slots=True)
class PodArrival:
    """One pod that a workload needs at an instant."""

    at: int
    group: int  # number of the Job or custom object, from 0
    replica: int  # number of the pod in it, from 0
    attempt: int = 0  # number of earlier pods with this group and replica
    node: str = ""  # only for a DaemonSet


@dataclass(slots=True)
class PodCreator:
    """One workload of one cluster, which creates pods."""

    seed: int
    cluster_id: str
    spec: WorkloadSpec
    started_at: int  # of the scenario
    ended_at: int
    objects: dict[tuple[str, str], WorkloadLifetime] = field(default_factory=dict)
    _family: StreamFamily | None = None
    _uuids: StreamFamily | None = None

    def draw(self, *names: object) -> RandomStream:
        """A random stream of this workload."""
        if self._family is None:
            spec = self.spec
            self._family = StreamFamily(
                self.seed, self.cluster_id, spec.namespace, spec.name, spec.kind
            )
        return self._family.stream(*names)

    def uuid(self, *names: object) -> str:
        """The UUID of an object in this workload's namespace."""
        if self._uuids is None:
            self._uuids = StreamFamily(self.seed, "uuid", self.cluster_id, self.spec.namespace)
        return self._uuids.stream(*names).uuid()

    def load(self) -> Load:
        """The load of its pods; the annotation of the fake GPU operator takes precedence."""
        annotated = self.spec.annotations.get(LOAD_ANNOTATION)
        return parse_load(annotated) if annotated else self.spec.utilisation

    @property
    def from_at(self) -> int:
        """The creation of the workload."""
        if self.spec.from_ is not None:
            return self.spec.from_
        if self.spec.kind not in FOREVER_KINDS and not self.spec.arrivals:
            return self.started_at
        before = self.draw("from").between(SHORTEST_BEFORE_SECONDS, LONGEST_BEFORE_SECONDS)
        return self.started_at - (before if not self.spec.lifetime else SHORTEST_BEFORE_SECONDS)

    @property
    def until_at(self) -> int:
        return self.spec.until if self.spec.until is not None else self.ended_at

    def first_arrivals(self) -> Iterator[PodArrival]:
        """The arrivals that do not depend on other pods, in their order."""
        if self.spec.pods or self.spec.kind == "DaemonSet":
            return
        if self.spec.arrivals is None:
            for replica in range(self.spec.replicas):
                yield PodArrival(self.from_at, 0, replica)
            return
        for group, at in enumerate(self._arrival_times()):
            for replica in range(self.spec.replicas):
                yield PodArrival(at, group, replica)

    def _arrival_times(self) -> Iterator[int]:
        arrivals = self.spec.arrivals
        assert arrivals is not None, "only for workloads with arrivals"
        if arrivals.every is None:
            yield from sorted(t for t in arrivals.at if t < self.until_at)
            return
        start = self.spec.from_ if self.spec.from_ is not None else self.started_at
        draw = self.draw("arrivals")
        first, last = arrivals.day_hours()
        at = start
        while True:
            at += arrivals.every.draw(draw, at_least=1)
            if at >= self.until_at:
                return
            weekday = (at // DAY + 3) % 7  # 1970-01-01 was a Thursday
            hour = at % DAY // 3600
            if first <= hour < last and (not arrivals.weekdays or weekday in MONDAY_TO_FRIDAY):
                yield at

    # --- names and owners ---------------------------------------------------------------------

    def pod_names(self, arrival: PodArrival, at: int) -> Iterator[str]:
        """The names that a pod may have: one, or endlessly many with a random suffix."""
        name = self.group_name(arrival.group, at)
        match self.spec.kind:
            case "StatefulSet":
                yield f"{name}-{arrival.replica}"
            case "Pod":
                yield name if self.spec.replicas == 1 else f"{name}-{arrival.replica}"
            case "Deployment" | "ReplicaSet" | "DaemonSet" | "Job" | "CronJob" as kind:
                draw = self.draw(
                    "pod", arrival.group, arrival.replica, arrival.attempt, arrival.node
                )
                begin = f"{name}-{self._template_hash()}" if kind == "Deployment" else name
                while True:
                    yield f"{begin}-{draw.letters(5)}"
            case _:
                again = f"-{arrival.attempt}" if arrival.attempt else ""
                yield f"{name}-worker-{arrival.replica}{again}"

    def group_name(self, group: int, at: int) -> str:
        """The name of the object that owns the pods of one arrival."""
        if self.spec.kind == "CronJob":
            return f"{self.spec.name}-{at // 60}"
        return f"{self.spec.name}-{group}" if self.spec.arrivals else self.spec.name

    def owners(self, group: int, at: int) -> tuple[OwnerRef, ...]:
        """The owner chain of a pod, the direct owner first; creates missing objects."""
        name = self.group_name(group, at)
        made_at = min(self.from_at, at)
        above = self._owners_of_workload(made_at)
        top = above[0] if above else None
        match self.spec.kind:
            case "Pod":
                return above
            case "Deployment":
                made = self._object("apps/v1", "Deployment", name, made_at, top)
                below = f"{name}-{self._template_hash()}"
                direct = self._object("apps/v1", "ReplicaSet", below, made_at, made)
                return (direct, made, *above)
            case "CronJob":
                made = self._object("batch/v1", "CronJob", self.spec.name, made_at, top)
                direct = self._object("batch/v1", "Job", name, at, made)
                return (direct, made, *above)
            case kind:
                since = at if self.spec.arrivals else made_at
                return (self._object(self.spec.api_version, kind, name, since, top), *above)

    def _owners_of_workload(self, made_at: int) -> tuple[OwnerRef, ...]:
        """The owners of the workload in the scenario, the direct owner first."""
        chain: tuple[OwnerRef, ...] = ()
        for owner in reversed(self.spec.owners):
            above = chain[0] if chain else None
            chain = (self._object(owner.api, owner.kind, owner.name, made_at, above), *chain)
        return chain

    def _object(
        self, api_version: str, kind: str, name: str, made_at: int, owner: OwnerRef | None
    ) -> OwnerRef:
        known = self.objects.get((kind, name))
        if known is None:
            known = WorkloadLifetime(
                cluster_id=self.cluster_id,
                namespace=self.spec.namespace,
                api_version=api_version,
                kind=kind,
                name=name,
                uid=self.uuid(kind, name, made_at),
                created_at=made_at,
                gone_at=self.spec.until,
                replicas=self.spec.replicas,
                owner=owner,
                labels=self.spec.labels,
                changes=self._changes_of(kind, name),
            )
            self.objects[(kind, name)] = known
        return OwnerRef(api_version, kind, name, known.uid)

    def _changes_of(self, kind: str, name: str) -> tuple[WorkloadChange, ...]:
        """The changes of one object of the workload; owners above the workload have no replicas."""
        who = f"{kind}/{name}"
        is_above = who in {f"{owner.kind}/{owner.name}" for owner in self.spec.owners}
        is_own = (kind, name) == (self.spec.kind, self.spec.name)
        target = who if is_above else ""
        replicas, annotations = self.spec.replicas, dict[str, str]()
        found = []
        for change in self.spec.changes:
            if not is_above and change.replicas is not None:
                replicas = change.replicas
            if (is_above or is_own) and change.owner == target:
                annotations = dict(change.annotations)
            found.append(WorkloadChange(change.at, replicas, annotations))
        return tuple(found)

    def _template_hash(self) -> str:
        text = f"{self.spec.namespace}/{self.spec.name}/{self.spec.requests}"
        digits = hashlib.sha256(text.encode()).hexdigest()
        return "".join("bcdfghjklmnpqrstvwxz2456789"[int(d, 16)] for d in digits[:9])
