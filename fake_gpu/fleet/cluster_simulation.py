"""The simulation of one cluster, event by event, from its first pod to the end of the scenario.

Put here: the order of events, and the effect of each on a pod.
Not here: disturbances (`disturbances`), free devices (`cluster_nodes`), or new pods (`arrivals`).

Events of one second happen in a fixed order: ends, then changes of nodes, then pods with
exact times, then pods that look for a place. So a device that is freed at a second is taken at the
same second, and never held twice. Pods come out when nothing about them can change any more, so
a month of a large fleet needs memory only for the pods that are running.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fake_gpu.fleet.cluster_nodes import ClusterNodes, does_not_fit
from fake_gpu.fleet.exact import exact_pod
from fake_gpu.fleet.model import Fault, PodLifetime, Run
from fake_gpu.fleet.names import Names, pod_name_taken
from fake_gpu.fleet.namespaces import Namespaces, exists_during
from fake_gpu.fleet.order import ASKS, CHANGES, ENDS, EXACT, GOES
from fake_gpu.fleet.pod_arrivals import FOREVER_KINDS, PodArrival, PodCreator
from fake_gpu.fleet.quotas import QuotaAdmission
from fake_gpu.fleet.scheduler import TRIED_AT_ONCE
from fake_gpu.fleet.simulated_pods import SimulatedPod, frozen
from fake_gpu.fleet.stops import stop
from fake_gpu.scenario.seeds import RandomStream
from fake_gpu.scenario.spec_work import PodSpec

# How often a failed Job makes another pod, and how long it waits (backoffLimit, back-off).
JOB_RETRIES = 2
JOB_BACKOFF_SECONDS = 10

# A name whose end is drawn is drawn again when an existing pod has it: one in 14 million has.
NAMES_TRIED = 8

Action = Callable[[int], None]


@dataclass(slots=True)
class ClusterSimulation:
    """The state of one cluster while it is simulated."""

    seed: int
    cluster_id: str
    horizon: int  # the end of the history, a little after the scenario's
    creators: Sequence[PodCreator]
    cluster_nodes: ClusterNodes
    quotas: QuotaAdmission
    namespaces: Namespaces
    names: Names = field(default_factory=Names)
    keeping_faults: list[Fault] = field(default_factory=list)  # faults that keep ended pods
    now: int = 0
    existing: dict[str, SimulatedPod] = field(default_factory=dict)
    creator_of: dict[str, PodCreator] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    _pending: list[SimulatedPod] = field(default_factory=list)
    _heap: list[tuple[int, int, int, Action]] = field(default_factory=list)
    _counter: int = 0
    _attempts: dict[tuple[int, int], int] = field(default_factory=dict)  # by creator and replica
    _done: list[PodLifetime] = field(default_factory=list)

    # --- events -------------------------------------------------------------------------------

    def at(self, when: int, order: int, action: Action) -> None:
        """Do something at a second, in the order of its kind."""
        self._counter += 1
        heapq.heappush(self._heap, (max(when, self.now), order, self._counter, action))

    def run(self) -> Iterator[PodLifetime]:
        """Simulate until the scenario ends; pods come in the order in which they are over."""
        self._place_exact()
        for creator in self.creators:
            self._start(creator)
        while self._heap and self._heap[0][0] < self.horizon:
            self.now, _, _, action = heapq.heappop(self._heap)
            action(self.now)
            if self._done:
                yield from self._done
                self._done.clear()
        for pod in sorted(self.existing.values(), key=lambda p: (p.created_at, p.name, p.uid)):
            yield frozen(_as_known(pod, self.horizon))

    def _start(self, creator: PodCreator) -> None:
        arrivals = creator.first_arrivals()

        def create_next_pod(arrival: PodArrival) -> None:
            def act(now: int) -> None:
                self.create_pod(creator, arrival, now)
                after = next(arrivals, None)
                if after is not None:
                    create_next_pod(after)

            self.at(arrival.at, ASKS, act)

        first = next(arrivals, None)
        if first is not None:
            create_next_pod(first)
        if creator.spec.kind == "DaemonSet" and not creator.spec.pods:
            for node in self.cluster_nodes.nodes_matching(creator.spec):
                self._create_pod_at(
                    creator, PodArrival(max(node.created_at, creator.from_at), 0, 0, 0, node.name)
                )
        for change in creator.spec.changes:
            if change.replicas is not None:
                self.at(change.at, CHANGES, lambda now: self._scale(creator, now))
        if creator.spec.until is not None:
            self.at(creator.spec.until, CHANGES, lambda now: self._stop_workload(creator, now))

    def _create_pod_at(self, creator: PodCreator, arrival: PodArrival) -> None:
        self.at(arrival.at, ASKS, lambda now: self.create_pod(creator, arrival, now))

    # --- exact pods ---------------------------------------------------------------------------

    def _place_exact(self) -> None:
        """Pods with a node and exact times have their devices before all other pods."""
        exact: list[tuple[int, int, SimulatedPod, PodSpec]] = []
        for creator in self.creators:
            for number, spec in enumerate(creator.spec.pods):
                pod = exact_pod(creator, spec, number)
                if pod.uid in self.existing:
                    raise pod_name_taken(pod, self.existing[pod.uid])
                self.creator_of[pod.uid] = creator
                self.existing[pod.uid] = pod
                exact.append((pod.scheduled_at or pod.created_at, len(exact), pod, spec))
        for _, _, pod, spec in sorted(exact, key=lambda e: e[:2]):
            until = self.horizon if pod.gone_at is None else min(pod.gone_at, self.horizon)
            namespace = pod.spec.namespace
            if not exists_during(self.namespaces.lifetimes, namespace, pod.created_at, until):
                raise does_not_fit(
                    pod,
                    f"namespace {namespace} does not exist during the whole time of the pod",
                    why="a pod can be in a namespace only while the namespace exists",
                    remedy="change the times of the namespace (`created`, `deleted`) or of the pod",
                )
            if pod.node_name:
                self.cluster_nodes.reserve_exact(pod, spec.cards)
            self._expect_exact(pod)

    def _expect_exact(self, pod: SimulatedPod) -> None:
        self.at(pod.created_at, CHANGES, lambda now: self._exact_made(pod))
        if pod.scheduled_at is not None:
            self.at(pod.scheduled_at, EXACT, lambda now: self.cluster_nodes.begin_exact(pod, now))
        if pod.finished_at is not None:
            self.at(pod.finished_at, ENDS, lambda now: self.released(pod, now))
        if pod.gone_at is not None:
            self.at(pod.gone_at, GOES, lambda now: self._exact_gone(pod))

    def _exact_made(self, pod: SimulatedPod) -> None:
        self.names.take(pod)
        self.quotas.count(pod, +1)

    def _exact_gone(self, pod: SimulatedPod) -> None:
        if pod.finished_at is None:
            self.quotas.count(pod, -1)
        self.names.give_back(pod)
        del self.existing[pod.uid]
        self._done.append(frozen(pod))

    # --- generated pods -----------------------------------------------------------------------

    def create_pod(self, creator: PodCreator, arrival: PodArrival, now: int) -> None:
        """A workload makes a pod, unless it is gone or its quota is used up."""
        namespace = creator.spec.namespace
        if now >= creator.until_at or not self.namespaces.takes_pods(namespace, now):
            return
        if creator.spec.changes:
            if arrival.replica >= creator.spec.replicas_at(now):
                return
            self._attempts[id(creator), arrival.replica] = arrival.attempt
        if not self.quotas.has_room(creator.spec, now):
            self.quotas.add_waiting(namespace, lambda t: self.create_pod(creator, arrival, t))
            return
        pod = self._new_pod(creator, arrival, now)
        self.names.take(pod)
        self.existing[pod.uid] = pod
        self.creator_of[pod.uid] = creator
        self.quotas.count(pod, +1)
        delay = creator.spec.scheduling.draw(self.draw_for(pod, "scheduling"))
        self.at(now + delay, ASKS, lambda t: self._look_for_place(pod, t))

    def _new_pod(self, creator: PodCreator, arrival: PodArrival, now: int) -> SimulatedPod:
        spec = creator.spec
        name = ""
        for name in islice(creator.pod_names(arrival, now), NAMES_TRIED):
            if self.names.is_free(spec.namespace, name, now):
                break
        draw = creator.draw("life", arrival.group, arrival.replica, arrival.attempt, arrival.node)
        return SimulatedPod(
            cluster_id=self.cluster_id,
            spec=replace(spec, node=arrival.node) if arrival.node else spec,
            name=name,
            uid=creator.uuid(spec.kind, name, now),
            created_at=now,
            owners=creator.owners(arrival.group, now),
            utilisation=creator.load().draw(draw),
            pod_ip=f"10.{draw.between(128, 191)}.{draw.between(0, 255)}.{draw.between(1, 254)}",
            replica=arrival.replica,
            group=arrival.group,
            attempt=arrival.attempt,
            grace_seconds=spec.grace_seconds,
        )

    def draw_for(self, pod: SimulatedPod, what: str) -> RandomStream:
        creator = self.creator_of[pod.uid]
        return creator.draw(what, pod.group, pod.replica, pod.attempt, pod.spec.node)

    def _look_for_place(self, pod: SimulatedPod, now: int) -> None:
        if pod.uid not in self.existing or pod.scheduled_at is not None:
            return
        if pod.deletion_requested_at is not None:
            return
        if not self._bind(pod, now):
            insort(self._pending, pod, key=_turn)

    def _bind(self, pod: SimulatedPod, now: int) -> bool:
        """Give the pod a node and its devices, and plan its times; False when nothing fits."""
        draw = self.draw_for(pod, "course")
        started = self._plan_start(pod, draw, now)
        ended, asked = self._plan_end(pod, draw, started)
        node = self.cluster_nodes.bind(pod, now, ended)
        if node is None:
            pod.init_runs.clear()
            return False
        pod.node_name, pod.scheduled_at = node, now
        pod.acknowledged_at = min(started, now + 1)
        pod.main_runs = _runs(pod, draw, started, ended, self.horizon)
        pod.planned_end = ended
        version = pod.version
        if asked is not None:
            self.at(asked, CHANGES, lambda t: self._deletion_requested(pod, version, t))
        if ended is not None:
            self.at(ended, ENDS, lambda t: self.ends(pod, version, t))
        return True

    def _plan_start(self, pod: SimulatedPod, draw: RandomStream, now: int) -> int:
        at = now + pod.spec.starting.draw(draw)
        for container in pod.spec.all_containers():
            if container.kind == "init":
                takes = container.takes.draw(draw, at_least=1)
                pod.init_runs[container.name] = Run(at, at + takes, 0, "Completed")
                at += takes
            elif container.kind == "sidecar":
                pod.init_runs[container.name] = Run(at, None)
                at += 1
        return at

    def _plan_end(
        self, pod: SimulatedPod, draw: RandomStream, started: int
    ) -> tuple[int | None, int | None]:
        """(end, time of the request for its deletion) as far as they follow from the workload."""
        if pod.spec.lifetime is None:
            return None, None
        lived = started + pod.spec.lifetime.draw(draw, at_least=1)
        if pod.spec.kind in FOREVER_KINDS:
            pod.end, pod.exit_code = "deleted", 143
            return lived + self.stopping_seconds(pod, draw), lived
        share = pod.spec.failures
        failed = draw.chance(share.numerator, share.denominator)
        pod.end, pod.exit_code = ("error", 1) if failed else ("completed", 0)
        return lived, None

    def stopping_seconds(self, pod: SimulatedPod, draw: RandomStream) -> int:
        return min(pod.spec.stopping.draw(draw), pod.grace_seconds)

    def _deletion_requested(self, pod: SimulatedPod, version: int, now: int) -> None:
        if pod.version == version and pod.uid in self.existing:
            pod.deletion_requested_at = now
            self.replace_pod(pod, now, terminating=True)

    def ends(self, pod: SimulatedPod, version: int, now: int) -> None:
        """All containers have ended: devices are free, and the object stays for a while."""
        if pod.version != version or pod.uid not in self.existing or pod.finished_at is not None:
            return
        pod.finished_at = now
        self.released(pod, now)
        deleted = pod.deletion_requested_at is not None
        at_once = deleted or pod.spec.kind in ("StatefulSet", "DaemonSet")
        gone = max(now + (1 if at_once else pod.spec.keep), pod.stays_until)
        for fault in self.keeping_faults:
            wanted = fault.parameters.get("namespace") or pod.spec.namespace
            is_here = not deleted and wanted == pod.spec.namespace
            if is_here and fault.from_at <= now and gone < fault.until_at:
                gone = fault.until_at
                self.count_fault(fault)
        self.at(gone, GOES, lambda t: self.delete_pod(pod, t))
        if not deleted:
            self.replace_pod(pod, now, terminating=False)

    def released(self, pod: SimulatedPod, now: int) -> None:
        self.cluster_nodes.release(pod, now)
        self.quotas.count(pod, -1)
        for create in self.quotas.pop_waiting(pod.spec.namespace):
            self.at(now, ASKS, create)
        if self._pending:
            self.retry_pending(now)

    def retry_pending(self, now: int) -> None:
        """Try to place the waiting pods again, in their order, after a device became free."""
        self.at(now, ASKS, self._retry)

    def _retry(self, now: int) -> None:
        left = []
        for pod in self._pending[:TRIED_AT_ONCE]:
            waits = pod.uid in self.existing and pod.deletion_requested_at is None
            if waits and pod.scheduled_at is None and not self._bind(pod, now):
                left.append(pod)
        self._pending[:TRIED_AT_ONCE] = left

    def delete_pod(self, pod: SimulatedPod, now: int) -> None:
        """The object is deleted."""
        if pod.uid not in self.existing:
            return
        pod.gone_at = now
        self.names.give_back(pod)
        del self.existing[pod.uid]
        self._done.append(frozen(pod))
        self._recreate_pod(pod, now)
        del self.creator_of[pod.uid]

    # --- replacement --------------------------------------------------------------------------

    def replace_pod(self, pod: SimulatedPod, now: int, *, terminating: bool) -> None:
        """The owner's reaction to a pod that ends or is deleted."""
        creator = self.creator_of[pod.uid]
        kind = creator.spec.kind
        again = PodArrival(now, pod.group, pod.replica, pod.attempt + 1, pod.spec.node)
        if kind in ("Deployment", "ReplicaSet"):
            self.at(now, ASKS, lambda t: self.create_pod(creator, again, t))
        failed_job = kind in ("Job", "CronJob") and not terminating and pod.end != "completed"
        if failed_job and pod.attempt < JOB_RETRIES:
            self.at(now + JOB_BACKOFF_SECONDS, ASKS, lambda t: self.create_pod(creator, again, t))

    def _recreate_pod(self, pod: SimulatedPod, now: int) -> None:
        """A StatefulSet makes a pod again, under the same name, when the old one is gone."""
        creator = self.creator_of[pod.uid]
        node_is_there = (
            not pod.spec.node or self.cluster_nodes.node_at(pod.spec.node, now) is not None
        )
        if creator.spec.kind in ("StatefulSet", "DaemonSet") and node_is_there:
            node = pod.spec.node if creator.spec.kind == "DaemonSet" else ""
            again = PodArrival(now, pod.group, pod.replica, pod.attempt + 1, node)
            self.at(now, ASKS, lambda t: self.create_pod(creator, again, t))

    def _scale(self, creator: PodCreator, now: int) -> None:
        """Pods above the wanted number are deleted, and missing ones made."""
        wanted, existing = creator.spec.replicas_at(now), self.pods_of(creator)
        for pod in existing:
            if pod.replica >= wanted:
                stop(self, pod, now, "deleted", replace_it=False)
        # A StatefulSet makes a pod again when the one of its name is gone.
        waits = creator.spec.kind == "StatefulSet"
        there = {p.replica for p in existing if waits or p.deletion_requested_at is None}
        for replica in sorted(set(range(wanted)) - there):
            attempt = self._attempts.get((id(creator), replica), -1) + 1
            self._create_pod_at(creator, PodArrival(now, 0, replica, attempt))

    def _stop_workload(self, creator: PodCreator, now: int) -> None:
        for pod in self.pods_of(creator):
            if pod.finished_at is None:
                stop(self, pod, now, "deleted", replace_it=False)

    def pods_of(self, creator: PodCreator) -> list[SimulatedPod]:
        return [p for p in list(self.existing.values()) if self.creator_of.get(p.uid) is creator]

    def pods_once_on(self, node: str) -> list[SimulatedPod]:
        """Pods whose object still names the node, ended or not."""
        return [p for p in list(self.existing.values()) if p.node_name == node]

    def count_fault(self, fault: Fault) -> None:
        self.fired[fault.fault_id] = self.fired.get(fault.fault_id, 0) + 1


def _turn(pod: SimulatedPod) -> tuple[int, int, str, str]:
    return (-pod.spec.priority, pod.created_at, pod.name, pod.uid)


def _runs(
    pod: SimulatedPod, draw: RandomStream, started: int, ended: int | None, horizon: int
) -> list[Run]:
    """The runs of the main containers: one, or several with restarts between them."""
    reason = {"completed": "Completed"}.get(pod.end, "Error")
    restarts = pod.spec.restarts
    runs: list[Run] = []
    at = started
    while restarts is not None:
        stops = at + restarts.every.draw(draw, at_least=1)
        again = stops + restarts.pause.draw(draw, at_least=1)
        if again >= (horizon if ended is None else ended):
            break
        runs.append(Run(at, stops, restarts.exit_code, "Error"))
        at = again
    runs.append(Run(at, ended, pod.exit_code if ended is not None else 0, reason if ended else ""))
    return runs


def _as_known(pod: SimulatedPod, horizon: int) -> SimulatedPod:
    """A generated pod that outlives the history: planned changes have not happened."""
    if not pod.exact:
        runs = [run for run in pod.main_runs if run.started_at < horizon]
        if runs and runs[-1].ended_at is not None and runs[-1].ended_at >= horizon:
            runs[-1] = Run(runs[-1].started_at, None)
        pod.main_runs = runs
        pod.init_runs = {n: r for n, r in pod.init_runs.items() if r.started_at < horizon}
        if pod.finished_at is None:
            pod.end = "completed"
    return pod
