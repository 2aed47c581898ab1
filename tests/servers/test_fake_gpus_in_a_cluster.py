"""Simulated GPUs on kwok nodes of a real control plane: the files of the design documents in order.

The agent is a process of its own with the rights of its manifests. The scheduler, the quota
controller and kwok's nodes are real; commands of `gpu-ledger mig plan` run in a real kubectl.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.control_plane import (
    ControlPlane,
    control_plane,
    controller_manager,
    kwok,
    scheduler,
)
from tests.servers.process import free_port, required, running, wait_for
from tests.shared_data import shared_text

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
NAMESPACE = "gpu-ledger-fake-gpus"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:fake-gpus"
WITH_QUOTAS = "ServiceAccount,TaintNodesByCondition,NodeRestriction,Priority"
A100_NODE = """\
  node-b:
    gpu-product: A100-SXM4-40GB
    mig-strategy: single
    gpus: [{id: GPU-a100-0}, {id: GPU-a100-1}]
"""


@dataclass
class World:
    plane: ControlPlane
    port: int

    def kubectl(self, *arguments: str, text: str = "") -> str:
        command = [str(required("kubectl")), f"--kubeconfig={self.plane.kubeconfig()}", *arguments]
        ran = subprocess.run(command, input=text, capture_output=True, text=True)
        assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
        return ran.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return found

    def apply(self, document: str | dict[str, Any], *arguments: str) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        self.kubectl("apply", *arguments, "-f", "-", text=text)

    def labels(self, node: str) -> dict[str, str]:
        return dict(self.get("node", node)["metadata"]["labels"])

    def allocatable(self, node: str) -> dict[str, str]:
        found = self.get("node", node)["status"].get("allocatable") or {}
        return {name: count for name, count in found.items() if "/" in name}

    def samples(self, name: str, node: str) -> list[tuple[dict[str, str], float]]:
        page = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == name and sample.labels.get("Hostname") == node
        ]

    def configure(self, text: str) -> None:
        """Replace the configuration, like a person who edits the ConfigMap."""
        patch = json.dumps({"data": {"topology.yml": text}})
        self.kubectl("-n", NAMESPACE, "patch", "configmap", "topology", "--type=merge", "-p", patch)

    def phase(self, namespace: str, pod: str) -> str:
        return str(self.get("-n", namespace, "pod", pod)["status"].get("phase"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(folder / "plane", WITH_QUOTAS))
        found = World(plane, free_port())
        stack.enter_context(controller_manager(plane, folder / "controllers"))
        stack.enter_context(kwok(plane, folder / "kwok"))
        stack.enter_context(scheduler(plane, folder / "scheduler", "default-scheduler"))
        rendered = found.kubectl("kustomize", str(ROOT / "deploy/fake-gpu/overlays/kwok"))
        documents = [d for d in yaml.safe_load_all(rendered) if d["kind"] != "Deployment"]
        found.apply(yaml.safe_dump_all(documents))  # the Deployment's process is started here
        for name in ("nvidia", "gpu-operator-resources"):
            found.kubectl("create", "namespace", name)
        for name in ("node-a", "node-b"):
            found.apply(_kwok_node(name))
        command = [
            Path(sys.executable).with_name("gpu-ledger"),
            *("fake", "cluster", "run", "--namespace", NAMESPACE, "--mig-seconds", "1"),
            *("--kubeconfig", plane.kubeconfig(ACCOUNT)),
            *("--address", "127.0.0.1", "--port", found.port),
        ]
        ready = f"http://127.0.0.1:{found.port}/readyz"
        stack.enter_context(running(command, lambda: _is_ready(ready), folder / "agent.log"))
        yield found


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _kwok_node(name: str) -> dict[str, Any]:
    capacity = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"type": "kwok", "kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def test_the_files_of_the_design_documents_in_order(world: World) -> None:
    # The topology: a node of two K80, shown as in the file.
    topology = shared_text("design-examples/mock-topology.yml")
    world.configure(topology)
    wait_for(lambda: world.allocatable("node-a").get("nvidia.com/gpu") == "2")
    wait_for(lambda: "nvidia.com/gpu.product" in world.labels("node-a"))
    labels = world.labels("node-a")
    assert labels["nvidia.com/gpu.product"] == "Tesla-K80"
    assert (labels["nvidia.com/gpu.memory"], labels["nvidia.com/gpu.count"]) == ("11441", "2")
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    wait_for(lambda: len(world.samples("DCGM_FI_DEV_GPU_UTIL", "node-a")) == 2)
    [(first, utilisation), (_, second)] = world.samples("DCGM_FI_DEV_GPU_UTIL", "node-a")
    assert set(first) == {
        *("gpu", "UUID", "device", "modelName"),
        *("Hostname", "container", "namespace", "pod"),
    }
    assert (first["namespace"], first["pod"], utilisation, second) == (
        *("runai-project-a", "pod"),
        *(10, 100),
    )
    # An added node of two A100 with the strategy `single`; the file changes, no process restarts.
    world.configure(topology + A100_NODE)
    wait_for(lambda: world.allocatable("node-b").get("nvidia.com/gpu") == "2")
    # The MIG ConfigMap, and its configuration on the node.
    world.apply(shared_text("design-examples/mig-parted-configmap.yaml"))
    world.kubectl("label", "node", "node-b", "nvidia.com/mig.config=all-1g.5gb")
    wait_for(lambda: world.labels("node-b").get("nvidia.com/mig.config.state") == "success")
    wait_for(lambda: world.allocatable("node-b").get("nvidia.com/gpu") == "14")
    assert world.labels("node-b")["nvidia.com/gpu.product"] == "A100-SXM4-40GB-MIG-1g.5gb"
    # The quota, and the pod in its namespace.
    world.apply(shared_text("design-examples/gpu-quota.yaml"))
    wait_for(lambda: "hard" in world.get("-n", "nvidia", "resourcequota", "gpu-quota")["status"])
    world.apply(shared_text("design-examples/cuda-vectoradd.yaml"), "-n", "nvidia")
    wait_for(lambda: world.phase("nvidia", "cuda-vectoradd") == "Running")
    assert world.get("-n", "nvidia", "pod", "cuda-vectoradd")["spec"]["nodeName"] == "node-b"
    wait_for(
        lambda: (
            world.get("-n", "nvidia", "resourcequota", "gpu-quota")["status"]["used"]
            == {"requests.nvidia.com/gpu": "1"}
        )
    )

    def measured() -> list[dict[str, str]]:
        found = world.samples("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "node-b")
        return [labels for labels, value in found if labels["namespace"] == "nvidia" and value == 1]

    wait_for(lambda: len(measured()) == 1)
    [labels] = measured()
    assert (labels["pod"], labels["container"]) == ("cuda-vectoradd", "cuda-vectoradd")
    assert labels["GPU_I_PROFILE"] == "1g.5gb"


def test_the_commands_of_a_plan_end_in_its_layout(world: World, tmp_path: Path) -> None:
    """Both cards change: the node is drained, relabelled, and accepts pods again."""
    wait_for(lambda: world.phase("nvidia", "cuda-vectoradd") == "Running")
    parted = tmp_path / "config.yaml"
    parted.write_text(
        "version: v1\nmig-configs:\n  all-2g.10gb:\n"
        '    - {devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 3}}\n'
    )
    page = tmp_path / "page.prom"
    page.write_text(httpx.get(f"http://127.0.0.1:{world.port}/metrics", timeout=10).text)
    lines = [line for line in page.read_text().splitlines() if 'Hostname="node-b"' in line]
    page.write_text("\n".join(lines) + "\n")
    program = Path(sys.executable).with_name("gpu-ledger")
    command = [
        *(program, "mig", "plan", "--node", "node-b", "--config", parted, "-o", "json"),
        *("--profile", "all-2g.10gb", "--metrics", page, "--kubeconfig", world.plane.kubeconfig()),
    ]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    plan = json.loads(ran.stdout)
    assert [row["pod"] for row in plan["evicted_pods"]] == ["cuda-vectoradd"]
    for line in plan["commands"]:
        # The pod of the example has no controller, so a person has to confirm its deletion.
        line = line.replace("kubectl drain", "kubectl drain --force")
        line = line.replace(
            "kubectl", f"{required('kubectl')} --kubeconfig={world.plane.kubeconfig()}", 1
        )
        done = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert world.labels("node-b")["nvidia.com/mig.config.state"] == "success"
    wait_for(lambda: world.allocatable("node-b").get("nvidia.com/gpu") == "6")
    assert not world.get("node", "node-b")["spec"].get("unschedulable")
    assert world.get("-n", "nvidia", "pods")["items"] == []


def test_failures_reach_the_scheduler_and_end(world: World) -> None:
    program = [str(Path(sys.executable).with_name("gpu-ledger")), "fake", "cluster"]
    access = ["--namespace", NAMESPACE, "--kubeconfig", str(world.plane.kubeconfig())]
    failing = [*program, "fail", "node-a", "--mode", "unhealthy", "--device", "0", *access]
    assert subprocess.run(failing, capture_output=True).returncode == 0
    wait_for(lambda: world.allocatable("node-a").get("nvidia.com/gpu") == "1")
    recovering = [*program, "recover", "node-a", *access]
    assert subprocess.run(recovering, capture_output=True).returncode == 0
    wait_for(lambda: world.allocatable("node-a").get("nvidia.com/gpu") == "2")
    assert world.get("node", "node-a")["status"]["capacity"]["nvidia.com/gpu"] == "2"
