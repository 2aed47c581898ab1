"""The idle pruner on a real control plane and a real Prometheus, with the rights of its manifests.

Real controllers and a real scheduler create and place the pods of Deployments, kwok runs them
without machines, and Prometheus scrapes a page with their DCGM series every second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.credentials import ServerAccess
from clients.kubeconfig import read_kubeconfig
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import ServerRefused, ServerUnreachable
from clients.prometheus import PrometheusClient
from domain.clock import SystemClock
from idle_pruner.actions import NotRestored
from idle_pruner.cluster import FIELD_MANAGER, ObjectName
from idle_pruner.decision import Thresholds
from idle_pruner.pruner import Pruner
from idle_pruner.records import Records
from idle_pruner.settings import PruneSettings
from tests.servers import build
from tests.servers.control_plane import (
    ControlPlane,
    control_plane,
    controller_manager,
    kwok,
    scheduler,
)
from tests.servers.players import GPU, MERGE, Players
from tests.servers.process import wait_for
from tests.servers.prometheus import programs, prometheus

pytestmark = pytest.mark.servers

MANIFESTS = Path(__file__).parents[2] / "deploy" / "idle-pruner"
ACCOUNT = "system:serviceaccount:gpu-ledger-idle-pruner:idle-pruner"
WINDOW = timedelta(seconds=10)  # of scrapes a second apart
GRACE = timedelta(seconds=2)
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/"
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/"
    "validatingadmissionpolicybindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "Notebook": "/apis/kubeflow.org/v1/namespaces/{namespace}/notebooks",
    "InferenceService": "/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices",
}
CRDS = (
    (
        "github.com/kubeflow/kubeflow/components/notebook-controller"
        "@v0.0.0-20220728153354-fc09bd1eefb8",
        "config/crd/bases/kubeflow.org_notebooks.yaml",
    ),
    (
        "github.com/kserve/kserve@v0.17.0",
        "config/crd/minimal/serving.kserve.io_inferenceservices.yaml",
    ),
)
Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document]


@dataclass
class Exporter:
    """A page of DCGM series: a device for each running pod, with the activity that a test sets."""

    admin: httpx.Client
    activity: dict[str, float] = field(default_factory=dict)  # by prefix of the pod's name

    def page(self) -> str:
        lines = []
        pods = self.admin.get("/api/v1/pods").json()["items"]
        for number, pod in enumerate(pods):
            meta = pod["metadata"]
            if pod["status"].get("phase") != "Running":
                continue
            labels = (
                f'UUID="GPU-{meta["uid"]}",gpu="{number}",modelName="NVIDIA A100-SXM4-40GB",'
                f'pod="{meta["name"]}",namespace="{meta["namespace"]}",container="main"'
            )
            active = next(
                (value for name, value in self.activity.items() if meta["name"].startswith(name)),
                0.0,
            )
            lines.append(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} {active}")
            lines.append(f"DCGM_FI_PROF_DRAM_ACTIVE{{{labels}}} {active / 2}")
        return "\n".join(lines) + "\n"


@dataclass
class Cluster:
    """A running control plane, its Prometheus, and a pruner with the rights of its account."""

    plane: ControlPlane
    admin: httpx.Client
    exporter: Exporter
    prometheus_url: str
    folder: Path

    def apply(self, document: Document, namespace: str = "team-a") -> Document:
        """Create an object, or replace it."""
        namespace = document["metadata"].get("namespace", namespace)
        path = PATHS[document["kind"]].format(namespace=namespace)
        made = self.admin.post(path, json=document)
        assert made.is_success, made.text
        found: Document = made.json()
        return found

    def namespace(self, name: str, *, opts_in: bool = True) -> None:
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if opts_in:
            [binding] = documents("opt-in.yaml")
            self.apply(binding, name)

    def deployment(self, namespace: str, name: str, replicas: int, **changes: Any) -> ObjectName:
        labels = {"app": name}
        container = {
            "name": "main",
            "image": "registry.example/model:1",
            "resources": {"limits": {GPU: "1"}},
        }
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, **changes},
                "spec": spec,
            },
            namespace,
        )
        wait_for(lambda: len(self.running(namespace, name)) == replicas, "the pods' start")
        return ObjectName("apps/v1", "Deployment", namespace, name)

    def running(self, namespace: str, name: str) -> list[str]:
        items = self.admin.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
        return [
            pod["metadata"]["name"]
            for pod in items
            if pod["metadata"]["name"].startswith(f"{name}-")
            and pod["status"]["phase"] == "Running"
        ]

    def read(self, name: ObjectName) -> Document:
        path = f"{PATHS[name.kind].format(namespace=name.namespace)}/{name.name}"
        found: Document = self.admin.get(path).json()
        return found

    def events(self, namespace: str) -> list[str]:
        items = self.admin.get(f"/api/v1/namespaces/{namespace}/events").json()["items"]
        return [e["reason"] for e in items if e.get("reportingComponent") == FIELD_MANAGER]

    def pruner(self, namespace: str, user: str = ACCOUNT) -> Pruner:
        return Pruner(
            KubernetesClient(read_kubeconfig(self.plane.kubeconfig(user))),
            PrometheusClient(ServerAccess(self.prometheus_url)),
            Records(self.folder / f"{namespace}.jsonl"),
            PruneSettings(
                thresholds=Thresholds(duration=WINDOW, grace_period=GRACE),
                scales_down=True,
                namespace_pattern=namespace,
            ),
            SystemClock(),
        )

    def pass_until(self, pruner: Pruner, action: str) -> str:
        """Run passes until the only workload has this action; returns its reasons."""
        seen: list[str] = []

        def reached() -> bool:
            [result] = pruner.run_pass().results
            seen.append(f"{result.action}: {' '.join(result.reasons)}")
            return result.action == action

        try:
            wait_for(reached, action, every_seconds=1.0)
        except AssertionError as error:
            raise AssertionError(f"{error}; seen: {seen[-3:]}") from None
        return seen[-1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("pruner")
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(folder / "plane"))
        stack.enter_context(controller_manager(plane, folder / "controllers"))
        stack.enter_context(scheduler(plane, folder / "scheduler", "default-scheduler"))
        stack.enter_context(kwok(plane, folder / "kwok"))
        admin = stack.enter_context(plane.client())
        Players(admin).node("gpu-node", 64)
        exporter = Exporter(admin)
        port = stack.enter_context(serving(exporter.page))
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {"job_name": "dcgm", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            ],
        }
        # Without honor_labels, `pod` of the page becomes `exported_pod` only if the target has one.
        config["scrape_configs"][0]["static_configs"][0]["labels"] = {  # type: ignore[index]
            "pod": "dcgm-exporter",
            "namespace": "nvidia-gpu-operator",
        }
        client = stack.enter_context(
            prometheus(programs(3), folder / "prometheus", yaml.safe_dump(config))
        )
        cluster = Cluster(plane, admin, exporter, str(client.base_url), folder)
        for name in ("namespace.yaml", "rbac.yaml", "admission.yaml"):
            for document in documents(name):
                cluster.apply(document, "gpu-ledger-idle-pruner")
        for module, path in CRDS:
            text = build.custom_resource(module, path)
            cluster.apply(next(d for d in yaml.safe_load_all(text) if d))
        yield cluster


@contextmanager
def serving(page: Callable[[], str]) -> Iterator[int]:
    """Serve one page over HTTP; returns the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()


def test_an_idle_deployment_is_stopped_and_restored(cluster: Cluster) -> None:
    cluster.namespace("idle")
    model = cluster.deployment("idle", "model", 2)
    pruner = cluster.pruner("idle")
    cluster.pass_until(pruner, "noticed")
    assert cluster.read(model)["spec"]["replicas"] == 2
    cluster.pass_until(pruner, "stopped")
    assert cluster.read(model)["spec"]["replicas"] == 0
    assert cluster.running("idle", "model") == []
    events = [record.event for record in Records(cluster.folder / "idle.jsonl").read()]
    assert events[-2:] == ["stopped", "gone"]
    pruner.restore(model, "It was requested.")
    assert cluster.read(model)["spec"]["replicas"] == 2
    wait_for(lambda: len(cluster.running("idle", "model")) == 2, "the restart")
    assert set(cluster.events("idle")) == {
        "GpuWorkloadIdle",
        "GpuWorkloadStopped",
        "GpuWorkloadRestored",
    }


def test_one_busy_replica_keeps_the_deployment(cluster: Cluster) -> None:
    cluster.namespace("busy")
    model = cluster.deployment("busy", "busy", 2)
    cluster.exporter.activity[cluster.running("busy", "busy")[0]] = 0.3
    time_of_a_window = WINDOW + GRACE + timedelta(seconds=3)
    pruner, until = cluster.pruner("busy"), time.monotonic() + time_of_a_window.total_seconds()
    actions = set()
    while time.monotonic() < until:
        actions |= {result.action for result in pruner.run_pass().results}
    assert actions == {"none"}
    assert cluster.read(model)["spec"]["replicas"] == 2


def test_a_namespace_without_the_binding_is_reported_only(cluster: Cluster) -> None:
    cluster.namespace("careful", opts_in=False)
    cluster.deployment("careful", "model", 1)
    assert "has not opted in" in cluster.pass_until(cluster.pruner("careful"), "report only")


def test_deleting_the_binding_restores_and_then_ends_the_rights(cluster: Cluster) -> None:
    cluster.namespace("leaving")
    model = cluster.deployment("leaving", "model", 1)
    pruner = cluster.pruner("leaving")
    cluster.pass_until(pruner, "stopped")
    binding = PATHS["RoleBinding"].format(namespace="leaving") + "/gpu-ledger-idle-pruner"
    cluster.admin.delete(binding)
    assert cluster.admin.get(binding).status_code == 200  # its finalizer keeps it
    cluster.pass_until(pruner, "restored")
    assert cluster.read(model)["spec"]["replicas"] == 1
    assert cluster.admin.get(binding).status_code == 404


def test_services_are_stopped_by_their_annotations(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No controller of these kinds runs here, so their pods remain.
    monkeypatch.setattr("idle_pruner.pruner.PODS_GONE_SECONDS", 1.0)
    cluster.namespace("serving")
    for kind, version in (("Notebook", "kubeflow.org/v1"),
                          ("InferenceService", "serving.kserve.io/v1beta1")):  # fmt: skip
        spec: Document = {"predictor": {}}
        if kind == "Notebook":
            container = {"name": "lab", "image": "registry.example/lab:1"}
            spec = {"template": {"spec": {"containers": [container]}}}
        metadata = {"name": kind.lower()}
        top = cluster.apply(
            {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, "serving"
        )
        owner = {"apiVersion": version, "kind": kind, "name": kind.lower(), "controller": True}
        reference = [owner | {"uid": top["metadata"]["uid"]}]
        cluster.deployment("serving", f"of-{kind.lower()}", 1, ownerReferences=reference)
    pruner = cluster.pruner("serving")
    stopped: set[str] = set()

    def both() -> bool:
        stopped.update(r.workload.kind for r in pruner.run_pass().results if r.action == "stopped")
        return stopped == {"Notebook", "InferenceService"}

    wait_for(both, "both stops", every_seconds=1.0)
    notebook = ObjectName("kubeflow.org/v1", "Notebook", "serving", "notebook")
    service = ObjectName("serving.kserve.io/v1beta1", "InferenceService", "serving",
                         "inferenceservice")  # fmt: skip
    assert "kubeflow-resource-stopped" in cluster.read(notebook)["metadata"]["annotations"]
    assert cluster.read(service)["metadata"]["annotations"]["serving.kserve.io/stop"] == "true"
    for name in (notebook, service):
        pruner.restore(name, "It was requested.")
    assert "kubeflow-resource-stopped" not in cluster.read(notebook)["metadata"]["annotations"]
    assert "serving.kserve.io/stop" not in cluster.read(service)["metadata"]["annotations"]


def test_a_workload_that_a_human_scaled_is_not_restored(cluster: Cluster) -> None:
    cluster.namespace("human")
    model = cluster.deployment("human", "model", 1)
    pruner = cluster.pruner("human")
    cluster.pass_until(pruner, "stopped")
    path = f"{PATHS['Deployment'].format(namespace='human')}/model"
    cluster.admin.patch(path, json={"spec": {"replicas": 3}}, headers=MERGE)
    with pytest.raises(NotRestored, match="3 replicas instead of 0"):
        pruner.restore(model, "It was requested.")


@pytest.mark.parametrize(
    ("namespace", "patch", "message"),
    [
        ("more", {"spec": {"replicas": 5}}, "may only scale to 0"),
        (
            "template",
            {"spec": {"template": {"metadata": {"labels": {"app": "model", "x": "y"}}}}},
            "may not change pods",
        ),
        (
            "annotation",
            {"metadata": {"annotations": {"other": "x"}}},
            "may only set annotat",
        ),
    ],
)
def test_the_policy_refuses_every_other_change(
    cluster: Cluster, namespace: str, patch: Document, message: str
) -> None:
    cluster.namespace(namespace)
    cluster.deployment(namespace, "model", 1)
    client = KubernetesClient(read_kubeconfig(cluster.plane.kubeconfig(ACCOUNT)))
    path = f"{PATHS['Deployment'].format(namespace=namespace)}/model"
    with pytest.raises(ServerRefused, match=message):
        client.merge_patch(path, patch, field_manager=FIELD_MANAGER)
    client.merge_patch(path, {"spec": {"replicas": 0}}, field_manager=FIELD_MANAGER)


def test_the_policies_have_no_warnings_about_types(cluster: Cluster) -> None:
    path = PATHS["ValidatingAdmissionPolicy"]

    def checked() -> bool:
        found = cluster.admin.get(path).json()["items"]
        return all("typeChecking" in policy.get("status", {}) for policy in found)

    wait_for(checked, "the check of types")
    for policy in cluster.admin.get(path).json()["items"]:
        warnings = policy["status"]["typeChecking"].get("expressionWarnings", [])
        assert warnings == [], policy["metadata"]["name"]


def test_the_account_may_do_nothing_else(cluster: Cluster) -> None:
    cluster.namespace("rights")
    client = KubernetesClient(read_kubeconfig(cluster.plane.kubeconfig(ACCOUNT)))
    assert client.is_allowed("patch", "apps", "deployments", "rights")
    assert not client.is_allowed("patch", "apps", "deployments", "default")
    for verb, group, resource in (
        ("delete", "", "pods"),
        ("create", "", "pods"),
        ("get", "", "secrets"),
        ("create", "apps", "deployments"),
        ("delete", "apps", "deployments"),
        ("update", "rbac.authorization.k8s.io", "rolebindings"),
    ):
        assert not client.is_allowed(verb, group, resource, "rights"), (verb, resource)


def test_the_pruner_decides_nothing_without_an_api_server(cluster: Cluster) -> None:
    cluster.namespace("away")
    model = cluster.deployment("away", "model", 1)
    pruner = cluster.pruner("away")
    cluster.plane.stop_api()
    try:
        with pytest.raises(ServerUnreachable):
            pruner.run_pass()
    finally:
        cluster.plane.start_api()
    assert cluster.read(model)["spec"]["replicas"] == 1
