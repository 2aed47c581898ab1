"""Namespaces through time: a name may have several lifetimes, each with its own UID.

Put here: the namespaces, and whether one exists at an instant.
Not here: the effect of a deletion on pods (`disturbances`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fake_gpu.fleet.model import NamespaceLifetime
from fake_gpu.scenario.seeds import uuid_of
from fake_gpu.scenario.spec_work import NamespaceSpec

# Pods get their grace period, then the namespace's finalizer runs.
TERMINATING_SECONDS = 45
ALWAYS_THERE = ("default", "kube-system", "kube-public")
WITH_OPENSHIFT = ("openshift-monitoring", "openshift-nfd")


def always_there(*, openshift: bool) -> tuple[str, ...]:
    """The namespaces that every cluster has."""
    return (*ALWAYS_THERE, *(WITH_OPENSHIFT if openshift else ()))


@dataclass(frozen=True, slots=True)
class Namespaces:
    lifetimes: tuple[NamespaceLifetime, ...]

    def takes_pods(self, name: str, at: int) -> bool:
        """Whether a pod can be made there: the namespace exists and is not being deleted."""
        return any(
            namespace.name == name
            and namespace.created_at <= at
            and (namespace.terminating_at is None or at < namespace.terminating_at)
            for namespace in self.lifetimes
        )


def exists_during(lifetimes: Iterable[NamespaceLifetime], name: str, at: int, until: int) -> bool:
    """Whether a namespace exists, without a pause, during an interval."""
    return any(
        namespace.name == name
        and namespace.created_at <= at
        and (namespace.gone_at is None or until <= namespace.gone_at)
        for namespace in lifetimes
    )


def build_namespaces(
    seed: int,
    cluster_id: str,
    specs: Sequence[NamespaceSpec],
    named: Iterable[str],
    created_at: int,
    *,
    openshift: bool,
) -> Namespaces:
    """Those with a history, those that workloads name, and those that every cluster has."""
    written = {spec.name for spec in specs}
    implied = {*named, *always_there(openshift=openshift)} - written
    listed = [*specs, *(NamespaceSpec(name) for name in sorted(implied))]
    lifetimes = [_namespace(seed, cluster_id, spec, created_at) for spec in listed]
    return Namespaces(tuple(sorted(lifetimes, key=lambda n: (n.created_at, n.name))))


def _namespace(
    seed: int, cluster_id: str, spec: NamespaceSpec, created_at: int
) -> NamespaceLifetime:
    created = created_at if spec.created is None else spec.created
    uid = uuid_of(seed, cluster_id, "namespace", spec.name, spec.created or "")
    return NamespaceLifetime(
        cluster_id=cluster_id,
        name=spec.name,
        uid=cluster_id if spec.name == "kube-system" else uid,
        created_at=created,
        terminating_at=spec.deleted,
        gone_at=None if spec.deleted is None else spec.deleted + TERMINATING_SECONDS,
        labels=labels_of(spec.name, spec.labels),
        relabelled=tuple(
            (change.at, labels_of(spec.name, change.labels))
            for change in sorted(spec.changes, key=lambda change: change.at)
            if change.at > created
        ),
    )


def labels_of(name: str, written: Mapping[str, str]) -> dict[str, str]:
    """Those that are written, and the one that every namespace has."""
    return {"kubernetes.io/metadata.name": name, **written}
