"""The manifests of `deploy/` on a real API server: strict validation, pod security, rights.

Put here: properties of every base and overlay, and the rights of each account.
Not here: the AMD exporter's parts (`test_amd_exporter_installed`), the refusals of the pruner's
policy (`test_idle_pruner`), or a collector that watches (`test_collector_follows_real_cluster`).
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.servers.control_plane import ControlPlane, control_plane
from tests.servers.custom_resources import (
    alertmanager_config,
    prometheus_operator,
    routes,
    security_context_constraints,
)
from tests.servers.process import required, wait_for

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
KUBERNETES_VERSIONS = [f"1.{minor}" for minor in range(30, 38)]
PARTS = (
    "overlays/kubernetes",
    "overlays/openshift",
    "overlays/acm-hub",
    "overlays/demo",
    "overlays/kubernetes + portal/components/oidc",
    "backup/restore",
    "backup/restore-openshift",
    "collector",
    "collector + collector/components/monitoring",
    "idle-pruner",
    "amd-exporter/base",
    "fake-gpu/overlays/kwok",
    "fake-gpu/overlays/kubelet",
    "fake-gpu/overlays/openshift",
    "budgets",
    "alerts",
    "gpu-health",
)
# The AMD exporter reads device files, and a device plugin registers at the kubelet's socket.
PRIVILEGED = ("amd-exporter/base", "fake-gpu/overlays/kubelet", "fake-gpu/overlays/openshift")
RESTRICTED = [
    part for part in PARTS if part not in (*PRIVILEGED, "budgets", "alerts", "gpu-health")
]
Document = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        folder = tmp_path_factory.mktemp("definitions")
        files = [
            *prometheus_operator(folder),
            *alertmanager_config(folder),
            *security_context_constraints(folder),
            *routes(folder),
        ]
        for path in files:
            kubectl(plane, "apply", "--server-side", "-f", str(path))
        kubectl(plane, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        strict = {"pod-security.kubernetes.io/enforce": "restricted"}
        existing = (
            "open-cluster-management-observability",
            "openshift-config-managed",
            "nvidia-gpu-operator",
            "gpu-ledger",
        )
        for name in ("strict", *existing):
            with plane.client() as admin:
                labels = strict if name == "strict" else {}
                body = {"metadata": {"name": name, "labels": labels}}
                assert admin.post("/api/v1/namespaces", json=body).status_code == 201
        yield plane


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(required("kubectl")), f"--kubeconfig={plane.kubeconfig()}", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, f"{arguments}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@cache
def _rendered(part: str) -> str:
    """The objects of a folder, or of a folder with a component ("folder + component")."""
    base, *components = part.split(" + ")
    with TemporaryDirectory() as folder:
        own = {
            "resources": [os.path.relpath(DEPLOY / base, folder)],
            "components": [os.path.relpath(DEPLOY / one, folder) for one in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(own))
        command = [str(required("kubectl")), "kustomize", folder]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rendered(part: str) -> list[Document]:
    return [one for one in yaml.load_all(_rendered(part), yaml.CSafeLoader) if one]


def pod_templates(documents: list[Document]) -> dict[str, Document]:
    """The pod specification of every workload, by kind and name."""
    found = {}
    for document in documents:
        spec = document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            pod = spec["template"]["spec"]
            claimed = [{"name": c["metadata"]["name"], "emptyDir": {}}
                       for c in spec.get("volumeClaimTemplates", [])]  # fmt: skip
            pod = pod | {"volumes": [*pod.get("volumes", []), *claimed]}
            found[f"{document['kind']} {document['metadata']['name']}"] = pod
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_real_server_takes_every_part_strictly(plane: ControlPlane, part: str) -> None:
    for document in rendered(part):
        if document["kind"] == "Namespace":
            name = document["metadata"]["name"]
            kubectl(plane, "apply", "--server-side", "-f", _written(plane, document, name))
    options = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    path = plane.kubeconfig().parent / "part.yaml"
    path.write_text(_rendered(part))
    said = kubectl(plane, "apply", *options, "-f", str(path))
    assert said.count("serverside-applied") == len(rendered(part))


def test_a_real_server_takes_the_routes_of_a_tenant(plane: ControlPlane) -> None:
    file = DEPLOY / "budgets" / "alertmanager-config.yaml"
    options = ("--server-side", "--dry-run=server", "--validate=strict", "--namespace=strict")
    said = kubectl(plane, "apply", *options, "-f", str(file))
    routes = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    assert said.count("serverside-applied") == len(routes) > 0


def test_the_patch_of_the_guide_removes_only_the_alerts(tmp_path: Path) -> None:
    """On a site where gpu-ledger sends them itself."""
    page = (ROOT / "docs" / "how-to" / "alert-the-provider.md").read_text(encoding="utf-8")
    [patches] = re.findall(r"```yaml\n(patches:.*?)```", page, re.DOTALL)
    overlay = os.path.relpath(DEPLOY / "overlays" / "openshift", tmp_path)
    own = {"resources": [overlay], **yaml.safe_load(patches)}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    left = {(d["kind"], d["metadata"]["name"]) for d in rendered(str(tmp_path))}
    every = {(d["kind"], d["metadata"]["name"]) for d in rendered("overlays/openshift")}
    assert every - left == {("PrometheusRule", "gpu-ledger")}
    assert ("PrometheusRule", "gpu-ledger-recorded") in left


def test_only_prometheus_reaches_the_metrics_of_the_portal() -> None:
    documents = {(d["kind"], d["metadata"]["name"]): d for d in rendered("overlays/openshift")}
    pod = documents["Deployment", "portal"]["spec"]["template"]
    [portal] = [one for one in pod["spec"]["containers"] if one["name"] == "portal"]
    [port] = [one for one in portal["ports"] if one["name"] == "metrics"]
    assert {f"--metrics-port={port['containerPort']}", "--metrics-host=0.0.0.0"} <= {
        *portal["args"]
    }
    monitor = documents["ServiceMonitor", "portal"]["spec"]
    service = documents["Service", "portal-metrics"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert [one["port"] for one in monitor["endpoints"]] == [service["spec"]["ports"][0]["name"]]
    opened = {
        name
        for (kind, name), document in documents.items()
        if kind == "NetworkPolicy"
        and document["spec"]["podSelector"].get("matchLabels", {}) == service["spec"]["selector"]
        for rule in document["spec"].get("ingress", [])
        if {"metrics", 9403, None} & {one.get("port") for one in rule.get("ports", [{}])}
    }
    assert opened == {"portal-metrics"}


def _written(plane: ControlPlane, document: Document, name: str) -> str:
    path = plane.kubeconfig().parent / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "SecurityContextConstraints",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.mark.parametrize("part", PARTS)
def test_no_object_falls_into_the_namespace_of_the_caller(part: str) -> None:
    for document in rendered(part):
        is_placed = document["kind"] in CLUSTER_SCOPED or document["metadata"].get("namespace")
        assert is_placed, f"{document['kind']} {document['metadata']['name']}"


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_supported_version_knows_every_field(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It reads all definitions of a version for each object.
    schemas = kubernetes_validate.utils
    monkeypatch.setattr(schemas, "schema_contents", cache(schemas.schema_contents))
    seen = 0
    for part in PARTS:
        for document in rendered(part):
            group = document["apiVersion"].rpartition("/")[0]
            if "." in group and not group.endswith("k8s.io"):
                continue  # custom resources have no built-in schema
            kubernetes_validate.validate(document, version, strict=True)
            seen += 1
    assert seen > 60


def test_the_schemas_refuse_an_unknown_field() -> None:
    [service] = [d for d in rendered("overlays/kubernetes") if d["metadata"]["name"] == "portal"
                 and d["kind"] == "Service"]  # fmt: skip
    service["spec"]["clusterip"] = "None"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service, "1.30", strict=True)


@pytest.mark.parametrize("part", RESTRICTED)
def test_pods_run_under_the_restricted_standard(plane: ControlPlane, part: str) -> None:
    templates = pod_templates(rendered(part))
    assert templates
    with plane.client() as admin:
        for name, template in templates.items():
            spec = {**template, "serviceAccountName": "default"}
            pod = {"metadata": {"name": "tried"}, "spec": spec}
            path = "/api/v1/namespaces/strict/pods"
            answer = admin.post(path, params={"dryRun": "All"}, json=pod)
            assert answer.status_code == 201, f"{name}: {answer.text}"
            spec["securityContext"] = {"runAsNonRoot": False}
            assert admin.post(path, params={"dryRun": "All"}, json=pod).status_code == 403


@pytest.mark.parametrize("part", PARTS)
def test_every_container_has_requests_probes_and_a_read_only_root(part: str) -> None:
    for name, spec in pod_templates(rendered(part)).items():
        assert not spec.get("enableServiceLinks", True), name
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            where = f"{part}: {name} {container['name']}"
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, where
            assert "memory" in container["resources"]["limits"], where
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, where
            assert not container["image"].endswith(":latest"), where
            if "gpu-ledger" in container["image"]:
                tag = container["image"].rpartition(":")[2]
                assert tag in (VERSION, container["image"]), where
        if not name.startswith(("CronJob", "Job")):
            assert all("readinessProbe" in c for c in spec["containers"]), name
            # A restarted container of the demo would simulate its fleet again.
            if part != "overlays/demo":
                assert all("livenessProbe" in c for c in spec["containers"]), name


@pytest.mark.parametrize(
    ("part", "deployments"),
    [
        ("overlays/kubernetes", {"ledger", "portal"}),
        ("overlays/kubernetes + portal/components/oidc", {"ledger", "portal", "portal-login"}),
        ("overlays/openshift", {"ledger", "portal", "portal-login"}),
        ("overlays/acm-hub", {"ledger", "portal", "portal-login"}),
        ("idle-pruner", {"idle-pruner"}),
        ("collector + collector/components/monitoring", {"gpu-ledger-collector"}),
    ],
)
def test_each_deployment_has_one_disruption_budget(part: str, deployments: set[str]) -> None:
    documents = rendered(part)
    budgets = [d["spec"] for d in documents if d["kind"] == "PodDisruptionBudget"]
    assert all(budget["maxUnavailable"] == 1 for budget in budgets)
    labels = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"]
              for d in documents if d["kind"] == "Deployment"}  # fmt: skip
    assert labels.keys() == deployments
    for name, of_pod in labels.items():
        chosen = [one["selector"]["matchLabels"].items() <= of_pod.items() for one in budgets]
        assert chosen.count(True) == 1, name


def test_openshift_makes_certificates_and_watches_the_namespace() -> None:
    seen = {
        (d["kind"], d["metadata"]["name"]): d["metadata"] for d in rendered("overlays/openshift")
    }
    secret = "service.beta.openshift.io/serving-cert-secret-name"
    made = {name: metadata["annotations"][secret] for (kind, name), metadata in seen.items()
            if kind == "Service" and secret in metadata.get("annotations", {})}  # fmt: skip
    assert made == {"portal": "portal-tls", "portal-login": "portal-login-tls"}
    own = seen["ConfigMap", "gpu-ledger-ca"]["annotations"]
    assert own == {"service.beta.openshift.io/inject-cabundle": "true"}
    trusted = seen["ConfigMap", "gpu-ledger-trusted-ca"]["labels"]
    assert trusted["config.openshift.io/inject-trusted-cabundle"] == "true"
    assert seen["Namespace", "gpu-ledger"]["labels"]["openshift.io/user-monitoring"] == "true"


def test_openshift_sets_no_user_and_no_group() -> None:
    for part in ("overlays/openshift", "backup/restore-openshift"):
        for name, spec in pod_templates(rendered(part)).items():
            context = spec["securityContext"]
            assert not {"runAsUser", "runAsGroup", "fsGroup"} & context.keys(), name
    routes = [d for d in rendered("overlays/openshift") if d["kind"] == "Route"]
    assert {route["spec"]["tls"]["termination"] for route in routes} == {"reencrypt"}


@pytest.mark.parametrize("part", ["overlays/kubernetes", "overlays/openshift", "overlays/demo"])
def test_traffic_without_a_policy_is_denied(part: str) -> None:
    """A policy selects every pod, and the namespace denies all other traffic."""
    policies = [d for d in rendered(part) if d["kind"] == "NetworkPolicy"]
    [deny] = [p for p in policies if p["spec"]["podSelector"] == {}]
    assert "ingress" not in deny["spec"]
    assert "egress" not in deny["spec"]
    assert sorted(deny["spec"]["policyTypes"]) == ["Egress", "Ingress"]
    if part == "overlays/demo":
        return
    selected = {p["spec"]["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/name")
                for p in policies}  # fmt: skip
    for document in rendered(part):
        template = document.get("spec", {}).get("jobTemplate", document).get("spec", {})
        labels = template.get("template", {}).get("metadata", {}).get("labels", {})
        if labels:
            assert labels["app.kubernetes.io/name"] in selected, document["metadata"]["name"]


MAY = {
    # The doctor's; the ledger needs none.
    ("gpu-ledger", "ledger"): {("create", "authorization.k8s.io", "subjectaccessreviews")},
    ("gpu-ledger", "default"): set[tuple[str, str, str]](),
    ("gpu-ledger", "portal"): {
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    },
    ("gpu-ledger-collector", "gpu-ledger-collector"): {
        *(("list", "", name) for name in ("pods", "nodes", "namespaces", "resourcequotas")),
        *(("watch", "", name) for name in ("pods", "nodes", "namespaces", "resourcequotas")),
        *(("get", "", name) for name in ("pods", "nodes", "namespaces", "resourcequotas")),
        ("get", "apps", "replicasets"),
        ("get", "apps", "deployments"),
    },
    ("gpu-ledger-idle-pruner", "idle-pruner"): {
        *(("list", "", name) for name in ("pods", "namespaces")),
        *(("get", "", name) for name in ("pods", "namespaces")),
        ("get", "apps", "deployments"),
        ("get", "apps", "replicasets"),
    },
    ("gpu-ledger-fake-gpus", "fake-gpus"): {
        *((verb, "", "nodes") for verb in ("get", "list", "watch", "patch")),
        ("patch", "", "nodes/status"),
        *((verb, "", "pods") for verb in ("list", "watch")),
        ("create", "", "events"),
    },
}
ASKED = sorted(
    set().union(*MAY.values())
    | {
        *((verb, "", "secrets") for verb in ("get", "list", "watch")),
        *((verb, "", "pods") for verb in ("create", "delete", "patch")),
        *((verb, "apps", "deployments") for verb in ("create", "delete", "patch", "list")),
        ("create", "", "serviceaccounts/token"),
        ("create", "", "pods/exec"),
        ("get", "", "configmaps"),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
        ("impersonate", "", "users"),
    }
)


def test_each_account_has_exactly_the_rights_it_needs(plane: ControlPlane) -> None:
    for part in ("overlays/kubernetes", "collector", "idle-pruner", "fake-gpu/overlays/kwok"):
        for document in rendered(part):
            if document["kind"] in ("Namespace", "ServiceAccount", "ClusterRole",
                                    "ClusterRoleBinding", "Role", "RoleBinding"):  # fmt: skip
                name = f"{document['kind']}-{document['metadata']['name']}"
                kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f",
                        _written(plane, document, name))  # fmt: skip
    for account, expected in MAY.items():
        wait_for(lambda e=expected, a=account: rights(plane, a) >= e, f"rights of {account}")
        assert rights(plane, account) == expected, account


def rights(plane: ControlPlane, account: tuple[str, str]) -> set[tuple[str, str, str]]:
    """The rights among ASKED that an account has in another namespace than its own."""
    namespace, name = account
    allowed = set()
    with plane.client() as admin:
        for verb, group, resource in ASKED:
            resource_name, _, subresource = resource.partition("/")
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": f"system:serviceaccount:{namespace}:{name}",
                    "groups": [
                        "system:serviceaccounts",
                        f"system:serviceaccounts:{namespace}",
                        "system:authenticated",
                    ],
                    "resourceAttributes": {
                        "verb": verb,
                        "group": group,
                        "resource": resource_name,
                        "subresource": subresource,
                        "namespace": "team-a",
                    },
                },
            }
            path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            if admin.post(path, json=review).json()["status"]["allowed"]:
                allowed.add((verb, group, resource))
    return allowed
