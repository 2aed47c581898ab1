"""Manifests for a hub with Advanced Cluster Management: the allowlist of metrics, and its
protection.

Put here: the manifests that `gpu-ledger init FOLDER --from-acm` writes, made from the catalogue.
Not here: the queries (`ingestion.metric_catalogue`), or the collector's manifests.

ACM forwards only metrics on a list, and its default list lacks the phase of pods and all device
telemetry. The list is merged from ConfigMaps of *every* namespace of a managed cluster, so a user
who may create one in any namespace can remove billing metrics from it; the admission policy
prevents that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import yaml

from ingestion.metric_catalogue import ALLOCATION_ENTRIES, POD_LABELS_METRIC, TELEMETRY_ENTRIES
from ingestion.yaml_text import yaml_text

HUB_NAMESPACE = "open-cluster-management-observability"
ALLOWLIST_NAME = "observability-metrics-custom-allowlist"

LIST_NAMESPACES = (HUB_NAMESPACE, "open-cluster-management-addon-observability")
"""The namespaces in which the hub keeps its list, and a managed cluster its copy. Full names, not
prefixes: a user who may create namespaces can choose any prefix."""

FORWARDED_BY_DEFAULT = frozenset(
    {
        "up",
        "kube_pod_info",
        "kube_pod_owner",
        "kube_node_labels",
        "kube_node_role",
        "kube_node_status_allocatable",
        "kube_node_status_capacity",
        "kube_node_status_condition",
        "kube_node_spec_unschedulable",
        "kube_resourcequota",
        "kube_pod_container_resource_requests",
    }
)
"""On ACM's default list (MCO); single-node clusters forward requests only under load, see below."""

DEVICE_RESOURCES = "(nvidia|amd|intel|habana)_com_.*"
RAW_DEVICE_RESOURCES = "nvidia.com.*|amd.com.*|gpu.intel.com.*|habana.ai.*"


SHOWN = (
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_SM_CLOCK_HERTZ",
    "amd_gpu_memory_total_bytes",
)
"""Metrics that only the dashboards and rules of deploy/ read."""


def allowlist(pod_labels: Sequence[str] = ()) -> str:
    """The ConfigMap for the hub, with every metric that the default list lacks.

    Labels of pods are forwarded only where some are kept.
    """
    asked = [entry.metric for entry in (*ALLOCATION_ENTRIES, *TELEMETRY_ENTRIES)]
    names = [name for name in (*asked, *SHOWN) if name not in FORWARDED_BY_DEFAULT]
    names = [name for name in names if name != "kube_pod_resource_request"]
    names += [POD_LABELS_METRIC] if pod_labels else []
    inner = {
        "names": names,
        "matches": [
            f'__name__="kube_pod_resource_request",resource=~"{RAW_DEVICE_RESOURCES}"',
            # A name with `=` in an active collect rule is dropped; `=~` passes that test.
            f'__name__=~"kube_pod_container_resource_requests",resource=~"{DEVICE_RESOURCES}"',
        ],
    }
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ALLOWLIST_NAME, "namespace": HUB_NAMESPACE},
        "data": {"metrics_list.yaml": yaml.safe_dump(inner, sort_keys=False, width=200)},
    }
    return _document(config_map)


def admission_policy() -> str:
    """For every managed cluster: refuse allowlists in other namespaces."""
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "gpu-ledger-keeps-billing-metrics"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "is-an-allowlist",
                    "expression": f"object.metadata.name == '{ALLOWLIST_NAME}'",
                }
            ],
            "validations": [
                {
                    "expression": f"object.metadata.namespace in {list(LIST_NAMESPACES)}"
                    " || !has(object.data) || !('metrics_list.yaml' in object.data)",
                    "message": "platform metrics are listed on the hub only: this list is merged "
                    "unmodified, and could stop billing for the whole cluster",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "gpu-ledger-keeps-billing-metrics"},
        "spec": {
            "policyName": "gpu-ledger-keeps-billing-metrics",
            "validationActions": ["Deny"],
        },
    }
    return _document(policy, binding)


def reader(cluster_names: Iterable[str]) -> str:
    """On the hub: a service account that may read the metrics of the clusters, and nothing else."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "gpu-ledger", "namespace": HUB_NAMESPACE},
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "gpu-ledger-metrics"},
        "rules": [
            {
                "apiGroups": ["cluster.open-cluster-management.io"],
                "resources": ["managedclusters"],
                "resourceNames": sorted(cluster_names),
                "verbs": ["metrics/*"],
            }
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "gpu-ledger-metrics"},
        "subjects": [{"kind": "ServiceAccount", "name": "gpu-ledger", "namespace": HUB_NAMESPACE}],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "gpu-ledger-metrics",
        },
    }
    return _document(account, role, binding)


def _document(*objects: object) -> str:
    return "---\n".join(yaml_text(one) for one in objects)
