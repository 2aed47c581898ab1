"""The resources that the fake API serves, and its discovery documents.

Put here: groups, versions, names. Not here: responses to requests for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fake_gpu.fleet.model import WorkloadLifetime
from fake_gpu.kubernetes.forms import Document


@dataclass(frozen=True, slots=True)
class Resource:
    """One line of the API's table of contents."""

    group_version: str  # "v1", "apps/v1"
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where its group and version begin: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.group_version}" if "/" in self.group_version else "/api/v1"

    @property
    def group(self) -> str:
        return self.group_version.rpartition("/")[0]

    @property
    def full_name(self) -> str:
        """As messages name it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


RESOURCES = (
    Resource("v1", "events", "Event", True, ("ev",)),
    Resource("v1", "namespaces", "Namespace", False, ("ns",)),
    Resource("v1", "nodes", "Node", False, ("no",)),
    Resource("v1", "pods", "Pod", True, ("po",)),
    Resource("v1", "resourcequotas", "ResourceQuota", True, ("quota",)),
    Resource("apps/v1", "deployments", "Deployment", True, ("deploy",)),
    Resource("apps/v1", "replicasets", "ReplicaSet", True, ("rs",)),
    Resource("apps/v1", "statefulsets", "StatefulSet", True, ("sts",)),
    Resource(
        "autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",)
    ),
    Resource("batch/v1", "cronjobs", "CronJob", True, ("cj",)),
    Resource("batch/v1", "jobs", "Job", True),
    Resource("gpu-ledger.io/v1", "gpubudgets", "GpuBudget", True),
    Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True),
    Resource("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", True),
    Resource("resource.k8s.io/v1", "resourceslices", "ResourceSlice", False),
)


def resources_of(workloads: Iterable[WorkloadLifetime]) -> tuple[Resource, ...]:
    """All that is served: the resources of every server, and the cluster's own kinds of owners."""
    known = {resource.kind for resource in RESOURCES}
    custom = {(w.api_version, w.kind) for w in workloads if w.kind not in known}
    return (*RESOURCES, *(Resource(api, f"{k.lower()}s", k, True) for api, k in sorted(custom)))


ACCESS_REVIEWS = "authorization.k8s.io/v1"
REVIEW_PLURAL = "selfsubjectaccessreviews"

VERBS = ("get", "list", "watch")
WRITTEN = ("events", "horizontalpodautoscalers", "rolebindings")
"""Clients create, patch and delete these; nothing in a scenario makes them, but for some Events."""
SCALED = ("deployments", "statefulsets")


def is_patched(resource: Resource) -> bool:
    """Whether a patch may change its replicas or annotations: workloads and custom kinds."""
    is_custom = resource not in RESOURCES
    return resource.plural in SCALED or is_custom


Served = tuple[Resource, ...]


def serves(served: Served, verb: str, group: str, plural: str, subresource: str) -> bool:
    """Whether the access is allowed: reading, an access review, or a write that is accepted."""
    if plural == REVIEW_PLURAL:
        return (verb, group) == ("create", ACCESS_REVIEWS.partition("/")[0]) and not subresource
    for resource in served:
        if (group, plural) == (resource.group, resource.plural):
            if subresource:
                return (subresource, verb) in (("scale", "get"), ("scale", "patch")) and (
                    plural in SCALED
                )
            if verb in ("create", "patch", "delete") and plural in WRITTEN:
                return True
            return verb in VERBS or (verb == "patch" and is_patched(resource))
    return False


def core_versions() -> Document:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_names(served: Served) -> set[str]:
    return {r.group for r in served if r.group} | {ACCESS_REVIEWS.partition("/")[0]}


def group_list(served: Served) -> Document:
    groups = sorted({r.group_version for r in served if "/" in r.group_version})
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(text) for text in [*groups, ACCESS_REVIEWS]],
    }


def _group(group_version: str) -> Document:
    group, _, version = group_version.partition("/")
    entry = {"groupVersion": group_version, "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def resource_list(served: Served, group_version: str) -> Document:
    """The resources of one group and version, or an empty document when there are none."""
    entries: list[Document] = [
        {
            "name": r.plural,
            "singularName": r.kind.lower(),
            "namespaced": r.namespaced,
            "kind": r.kind,
            "verbs": list(VERBS),
        }
        | ({"shortNames": list(r.short_names)} if r.short_names else {})
        for r in served
        if r.group_version == group_version
    ]
    if group_version == ACCESS_REVIEWS:
        review = "SelfSubjectAccessReview"
        entries = [
            {
                "name": REVIEW_PLURAL,
                "singularName": review.lower(),
                "namespaced": False,
                "kind": review,
                "verbs": ["create"],
            }
        ]
    if not entries:
        return {}
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }


def version_document(kubernetes_version: str) -> Document:
    """The `/version` document of `v1.34.1`."""
    major, minor, *_ = kubernetes_version.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": kubernetes_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2025-09-09T00:00:00Z",
        "goVersion": "go1.24.6",
        "compiler": "gc",
        "platform": "linux/amd64",
    }
