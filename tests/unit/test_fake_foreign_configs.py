"""Configuration formats of other simulators are read, and shown unchanged."""

from __future__ import annotations

import pytest

from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.status_updater import topology
from fake_gpu.scenario.design_config import foreign_nodes
from fake_gpu.scenario.errors import BadScenario, InvalidScenario
from tests.fleets import check_invariants, cluster_of, loaded

DESIGN = """\
mig-strategy: mixed
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
        # this section is filled by the status updater
        metrics:
          metadata: {namespace: team-a, pod: pod, container: container}
          utilization: 10
          fb-used: 5000
      - id: GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8      # ids are opaque: this one is no UUID
        metrics:
          metadata: {namespace: team-a, pod: pod, container: container}
          utilization: 100
          fb-used: 10000
"""


def test_the_design_documents_configuration_is_reproduced() -> None:
    import yaml

    fleet = build_fleet(loaded(DESIGN))
    shown = topology(fleet, fleet.started_at)["fake"]["node-a"]
    assert {
        "mig-strategy": shown.pop("mig-strategy"),
        "nodes": {"node-a": shown},
    } == yaml.safe_load(DESIGN)
    labels = fleet.clusters[0].nodes[0].states[0].labels
    assert labels["nvidia.com/gpu.memory"] == "11441"
    assert labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/gpu.product"] == "Tesla-K80"
    assert labels["nvidia.com/mig.strategy"] == "mixed"


def test_the_fake_gpu_operators_two_formats_are_read() -> None:
    old = """\
nodePools:
  default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441, otherDevices: []}
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""
    new = "nodePools:\n  h100: {gpu: {backend: fake, profile: h100, overrides: {}}, numa: {}}\n"
    [node] = build_fleet(loaded(old)).clusters[0].nodes
    assert (node.name, len(node.cards), node.cards[0].memory_mib) == ("default", 2, 11441)
    assert node.states[0].labels["run.ai/simulated-gpu-node-pool"] == "default"
    [node] = build_fleet(loaded(new)).clusters[0].nodes
    assert (len(node.cards), node.cards[0].product) == (8, "NVIDIA-H100-80GB-HBM3")


@pytest.mark.parametrize(
    "text",
    [
        "nodes: 5",
        "nodes: {a: {gpu-product: Tesla-K80, gpus: [{}]}}",
        "nodes: {a: {gpu-product: Nothing, gpus: [{id: x}]}}",
        "nodes: {a: {gpu-products: Tesla-K80}}",
        "nodes: {a: {gpu-product: Tesla-K80, gpus: [{id: x, metrics: {utilization: 120,"
        " metadata: {namespace: a, pod: b}}}]}}",
        "nodePools: {a: {gpu: {profile: h1000}}}",
        "nodes: [",
    ],
)
def test_invalid_configurations_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(BadScenario):
        loaded(text)


def test_the_pod_annotation_of_the_fake_gpu_operator_sets_the_load() -> None:
    cluster = cluster_of(
        """\
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 1,
         annotations: {run.ai/simulated-gpu-utilization: "30"}}
"""
    )
    assert cluster.pods[0].utilisation.pct_at(100) == 30


# --- one pod, several containers ------------------------------------------------------------------


def node(name: str, *gpus: tuple[str, str, int, int], memory: int = 11441) -> str:
    """A node's entry: pod, container, utilization and fb-used of each GPU."""
    lines = [f"  {name}:", f"    gpu-memory: {memory}", "    gpu-product: Tesla-K80", "    gpus:"]
    for number, (pod, container, pct, used) in enumerate(gpus):
        meta = f"{{namespace: team-a, pod: {pod}, container: {container}}}"
        lines.append(
            f"      - {{id: {name}-{number}, metrics: {{metadata: {meta}, "
            f"utilization: {pct}, fb-used: {used}}}}}"
        )
    return "\n".join(lines) + "\n"


def test_each_of_two_containers_of_a_pod_has_its_own_cards() -> None:
    """Also if their cards alternate: the first container has 0 and 2, the second has 1."""
    import yaml

    gpus = [("p", "one", 10, 100), ("p", "two", 20, 200), ("p", "one", 30, 300)]
    text = "mig-strategy: mixed\nnodes:\n" + node("n", *gpus, ("q", "one", 40, 400))
    fleet = build_fleet(loaded(text))
    [cluster] = fleet.clusters
    check_invariants(cluster)
    assert {pod.name: len(pod.containers) for pod in cluster.pods} == {"p": 2, "q": 1}
    [pod] = [pod for pod in cluster.pods if pod.name == "p"]
    assert {c.name: (dict(c.requests), c.device_ids) for c in pod.containers} == {
        "one": ({"nvidia.com/gpu": 2}, ("n-0", "n-2")),
        "two": ({"nvidia.com/gpu": 1}, ("n-1",)),
    }
    shown = topology(fleet, fleet.started_at)["fake"]
    shown["n"].pop("mig-strategy")
    assert shown == yaml.safe_load(text)["nodes"]


def problem_of(text: str) -> str:
    with pytest.raises(BadScenario) as raised:
        loaded(text)
    [problem] = raised.value.problems
    return problem.seen


def test_a_pod_on_two_nodes_is_refused() -> None:
    text = "nodes:\n" + node("n", ("p", "one", 10, 0)) + node("m", ("p", "two", 10, 0))
    assert problem_of(text) == "pod team-a/p has GPUs of n and of m"


def test_a_duplicate_gpu_is_refused() -> None:
    text = "nodes:\n" + node("n", ("p", "one", 10, 0)) + node("m", ("q", "one", 10, 0))
    assert problem_of(text.replace("id: m-0", "id: n-0")) == "n-0 is n gpu 0 and m gpu 0"


def test_a_duplicate_key_is_refused_with_its_line() -> None:
    text = "nodes:\n" + node("n", ("p", "one", 10, 0)) + node("n", ("q", "one", 10, 0))
    with pytest.raises(BadScenario) as raised:
        loaded(text)
    [problem] = raised.value.problems
    assert (problem.line, problem.seen) == (7, "`n` occurs twice")


def test_more_memory_in_use_than_the_card_has_is_refused() -> None:
    text = "nodes:\n" + node("n", ("p", "one", 10, 11441))
    assert build_fleet(loaded(text)).clusters[0].pods[0].holds[0].memory_used_mib == 11441
    with pytest.raises(InvalidScenario, match="it uses 11442 of 11441 MiB of card 0"):
        build_fleet(loaded(text.replace("11441}}", "11442}}")))
    with pytest.raises(InvalidScenario, match="it uses -1 of 11441 MiB of card 0"):
        build_fleet(loaded(text.replace("11441}}", "-1}}")))
    with pytest.raises(InvalidScenario, match="it uses 15361 of 15360 MiB of card 0"):
        cluster_of(
            """\
    nodes: [{name: n, product: Tesla-T4, cards: 1}]
    workloads:
      - {name: p, namespace: x, kind: Pod, requests: 1,
         pods: [{created: +1h, card_loads: [{card: 0, memory_used_mib: 15361}]}]}
"""
        )


# --- the fake GPU operator's ConfigMap ------------------------------------------------------------

TOPOLOGY = """\
nodePools:
  default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441}
migStrategy: mixed
"""


def config_map(key: str, text: str) -> str:
    inside = "".join(f"    {line}\n" for line in text.splitlines())
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: topology, namespace: gpu-operator}\n"
        f"data:\n  {key}: |\n{inside}"
    )


@pytest.mark.parametrize("key", ["topology.yml", "mine.yaml"])
def test_a_config_map_is_read_as_its_content(key: str) -> None:
    assert loaded(config_map(key, TOPOLOGY)).scenario == loaded(TOPOLOGY).scenario


def test_a_config_map_without_a_configuration_is_refused() -> None:
    several = config_map("a.yml", TOPOLOGY) + "  b.yml: x\n"
    assert problem_of(several) == "the ConfigMap has a.yml, b.yml, and no topology.yml"
    assert (
        problem_of("kind: ConfigMap\ndata: {}\n")
        == "the ConfigMap has nothing, and no topology.yml"
    )
    twice = TOPOLOGY + "migStrategy: none\n"
    assert problem_of(config_map("topology.yml", twice)) == (
        "line 4 of the ConfigMap's text: `migStrategy` occurs twice"
    )


def test_a_profile_and_its_overrides_define_the_cards_of_a_pool() -> None:
    profile = {
        "system": {"driver_version": "570.1.2", "cuda_version": "12.8"},
        "device_defaults": {"name": "Tesla T4", "memory": {"total_bytes": 16 * 2**30}},
        "devices": [{"index": 0}, {"index": 1}],
    }
    text = """\
nodePools:
  own: {gpu: {profile: mine, overrides: {device_defaults: {memory: {total_bytes: 8589934592}}}}}
  known: {gpu: {profile: a100}}
nodePoolLabelKey: pool
migStrategy: single
"""
    found = foreign_nodes(text, "topology", {"mine": profile})
    assert found.pool_label == "pool"
    own, known = found.nodes
    assert (own.product, own.cards, own.memory_mib) == ("Tesla-T4", 2, 8192)
    assert own.driver_version == "570.1.2"
    assert (known.product, known.cards, known.memory_mib) == ("NVIDIA-A100-SXM4-40GB", 8, None)
    assert known.mig is not None
    assert known.mig.strategy == "single"
    assert own.mig is None
    cluster = build_fleet(loaded(text.replace("profile: mine", "profile: t4"))).clusters[0]
    assert {node.states[0].labels["nvidia.com/mig.strategy"] for node in cluster.nodes} == {
        "single"
    }


def test_the_cuda_version_of_a_profile_is_a_label() -> None:
    text = "nodePools: {a: {gpu: {profile: t4, overrides: {system: {cuda_version: '12.8'}}}}}\n"
    labels = build_fleet(loaded(text)).clusters[0].nodes[0].states[0].labels
    found = {name: value for name, value in labels.items() if name.startswith("nvidia.com/cuda.")}
    assert found == {
        "nvidia.com/cuda.driver-version.full": "550.127.08",
        "nvidia.com/cuda.driver-version.major": "550",
        "nvidia.com/cuda.driver-version.minor": "127",
        "nvidia.com/cuda.driver-version.revision": "08",
        "nvidia.com/cuda.driver.major": "550",
        "nvidia.com/cuda.driver.minor": "127",
        "nvidia.com/cuda.driver.rev": "08",
        "nvidia.com/cuda.runtime-version.full": "12.8",
        "nvidia.com/cuda.runtime-version.major": "12",
        "nvidia.com/cuda.runtime-version.minor": "8",
        "nvidia.com/cuda.runtime.major": "12",
        "nvidia.com/cuda.runtime.minor": "8",
    }


def test_a_node_of_a_scenario_without_mig_has_the_strategy_none() -> None:
    text = """\
name: one
from: 2026-10-01
until: 2026-10-02
clusters:
- name: c
  nodes:
  - {name: n, product: Tesla-T4, cards: 1}
"""
    labels = build_fleet(loaded(text)).clusters[0].nodes[0].states[0].labels
    assert labels["nvidia.com/mig.strategy"] == "none"


def test_a_node_may_have_its_own_strategy_and_replicas() -> None:
    text = """\
mig-strategy: mixed
nodes:
  a: {gpu-product: A100-SXM4-40GB, mig-strategy: single, gpus: [{id: GPU-0}]}
  b: {gpu-product: Tesla-T4, replicas: 4, gpus: [{id: GPU-1}]}
"""
    a, b = build_fleet(loaded(text)).clusters[0].nodes
    assert a.states[0].labels["nvidia.com/mig.strategy"] == "single"
    assert a.states[0].labels["nvidia.com/gpu.product"] == "A100-SXM4-40GB"
    assert a.states[0].capacity == {"nvidia.com/gpu": 1}
    assert b.states[0].capacity == {"nvidia.com/gpu": 4}


def test_unsupported_parts_are_reported() -> None:
    text = """\
nodePools:
  old: {gpuProduct: Tesla-K80, gpuCount: 2, otherDevices: [{name: foo, count: 1}]}
  new:
    gpu: {backend: fake, profile: h100, overrides: {driver_version: "1"}}
    numa: {}
    resources: [{"nvidia.com/foo": 1}]
gpuOperator: {}
"""
    assert loaded(text).warnings == (
        "pool old: `otherDevices` is left out, no GPU comes of it",
        "pool new: `resources` is left out, no GPU comes of it",
        "pool new gpu overrides: `driver_version` is left out, no GPU comes of it",
    )
    assert loaded(TOPOLOGY).warnings == ()
    assert problem_of("nodePools: {a: {gpu: {profile: h100, profiles: 2}}}") == (
        "pool a gpu: unknown profiles"
    )
