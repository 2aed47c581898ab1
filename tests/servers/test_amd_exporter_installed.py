"""The AMD exporter's manifests and metrics page against a real API server, kubectl and promtool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from amd_exporter.node import KubernetesNode, NodeError
from tests.how_to import commands_in, of
from tests.servers.control_plane import ControlPlane, control_plane, token_of
from tests.servers.custom_resources import prometheus_operator, security_context_constraints
from tests.servers.process import required, wait_for

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "amd-exporter"
PAGE = "how-to/amd-gpus.md"
NAMESPACE = "gpu-ledger-amd-exporter"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpu-ledger-amd-exporter"
KIND = "gpu-ledger-amd-exporter"
# The rights of each part beyond the restricted pod security standard, in the API server's words.
BEYOND_RESTRICTED = {
    "base": {"restricted volume types", "runAsNonRoot != true", "runAsUser=0"},
    "non-root": {"restricted volume types"},
    "openshift": {
        "restricted volume types",
        "runAsNonRoot != true",
        "runAsUser=0",
        "seLinuxOptions",
    },
    "privileged": {
        *("restricted volume types", "runAsNonRoot != true", "runAsUser=0", "privileged"),
        *("allowPrivilegeEscalation != false", "unrestricted capabilities"),
    },
}
Document = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane")) as plane:
        folder = tmp_path_factory.mktemp("definitions")
        files = [*prometheus_operator(folder), *security_context_constraints(folder)]
        for path in files:
            kubectl(plane, "apply", "--server-side", "-f", str(path))
        names = ["crd/servicemonitors.monitoring.coreos.com"]
        names += ["crd/prometheusrules.monitoring.coreos.com"]
        names += ["crd/securitycontextconstraints.security.openshift.io"]
        kubectl(plane, "wait", "--for=condition=Established", "--timeout=60s", *names)
        yield plane


def kubectl(plane: ControlPlane, *arguments: str, status: int = 0) -> str:
    command = [str(required("kubectl")), f"--kubeconfig={plane.kubeconfig()}", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == status, f"{arguments}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout + ran.stderr


def part(folder: Path, base: str, *components: str) -> Path:
    """A kustomization of a user over these parts."""
    shutil.copytree(DEPLOY, folder / "deploy" / "amd-exporter")
    own = folder / "own"
    own.mkdir()
    resources = [f"../deploy/amd-exporter/{base}"]
    named = [f"../deploy/amd-exporter/components/{name}" for name in components]
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
        "components": named,
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return own


def rendered(plane: ControlPlane, folder: Path) -> list[Document]:
    return [d for d in yaml.safe_load_all(kubectl(plane, "kustomize", str(folder))) if d]


def of_kind(documents: list[Document], kind: str) -> Document:
    [found] = [document for document in documents if document["kind"] == kind]
    return found


EVERY = ("monitoring", "node-access", "tls")


@pytest.mark.parametrize(
    ("base", "components"),
    [
        ("base", EVERY),
        ("base", ("non-root", "monitoring")),
        ("base", ("openshift",)),
        ("overlays/privileged", EVERY),
    ],
)
def test_every_part_passes_strict_validation(
    plane: ControlPlane, tmp_path: Path, base: str, components: tuple[str, ...]
) -> None:
    own = part(tmp_path, base, *components)
    kubectl(plane, "apply", "--server-side", "-f", f"{DEPLOY}/base/namespace.yaml")
    options = ("--server-side", "--dry-run=server", "--validate=strict", "--field-manager=test")
    said = kubectl(plane, "apply", *options, "-k", str(own))
    assert "daemonset.apps/gpu-ledger-amd-exporter serverside-applied (server dry run)" in said
    # The check reports a field that the API does not have.
    patch = "- op: add\n  path: /spec/template/spec/securitycontext\n  value: {}\n"
    kustomization = yaml.safe_load((own / "kustomization.yaml").read_text())
    kustomization["patches"] = [{"patch": patch, "target": {"kind": "DaemonSet"}}]
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    assert "securitycontext" in kubectl(plane, "apply", *options, "-k", str(own), status=1)


@pytest.mark.parametrize(
    ("name", "base", "components"),
    [
        ("base", "base", EVERY),
        ("non-root", "base", ("non-root",)),
        ("openshift", "base", ("openshift",)),
        ("privileged", "overlays/privileged", ()),
    ],
)
def test_pods_ask_for_no_more_than_the_page_says(
    plane: ControlPlane, tmp_path: Path, name: str, base: str, components: tuple[str, ...]
) -> None:
    """Checked against the restricted standard; only host paths always violate it."""
    documents = rendered(plane, part(tmp_path, base, *components))
    template = of_kind(documents, "DaemonSet")["spec"]["template"]
    space = f"strict-{name}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with plane.client() as admin:
        body = {"metadata": {"name": space, "labels": labels}}
        assert admin.post("/api/v1/namespaces", json=body).status_code == 201
        spec = {**template["spec"], "serviceAccountName": "default"}
        del spec["priorityClassName"]  # the server accepts it in some namespaces only
        pod = {"metadata": {"name": "exporter"}, "spec": spec}
        answer = admin.post(f"/api/v1/namespaces/{space}/pods?dryRun=All", json=pod)
    assert answer.status_code == 403
    message = answer.json()["message"]
    known = set().union(*BEYOND_RESTRICTED.values()) | {"seccompProfile", "hostPath", "host namesp"}
    assert {word for word in known if word in message} - {"hostPath"} == BEYOND_RESTRICTED[name]


def test_the_commands_of_the_page_run_unchanged(plane: ControlPlane, tmp_path: Path) -> None:
    build, apply, look, upgrade, remove = of(PAGE, "sh")
    kustomization, _ = of(PAGE, "yaml")
    shutil.copytree(DEPLOY, tmp_path / "deploy" / "amd-exporter")
    (tmp_path / "my-amd-exporter").mkdir()
    (tmp_path / "my-amd-exporter" / "kustomization.yaml").write_text(kustomization)
    # Building an image needs an engine; tests/servers/test_images covers it.
    stand_ins = {"podman": "true", "make": "true"}
    type_it(plane, tmp_path, build, stand_ins)
    image = commands_in(build)[-1][-1]
    type_it(plane, tmp_path, apply)
    said = type_it(plane, tmp_path, look)
    assert "gpu-ledger-amd-exporter" in said
    found = json.loads(kubectl(plane, "-n", NAMESPACE, "get", "daemonset", KIND, "-o", "json"))
    [container] = found["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image
    assert {"name": "READ_NODE", "value": "true"} in container["env"]
    rule = json.loads(kubectl(plane, "-n", NAMESPACE, "get", "prometheusrule", KIND, "-o", "json"))
    assert expressions(rule["spec"]) == expressions(
        yaml.safe_load((DEPLOY / "rules.yml").read_text())
    )
    type_it(plane, tmp_path, upgrade)
    type_it(plane, tmp_path, remove.replace("-k my", "--wait=false -k my"))
    with plane.client() as admin:
        gone = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{KIND}"
        wait_for(lambda: "deletionTimestamp" in admin.get(gone).text or _is_gone(admin, gone))
        # No controller completes a deletion here.
        for path in (f"/api/v1/namespaces/{NAMESPACE}/finalize",):
            admin.put(path, json={"metadata": {"name": NAMESPACE}, "spec": {"finalizers": []}})


def expressions(rules: Document) -> list[Document]:
    """Every rule, with normalized line breaks, which differ between writers of YAML."""
    return [
        {**rule, "expr": " ".join(rule["expr"].split())}
        for group in rules["groups"]
        for rule in group["rules"]
    ]


def _is_gone(admin: Any, path: str) -> bool:
    return bool(admin.get(path).status_code == 404)


def type_it(
    plane: ControlPlane, folder: Path, script: str, stand_ins: dict[str, str] | None = None
) -> str:
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    real = f'exec {required("kubectl")} --kubeconfig={plane.kubeconfig()} "$@"'
    for name, body in {"kubectl": real, **(stand_ins or {})}.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def may(plane: ControlPlane, verb: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": ACCOUNT,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {"verb": verb, "resource": resource, "name": "node-1"},
        },
    }
    with plane.client() as admin:
        answer = admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
    return bool(answer.json()["status"]["allowed"])


def test_the_account_may_get_nodes_and_nothing_else(plane: ControlPlane, tmp_path: Path) -> None:
    rbac = f"{DEPLOY}/components/node-access/rbac.yaml"
    kubectl(plane, "delete", "--ignore-not-found", "-f", rbac)
    assert not may(plane, "get", "nodes")
    kubectl(plane, "apply", "--server-side", "-f", rbac)
    wait_for(lambda: may(plane, "get", "nodes"))
    for verb, resource in (
        *(("list", "nodes"), ("watch", "nodes"), ("patch", "nodes"), ("get", "pods")),
        *(("list", "pods"), ("get", "secrets"), ("create", "pods")),
    ):
        assert not may(plane, verb, resource), (verb, resource)


def test_the_node_is_read_from_a_real_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    shutil.copy(plane.ca_file, tmp_path / "ca.crt")
    (tmp_path / "token").write_text(token_of("nobody"))
    with plane.client() as admin:
        labels = {"topology.kubernetes.io/zone": "z1"}
        node = {"metadata": {"name": "node-1", "labels": labels}}
        assert admin.post("/api/v1/nodes", json=node).status_code == 201
        status = {"status": {"capacity": {"amd.com/gpu": "8", "cpu": "64"}}}
        headers = {"Content-Type": "application/merge-patch+json"}
        patched = admin.patch("/api/v1/nodes/node-1/status", json=status, headers=headers)
        assert patched.status_code == 200
    reader = KubernetesNode(plane.url, "node-1", tmp_path)
    with pytest.raises(NodeError, match="403"):
        reader.read()
    # The token is read for each request, because Kubernetes replaces it.
    (tmp_path / "token").write_text(token_of("admin"))
    found = reader.read()
    assert (found.gpu_capacity, found.labels["topology.kubernetes.io/zone"]) == (8, "z1")
    with pytest.raises(NodeError, match="404"):
        KubernetesNode(plane.url, "node-2", tmp_path).read()
