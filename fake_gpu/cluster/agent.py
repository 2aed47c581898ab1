"""The agent: makes nodes of a cluster look as the configuration has them, again and again.

Put here: one step from observed objects to offered devices, labels and topologies; the loop of it.
Not here: how devices are offered (`backends`), or the parts of a node's state.

Everything is written by server-side apply with a field manager of its own, so a step can be
repeated, and an uninstall removes exactly the fields that were written. MIG configurations are
applied as MIG manager does it: the label nvidia.com/mig.config starts a change,
nvidia.com/mig.config.state has its result.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import yaml

from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import ServerRefused
from domain.errors import LedgerError
from domain.interval import format_instant
from domain.mig.parted import parse_parted_file
from fake_gpu.cluster.backends import STATUS_MANAGER, Backend
from fake_gpu.cluster.configuration import (
    CONFIG_MAP,
    KEY,
    ClusterConfiguration,
    NodeTemplate,
    is_profile,
    profiles_of,
    read_configuration,
)
from fake_gpu.cluster.errors import InvalidClusterConfiguration
from fake_gpu.cluster.exporter import TopologyExporter
from fake_gpu.cluster.failures import Failures, health_of, incidents_of, read_failures
from fake_gpu.cluster.hardware import Hardware, without_mig
from fake_gpu.cluster.holders import Holding, is_active, requests_devices
from fake_gpu.cluster.topology import (
    Topology,
    has_invalid_utilisation,
    read_topology,
    uses_of_holdings,
)
from fake_gpu.cluster.watching import WatchedObjects
from fake_gpu.scenario.named_mig_layouts import LayoutBook, book_of
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.spec_hardware import CardLayoutSpec

MANAGER = "gpu-ledger-fake-gpus"
FAILURES_CONFIG_MAP = "fake-gpu-failures"
FAILURES_KEY = "failures.yaml"
MIG_KEY = "config.yaml"
TOPOLOGY_PREFIX = "topology-"
CONFIG_LABEL = "nvidia.com/mig.config"
STATE_LABEL = "nvidia.com/mig.config.state"
STEP_SECONDS = 1.0
"""Between steps if nothing changes: utilisation has a resolution of seconds."""
LONGEST_MESSAGE = 1_000  # of an Event

log = logging.getLogger("fake_gpu.cluster")

Document = dict[str, Any]
Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent."""

    namespace: str
    mig_config_map: str = "gpu-operator-resources/mig-parted-config"
    mig_seconds: float = 5.0  # how long a change of layouts withdraws the node's devices
    node_name: str = ""  # the one node with a kubelet; empty: all nodes of kwok


@dataclass(slots=True)
class AgentNode:
    """The agent's state of one node, besides the objects of the API server."""

    template: NodeTemplate
    hardware: Hardware
    configured_at: datetime
    discovered_at: datetime
    holdings: list[Holding] = field(default_factory=list)
    mig_config: str = ""  # the last configuration that was tried
    mig_state: str = ""
    changing_since: datetime | None = None
    written: str = ""  # the topology as it was written last


@dataclass(frozen=True, slots=True)
class ObservedObjects:
    """The objects of the cluster at one instant."""

    nodes: Sequence[Document]
    pods: Sequence[Document]
    config_maps: Mapping[str, Document]  # of the agent's namespace, by name
    mig_config_map: Document | None = None


class Agent:
    """Shows simulated GPUs on the nodes that a backend serves."""

    def __init__(
        self,
        client: KubernetesClient,
        settings: AgentSettings,
        exporter: TopologyExporter,
        backend_of: Callable[[str], Backend],
    ) -> None:
        self._client = client
        self._settings = settings
        self._exporter = exporter
        self._backend_of = backend_of
        self._backends: dict[str, Backend] = {}
        self._states: dict[str, AgentNode] = {}
        self._configuration = ClusterConfiguration()
        self._book = LayoutBook()
        self._failures: Failures = {}
        self._versions_read: dict[str, object] = {}  # of each ConfigMap
        self._warned: set[str] = set()
        self._now = datetime.min.replace(tzinfo=UTC)

    # --- one step ---------------------------------------------------------------------------------

    def step(self, observed: ObservedObjects, now: datetime) -> None:
        """Bring every node to its configuration."""
        self._now = now
        self._read_config_maps(observed)
        pods_of: dict[str, list[Document]] = {}
        for pod in observed.pods:
            if is_active(pod) and requests_devices(pod):
                pods_of.setdefault(pod["spec"]["nodeName"], []).append(pod)
        topologies = {}
        for node in observed.nodes:
            name = node["metadata"]["name"]
            labels = node["metadata"].get("labels") or {}
            template = self._configuration.template(name, labels)
            if template is None:
                self._forget(node)
                continue
            state = self._state(node, template, observed, now)
            topologies[name] = self._step_node(node, state, pods_of.get(name, []), now)
        for name in set(self._states) - {node["metadata"]["name"] for node in observed.nodes}:
            self._states.pop(name)
            self._backends.pop(name).close()
        self._exporter.show(topologies, now)
        self._exporter.metrics.nodes.set(len(topologies))

    def _step_node(
        self,
        node: Document,
        state: AgentNode,
        pods: Sequence[Document],
        now: datetime,
    ) -> Topology:
        name = node["metadata"]["name"]
        backend = self._backends[name]
        failures = self._failures.get(name, ())
        self._change_layouts(node, state, now)
        is_paused = state.changing_since is not None
        offers = list(state.hardware.offers())
        health = health_of(state.hardware, failures)
        backend.offer(node, [] if is_paused else offers, health, failures)
        state.holdings = backend.holdings(offers, pods, state.holdings)
        by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
        for pod in pods:
            self._warn_of_utilisation(pod)
        topology = Topology(
            state.hardware,
            uses_of_holdings(
                state.hardware,
                state.holdings,
                by_uid,
                state.template.given,
                state.configured_at,
                now,
            ),
            health,
            incidents_of(state.hardware, failures),
            state.mig_config,
            is_paused,
        )
        self._write_labels(node, state, is_paused=is_paused)
        self._write_topology(state, topology)
        return topology

    # --- configuration ----------------------------------------------------------------------------

    def _read_config_maps(self, observed: ObservedObjects) -> None:
        """Read the changed ConfigMaps; the last valid content of an invalid one stays in use."""
        maps, own = observed.config_maps, self._settings.namespace
        profiles = [m for _, m in sorted(maps.items()) if is_profile(m)]
        versions = tuple(m["metadata"].get("resourceVersion") for m in profiles)

        def configuration(text: str, where: str) -> ClusterConfiguration:
            if not text.strip():
                raise InvalidClusterConfiguration(where, f"it has no text under {KEY}")
            found = read_configuration(text, where, profiles_of(profiles, where))
            for warning in found.warnings:
                log.warning("%s", warning)
            return found

        def layouts(text: str, where: str) -> LayoutBook:
            return book_of(parse_parted_file(text, where)) if text else LayoutBook()

        self._configuration = self._content(
            f"{own}/{CONFIG_MAP}",
            *(maps.get(CONFIG_MAP), KEY, configuration, self._configuration, versions),
        )
        self._failures = self._content(
            f"{own}/{FAILURES_CONFIG_MAP}",
            *(maps.get(FAILURES_CONFIG_MAP), FAILURES_KEY, read_failures, self._failures),
        )
        self._book = self._content(
            self._settings.mig_config_map, observed.mig_config_map, MIG_KEY, layouts, self._book
        )

    def _content(
        self,
        place: str,
        config_map: Document | None,
        key: str,
        read: Callable[[str, str], Content],
        before: Content,
        more: object = None,
    ) -> Content:
        """The content of a ConfigMap; `before` if it has not changed, or is invalid."""
        text = ((config_map or {}).get("data") or {}).get(key, "")
        if self._versions_read.get(place) == (text, more):
            return before
        self._versions_read[place] = (text, more)
        metrics = self._exporter.metrics
        try:
            content = read(text, f"ConfigMap {place}")
        except LedgerError as error:
            metrics.config_valid.labels(place).set(0)
            metrics.reloads.labels(place, "invalid").inc()
            message = f"{error.where}: {error.seen}"
            log.error("%s; the last valid content stays in use", message)
            self._send_event(config_map, "InvalidConfiguration", message)
            return before
        metrics.config_valid.labels(place).set(1)
        metrics.reloads.labels(place, "valid").inc()
        return content

    def _state(
        self, node: Document, template: NodeTemplate, observed: ObservedObjects, now: datetime
    ) -> AgentNode:
        """The state of a node; of a new agent, as the topology was written last."""
        name = node["metadata"]["name"]
        state = self._states.get(name)
        if state is not None and state.template == template:
            return state
        hardware = without_mig(name, template.spec)
        known = _written_topology(observed.config_maps.get(TOPOLOGY_PREFIX + name))
        new = AgentNode(template, hardware, now, now)
        if known is not None and _same_cards(known.hardware, hardware):
            new.hardware = replace(hardware, layouts=known.hardware.layouts)
            new.holdings = [use.holding for use in known.uses if use.holding.uid]
            if not known.is_paused:
                new.mig_config = known.mig_config
                new.mig_state = (node["metadata"].get("labels") or {}).get(STATE_LABEL, "success")
        self._states[name] = new
        self._backends.setdefault(name, self._backend_of(name))
        return new

    def _forget(self, node: Document) -> None:
        """A node that the configuration no longer has loses its devices, labels and topology."""
        name = node["metadata"]["name"]
        if name in self._states:
            self._states.pop(name)
            backend = self._backends.pop(name)
            backend.offer(node, [], {}, ())
            backend.close()
            remove_from_node(self._client, node)

    # --- MIG --------------------------------------------------------------------------------------

    def _change_layouts(self, node: Document, state: AgentNode, now: datetime) -> None:
        wanted = (node["metadata"].get("labels") or {}).get(CONFIG_LABEL, "")
        if not wanted or wanted == state.mig_config or state.template.spec.mig is None:
            return
        if state.changing_since is None:
            state.changing_since, state.mig_state = now, "pending"
        if (now - state.changing_since).total_seconds() < self._settings.mig_seconds:
            return
        state.changing_since, state.mig_config = None, wanted
        try:
            spec = state.template.spec
            layouts = self._book.card_layouts(CardLayoutSpec(wanted, ()), spec.product, spec.cards)
            new = state.hardware.with_layouts(layouts)
            self._check_unused(state, new)
        except InvalidScenarioValue as error:
            state.mig_state = "failed"
            log.error("node %s: %s: %s", state.hardware.node, wanted, error.seen)
            return
        state.hardware, state.mig_state, state.discovered_at = new, "success", now

    def _check_unused(self, state: AgentNode, new: Hardware) -> None:
        """mig-parted cannot delete an instance that a process uses."""
        pairs = zip(state.hardware.layouts, new.layouts, strict=True)
        changed = {index for index, (old, now) in enumerate(pairs) if old != now}
        held = {holding.offer_id.partition("::")[0]: holding for holding in state.holdings}
        for device in state.hardware.devices:
            if device.card_index in changed and device.device_id in held:
                holding = held[device.device_id]
                user = f"{holding.namespace}/{holding.pod}"
                raise InvalidScenarioValue(
                    f"card {device.card_index} is in use by {user}", "evict the pod first"
                )

    # --- writing ----------------------------------------------------------------------------------

    def _write_labels(self, node: Document, state: AgentNode, *, is_paused: bool) -> None:
        labels = state.hardware.labels(state.discovered_at, is_paused=is_paused)
        if state.mig_state:
            labels[STATE_LABEL] = state.mig_state
        pool_label = self._configuration.pool_label
        labels.pop(pool_label, None)  # the administrator's
        present = node["metadata"].get("labels") or {}
        owned = owned_fields(node, MANAGER, "metadata", "labels")
        if present.items() >= labels.items() and owned <= set(labels):
            return
        metadata = node["metadata"]
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"], "labels": labels},
        }
        self._apply(f"/api/v1/nodes/{quote(metadata['name'], safe='')}", document)

    def _write_topology(self, state: AgentNode, topology: Topology) -> None:
        text = yaml.safe_dump(topology.as_document(), sort_keys=False)
        if text == state.written:
            return
        node = state.hardware.node
        name = TOPOLOGY_PREFIX + node
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": self._settings.namespace,
                "labels": {"node-topology": "true", "node-name": node},
            },
            "data": {KEY: text},
        }
        path = f"/api/v1/namespaces/{self._settings.namespace}/configmaps"
        self._apply(f"{path}/{quote(name, safe='')}", document)
        state.written = text

    def _apply(self, path: str, document: Document) -> None:
        """Apply, and take over fields that another manager has changed: they are the agent's."""
        try:
            self._client.apply(path, document, field_manager=MANAGER)
        except ServerRefused as refused:
            if refused.status != 409:
                raise
            self._exporter.metrics.conflicts.inc()
            log.warning("%s: changed by another field manager; taken over", path)
            self._client.apply(path, document, field_manager=MANAGER, force=True)

    def _warn_of_utilisation(self, pod: Document) -> None:
        text = has_invalid_utilisation(pod)
        if text and pod["metadata"]["uid"] not in self._warned:
            self._warned.add(pod["metadata"]["uid"])
            message = f"{text!r} is no utilisation; the pod counts as fully busy"
            self._send_event({"kind": "Pod", **pod}, "InvalidUtilisation", message)

    def _send_event(self, about: Document | None, reason: str, message: str) -> None:
        if about is None:
            return
        metadata = about["metadata"]
        now = format_instant(self._now.replace(microsecond=0))
        namespace = metadata["namespace"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": about.get("kind") or "ConfigMap",
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata.get("uid", ""),
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:LONGEST_MESSAGE],
            "source": {"component": MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._client.create(f"/api/v1/namespaces/{namespace}/events", event)
        except LedgerError as error:
            log.warning("no Event: %s", error.seen)

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()


def _written_topology(config_map: Document | None) -> Topology | None:
    text = ((config_map or {}).get("data") or {}).get(KEY)
    if not text:
        return None
    try:
        return read_topology(yaml.safe_load(text))
    except (
        yaml.YAMLError,
        InvalidScenarioValue,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        log.warning("the topology that was written last cannot be read: %s", error)
        return None


def _same_cards(left: Hardware, right: Hardware) -> bool:
    if left.spec.product != right.spec.product:
        return False
    return [card.card_id for card in left.cards] == [card.card_id for card in right.cards]


def owned_fields(node: Document, manager: str, *path: str) -> set[str]:
    """The keys of a map of a node that a manager applied."""
    for entry in node["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            fields = entry.get("fieldsV1", {})
            for part in path:
                fields = fields.get(f"f:{part}", {})
            return {name.removeprefix("f:") for name in fields if name.startswith("f:")}
    return set()


def remove_from_node(client: KubernetesClient, node: Document) -> None:
    """Remove the labels and resources that agents applied to a node."""
    metadata = node["metadata"]
    identity = {"name": metadata["name"], "uid": metadata["uid"]}
    path = f"/api/v1/nodes/{quote(metadata['name'], safe='')}"
    managers = {entry.get("manager") for entry in metadata.get("managedFields") or ()}
    if MANAGER in managers:
        bare = {"apiVersion": "v1", "kind": "Node", "metadata": identity}
        client.apply(path, bare, field_manager=MANAGER, force=True)
    if STATUS_MANAGER in managers:
        # Not by an apply without resources: it also deletes CPUs and memory that no manager owns,
        # as those of a node that was created with its status.
        resources = {
            part: dict.fromkeys(owned_fields(node, STATUS_MANAGER, "status", part))
            for part in ("capacity", "allocatable")
        }
        patch = {"metadata": identity, "status": resources}
        client.merge_patch(f"{path}/status", patch, field_manager=STATUS_MANAGER)


def remove_everything(client: KubernetesClient) -> list[str]:
    """Remove the fields that agents wrote to any node; the names of the nodes."""
    removed = []
    for node in client.items("/api/v1/nodes"):
        managers = {e.get("manager") for e in node["metadata"].get("managedFields") or ()}
        if managers & {MANAGER, STATUS_MANAGER}:
            remove_from_node(client, node)
            removed.append(node["metadata"]["name"])
    return removed


# --- the loop -------------------------------------------------------------------------------------


class ClusterWatch:
    """The objects that an agent needs, watched."""

    def __init__(
        self, client: KubernetesClient, settings: AgentSettings, stop: threading.Event
    ) -> None:
        self.changed = threading.Event()
        self._settings = settings
        node = settings.node_name
        of_node = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        named = {"fieldSelector": f"metadata.name={node}"} if node else {}
        namespace, _, mig = settings.mig_config_map.partition("/")
        maps = f"/api/v1/namespaces/{settings.namespace}/configmaps"

        def watched(path: str, parameters: Mapping[str, str]) -> WatchedObjects:
            found = WatchedObjects(client, path, self.changed, stop, parameters)
            found.start()
            return found

        self._nodes = watched("/api/v1/nodes", named)
        self._pods = watched("/api/v1/pods", of_node)
        self._maps = watched(maps, {})
        self._mig = watched(
            f"/api/v1/namespaces/{namespace}/configmaps", {"fieldSelector": f"metadata.name={mig}"}
        )

    @property
    def is_complete(self) -> bool:
        return all(w.is_complete.is_set() for w in (self._nodes, self._pods, self._maps, self._mig))

    def observed(self) -> ObservedObjects:
        nodes = self._nodes.objects()
        if not self._settings.node_name:
            nodes = [node for node in nodes if is_kwok_node(node)]
        maps = {found["metadata"]["name"]: found for found in self._maps.objects()}
        mig = self._mig.objects()
        return ObservedObjects(nodes, self._pods.objects(), maps, mig[0] if mig else None)


def is_kwok_node(node: Document) -> bool:
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return "kwok.x-k8s.io/node" in annotations or labels.get("type") == "kwok"


def run_agent(
    agent: Agent,
    watch: ClusterWatch,
    exporter: TopologyExporter,
    stop: threading.Event,
    on_ready: Callable[[], None],
) -> None:
    """Steps after every change, at least one each second, until `stop` is set."""
    is_ready = False
    while not stop.is_set():
        watch.changed.wait(STEP_SECONDS)
        watch.changed.clear()
        if not watch.is_complete:
            continue
        try:
            agent.step(watch.observed(), datetime.now(UTC))
        except LedgerError as error:
            exporter.metrics.failed_steps.inc()
            log.warning("%s: %s", error.where, error.seen)
            stop.wait(STEP_SECONDS)
            continue
        if not is_ready:
            is_ready = True
            on_ready()
    agent.close()
