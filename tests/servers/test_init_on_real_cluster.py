"""A real API server accepts the manifests of `gpu-ledger init`, and the doctor finds no fault.

Put here: the manifests of a collector and of a hub, as the command writes them; rights; the policy.
Not here: the journal of a collector (`test_collector_follows_real_cluster`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.clock import SystemClock
from ingestion.acm import ALLOWLIST_NAME, HUB_NAMESPACE, LIST_NAMESPACES
from ingestion.kubernetes.api_server_probe import probe
from ingestion.kubernetes.watched_resources import PATHS
from orchestration.cli.init import init
from tests.servers.control_plane import ControlPlane, control_plane
from tests.servers.process import wait_for
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
CLUSTER_ID = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"
USER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "collector"}
Document = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


def written(folder: Path, *options: str) -> list[Document]:
    """The objects in every manifest that init writes."""
    ran = CliRunner().invoke(init, [str(folder), *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    files = sorted((folder / "deploy").rglob("*.yaml"))
    return [d for path in files for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]


def of_kind(documents: list[Document], kind: str) -> Document:
    [found] = [document for document in documents if document["kind"] == kind]
    return found


PLURALS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{ns}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{ns}/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/{ns}/persistentvolumeclaims",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
    "Deployment": "/apis/apps/v1/namespaces/{ns}/deployments",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}


@pytest.mark.parametrize("journal", ["", "s3://spool/prod-us"])
def test_a_real_server_takes_the_collector_under_the_restricted_standard(
    plane: ControlPlane, tmp_path: Path, journal: str
) -> None:
    options = ["--journal", journal] if journal else []
    documents = written(tmp_path, "--collector", CLUSTER_ID, *options)
    with plane.client() as admin:
        for document in documents:
            meta = document["metadata"]
            # The namespace must exist for its objects; all others are dry runs.
            is_namespace = document["kind"] == "Namespace"
            tried = {} if is_namespace else {"dryRun": "All"}
            path = PLURALS[document["kind"]].format(ns=meta.get("namespace", ""))
            answer = admin.post(path, params=tried | {"fieldValidation": "Strict"}, json=document)
            assert answer.status_code in (201, 409 if is_namespace else 201), answer.text
            assert "warning" not in answer.headers, answer.headers
        deployment = of_kind(documents, "Deployment")
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "tried"},
            "spec": deployment["spec"]["template"]["spec"],
        }
        namespace = deployment["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/pods"
        params = {"dryRun": "All", "fieldValidation": "Strict"}
        assert admin.post(path, params=params, json=pod).status_code == 201
        # The standard is enforced there: the same pod is refused as root.
        pod["spec"] = pod["spec"] | {"securityContext": {"runAsNonRoot": False}}
        assert admin.post(path, params=params, json=pod).status_code == 403


def test_the_doctor_sees_that_rights_are_missing_and_that_init_gives_them(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with plane.client() as admin:
        system = admin.get("/api/v1/namespaces/kube-system").json()
        settings = ServerAccess(
            plane.url, token_file=plane.token_file("collector"), ca_file=plane.ca_file
        )
        client = KubernetesClient(settings)
        spool, clock = FolderStore(tmp_path / "spool"), SystemClock()

        def wrong() -> set[str]:
            lines = probe(system["metadata"]["uid"], client, spool, clock)
            return {line.check for line in lines if not line.is_fine}

        # The namespace cannot be read, so no further probe runs.
        assert wrong() == {"API server answers", "journal is written"}
        documents = written(tmp_path / "home", "--collector", CLUSTER_ID)
        role = of_kind(documents, "ClusterRole")
        binding = of_kind(documents, "ClusterRoleBinding") | {"subjects": [USER]}
        partial = role | {"rules": [r for r in role["rules"] if "pods" in r["resources"]]}
        assert admin.post(f"{RBAC}/clusterroles", json=partial).status_code == 201
        assert admin.post(f"{RBAC}/clusterrolebindings", json=binding).status_code == 201
        claims = {f"may read {r}" for r in PATHS if r.startswith("resource") and "quota" not in r}
        others = {*claims, "may read gpubudgets"}
        wait_for(lambda: wrong() == {"journal is written", *others}, "rights for pods")
        name = role["metadata"]["name"]
        there = admin.get(f"{RBAC}/clusterroles/{name}").json()
        assert admin.put(f"{RBAC}/clusterroles/{name}", json=there | role).status_code == 200
        wait_for(lambda: wrong() == {"journal is written"}, "all rights")


def allowlist_of(namespace: str, text: str) -> Document:
    meta = {"name": ALLOWLIST_NAME, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"metrics_list.yaml": text},
    }


def test_a_tenant_namespace_cannot_remove_billing_metrics_from_the_list(
    plane: ControlPlane, tmp_path: Path
) -> None:
    documents = written(tmp_path, "--from-acm", "--managed-cluster", "prod-us")
    removal = allowlist_of("team-a", 'names: ["-kube_pod_container_resource_requests"]')
    with plane.client() as admin:
        alike = f"{HUB_NAMESPACE}-of-mine"
        for namespace in ("team-a", alike, *LIST_NAMESPACES):
            body = {"metadata": {"name": namespace}}
            assert admin.post("/api/v1/namespaces", json=body).status_code == 201
        strict = {"fieldValidation": "Strict"}
        for document in documents:
            path = {
                "ConfigMap": CONFIG_MAPS.format(ns=HUB_NAMESPACE),
                "ServiceAccount": f"/api/v1/namespaces/{HUB_NAMESPACE}/serviceaccounts",
                "ClusterRole": f"{RBAC}/clusterroles",
                "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
                "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
                "ValidatingAdmissionPolicyBinding": (
                    f"{ADMISSION}/validatingadmissionpolicybindings"
                ),
            }[document["kind"]]
            answer = admin.post(path, params=strict, json=document)
            assert answer.status_code == 201, answer.text
            assert "warning" not in answer.headers, answer.headers

        def refused() -> bool:
            return _tried(admin, removal).status_code == 422

        wait_for(refused, "the policy to hold")
        assert "stop billing for the whole cluster" in _tried(admin, removal).text
        # A namespace whose name only begins like one of ACM's does not belong to ACM.
        text = removal["data"]["metrics_list.yaml"]
        assert _tried(admin, allowlist_of(alike, text)).status_code == 422
        assert _tried(admin, allowlist_of(LIST_NAMESPACES[1], text)).status_code == 201
        harmless = removal | {"data": {"uwl_metrics_list.yaml": "names: [mine]"}}
        assert _tried(admin, harmless).status_code == 201


def _tried(admin: httpx.Client, document: Document) -> httpx.Response:
    path = CONFIG_MAPS.format(ns=document["metadata"]["namespace"])
    return admin.post(path, params={"dryRun": "All"}, json=document)
