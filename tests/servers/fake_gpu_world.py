"""Simulated GPUs on kwok nodes of a real control plane.

Put here: the control plane with the agent, and reading nodes, pods and the exporter's page.
Not here: what tests configure and expect.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.control_plane import (
    ControlPlane,
    control_plane,
    controller_manager,
    kwok,
    scheduler,
)
from tests.servers.process import free_port, required, running

ROOT = Path(__file__).parents[2]
GPU_LEDGER = Path(sys.executable).with_name("gpu-ledger")
NAMESPACE = "gpu-ledger-fake-gpus"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:fake-gpus"
CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}  # of each node, besides its GPUs
WITH_QUOTAS = "ServiceAccount,TaintNodesByCondition,NodeRestriction,Priority"


@dataclass
class World:
    plane: ControlPlane
    port: int
    folder: Path
    agent: ExitStack = field(default_factory=ExitStack)

    def start_agent(self) -> None:
        """Run the agent with the rights of its manifests."""
        command = [
            GPU_LEDGER,
            *("fake", "cluster", "run", "--namespace", NAMESPACE, "--mig-seconds", "1"),
            *("--kubeconfig", self.plane.kubeconfig(ACCOUNT)),
            *("--address", "127.0.0.1", "--port", self.port),
        ]
        ready = f"http://127.0.0.1:{self.port}/readyz"
        log = self.folder / "agent.log"
        self.agent.enter_context(running(command, lambda: _is_ready(ready), log))

    def stop_agent(self) -> None:
        self.agent.close()

    def metric(self, name: str, **labels: str) -> float | None:
        """A metric of the agent itself."""
        page = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name and sample.labels.items() >= labels.items():
                    return sample.value
        return None

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

    def add_node(self, name: str) -> None:
        self.apply(_kwok_node(name))

    def configure(self, text: str) -> None:
        """Replace the configuration, like a person who edits the ConfigMap."""
        patch = json.dumps({"data": {"topology.yml": text}})
        self.kubectl("-n", NAMESPACE, "patch", "configmap", "topology", "--type=merge", "-p", patch)

    def phase(self, namespace: str, pod: str) -> str:
        return str(self.get("-n", namespace, "pod", pod)["status"].get("phase"))


@contextmanager
def fake_gpu_world(folder: Path, nodes: Sequence[str]) -> Iterator[World]:
    """A control plane with kwok nodes and the agent of simulated GPUs, with its own rights."""
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(folder / "plane", WITH_QUOTAS))
        found = World(plane, free_port(), folder)
        stack.enter_context(controller_manager(plane, folder / "controllers"))
        stack.enter_context(kwok(plane, folder / "kwok"))
        stack.enter_context(scheduler(plane, folder / "scheduler", "default-scheduler"))
        rendered = found.kubectl("kustomize", str(ROOT / "deploy/fake-gpu/overlays/kwok"))
        documents = [d for d in yaml.safe_load_all(rendered) if d["kind"] != "Deployment"]
        found.apply(yaml.safe_dump_all(documents))  # the Deployment's process is started here
        for name in ("nvidia", "gpu-operator-resources"):
            found.kubectl("create", "namespace", name)
        for name in nodes:
            found.add_node(name)
        stack.callback(found.stop_agent)
        found.start_agent()
        yield found


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _kwok_node(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"type": "kwok", "kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
    }
