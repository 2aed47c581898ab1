"""Other people's configurations of fake GPU nodes, read as they are written.

Put here: the design document's `nodes:` format, and the two of the fake GPU operator.
Not here: the project's own scenario file (`spec`).

The design document's: which GPU of which node is used by which pod, and how much. The operator's:
pools of nodes (`nodePools`), old (`gpuProduct`, `gpuCount`, `gpuMemory`) or new (`gpu: {profile}`).
A pool says nothing about the number of its nodes, so each becomes one node of the pool's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fake_gpu.fleet.hardware import products, similar_products
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

_FOREIGN_KEY = re.compile(r"^(nodes\s*:|nodePools\s*:|kind\s*:\s*ConfigMap)", re.MULTILINE)
_SCENARIO_KEY = re.compile(r"^clusters\s*:", re.MULTILINE)

# Where the fake GPU operator's ConfigMap has its configuration.
OPERATOR_KEY = "topology.yml"

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


def read_foreign(text: str, source: str) -> tuple[Scenario, tuple[str, ...]]:
    """The configuration as a scenario of one cluster and one day, and the ignored keys."""
    workloads: tuple[WorkloadSpec, ...] = ()
    warnings: list[str] = []
    try:
        document = _document(text[:MAXIMUM_CHARACTERS])
        if "nodePools" in document:
            nodes = _pools(document, warnings)
        else:
            nodes, workloads = _nodes(document)
    except Unreadable as error:
        problem = Problem(error.line, "" if error.line else "nodes", error.seen, error.remedy)
        raise BadScenario(source, [problem]) from error
    except yaml.YAMLError as error:
        problem = Problem(0, "", f"not YAML: {error}", "mend the syntax there")
        raise BadScenario(source, [problem]) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = Problem(0, "nodes", f"a value is missing or of another kind: {error!r}", SEE)
        raise BadScenario(source, [problem]) from error
    cluster = ClusterSpec(name="fake", nodes=nodes, workloads=workloads)
    scenario = Scenario(name=source, from_=START, until=START + DAY, clusters=(cluster,))
    return scenario, tuple(warnings)


class _Loader(yaml.CSafeLoader):
    """Refuses a key that stands twice, of which YAML would keep the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            name = str(key_node.value)
            if name in seen:
                line = key_node.start_mark.line + 1
                raise Unreadable(f"`{name}` stands here twice", "keep one of the two", line)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _document(text: str) -> dict[str, Any]:
    """The configuration of a text: bare, or inside a ConfigMap."""
    if line := too_deep_at(text):
        raise Unreadable(f"more than {MAXIMUM_LEVELS} levels deep", "close brackets", line)
    document = _mapping(yaml.load(text, Loader=_Loader), "the file")
    if document.get("kind") != "ConfigMap":
        return document
    data = {str(k): v for k, v in _mapping(document.get("data"), "data").items()}
    if OPERATOR_KEY not in data and len(data) != 1:
        seen = f"the ConfigMap has {', '.join(data) or 'nothing'}, and no {OPERATOR_KEY}"
        raise Unreadable(seen, f"put the configuration under {OPERATOR_KEY}")
    try:
        return _document(str(data.get(OPERATOR_KEY, next(iter(data.values())))))
    except Unreadable as error:
        inside = f"line {error.line} of the ConfigMap's text: " if error.line else ""
        raise Unreadable(inside + error.seen, error.remedy) from error


# --- the design document ------------------------------------------------------------------------


@dataclass(slots=True)
class _User:
    """A pod that the metrics of GPUs name, and which cards each of its containers has."""

    node: str
    containers: dict[str, list[CardLoadSpec]] = field(default_factory=dict)


def _nodes(document: Mapping[str, Any]) -> tuple[tuple[NodeSpec, ...], tuple[WorkloadSpec, ...]]:
    _known(document, {"mig-strategy", "nodes"}, "the file")
    nodes: list[NodeSpec] = []
    users: dict[tuple[str, str], _User] = {}
    places: dict[str, str] = {}
    for name, entry in _mapping(document.get("nodes"), "nodes").items():
        _known(_mapping(entry, name), {"gpu-memory", "gpu-product", "gpus"}, name)
        gpus = entry.get("gpus") or []
        for index, gpu in enumerate(gpus):
            place = f"{name} gpu {index}"
            _known(_mapping(gpu, place), {"id", "metrics"}, place)
            if (card := str(gpu["id"])) in places:
                seen = f"{card} is {places[card]} and {place}"
                raise Unreadable(seen, "every GPU has an ID of its own")
            places[card] = place
            _use(users, str(name), index, gpu.get("metrics") or {})
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
    return tuple(nodes), tuple(_pod(*key, user) for key, user in users.items())


def _use(
    users: dict[tuple[str, str], _User], node: str, index: int, metrics: Mapping[str, Any]
) -> None:
    """Who has the GPU, and how much of it."""
    _known(metrics, {"metadata", "utilization", "fb-used"}, f"{node} gpu {index}")
    meta = metrics.get("metadata") or {}
    if not meta.get("pod"):
        return
    namespace, pod = str(meta["namespace"]), str(meta["pod"])
    user = users.setdefault((namespace, pod), _User(node))
    if user.node != node:
        seen = f"pod {namespace}/{pod} has GPUs of {user.node} and of {node}"
        raise Unreadable(seen, "a pod is on one node: give one of the two another name")
    load = parse_load(str(metrics.get("utilization", 0)))
    cards = user.containers.setdefault(str(meta.get("container", "main")), [])
    cards.append(CardLoadSpec(index, load, int(metrics.get("fb-used", 0))))


def _pod(namespace: str, pod: str, user: _User) -> WorkloadSpec:
    """One pod with all its containers; its cards in the order in which these have them."""
    loads = tuple(load for cards in user.containers.values() for load in cards)
    return WorkloadSpec(
        name=pod,
        namespace=namespace,
        kind="Pod",
        containers=tuple(
            ContainerSpec(name, {"nvidia.com/gpu": len(cards)})
            for name, cards in user.containers.items()
        ),
        pods=(
            PodSpec(
                created=START - BEFORE,
                started=START - BEFORE,
                name=pod,
                node=user.node,
                cards=tuple(load.card for load in loads),
                card_loads=loads,
            ),
        ),
    )


# --- the fake GPU operator ----------------------------------------------------------------------


def _pools(document: Mapping[str, Any], warnings: list[str]) -> tuple[NodeSpec, ...]:
    known = {"nodePools", "nodePoolLabelKey", "migStrategy", "gpuOperator"}
    _known(document, known, "the file")
    label = str(document.get("nodePoolLabelKey", "run.ai/simulated-gpu-node-pool"))
    strategy = str(document.get("migStrategy", "none"))
    nodes = []
    _leave_out(document, "the file", ("gpuOperator",), warnings)
    for name, pool in _mapping(document["nodePools"], "nodePools").items():
        product, count, memory = _pool(str(name), _mapping(pool, str(name)), warnings)
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


def _pool(name: str, pool: Mapping[str, Any], warnings: list[str]) -> tuple[str, int, int | None]:
    where = f"pool {name}"
    _leave_out(pool, where, ("otherDevices", "resources", "numa"), warnings)
    if "gpu" in pool:
        _known(pool, {"gpu", "numa", "resources"}, where)
        gpu = _mapping(pool["gpu"], where)
        _known(gpu, {"backend", "profile", "overrides"}, f"{where} gpu")
        _leave_out(gpu, f"{where} gpu", ("overrides",), warnings)
        profile = str(gpu.get("profile", ""))
        if profile not in PROFILES:
            raise Unreadable(f"{where}: no profile {profile!r}", "one of: " + ", ".join(PROFILES))
        product, count = PROFILES[profile]
        return product, count, None
    _known(pool, {"gpuProduct", "gpuCount", "gpuMemory", "otherDevices", "resources"}, where)
    product = str(pool.get("gpuProduct", "Tesla-K80"))
    if product not in products():
        raise Unreadable(f"{where}: no product {product!r}", similar_products(product))
    memory = int(pool["gpuMemory"]) if "gpuMemory" in pool else None
    return product, int(pool.get("gpuCount", 1)), memory


def _leave_out(
    document: Mapping[str, Any], where: str, names: Sequence[str], warnings: list[str]
) -> None:
    """Keys that the operator reads and this fleet does not; reported unless empty."""
    warnings += [
        f"{where}: `{name}` is left out, no GPU comes of it" for name in names if document.get(name)
    ]


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{where} is no mapping", SEE)
    return value


def _known(document: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(map(str, document)) - known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise Unreadable(f"{where}: unknown {', '.join(unknown)}", f"known: {listed}")
