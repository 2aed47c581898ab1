"""Whose use is it: a tenant's, or the provider's own?

Put here: the rule for namespaces, and how dated decisions change it.
Not here: reading the decisions (`domain.decisions`), or UIDs of namespaces (a `quality` finding).

A tenant is exactly one namespace over all clusters, so there is no map to maintain. The
provider's own are the namespaces that the platform makes for itself. The list of names is kept
short on purpose: a name on it that nobody has installed could be taken by a tenant who would
rather not be billed. Names under `openshift-` and `kube-` cannot be: OpenShift refuses them to
its users, and Kubernetes reserves `kube-`. `default` is the provider's because it has no owner
to whom a bill could be sent. Not on the list: namespaces in which a platform runs the pods of its
users (`rhods-notebooks`, `kubeflow`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from domain.errors import BadInput
from domain.interval import Interval, format_instant
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
        # What labels the nodes. AMD's operator lives in kube-amd-gpu or openshift-amd-gpu.
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


class TwoAnswersAboutNamespace(BadInput):
    """Two decisions about one namespace hold at the same instant."""

    code = "TENANT-001"

    def __init__(
        self, namespace: str, instant: datetime, answers: Sequence[TenantException]
    ) -> None:
        super().__init__(
            where=f"namespace {namespace} at {format_instant(instant)}",
            seen=" and ".join(f"{a.belongs_to.value} ({a.validity})" for a in answers),
            why="the same use would be billed and not billed",
            remedy="end one of the rows of tenants.csv where the other begins",
        )


class TenantException(Protocol):
    """What a row of tenants.csv says; `domain.decisions` has it."""

    @property
    def namespace(self) -> str: ...
    @property
    def belongs_to(self) -> BelongsTo: ...
    @property
    def validity(self) -> Validity: ...


def belongs_by_rule(namespace: str) -> BelongsTo:
    """What holds without a decision: system namespaces are the provider's, all others tenants."""
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
        """Whose the namespace is at `instant`; two decisions for one instant are refused."""
        answers = [e for e in self._exceptions.get(namespace, ()) if e.validity.contains(instant)]
        if len(answers) > 1:
            raise TwoAnswersAboutNamespace(namespace, instant, answers)
        return answers[0].belongs_to if answers else belongs_by_rule(namespace)

    def spans(self, namespace: str, window: Interval) -> list[tuple[Interval, BelongsTo]]:
        """The window cut where the answer changes, with the answer for each piece."""
        exceptions = self._exceptions.get(namespace, ())
        pieces = window.split_at(edge for e in exceptions for edge in e.validity.edges())
        return [(piece, self.belongs_to(namespace, piece.started_at)) for piece in pieces]
