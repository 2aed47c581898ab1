"""`gpu-ledger mig plan`: plan a change of a node's MIG layout, with its evictions.

Put here: reading the node and its pods from the API server, the printed plan and its commands.
Not here: the choice of cards and layouts (`domain.mig.reconfiguration`).
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import click
import yaml
from prometheus_client.parser import text_string_to_metric_families

from clients.kubeconfig import find_cluster_access
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import ServerRefused
from domain.errors import shown
from domain.gpu import Catalogue, GpuProduct
from domain.gpu.claims import CLAIM_DRIVERS
from domain.gpu.names import may_be_a_device
from domain.mig import Geometry, MigProfile, parse_profile, parse_resource_profile
from domain.mig.layouts import Instances
from domain.mig.parted import PartedEntry, PartedFile, parse_parted_file, unknown_choice
from domain.mig.profile import NotAMigProfile
from domain.mig.reconfiguration import (
    CardState,
    LayoutUnknown,
    NodeCannotHold,
    Reconfiguration,
    as_entries,
    plan_configuration,
    plan_instances,
)
from domain.mig.yaml_tree import LARGEST_FILE_BYTES
from domain.request import effective_request_of_pod
from domain.tenant import BelongsTo, belongs_by_rule
from orchestration.cli.gpu import products_option, read_catalogue
from orchestration.cli.output import emit, emit_document, kubeconfig_option, output_option
from warehouse.home import Home
from warehouse.reports.opened_facts import open_facts
from warehouse.reports.withdrawals import Withdrawals, withdrawals

SCHEMA = "gpu-ledger/mig-plan/1"
PRODUCT_LABEL = "nvidia.com/gpu.product"
CONFIG_LABEL = "nvidia.com/mig.config"
STATE_LABEL = "nvidia.com/mig.config.state"
COUNT_LABEL = "nvidia.com/gpu.count"
CLAIMS_API = "/apis/resource.k8s.io/v1"
NEW_CONFIG = "gpu-ledger-plan"
LARGEST_PAGE_BYTES = 64 << 20
"""A node of 16 cards with 7 instances each writes about 2 MB."""
UTILISATION = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO")
"""A card with MIG enabled has no such series, with or without instances."""

Document = dict[str, Any]
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod on the node, with the devices that it holds."""

    namespace: str
    name: str
    devices: Mapping[str, int]
    controller: str  # "": nothing makes the pod again

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_drained(self) -> bool:
        """Whether a drain evicts the pod: not those of DaemonSets, and not static ones."""
        return not self.controller.startswith(("DaemonSet/", "Node/"))

    @property
    def tenant(self) -> str:
        belongs = belongs_by_rule(self.namespace)
        return self.namespace if belongs is BelongsTo.TENANT else "provider"


@dataclass(slots=True)
class _Card:
    """The readings of one card on the exporter's page."""

    instances: Counter[str]
    seen: set[tuple[str, str]]  # (GPU instance ID, profile), each counted once
    pods: set[str]
    has_utilisation: bool = False


EPILOG = """\b
Examples:
  gpu-ledger mig plan --node gpu-7 --want 1g.5gb=4,3g.20gb=1 --config mig-parted.yaml
  gpu-ledger mig plan --node gpu-7 --config mig-parted.yaml --profile all-balanced
  kubectl get --raw /api/v1/namespaces/nvidia-gpu-operator/pods/POD:9400/proxy/metrics |
    gpu-ledger mig plan --node gpu-7 --want 2g.10gb=3 --metrics -
"""


@click.command(epilog=EPILOG)
@click.option("--node", "node_name", required=True, metavar="NODE", help="Node to plan for.")
@click.option(
    "--config",
    "config_file",
    type=click.File("rb"),
    metavar="FILE",
    help="mig-parted file of the cluster, bare or as its ConfigMap (- reads standard input).",
)
@click.option("--profile", metavar="NAME", help="Configuration of FILE to apply.")
@click.option(
    "--want",
    metavar="PROFILE=N,…",
    help="Instances that the node must offer in total, held or free.",
)
@click.option(
    "--metrics",
    "metrics_file",
    type=click.File("rb"),
    metavar="FILE",
    help="Page of the node's dcgm-exporter: present instances and their pods (- reads "
    "standard input).",
)
@click.option(
    "--config-map",
    default="nvidia-gpu-operator/default-mig-parted-config",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="ConfigMap from which MIG manager reads configurations.",
)
@kubeconfig_option
@click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="GPU_LEDGER_HOME",
    help="Home with facts about the duration of earlier changes.",
)
@products_option
@output_option
def plan(
    node_name: str,
    config_file: BinaryIO | None,
    profile: str | None,
    want: str | None,
    metrics_file: BinaryIO | None,
    config_map: str,
    kubeconfig: Path | None,
    home_path: Path | None,
    products_path: Path | None,
    output: str,
) -> None:
    """Plan a change of the MIG layout of NODE, and print the commands. Nothing is changed.

    Give the wanted instances (--want) or a configuration (--config FILE --profile NAME). With
    --want, the plan is the configuration of FILE that evicts the fewest pods, or, if none offers
    the instances, a new one to add to the ConfigMap.

    mig-parted deletes all instances of a card that changes, so all pods of that card are evicted;
    other cards keep their instances. If the card of a pod is unknown, each card that may be its
    card counts as its card; for a pod with claims of dynamic resource allocation this is every
    card, unless the page of --metrics shows it.
    """
    if (want is None) == (profile is None):
        raise click.UsageError("give --want or --profile")
    if profile is not None and config_file is None:
        raise click.UsageError("--profile needs --config FILE")
    wanted = _parse_wanted(want) if want is not None else None
    parsed = _read_parted_file(config_file)
    page = _read_page(metrics_file)
    catalogue = read_catalogue(products_path)
    with closing(KubernetesClient(find_cluster_access(kubeconfig))) as client:
        node = client.get(f"/api/v1/nodes/{quote(node_name, safe='')}")
        selected = {"fieldSelector": f"spec.nodeName={node_name}"}
        pods = [
            _pod(found, _claimed_devices(client, found))
            for found in client.items("/api/v1/pods", selected)
            if _holds(found)
        ]
        labels = dict(node["metadata"].get("labels") or {})
        product_name = labels.get(PRODUCT_LABEL) or _product_of_slices(client, node_name)
        cluster_id = client.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    product = _product(product_name, catalogue, node_name)
    geometry = catalogue.geometry_of(product)
    holders = [pod for pod in pods if pod.devices]
    cards = _cards(node_name, labels, geometry, product, parsed, page, holders)
    name, plan = _choose(geometry, product, cards, parsed, profile, wanted)
    history = _history(home_path, str(cluster_id))
    document = _document(node_name, product, plan, name, config_map, pods, history)
    if output == "json":
        emit_document(document)
    elif output == "csv":
        emit(document["cards"], output)
    else:
        _print(document)


def _history(home_path: Path | None, cluster_id: str) -> Withdrawals | None:
    if home_path is None:
        return None
    with open_facts(Home.open(home_path)) as facts:
        return withdrawals(facts, cluster_id)


# --- the cluster ----------------------------------------------------------------------------------


def _holds(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _claimed_devices(client: KubernetesClient, pod: Document) -> dict[str, int]:
    """The devices of GPU drivers that a pod holds by claims, as driver/device."""
    of_pod = (
        *(pod["spec"].get("resourceClaims") or ()),
        *(pod.get("status", {}).get("resourceClaimStatuses") or ()),
    )
    namespace = pod["metadata"]["namespace"]
    devices: dict[str, int] = {}
    for name in sorted({found.get("resourceClaimName") or "" for found in of_pod} - {""}):
        path = f"{CLAIMS_API}/namespaces/{namespace}/resourceclaims/{quote(name, safe='')}"
        allocation = client.get(path).get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results") or ()
        devices |= {f"{r['driver']}/{r['device']}": 1 for r in results if _is_gpu_driver(r)}
    return devices


def _is_gpu_driver(found: Document) -> bool:
    return found.get("driver") in CLAIM_DRIVERS


def _product_of_slices(client: KubernetesClient, node: str) -> str:
    """The product that a driver for claims publishes; "" if there is none."""
    try:
        slices = [
            found["spec"]
            for found in client.items(
                f"{CLAIMS_API}/resourceslices", {"fieldSelector": f"spec.nodeName={node}"}
            )
        ]
    except ServerRefused as refused:
        if refused.status != 404:
            raise
        return ""  # a cluster without dynamic resource allocation
    for found in filter(_is_gpu_driver, slices):
        for device in found.get("devices") or ():
            name = (device.get("attributes") or {}).get("productName", {}).get("string")
            if name:
                return str(name)
    return ""


def _pod(pod: Document, claimed: Mapping[str, int]) -> NodePod:
    metadata = pod["metadata"]
    owners = [o for o in metadata.get("ownerReferences") or () if o.get("controller")]
    return NodePod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        devices={**effective_request_of_pod(pod["spec"], may_be_a_device), **claimed},
        controller=f"{owners[0]['kind']}/{owners[0]['name']}" if owners else "",
    )


def _product(label: str, catalogue: Catalogue, node: str) -> GpuProduct:
    """The node's product; its label also names the MIG strategy `single` and sharing."""
    if not label:
        problem = f"the node has no label {PRODUCT_LABEL} and no ResourceSlice with a product"
        raise LayoutUnknown(node, problem)
    return catalogue.choose(label.removesuffix("-SHARED").split("-MIG-")[0])


def _read_page(file: BinaryIO | None) -> dict[int, _Card] | None:
    """The cards of an exporter's page by index, or None without a page."""
    if file is None:
        return None
    text = file.read(LARGEST_PAGE_BYTES).decode("utf-8", errors="replace")
    cards: dict[int, _Card] = {}
    try:
        for family in text_string_to_metric_families(text):
            if family.name.startswith("DCGM_"):
                for sample in family.samples:
                    _read_series(cards, sample.name, sample.labels)
    except ValueError as error:
        raise LayoutUnknown("of the page", f"{file.name} is no page of metrics: {error}") from error
    return cards


def _read_series(cards: dict[int, _Card], name: str, labels: Mapping[str, str]) -> None:
    index = labels.get("gpu", "")
    if not index.isdigit():
        return
    card = cards.setdefault(int(index), _Card(Counter(), set(), set()))
    card.has_utilisation |= name in UTILISATION
    instance = (labels.get("GPU_I_ID", ""), labels.get("GPU_I_PROFILE", ""))
    if instance[1] and instance not in card.seen:
        card.seen.add(instance)
        card.instances[instance[1]] += 1
    pod = labels.get("exported_pod") or labels.get("pod")
    namespace = labels.get("exported_namespace") or labels.get("namespace")
    if pod and namespace:
        card.pods.add(f"{namespace}/{pod}")


def _cards(
    node: str,
    labels: Mapping[str, str],
    geometry: Geometry,
    product: GpuProduct,
    parsed: PartedFile | None,
    page: Mapping[int, _Card] | None,
    pods: Sequence[NodePod],
) -> list[CardState]:
    if page is not None:
        if not page:
            raise LayoutUnknown(node, "the page has no series DCGM_* with a label gpu")
        cards = [
            CardState(index, _instances(geometry, card)) for index, card in sorted(page.items())
        ]
        seen = {p.key: {i for i, card in page.items() if p.key in card.pods} for p in pods}
    else:
        cards = _cards_by_labels(node, labels, geometry, product, parsed)
        seen = {}
    return [
        CardState(
            card.index,
            card.instances,
            frozenset(pod.key for pod in pods if _may_be_on(card, pod, seen.get(pod.key, set()))),
        )
        for card in cards
    ]


def _instances(geometry: Geometry, card: _Card) -> Instances | None:
    if not card.instances and card.has_utilisation:
        return None
    counts: Counter[MigProfile] = Counter()
    for text, count in card.instances.items():
        profile = parse_resource_profile(text)
        counts[geometry.canonical(profile) or profile] += count
    return tuple(sorted(counts.items()))


def _cards_by_labels(
    node: str,
    labels: Mapping[str, str],
    geometry: Geometry,
    product: GpuProduct,
    parsed: PartedFile | None,
) -> list[CardState]:
    """The layout that MIG manager applied, by the node's labels and the mig-parted file."""
    name, state = labels.get(CONFIG_LABEL), labels.get(STATE_LABEL)
    if name is None:
        raise LayoutUnknown(node, f"the node has no label {CONFIG_LABEL}")
    if state not in ("success", None):
        raise LayoutUnknown(node, f"{STATE_LABEL} is {shown(state)}")
    if parsed is None or name not in parsed.configs:
        raise LayoutUnknown(node, f"the configuration {shown(name)} is not known")
    entries = parsed.configs[name]
    for count in range(1, 17):
        bare = [CardState(index, None) for index in range(count)]
        applied = plan_configuration(geometry, bare, entries, product.pci_device_ids)
        cards = [CardState(card.index, card.after) for card in applied.cards]
        if _count_label(cards, labels) == labels.get(COUNT_LABEL):
            return cards
    raise LayoutUnknown(
        node, f"{COUNT_LABEL}={labels.get(COUNT_LABEL)} contradicts the configuration {name}"
    )


def _count_label(cards: Sequence[CardState], labels: Mapping[str, str]) -> str:
    """The count that feature discovery writes: instances with the strategy `single`, else cards."""
    if labels.get("nvidia.com/mig.strategy") != "single" or cards[0].instances is None:
        return str(len(cards))
    return str(sum(count for card in cards for _, count in card.instances or ()))


def _may_be_on(card: CardState, pod: NodePod, seen: set[int]) -> bool:
    """Whether a pod holds a part of a card, or may do so as far as is known."""
    if len(seen) >= sum(pod.devices.values()):
        return card.index in seen
    return card.index in seen or any(_offers(card, resource) for resource in pod.devices)


def _offers(card: CardState, resource: str) -> bool:
    domain, _, local = resource.removesuffix(".shared").rpartition("/")
    if domain in CLAIM_DRIVERS:
        return True  # the name of a claimed device does not show its card
    if local == "gpu":  # a whole card, or with the strategy `single` any instance
        return card.instances is None or bool(card.instances)
    if not local.startswith("mig-"):
        return True
    names = {
        str(profile).replace("+", ".").replace(",", ".") for profile, _ in card.instances or ()
    }
    asked = local.removeprefix("mig-")
    return asked in names or any(asked.endswith(f"c.{name}") for name in names)


# --- the choice -----------------------------------------------------------------------------------


def _read_parted_file(file: BinaryIO | None) -> PartedFile | None:
    return parse_parted_file(file.read(LARGEST_FILE_BYTES + 1), file.name) if file else None


def _parse_wanted(text: str) -> Counter[MigProfile]:
    wanted: Counter[MigProfile] = Counter()
    for part in text.split(","):
        name, equals, count = part.strip().rpartition("=")
        if not equals or not count.isdigit():
            raise click.BadParameter(f"{part!r} is not PROFILE=N", param_hint="--want")
        try:
            wanted[parse_profile(name)] += int(count)
        except NotAMigProfile as error:
            raise click.BadParameter(error.seen, param_hint="--want") from error
    return wanted


def _choose(
    geometry: Geometry,
    product: GpuProduct,
    cards: Sequence[CardState],
    parsed: PartedFile | None,
    profile: str | None,
    wanted: Mapping[MigProfile, int] | None,
) -> tuple[str, Reconfiguration]:
    """The plan, and the name of its configuration in the file; "" for a new configuration."""
    ids = product.pci_device_ids

    def planned(entries: Sequence[PartedEntry]) -> Reconfiguration:
        return plan_configuration(geometry, cards, entries, ids)

    if profile is not None:
        assert parsed is not None, "checked by the command"
        if profile not in parsed.configs:
            raise unknown_choice("the configurations", profile, ", ".join(parsed.configs))
        return profile, planned(parsed.configs[profile])
    assert wanted is not None, "checked by the command"
    own = plan_instances(geometry, cards, wanted)
    need = {geometry.canonical(p) or p: count for p, count in wanted.items()}
    fitting = []
    for name, entries in (parsed.configs if parsed else {}).items():
        try:
            plan = planned(entries)
        except NodeCannotHold:
            continue  # the configuration is for other cards
        offered = dict(plan.offered_after)
        if all(offered.get(p, 0) >= count for p, count in need.items()):
            fitting.append(((len(plan.evicted), len(plan.changed), name), plan))
    if fitting:
        (_, _, name), plan = min(fitting, key=lambda found: found[0])
        return name, plan
    return "", own


# --- output ------------------------------------------------------------------------------


def _document(
    node: str,
    product: GpuProduct,
    plan: Reconfiguration,
    name: str,
    config_map: str,
    pods: Sequence[NodePod],
    history: Withdrawals | None,
) -> Document:
    evicted = [
        pod for pod in pods if pod.key in plan.evicted or (plan.needs_drain and pod.is_drained)
    ]
    entry = "" if name or not plan.changed else _entry(plan)
    return {
        "schema": SCHEMA,
        "node": node,
        "product": product.product,
        "geometry": plan.geometry.name,
        "cards": [
            {
                "card": card.index,
                "before": _instances_text(card.before),
                "after": _instances_text(card.after),
                "placement": " ".join(map(str, card.placement)),
                "changes": card.changes,
            }
            for card in plan.cards
        ],
        "surviving_instances": {str(profile): count for profile, count in plan.surviving},
        "evicted_pods": [
            {
                "namespace": pod.namespace,
                "pod": pod.name,
                "tenant": pod.tenant,
                "devices": dict(pod.devices),
                "controller": pod.controller,
            }
            for pod in evicted
        ],
        "needs_drain": plan.needs_drain,
        "changes_mig_mode": any(card.changes_mode for card in plan.changed),
        "configuration": name or (NEW_CONFIG if plan.changed else ""),
        "config_map_entry": entry,
        "commands": _commands(node, plan, name or NEW_CONFIG, entry, config_map, evicted),
        "rights": _rights(plan, entry, config_map) if plan.changed else [],
        "withdrawn_seconds": None
        if history is None or not history.count
        else {
            "changes": history.count,
            "median_seconds": history.median_seconds,
            "longest_seconds": history.longest_seconds,
            "median_card_seconds": history.median_seconds * len(plan.cards),
        },
        "unsold_before": _share(plan, after=False),
        "unsold_after": _share(plan, after=True),
    }


def _share(plan: Reconfiguration, *, after: bool) -> Row:
    unsold = plan.unsold(after=after)
    return {"compute": unsold.compute, "memory": unsold.memory}


def _instances_text(instances: Instances | None) -> str:
    if instances is None:
        return "whole card"
    return " ".join(f"{count}×{profile}" for profile, count in instances) or "no instances"


def _entry(plan: Reconfiguration) -> str:
    text = yaml.safe_dump({NEW_CONFIG: as_entries(plan)}, sort_keys=False, default_flow_style=None)
    return "".join(f"  {line}\n" for line in text.splitlines())


def _commands(
    node: str,
    plan: Reconfiguration,
    name: str,
    entry: str,
    config_map: str,
    evicted: Sequence[NodePod],
) -> list[str]:
    if not plan.changed:
        return []
    namespace, _, config = config_map.partition("/")
    quoted = shlex.quote(node)
    commands = [f"kubectl cordon {quoted}"]
    if entry:
        edit = f"kubectl -n {shlex.quote(namespace)} edit configmap {shlex.quote(config)}"
        commands.insert(0, f"{edit}  # add the entry below mig-configs")
    if plan.needs_drain:
        commands.append(
            f"kubectl drain {quoted} --ignore-daemonsets --delete-emptydir-data --timeout=600s"
        )
    else:
        commands += [line for pod in evicted for line in _eviction(pod)]
    state = STATE_LABEL.replace(".", "\\.")
    return [
        *commands,
        # Without the old state, the wait cannot see the success of the change before.
        f"kubectl label node {quoted} {STATE_LABEL}- {CONFIG_LABEL}={name} --overwrite",
        f"kubectl wait node {quoted} --for=jsonpath='{{.metadata.labels.{state}}}'=success "
        "--timeout=900s",
        f"kubectl uncordon {quoted}",
    ]


def _eviction(pod: NodePod) -> list[str]:
    """An eviction obeys disruption budgets; `kubectl delete` does not."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    return [
        f"echo '{json.dumps(body)}' | kubectl create --raw {path} -f -",
        f"kubectl -n {pod.namespace} wait pod {pod.name} --for=delete --timeout=600s",
    ]


def _rights(plan: Reconfiguration, entry: str, config_map: str) -> list[str]:
    """The rights of the commands: `kubectl wait` lists and watches, `kubectl edit` patches."""
    rights = ["get, list, patch, watch nodes", "get, list, watch pods", "create pods/eviction"]
    if plan.needs_drain:
        rights.append("get daemonsets.apps")
    if entry:
        rights.append(f"get, patch configmaps in {config_map.partition('/')[0]}")
    return rights


def _print(document: Document) -> None:
    cards: list[Mapping[str, Any]] = document["cards"]
    if not document["commands"]:
        emit(cards, "table", title=f"{document['node']}: no change is needed")
        return
    emit(cards, "table", title=f"{document['node']} ({document['product']})")
    survivors = document["surviving_instances"]
    kept = ", ".join(f"{count} × {name}" for name, count in survivors.items()) or "none"
    click.echo(f"Instances that survive: {kept}")
    pods = document["evicted_pods"]
    emit(pods, "table", title="Pods to evict", empty="Pods to evict: none")
    for pod in pods:
        name, controller = f"{pod['namespace']}/{pod['pod']}", pod["controller"]
        if not controller:
            text = "has no controller: an evicted pod is not created again"
        elif controller.startswith("DaemonSet/"):
            text = f"is created again at once by {controller}: exclude the node from it first"
        else:
            continue
        click.echo(f"warning: {name} {text}", err=True)
    scope = "drain" if document["needs_drain"] else "evictions" if pods else "cordon"
    sentences = {
        "drain": "Every card changes: the node has to be drained, with its pods without GPUs.",
        "evictions": "These evictions suffice; other pods of the node keep running.",
        "cordon": "No pod holds a card that changes.",
    }
    click.echo(sentences[scope])
    if document["changes_mig_mode"]:
        click.echo(
            "A card enters or leaves MIG mode and is reset; with WITH_REBOOT=true MIG manager "
            "restarts the node: then drain it."
        )
    _print_costs(document)
    if document["config_map_entry"]:
        click.echo("\nNo configuration of the file fits. Add to the ConfigMap:\n")
        click.echo(document["config_map_entry"])
    click.echo("Commands:\n")
    for command in document["commands"]:
        click.echo(f"  {command}")
    click.echo("\nRights: " + "; ".join(document["rights"]))


def _print_costs(document: Document) -> None:
    for when in ("before", "after"):
        unsold = document[f"unsold_{when}"]
        click.echo(
            f"Unsold capacity {when}: {unsold['compute']} cards by compute slots, "
            f"{unsold['memory']} by memory slots"
        )
    past = document["withdrawn_seconds"]
    if past is None:
        click.echo("Withdrawn time: not known; no change of this cluster was recorded (--home).")
        return
    click.echo(
        f"Withdrawn time by {past['changes']} recorded changes: median {past['median_seconds']} s "
        f"({past['median_card_seconds']} card-seconds), longest {past['longest_seconds']} s"
    )
