"""Other people's configurations of fake GPU nodes, read as they are written.

Put here: the design document's `nodes:` format, and the two of the fake GPU operator.
Not here: the project's own scenario file (`spec`).

The design document's: which GPU of which node is used by which pod, and how much. The operator's:
pools of nodes (`nodePools`), old (`gpuProduct`, `gpuCount`, `gpuMemory`) or new (`gpu: {profile}`).
A pool says nothing about the number of its nodes, so each becomes one node of the pool's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from fake_gpu.estate.hardware import products
from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.schema import MAXIMUM_LEVELS, Unreadable, too_deep_at
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import Layout, MigSpec, NodeSpec
from fake_gpu.scenario.spec_work import CardLoadSpec, ContainerSpec, PodSpec, WorkloadSpec
from fake_gpu.scenario.utilisation import parse_load

# The configuration has no times: it is shown as one day in which nothing changes.
START = 1_790_812_800  # 2026-10-01T00:00:00Z
DAY = 86_400
BEFORE = 3_600

MAXIMUM_CHARACTERS = 5_000_000
SEE = "write it as the design document, or the fake GPU operator, has it"

_FOREIGN_KEY = re.compile(r"^(nodes|nodePools)\s*:", re.MULTILINE)
_SCENARIO_KEY = re.compile(r"^clusters\s*:", re.MULTILINE)

PROFILES = {
    "a100": ("NVIDIA-A100-SXM4-40GB", 8),
    "h100": ("NVIDIA-H100-80GB-HBM3", 8),
    "b200": ("NVIDIA-B200", 8),
    "gb200": ("NVIDIA-GB200", 4),
    "gb300": ("NVIDIA-GB300", 4),
    "l40s": ("NVIDIA-L40S", 8),
    "t4": ("Tesla-T4", 1),
}


def is_foreign(text: str) -> bool:
    """Whether a YAML document is one of these formats and not a scenario."""
    return bool(_FOREIGN_KEY.search(text)) and not _SCENARIO_KEY.search(text)


def read_foreign(text: str, source: str) -> Scenario:
    """The configuration as a scenario of one cluster and one day."""
    workloads: tuple[WorkloadSpec, ...] = ()
    try:
        if line := too_deep_at(text[:MAXIMUM_CHARACTERS]):
            seen = f"more than {MAXIMUM_LEVELS} levels deep"
            raise BadScenario(source, [Problem(line, "", seen, "close brackets")])
        document = _mapping(yaml.safe_load(text[:MAXIMUM_CHARACTERS]), "the file")
        if "nodePools" in document:
            nodes = _pools(document)
        else:
            nodes, workloads = _nodes(document)
    except Unreadable as error:
        raise BadScenario(source, [Problem(0, "nodes", error.seen, error.remedy)]) from error
    except yaml.YAMLError as error:
        problem = Problem(0, "", f"not YAML: {error}", "mend the syntax there")
        raise BadScenario(source, [problem]) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = Problem(0, "nodes", f"a value is missing or of another kind: {error!r}", SEE)
        raise BadScenario(source, [problem]) from error
    cluster = ClusterSpec(name="fake", nodes=nodes, workloads=workloads)
    return Scenario(name=source, from_=START, until=START + DAY, clusters=(cluster,))


# --- the design document ------------------------------------------------------------------------


def _nodes(document: Mapping[str, Any]) -> tuple[tuple[NodeSpec, ...], tuple[WorkloadSpec, ...]]:
    _known(document, {"mig-strategy", "nodes"}, "the file")
    nodes: list[NodeSpec] = []
    workloads: list[WorkloadSpec] = []
    for name, entry in _mapping(document["nodes"], "nodes").items():
        _known(_mapping(entry, name), {"gpu-memory", "gpu-product", "gpus"}, name)
        gpus = entry.get("gpus") or []
        nodes.append(
            NodeSpec(
                name=str(name),
                product=str(entry.get("gpu-product", "")),
                cards=len(gpus),
                card_ids=tuple(str(gpu["id"]) for gpu in gpus),
                memory_mib=int(entry["gpu-memory"]) if "gpu-memory" in entry else None,
                labels={"nvidia.com/mig.strategy": str(document.get("mig-strategy", "none"))},
            )
        )
        workloads += _pods_of(str(name), gpus)
    return tuple(nodes), tuple(workloads)


def _pods_of(node: str, gpus: list[Any]) -> list[WorkloadSpec]:
    """The pods that the metrics of a node's GPUs name; one pod may have several."""
    users: dict[tuple[str, str, str], list[CardLoadSpec]] = {}
    for index, gpu in enumerate(gpus):
        _known(_mapping(gpu, f"{node} gpu {index}"), {"id", "metrics"}, f"{node} gpu {index}")
        metrics = gpu.get("metrics") or {}
        _known(metrics, {"metadata", "utilization", "fb-used"}, f"{node} gpu {index}")
        meta = metrics.get("metadata") or {}
        if not meta.get("pod"):
            continue
        key = (str(meta["namespace"]), str(meta["pod"]), str(meta.get("container", "main")))
        load = parse_load(str(metrics.get("utilization", 0)))
        users.setdefault(key, []).append(CardLoadSpec(index, load, int(metrics.get("fb-used", 0))))
    return [
        WorkloadSpec(
            name=pod,
            namespace=namespace,
            kind="Pod",
            containers=(ContainerSpec(container, {"nvidia.com/gpu": len(loads)}),),
            pods=(
                PodSpec(
                    created=START - BEFORE,
                    started=START - BEFORE,
                    name=pod,
                    node=node,
                    cards=tuple(load.card for load in loads),
                    card_loads=tuple(loads),
                ),
            ),
        )
        for (namespace, pod, container), loads in users.items()
    ]


# --- the fake GPU operator ----------------------------------------------------------------------


def _pools(document: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
    known = {"nodePools", "nodePoolLabelKey", "migStrategy", "gpuOperator"}
    _known(document, known, "the file")
    label = str(document.get("nodePoolLabelKey", "run.ai/simulated-gpu-node-pool"))
    strategy = str(document.get("migStrategy", "none"))
    nodes = []
    for name, pool in _mapping(document["nodePools"], "nodePools").items():
        product, count, memory = _pool(str(name), _mapping(pool, str(name)))
        mig = strategy in ("single", "mixed") and bool(products()[product].mig_family)
        nodes.append(
            NodeSpec(
                name=str(name),
                product=product,
                cards=count,
                memory_mib=memory,
                mig=MigSpec(Layout("all-disabled", ())) if mig else None,
                labels={label: str(name), "run.ai/fake.gpu": "true"},
            )
        )
    return tuple(nodes)


def _pool(name: str, pool: Mapping[str, Any]) -> tuple[str, int, int | None]:
    if "gpu" in pool:
        _known(pool, {"gpu", "numa", "resources"}, name)
        profile = str(_mapping(pool["gpu"], name).get("profile", ""))
        if profile not in PROFILES:
            raise Unreadable(f"{name}: no profile {profile!r}", "one of: " + ", ".join(PROFILES))
        product, count = PROFILES[profile]
        return product, count, None
    _known(pool, {"gpuProduct", "gpuCount", "gpuMemory", "otherDevices"}, name)
    product = str(pool.get("gpuProduct", "Tesla-K80"))
    if product not in products():
        raise Unreadable(f"{name}: no product {product!r}", "one of: " + ", ".join(products()))
    memory = int(pool["gpuMemory"]) if "gpuMemory" in pool else None
    return product, int(pool.get("gpuCount", 1)), memory


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{where} is no mapping", SEE)
    return value


def _known(document: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(map(str, document)) - known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise Unreadable(f"{where}: unknown {', '.join(unknown)}", f"known: {listed}")
