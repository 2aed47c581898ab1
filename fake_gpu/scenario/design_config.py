"""Other people's configurations of fake GPU nodes, read as they are written.

Put here: the design document's `nodes:` format, and the two of the fake GPU operator.
Not here: the project's own scenario file (`spec`).

The design document's: which GPU of which node is used by which pod, and how much. The operator's:
pools of nodes (`nodePools`), old (`gpuProduct`, `gpuCount`, `gpuMemory`) or new (`gpu: {profile}`).
A pool does not have the number of its nodes, so a scenario has one node of the pool's name; in
a real cluster (`fake_gpu.cluster`) it is every node with the pool's label.

A node of the design document's format may also have `mig-strategy` (else the file's), `replicas`
(of each device, time-sliced) and `driver-version`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import yaml

from fake_gpu.fleet.hardware import products, similar_products
from fake_gpu.scenario.errors import BadScenario, Problem
from fake_gpu.scenario.schema import MAXIMUM_LEVELS, InvalidScenarioValue, too_deep_at
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import CardLayoutSpec, MigSpec, NodeSpec, SharingSpec
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

NODE_KEYS = {"gpu-memory", "gpu-product", "gpus", "mig-strategy", "replicas", "driver-version"}
DRIVER_VERSION = "550.127.08"
CUDA_VERSION = "12.4"

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


@dataclass(frozen=True, slots=True)
class ForeignNodes:
    """The nodes of a configuration; `pool_label` is empty unless they stand for pools of nodes."""

    nodes: tuple[NodeSpec, ...]
    workloads: tuple[WorkloadSpec, ...] = ()
    pool_label: str = ""
    warnings: tuple[str, ...] = ()


def read_foreign(text: str, source: str) -> tuple[Scenario, tuple[str, ...]]:
    """The configuration as a scenario of one cluster and one day, and the ignored keys."""
    found = foreign_nodes(text, source)
    cluster = ClusterSpec(name="fake", nodes=found.nodes, workloads=found.workloads)
    scenario = Scenario(name=source, from_=START, until=START + DAY, clusters=(cluster,))
    return scenario, found.warnings


def foreign_nodes(
    text: str, source: str, profiles: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> ForeignNodes:
    """The nodes of a configuration; `profiles` are the operator's profiles besides the known ones.

    Raises BadScenario.
    """
    try:
        document = _document(text[:MAXIMUM_CHARACTERS])
        if "nodePools" in document:
            return _pools(document, profiles)
        nodes, workloads = _nodes(document)
        return ForeignNodes(nodes, workloads)
    except InvalidScenarioValue as error:
        problem = Problem(error.line, "" if error.line else "nodes", error.seen, error.remedy)
        raise BadScenario(source, [problem]) from error
    except yaml.YAMLError as error:
        problem = Problem(0, "", f"not YAML: {error}", "mend the syntax there")
        raise BadScenario(source, [problem]) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = Problem(0, "nodes", f"a value is missing or of another kind: {error!r}", SEE)
        raise BadScenario(source, [problem]) from error


class _Loader(yaml.CSafeLoader):
    """Refuses a duplicate key, of which YAML would keep the last without an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            name = str(key_node.value)
            if name in seen:
                line = key_node.start_mark.line + 1
                raise InvalidScenarioValue(f"`{name}` occurs twice", "keep one of the two", line)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _document(text: str) -> dict[str, Any]:
    """The configuration of a text: bare, or inside a ConfigMap."""
    if line := too_deep_at(text):
        raise InvalidScenarioValue(
            f"more than {MAXIMUM_LEVELS} levels deep", "close brackets", line
        )
    document = _mapping(yaml.load(text, Loader=_Loader), "the file")
    if document.get("kind") != "ConfigMap":
        return document
    data = {str(k): v for k, v in _mapping(document.get("data"), "data").items()}
    if OPERATOR_KEY not in data and len(data) != 1:
        seen = f"the ConfigMap has {', '.join(data) or 'nothing'}, and no {OPERATOR_KEY}"
        raise InvalidScenarioValue(seen, f"put the configuration under {OPERATOR_KEY}")
    try:
        return _document(str(data.get(OPERATOR_KEY, next(iter(data.values())))))
    except InvalidScenarioValue as error:
        inside = f"line {error.line} of the ConfigMap's text: " if error.line else ""
        raise InvalidScenarioValue(inside + error.seen, error.remedy) from error


# --- the design document ------------------------------------------------------------------------


@dataclass(slots=True)
class _User:
    """A pod that the metrics of GPUs name, and which cards each of its containers has."""

    node: str
    containers: dict[str, list[CardLoadSpec]] = field(default_factory=dict)


def _nodes(document: Mapping[str, Any]) -> tuple[tuple[NodeSpec, ...], tuple[WorkloadSpec, ...]]:
    _require_known_keys(document, {"mig-strategy", "nodes"}, "the file")
    nodes: list[NodeSpec] = []
    users: dict[tuple[str, str], _User] = {}
    places: dict[str, str] = {}
    for name, entry in _mapping(document.get("nodes"), "nodes").items():
        _require_known_keys(_mapping(entry, name), NODE_KEYS, name)
        gpus = entry.get("gpus") or []
        for index, gpu in enumerate(gpus):
            place = f"{name} gpu {index}"
            _require_known_keys(_mapping(gpu, place), {"id", "metrics"}, place)
            if (card := str(gpu["id"])) in places:
                seen = f"{card} is {places[card]} and {place}"
                raise InvalidScenarioValue(seen, "each GPU must have a unique ID")
            places[card] = place
            _use(users, str(name), index, gpu.get("metrics") or {})
        strategy = str(entry.get("mig-strategy", document.get("mig-strategy", "none")))
        product = str(entry.get("gpu-product", ""))
        replicas = int(entry.get("replicas", 1))
        nodes.append(
            NodeSpec(
                name=str(name),
                product=product,
                mig=_mig(product, strategy),
                sharing=SharingSpec(replicas) if replicas != 1 else None,
                driver_version=str(entry.get("driver-version", DRIVER_VERSION)),
                cards=len(gpus),
                card_ids=tuple(str(gpu["id"]) for gpu in gpus),
                memory_mib=int(entry["gpu-memory"]) if "gpu-memory" in entry else None,
                labels={"nvidia.com/mig.strategy": strategy},
            )
        )
    return tuple(nodes), tuple(_pod(*key, user) for key, user in users.items())


def _use(
    users: dict[tuple[str, str], _User], node: str, index: int, metrics: Mapping[str, Any]
) -> None:
    """Who has the GPU, and how much of it."""
    _require_known_keys(metrics, {"metadata", "utilization", "fb-used"}, f"{node} gpu {index}")
    meta = metrics.get("metadata") or {}
    if not meta.get("pod"):
        return
    namespace, pod = str(meta["namespace"]), str(meta["pod"])
    user = users.setdefault((namespace, pod), _User(node))
    if user.node != node:
        seen = f"pod {namespace}/{pod} has GPUs of {user.node} and of {node}"
        raise InvalidScenarioValue(seen, "a pod is on one node: give one of the two another name")
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


def _pools(document: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]]) -> ForeignNodes:
    known = {"nodePools", "nodePoolLabelKey", "migStrategy", "gpuOperator"}
    _require_known_keys(document, known, "the file")
    warnings: list[str] = []
    label = str(document.get("nodePoolLabelKey", "run.ai/simulated-gpu-node-pool"))
    strategy = str(document.get("migStrategy", "none"))
    nodes = []
    _leave_out(document, "the file", ("gpuOperator",), warnings)
    for name, pool in _mapping(document["nodePools"], "nodePools").items():
        found = _pool(str(name), _mapping(pool, str(name)), profiles, warnings)
        nodes.append(
            NodeSpec(
                name=str(name),
                product=found.product,
                cards=found.cards,
                memory_mib=found.memory_mib,
                mig=_mig(found.product, strategy),
                driver_version=found.driver_version,
                cuda_version=found.cuda_version,
                labels={
                    label: str(name),
                    "run.ai/fake.gpu": "true",
                    "nvidia.com/mig.strategy": strategy,
                },
            )
        )
    return ForeignNodes(tuple(nodes), pool_label=label, warnings=tuple(warnings))


def _mig(product: str, strategy: str) -> MigSpec | None:
    """MIG that is not enabled yet, where the cards and the strategy allow it."""
    if strategy not in ("single", "mixed"):
        return None
    if product not in products() or not products()[product].mig_family:
        return None
    return MigSpec(
        CardLayoutSpec("all-disabled", ()), "single" if strategy == "single" else "mixed"
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    product: str
    cards: int
    memory_mib: int | None
    driver_version: str = DRIVER_VERSION
    cuda_version: str = CUDA_VERSION


def _pool(
    name: str,
    pool: Mapping[str, Any],
    profiles: Mapping[str, Mapping[str, Any]],
    warnings: list[str],
) -> _Pool:
    where = f"pool {name}"
    _leave_out(pool, where, ("otherDevices", "resources", "numa"), warnings)
    if "gpu" in pool:
        _require_known_keys(pool, {"gpu", "numa", "resources"}, where)
        return _profiled_pool(_mapping(pool["gpu"], where), f"{where} gpu", profiles, warnings)
    _require_known_keys(
        pool, {"gpuProduct", "gpuCount", "gpuMemory", "otherDevices", "resources"}, where
    )
    product = _product(str(pool.get("gpuProduct", "Tesla-K80")), where)
    memory = int(pool["gpuMemory"]) if "gpuMemory" in pool else None
    return _Pool(product, int(pool.get("gpuCount", 1)), memory)


def _profiled_pool(
    gpu: Mapping[str, Any],
    where: str,
    profiles: Mapping[str, Mapping[str, Any]],
    warnings: list[str],
) -> _Pool:
    """A pool by the name of a profile, with parts of the profile overridden."""
    _require_known_keys(gpu, {"backend", "profile", "overrides"}, where)
    name = str(gpu.get("profile", ""))
    profile: Mapping[str, Any] = profiles.get(name, {})
    if not profile and name not in PROFILES:
        listed = ", ".join(sorted({*PROFILES, *profiles}))
        raise InvalidScenarioValue(f"{where}: no profile {name!r}", f"one of: {listed}")
    product, cards = PROFILES.get(name, ("", 1))
    overrides = _mapping(gpu.get("overrides") or {}, f"{where} overrides")
    unread = sorted(set(overrides) - {"system", "device_defaults", "devices"})
    _leave_out(overrides, f"{where} overrides", unread, warnings)
    merged = _merged(profile, overrides)
    system = _mapping(merged.get("system") or {}, where)
    defaults = _mapping(merged.get("device_defaults") or {}, where)
    memory = _mapping(defaults.get("memory") or {}, where)
    if "name" in defaults:
        product = _product(str(defaults["name"]).replace(" ", "-"), where)
    if merged.get("devices"):
        cards = len(merged["devices"])
    return _Pool(
        product,
        cards,
        int(memory["total_bytes"]) // 2**20 if "total_bytes" in memory else None,
        str(system.get("driver_version", DRIVER_VERSION)),
        str(system.get("cuda_version", CUDA_VERSION)),
    )


def _product(name: str, where: str) -> str:
    if name not in products():
        raise InvalidScenarioValue(f"{where}: no product {name!r}", similar_products(name))
    return name


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merged key by key; other values of `changes` replace those of `base`."""
    merged = dict(base)
    for key, value in changes.items():
        is_inner = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if is_inner else value
    return merged


def _leave_out(
    document: Mapping[str, Any], where: str, names: Sequence[str], warnings: list[str]
) -> None:
    """Keys that the operator reads and this fleet does not; reported unless empty."""
    warnings += [
        f"{where}: `{name}` is left out, no GPU comes of it" for name in names if document.get(name)
    ]


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidScenarioValue(f"{where} is no mapping", SEE)
    return value


def _require_known_keys(document: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(map(str, document)) - known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise InvalidScenarioValue(f"{where}: unknown {', '.join(unknown)}", f"known: {listed}")
