"""Resource quotas: admission of pods, and the used amounts in the quota object.

Put here: admission while a cluster is simulated, and the used amounts afterwards.
Not here: the objects of the API (`kubernetes`).

A pod counts from its creation until its phase is terminal or its object is gone; Pending counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fake_gpu.fleet.model import PodLifetime, QuotaLifetime, effective_requests
from fake_gpu.fleet.simulated_pods import SimulatedPod
from fake_gpu.scenario.seeds import uuid_of
from fake_gpu.scenario.spec_work import QuotaSpec, WorkloadSpec

PREFIX = "requests."


@dataclass(slots=True)
class QuotaAdmission:
    """The used amounts at present, by namespace, and the pods that wait for a quota."""

    specs: Mapping[str, tuple[QuotaSpec, ...]]  # by namespace
    _used: dict[tuple[str, str], int] = field(default_factory=dict)
    _waiting: dict[str, list[Callable[[int], None]]] = field(default_factory=dict)

    def has_room(self, spec: WorkloadSpec, at: int) -> bool:
        quotas = self.specs.get(spec.namespace, ())
        requests = effective_requests(spec.all_containers()) if quotas else {}
        for quota in quotas:
            hard = _limits_at(quota, at)
            for resource, count in requests.items():
                limit = hard.get(PREFIX + resource)
                used = self._used.get((spec.namespace, resource), 0)
                if limit is not None and used + count > limit:
                    return False
        return True

    def count(self, pod: SimulatedPod, sign: int) -> None:
        namespace = pod.spec.namespace
        if namespace in self.specs:
            for resource, number in effective_requests(pod.spec.all_containers()).items():
                key = (namespace, resource)
                self._used[key] = self._used.get(key, 0) + sign * number

    def add_waiting(self, namespace: str, create: Callable[[int], None]) -> None:
        self._waiting.setdefault(namespace, []).append(create)

    def pop_waiting(self, namespace: str) -> list[Callable[[int], None]]:
        """The calls that create the waiting pods of the namespace, in their order."""
        return self._waiting.pop(namespace, [])


def _limits_at(quota: QuotaSpec, at: int) -> Mapping[str, int]:
    hard = quota.hard
    for change in sorted(quota.changes, key=lambda c: c.at):
        if change.at <= at:
            hard = change.hard
    return hard


def quota_histories(
    seed: int,
    cluster_id: str,
    specs: Iterable[QuotaSpec],
    created_at: int,
    pods: Iterable[PodLifetime],
) -> tuple[QuotaLifetime, ...]:
    """The quota objects with every change of the used amounts."""
    by_namespace: dict[str, list[PodLifetime]] = {}
    listed = list(specs)
    watched = {spec.namespace for spec in listed}
    for pod in pods:
        if pod.namespace in watched:
            by_namespace.setdefault(pod.namespace, []).append(pod)
    return tuple(
        _quota_history(seed, cluster_id, spec, created_at, by_namespace.get(spec.namespace, []))
        for spec in listed
    )


def _quota_history(
    seed: int, cluster_id: str, spec: QuotaSpec, created_at: int, pods: list[PodLifetime]
) -> QuotaLifetime:
    resources = sorted({r for hard in [spec.hard, *(c.hard for c in spec.changes)] for r in hard})
    changes: dict[int, dict[str, int]] = {}
    for pod in pods:
        ends = [t for t in (pod.finished_at, pod.gone_at) if t is not None]
        for resource in resources:
            number = pod.requests.get(resource.removeprefix(PREFIX), 0)
            for at, delta in ((pod.created_at, number), (min(ends, default=None), -number)):
                if at is not None and delta:
                    changes.setdefault(at, {}).setdefault(resource, 0)
                    changes[at][resource] += delta
    used = dict.fromkeys(resources, 0)
    history: list[tuple[int, Mapping[str, int]]] = [(created_at, dict(used))]
    for at in sorted(changes):
        used = {r: used[r] + changes[at].get(r, 0) for r in resources}
        history.append((at, dict(used)))
    hard = [(created_at, spec.hard), *((c.at, c.hard) for c in spec.changes)]
    return QuotaLifetime(
        cluster_id=cluster_id,
        namespace=spec.namespace,
        name=spec.name,
        uid=uuid_of(seed, cluster_id, "quota", spec.namespace, spec.name),
        created_at=created_at,
        gone_at=None,
        hard=tuple(sorted(hard, key=lambda h: h[0])),
        used=tuple(history),
    )
