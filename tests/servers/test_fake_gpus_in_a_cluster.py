"""Simulated GPUs on kwok nodes of a real control plane: the files of the design documents in order.

The agent is a process of its own with the rights of its manifests. The scheduler, the quota
controller and kwok's nodes are real; commands of `gpu-ledger mig plan` run in a real kubectl.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers.fake_gpu_world import NAMESPACE, World, fake_gpu_world
from tests.servers.process import required, wait_for
from tests.shared_data import shared_text

pytestmark = pytest.mark.servers

A100_NODE = """\
  node-b:
    gpu-product: A100-SXM4-40GB
    mig-strategy: single
    gpus: [{id: GPU-a100-0}, {id: GPU-a100-1}]
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with fake_gpu_world(tmp_path_factory.mktemp("world"), ("node-a", "node-b")) as found:
        yield found


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
