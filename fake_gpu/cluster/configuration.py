"""The configuration of simulated GPUs in a cluster: which cards each real node has.

Put here: the ConfigMap's text to the hardware of a node, by its name or its pool's label.
Not here: the formats themselves (`fake_gpu.scenario.design_config`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fake_gpu.cluster.errors import InvalidClusterConfiguration
from fake_gpu.scenario.design_config import ForeignNodes, foreign_nodes
from fake_gpu.scenario.errors import BadScenario
from fake_gpu.scenario.spec_hardware import NodeSpec
from fake_gpu.scenario.utilisation import Load, quoted_loads

CONFIG_MAP = "topology"
KEY = "topology.yml"
PROFILE_LABEL = "fake-gpu-operator/gpu-profile"
PROFILE_PREFIX = "gpu-profile-"
PROFILE_KEY = "profile.yaml"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GivenUse:
    """The use of a card in the configuration: shown until a pod gets the card."""

    namespace: str
    pod: str
    container: str
    load: Load
    used_mib: int


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A node as the configuration has it."""

    spec: NodeSpec
    given: Mapping[int, GivenUse] = field(default_factory=dict)  # by card


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """The nodes by name, or pools of nodes by the value of a label."""

    by_name: Mapping[str, NodeTemplate] = field(default_factory=dict)
    by_pool: Mapping[str, NodeTemplate] = field(default_factory=dict)
    pool_label: str = ""
    warnings: tuple[str, ...] = ()

    def template(self, node: str, labels: Mapping[str, str]) -> NodeTemplate | None:
        """The configuration of a node; None for a node without simulated GPUs."""
        if self.pool_label:
            return self.by_pool.get(labels.get(self.pool_label, ""))
        return self.by_name.get(node)


def read_configuration(
    text: str, where: str, profiles: Mapping[str, Mapping[str, Any]] | None = None
) -> ClusterConfiguration:
    """The configuration of a text; raises InvalidClusterConfiguration with every problem."""
    try:
        found = foreign_nodes(quoted_loads(text), where, profiles or {})
    except BadScenario as error:
        raise InvalidClusterConfiguration(where, error.seen) from error
    templates = {
        spec.name: NodeTemplate(spec, _uses_of_node(found, spec.name)) for spec in found.nodes
    }
    if found.pool_label:
        return ClusterConfiguration(
            by_pool=templates, pool_label=found.pool_label, warnings=found.warnings
        )
    return ClusterConfiguration(by_name=templates, warnings=found.warnings)


def _uses_of_node(found: ForeignNodes, node: str) -> dict[int, GivenUse]:
    given: dict[int, GivenUse] = {}
    for workload in found.workloads:
        for pod in workload.pods:
            if pod.node != node:
                continue
            containers = [
                container.name
                for container in workload.containers
                for count in container.requests.values()
                for _ in range(count)
            ]
            for container, load in zip(containers, pod.card_loads, strict=True):
                given[load.card] = GivenUse(
                    workload.namespace,
                    workload.name,
                    container,
                    load.utilisation,
                    load.memory_used_mib or 0,
                )
    return given


def is_profile(config_map: Document) -> bool:
    return (config_map["metadata"].get("labels") or {}).get(PROFILE_LABEL) == "true"


def profiles_of(config_maps: Sequence[Document], where: str) -> dict[str, Mapping[str, Any]]:
    """The operator's profiles that stand in ConfigMaps of their own, by name."""
    profiles: dict[str, Mapping[str, Any]] = {}
    for config_map in config_maps:
        name = config_map["metadata"]["name"]
        place = f"{where}: profile ConfigMap {name}"
        try:
            document = yaml.safe_load((config_map.get("data") or {}).get(PROFILE_KEY, ""))
        except yaml.YAMLError as error:
            raise InvalidClusterConfiguration(place, f"not YAML: {error}"[:300]) from error
        if not isinstance(document, Mapping):
            raise InvalidClusterConfiguration(place, f"no mapping under {PROFILE_KEY}")
        profiles[name.removeprefix(PROFILE_PREFIX)] = document
    return profiles
