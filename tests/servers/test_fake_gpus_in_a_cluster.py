"""Simulated GPUs on kwok nodes of a real control plane: the files of the design documents in order.

The agent is a process of its own with the rights of its manifests. The scheduler, the quota
controller and kwok's nodes are real; commands of `gpu-ledger mig plan` run in a real kubectl.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import httpx
import pytest
import yaml

from tests.servers.fake_gpu_world import CAPACITY, GPU_LEDGER, NAMESPACE, World, fake_gpu_world
from tests.servers.process import required, wait_for

pytestmark = pytest.mark.servers

EXAMPLES = Path(__file__).parents[1] / "design_examples"
A100_NODE = """\
  node-b:
    gpu-product: A100-SXM4-40GB
    mig-strategy: single
    gpus: [{id: GPU-a100-0}, {id: GPU-a100-1}]
"""


def example(name: str) -> str:
    return (EXAMPLES / name).read_text("utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with fake_gpu_world(tmp_path_factory.mktemp("world"), ("node-a", "node-b")) as found:
        yield found


def test_the_files_of_the_design_documents_in_order(world: World) -> None:
    # The topology: a node of two K80, shown as in the file.
    topology = example("mock-topology.yml")
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
    world.apply(example("mig-parted-configmap.yaml"))
    world.kubectl("label", "node", "node-b", "nvidia.com/mig.config=all-1g.5gb")
    wait_for(lambda: world.labels("node-b").get("nvidia.com/mig.config.state") == "success")
    wait_for(lambda: world.allocatable("node-b").get("nvidia.com/gpu") == "14")
    assert world.labels("node-b")["nvidia.com/gpu.product"] == "A100-SXM4-40GB-MIG-1g.5gb"
    # The quota, and the pod in its namespace.
    world.apply(example("gpu-quota.yaml"))
    wait_for(lambda: "hard" in world.get("-n", "nvidia", "resourcequota", "gpu-quota")["status"])
    world.apply(example("cuda-vectoradd.yaml"), "-n", "nvidia")
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


def page_of(world: World, node: str, folder: Path) -> Path:
    """The page of the node's exporter; the agent's page has all nodes."""
    text = httpx.get(f"http://127.0.0.1:{world.port}/metrics", timeout=10).text
    lines = [line for line in text.splitlines() if f'Hostname="{node}"' in line]
    (folder / "page.prom").write_text("\n".join(lines) + "\n")
    return folder / "page.prom"


def planned(world: World, node: str, page: Path, *arguments: object) -> dict[str, Any]:
    command = [
        *(GPU_LEDGER, "mig", "plan", "--node", node),
        *("-o", "json", "--config-map", "gpu-operator-resources/mig-parted-config"),
        *("--metrics", page, "--kubeconfig", world.plane.kubeconfig(), *arguments),
    ]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def execute(world: World, plan: dict[str, Any]) -> None:
    """Run the commands of a plan as they stand, with two steps of a person."""
    for line in plan["commands"]:
        if " edit configmap " in line:
            add_configuration(world, plan["config_map_entry"])
            continue
        # The pods here have no controller, so a person has to confirm their deletion.
        line = line.replace("kubectl drain", "kubectl drain --force")
        line = line.replace(
            "kubectl", f"{required('kubectl')} --kubeconfig={world.plane.kubeconfig()}"
        )
        done = subprocess.run(line, shell=True, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def add_configuration(world: World, entry: str) -> None:
    """Replace the MIG configurations by this one."""
    metadata = {"name": "mig-parted-config", "namespace": "gpu-operator-resources"}
    data = {"config.yaml": f"version: v1\nmig-configs:\n{entry}"}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def test_the_commands_of_a_plan_end_in_its_layout(world: World, tmp_path: Path) -> None:
    """Both cards change: the node is drained, relabelled, and accepts pods again."""
    wait_for(lambda: world.phase("nvidia", "cuda-vectoradd") == "Running")
    parted = tmp_path / "config.yaml"
    parted.write_text(
        "version: v1\nmig-configs:\n  all-2g.10gb:\n"
        '    - {devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 3}}\n'
    )
    page = page_of(world, "node-b", tmp_path)
    plan = planned(world, "node-b", page, "--config", parted, "--profile", "all-2g.10gb")
    assert [row["pod"] for row in plan["evicted_pods"]] == ["cuda-vectoradd"]
    execute(world, plan)
    assert world.labels("node-b")["nvidia.com/mig.config.state"] == "success"
    wait_for(lambda: world.allocatable("node-b").get("nvidia.com/gpu") == "6")
    assert not world.get("node", "node-b")["spec"].get("unschedulable")
    assert world.get("-n", "nvidia", "pods")["items"] == []


def test_failures_reach_the_scheduler_and_end(world: World) -> None:
    program = [str(GPU_LEDGER), "fake", "cluster"]
    access = ["--namespace", NAMESPACE, "--kubeconfig", str(world.plane.kubeconfig())]
    failing = [*program, "fail", "node-a", "--mode", "unhealthy", "--device", "0", *access]
    assert subprocess.run(failing, capture_output=True).returncode == 0
    wait_for(lambda: world.allocatable("node-a").get("nvidia.com/gpu") == "1")
    recovering = [*program, "recover", "node-a", *access]
    assert subprocess.run(recovering, capture_output=True).returncode == 0
    wait_for(lambda: world.allocatable("node-a").get("nvidia.com/gpu") == "2")
    assert world.get("node", "node-a")["status"]["capacity"]["nvidia.com/gpu"] == "2"


VALID = "gpu_ledger_fake_gpu_configuration_valid"


def events(world: World, namespace: str, config_map: str) -> list[str]:
    found = world.get("-n", namespace, "events")["items"]
    return [e["reason"] for e in found if e["involvedObject"]["name"] == config_map]


def test_own_layouts_and_loads_are_reloaded_and_invalid_ones_are_not(world: World) -> None:
    """A layout and a load of the user's own, added while the agent runs, and then damaged."""
    name, where = "reloaded", "gpu-operator-resources"
    parted, topology = f"{where}/mig-parted-config", f"{NAMESPACE}/topology"
    prepare(world, name, [{"1g.5gb": 1}])
    wait_for(lambda: instances(world, name) == {"1g.5gb": 1})
    own = '  own:\n    - {devices: all, mig-enabled: true, mig-devices: {"2g.10gb": 3}}\n'
    add_configuration(world, own)
    world.kubectl("label", "node", name, "nvidia.com/mig.config=own", "--overwrite")
    wait_for(lambda: instances(world, name) == {"2g.10gb": 3})
    add_configuration(world, own.replace('{"2g.10gb": 3}', '"2g.10gb"'))
    wait_for(lambda: world.metric(VALID, config_map=parted) == 0)
    wait_for(lambda: events(world, where, "mig-parted-config") == ["InvalidConfiguration"])
    assert instances(world, name) == {"2g.10gb": 3}
    add_configuration(world, own)
    wait_for(lambda: world.metric(VALID, config_map=parted) == 1)

    # The load of a card in the configuration, in the notations of the pods' annotation.
    def load(text: str) -> None:
        metrics = (
            f"{{metadata: {{namespace: a, pod: p, container: c}}, utilization: {text}, fb-used: 1}}"
        )
        gpu = f"{{id: GPU-load, metrics: {metrics}}}"
        world.configure(f"nodes: {{{name}: {{gpu-product: Tesla-T4, gpus: [{gpu}]}}}}")

    def shown() -> list[float]:
        return [value for _, value in world.samples("DCGM_FI_DEV_GPU_UTIL", name)]

    load('{ { time: "1h" utilization: 35 }, { time: "1h" utilization: 0 } repeat: 5 }')
    wait_for(lambda: shown() == [35])
    load("140")
    wait_for(lambda: world.metric(VALID, config_map=topology) == 0)
    wait_for(lambda: events(world, NAMESPACE, "topology") == ["InvalidConfiguration"])
    assert shown() == [35]
    load("70-70")
    wait_for(lambda: shown() == [70])
    assert world.metric(VALID, config_map=topology) == 1


LAYOUTS = (
    {"1g.5gb": 7},
    {"2g.10gb": 3},
    {"3g.20gb": 2},
    {"3g.20gb": 1, "4g.20gb": 1},
    {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1},
)
MOST = {"1g.5gb": 21, "2g.10gb": 9, "3g.20gb": 6}  # on three cards


@pytest.mark.parametrize("seed", range(3))
def test_random_plans_evict_only_the_pods_that_they_name(
    world: World, tmp_path: Path, seed: int
) -> None:
    """Three cards with random layouts and pods, and one instance more than they offer."""
    draw = random.Random(seed)
    name = f"random-{seed}"
    layouts = [draw.choice(LAYOUTS) for _ in range(3)]
    offered = sum(map(Counter, layouts), Counter[str]())
    prepare(world, name, layouts)
    wait_for(lambda: instances(world, name) == offered)
    pods = draw.sample(sorted(offered.elements()), draw.randint(1, 4))
    for number, profile in enumerate(pods):
        world.apply(_holder(name, f"pod-{number}", profile))
    wait_for(lambda: len(holders(world, name)) == len(pods))
    before = holders(world, name)
    profile = draw.choice([found for found in MOST if offered[found] < MOST[found]])
    want = f"{profile}={offered[profile] + 1}"
    plan = planned(world, name, page_of(world, name, tmp_path), "--want", want)
    assert plan["commands"]
    execute(world, plan)
    assert world.labels(name)["nvidia.com/mig.config.state"] == "success"
    promised = sum((counted(card["after"]) for card in plan["cards"]), Counter[str]())
    assert promised[profile] > offered[profile]
    wait_for(lambda: instances(world, name) == promised)
    evicted = {row["pod"] for row in plan["evicted_pods"]}
    kept = {pod: device for pod, device in before.items() if pod not in evicted}
    wait_for(lambda: holders(world, name) == kept)
    left = {pod["metadata"]["name"] for pod in world.get("-n", name, "pods")["items"]}
    assert left == set(kept)


def prepare(world: World, node: str, layouts: Sequence[dict[str, int]]) -> None:
    """A node whose cards have these layouts, and a namespace of the same name."""
    gpus = [{"id": f"GPU-{node}-{card}"} for card in range(len(layouts))]
    nodes = {node: {"gpu-product": "A100-SXM4-40GB", "gpus": gpus}}
    world.add_node(node)
    world.kubectl("create", "namespace", node)
    world.configure(yaml.safe_dump({"mig-strategy": "mixed", "nodes": nodes}))
    entries = [
        {"devices": [card], "mig-enabled": True, "mig-devices": dict(layout)}
        for card, layout in enumerate(layouts)
    ]
    add_configuration(world, indent(yaml.safe_dump({node: entries}), "  "))
    wait_for(lambda: world.allocatable(node).get("nvidia.com/gpu") == str(len(layouts)))
    world.kubectl("label", "node", node, f"nvidia.com/mig.config={node}")


def instances(world: World, node: str) -> Counter[str]:
    prefix = "nvidia.com/mig-"
    found = world.allocatable(node).items()
    return +Counter({n.removeprefix(prefix): int(c) for n, c in found if n.startswith(prefix)})


def counted(text: str) -> Counter[str]:
    """The instances of a card in a plan: `2×1g.5gb 1×3g.20gb`."""
    parts = [part.split("×") for part in text.split() if "×" in part]
    return Counter({profile: int(count) for count, profile in parts})


def holders(world: World, node: str) -> dict[str, str]:
    """The instance that each pod of the node holds, as the exporter shows it."""
    found = world.samples("DCGM_FI_DEV_FB_USED", node)
    return {
        labels["pod"]: f"{labels['gpu']}/{labels['GPU_I_ID']}"
        for labels, _ in found
        if labels["pod"]
    }


def _holder(node: str, name: str, profile: str) -> dict[str, Any]:
    limits = {f"nvidia.com/mig-{profile}": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": node},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/serve:1",
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
        },
    }


def test_labels_survive_a_restart_and_are_gone_after_an_uninstall(world: World) -> None:
    """The last test of this world: it ends the agent."""
    name = "restarted"
    prepare(world, name, [{"1g.5gb": 7}])
    wait_for(lambda: instances(world, name) == {"1g.5gb": 7})
    wait_for(lambda: world.labels(name).get("nvidia.com/mig.config.state") == "success")
    own = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "nvidia.com/mig.config": name,  # the administrator's
        "team": "ml",
    }
    world.kubectl("label", "node", name, "team=ml")
    written = {k: v for k, v in world.labels(name).items() if k not in own}
    assert len(written) > 10
    assert written.pop("nvidia.com/gfd.timestamp")
    world.stop_agent()
    present = world.labels(name)
    assert present.items() >= {**written, **own}.items()
    world.start_agent()
    page = f"http://127.0.0.1:{world.port}/topology/nodes/{name}"
    assert httpx.get(page, timeout=10).json()["nodes"][name]["mig-config"] == name
    present = world.labels(name)
    assert present.pop("nvidia.com/gfd.timestamp")
    assert {k: v for k, v in present.items() if k not in own} == written
    assert instances(world, name) == {"1g.5gb": 7}
    world.stop_agent()
    removing = [GPU_LEDGER, "fake", "cluster", "remove"]
    removing += ["--kubeconfig", world.plane.kubeconfig()]
    assert subprocess.run([str(part) for part in removing], capture_output=True).returncode == 0
    left = world.labels(name)
    assert {k: v for k, v in left.items() if not k.startswith("beta.")} == own
    # `node-a` left the configuration earlier, while the agent ran.
    for node in (name, "node-a"):
        status = world.get("node", node)["status"]
        assert status["capacity"] == status["allocatable"] == CAPACITY
