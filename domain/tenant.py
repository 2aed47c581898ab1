"""Whether a namespace belongs to a tenant or to the provider.

Put here: the rule for namespaces, and the dated exceptions to it.
Not here: reading the decisions (`domain.decisions`), or UIDs of namespaces (a `quality` finding).

A tenant is exactly one namespace over all clusters, so there is no map to maintain. The provider's
own namespaces are those that the platform creates for itself. The list of names is short on
purpose: a tenant could create a listed namespace that is not installed, and would not be billed.
Names under `openshift-` and `kube-` are safe: OpenShift refuses them to its users, and Kubernetes
reserves `kube-`. `default` is the provider's because it has no owner to bill. Not on the list:
namespaces in which a platform runs the pods of its users (`rhods-notebooks`, `kubeflow`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from domain.interval import Interval
from domain.validity import Validity


class BelongsTo(StrEnum):
    TENANT = "tenant"
    PROVIDER = "provider"


SYSTEM_PREFIXES = ("openshift-", "kube-")

SYSTEM_NAMESPACES = frozenset(
    {
        # Kubernetes and OpenShift themselves.
        "default",
        "openshift",
        # NVIDIA's operators: by OperatorHub, by chart, by older charts; network and DRA driver.
        "nvidia-gpu-operator",
        "gpu-operator",
        "gpu-operator-resources",
        "nvidia-network-operator",
        "nvidia-dra-driver-gpu",
        # The labels of nodes. AMD's operator lives in kube-amd-gpu or openshift-amd-gpu.
        "node-feature-discovery",
        # Advanced Cluster Management and what it installs on hubs and spokes.
        "hive",
        "multicluster-engine",
        "open-cluster-management",
        "open-cluster-management-addon-observability",
        "open-cluster-management-agent",
        "open-cluster-management-agent-addon",
        "open-cluster-management-hub",
        "open-cluster-management-observability",
        # The operators of OpenShift AI; its users' notebooks and models run elsewhere.
        "redhat-ods-applications",
        "redhat-ods-monitoring",
        "redhat-ods-operator",
        # The ledger itself.
        "gpu-ledger",
    }
)


class TenantException(Protocol):
    """A row of tenants.csv (`domain.decisions.rows.Tenant`)."""

    @property
    def namespace(self) -> str: ...
    @property
    def belongs_to(self) -> BelongsTo: ...
    @property
    def validity(self) -> Validity: ...


def belongs_by_rule(namespace: str) -> BelongsTo:
    """The rule without a decision: system namespaces are the provider's, all others tenants."""
    if namespace in SYSTEM_NAMESPACES or namespace.startswith(SYSTEM_PREFIXES):
        return BelongsTo.PROVIDER
    return BelongsTo.TENANT


class Ownership:
    """The rule together with the dated exceptions to it."""

    def __init__(self, exceptions: Iterable[TenantException] = ()) -> None:
        self._exceptions: defaultdict[str, list[TenantException]] = defaultdict(list)
        for exception in exceptions:
            self._exceptions[exception.namespace].append(exception)

    def belongs_to(self, namespace: str, instant: datetime) -> BelongsTo:
        """Whose the namespace is at `instant`."""
        found = [e for e in self._exceptions.get(namespace, ()) if e.validity.contains(instant)]
        assert len(found) < 2, f"{namespace} has two rows of tenants.csv at {instant}"
        return found[0].belongs_to if found else belongs_by_rule(namespace)

    def spans(self, namespace: str, window: Interval) -> list[tuple[Interval, BelongsTo]]:
        """The window, cut where the ownership changes."""
        exceptions = self._exceptions.get(namespace, ())
        pieces = window.split_at(edge for e in exceptions for edge in e.validity.edges())
        return [(piece, self.belongs_to(namespace, piece.started_at)) for piece in pieces]
