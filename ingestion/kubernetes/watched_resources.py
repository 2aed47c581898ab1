"""The resources that a collector lists and watches, and the kinds of owners that it looks up.

Put here: their paths at an API server.
Not here: requests (`clients.kubernetes`), or the kept fields of an object (`projections`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The path of each resource. resource.k8s.io/v1 exists since Kubernetes 1.34, GpuBudgets where
# deploy/budgets was applied.
PATHS: Mapping[str, str] = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "resourcequotas": "/api/v1/resourcequotas",
    "gpubudgets": "/apis/gpu-ledger.io/v1/gpubudgets",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}

# Kinds that own pods, or own their owners, by API group. The version is the one that the reference
# names. The workload of a pod is the last owner of its chain; a kind that is not here ends it.
OWNER_PLURALS: Mapping[tuple[str, str], str] = {
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "DaemonSet"): "daemonsets",
    ("batch", "Job"): "jobs",
    ("batch", "CronJob"): "cronjobs",
    ("argoproj.io", "Workflow"): "workflows",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("kubeflow.org", "MPIJob"): "mpijobs",
    ("kubeflow.org", "Notebook"): "notebooks",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs",
    ("kubeflow.org", "TFJob"): "tfjobs",
    ("kubeflow.org", "Workspace"): "workspaces",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets",
    ("ray.io", "RayCluster"): "rayclusters",
    ("ray.io", "RayJob"): "rayjobs",
    ("ray.io", "RayService"): "rayservices",
    ("serving.knative.dev", "Configuration"): "configurations",
    ("serving.knative.dev", "Revision"): "revisions",
    ("serving.knative.dev", "Service"): "services",
    ("serving.kserve.io", "InferenceService"): "inferenceservices",
    ("serving.kserve.io", "LLMInferenceService"): "llminferenceservices",
    ("sparkoperator.k8s.io", "SparkApplication"): "sparkapplications",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs",
    ("workload.codeflare.dev", "AppWrapper"): "appwrappers",
}

# Users write owner references; only a possible version and name becomes part of a path.
_VERSION = re.compile(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


def owner_path(api_version: str, kind: str, namespace: str, name: str) -> str:
    """The path of an owner of a known kind; "" for another kind, or an impossible name."""
    group, _, version = api_version.partition("/")
    plural = OWNER_PLURALS.get((group, kind), "")
    is_path = _VERSION.fullmatch(version) and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)
    if not plural or not is_path:
        return ""
    return f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}"
