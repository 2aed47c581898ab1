"""Nodes for a trace that comes without any: those that it names, and enough for the others.

Put here: the cards of a traced node, and their layouts.
Not here: the pods (`trace_pods`), or placing them (`fleet`).

A named node has the cards that all its rows need at once: whole cards beside cards that are cut,
each with a layout of its own. A trace has no shares of a card: describe such nodes in a scenario,
and name the trace there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fake_gpu.fleet.hardware import place, products, profiles, resource_of
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.spec_hardware import CardLayoutSpec, MigSpec, NodeSpec
from fake_gpu.scenario.trace import bad_trace
from fake_gpu.scenario.trace_pods import TracedPod

# The product of a trace that does not name one.
DEFAULT_PRODUCT = "NVIDIA-A100-SXM4-40GB"
DEFAULT_AMD_PRODUCT = "AMD_Instinct_MI300X_OAM"
CARDS_PER_NODE = 8

WHOLE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_SLICE = "nvidia.com/mig-"


def with_nodes(
    pods: Sequence[TracedPod], source: str
) -> tuple[tuple[NodeSpec, ...], list[TracedPod]]:
    """The nodes of one cluster, and its pods, each bound one on one of these nodes."""
    named: dict[str, list[TracedPod]] = defaultdict(list)
    unplaced: dict[tuple[str, ...], list[TracedPod]] = defaultdict(list)
    for pod in pods:
        if pod.row.node:
            named[pod.row.node].append(pod)
        elif pod.row.scheduled_at is not None:
            unplaced[(_product(pod.product, pod.requests), *sorted(pod.requests))].append(pod)
    nodes: list[NodeSpec] = []
    for name, mine in named.items():
        resources = sorted({resource for pod in mine for resource in pod.requests})
        peaks = {resource: most_at_once(mine, resource) for resource in resources}
        nodes.append(_node(name, _one_product(name, mine, source), peaks, mine, source))
    node_of: dict[int, str] = {}  # by id() of the pod
    for number, mine in enumerate(unplaced.values()):
        devices = _devices_per_node(mine)
        product = _product(mine[0].product, devices)
        names = {pod: f"traced-{number}-{n}" for pod, n in _numbers_of_nodes(mine, devices).items()}
        nodes += [
            _node(name, product, devices, mine, source) for name in sorted(set(names.values()))
        ]
        node_of |= names
    placed = [
        replace(pod, row=replace(pod.row, node=node_of[id(pod)])) if id(pod) in node_of else pod
        for pod in pods
    ]
    return tuple(nodes), placed


def _one_product(name: str, pods: Sequence[TracedPod], source: str) -> str:
    """The product of all pods on a node."""
    known = ""
    for pod in pods:
        if pod.product and known not in ("", pod.product):
            seen = f"node {name} has {pod.product} here, and {known} in another line"
            raise bad_trace(source, pod.row.line, seen, "a node has cards of one product")
        known = pod.product or known
    return _product(known, [resource for pod in pods for resource in pod.requests])


def _product(given: str, resources: Iterable[str]) -> str:
    """The product that a row names, else one of the vendor that has every requested profile."""
    wanted = set(resources)
    if given or not wanted:
        return given
    if all(resource.startswith("amd.com/") for resource in wanted):
        return DEFAULT_AMD_PRODUCT
    slices = {resource for resource in wanted if resource.startswith(_SLICE)}
    order = [DEFAULT_PRODUCT, *products()]
    return next((name for name in order if slices <= set(_slices(name))), DEFAULT_PRODUCT)


def _slices(product: str) -> dict[str, str]:
    """The profiles of a product by the resource under which they are requested."""
    return {resource_of(profile): profile for profile in profiles(products()[product].mig_family)}


def _devices_per_node(pods: Sequence[TracedPod]) -> dict[str, int]:
    """The devices that each of several equal nodes gives to pods with equal requests."""
    largest: dict[str, int] = {}
    for pod in pods:
        for resource, count in pod.requests.items():
            largest[resource] = max(largest.get(resource, 0), count)
    if len(largest) != 1:
        return largest  # a node for each pod, or one for all that request nothing
    [(resource, count)] = largest.items()
    return {resource: max(_units_per_card(pods[0].product, resource) * CARDS_PER_NODE, count)}


def _numbers_of_nodes(pods: Sequence[TracedPod], devices: Mapping[str, int]) -> dict[int, int]:
    """The number of each pod's node, by the pod's id(): the first with enough devices free."""
    numbers: dict[int, int] = {}
    holding: list[list[TracedPod]] = []  # the pods of each node when the next pod is bound
    for pod in sorted(pods, key=lambda pod: pod.row.scheduled_at or 0):
        begin = pod.row.scheduled_at or 0
        for number, held in enumerate([*holding, []]):
            left = [o for o in held if (until := _held_until(o)) is None or until > begin]
            if all(
                pod.requests[resource] + sum(other.requests[resource] for other in left) <= count
                for resource, count in devices.items()
            ):
                holding[number : number + 1] = [[*left, pod]]
                numbers[id(pod)] = number
                break
    return numbers


def _units_per_card(given: str, resource: str) -> int:
    """How many of the resource one card gives, when it is cut into nothing else."""
    product = _product(given, [resource])
    profile = _slices(product).get(resource)
    return profiles(products()[product].mig_family)[profile].max_count if profile else 1


def _node(
    name: str, product: str, needs: Mapping[str, int], pods: Sequence[TracedPod], source: str
) -> NodeSpec:
    """A node whose cards give all that is needed."""
    vendor = products()[product].vendor if product else ""
    slices = _slices(product) if product else {}
    for pod in pods:
        for resource in pod.requests:
            if resource != WHOLE.get(vendor) and resource not in slices:
                known = ", ".join([WHOLE[vendor], *slices])
                raise bad_trace(
                    source,
                    pod.row.line,
                    f"no node can be made up that gives {resource} of {product}",
                    f"{product} gives {known}; for others, name this trace in a scenario with "
                    "nodes (`workload_trace`)",
                )
    whole = needs.get(WHOLE.get(vendor, ""), 0)
    wanted = {slices[resource]: count for resource, count in needs.items() if resource in slices}
    try:
        if wanted:
            return _mig_node(name, product, whole, wanted)
        # A node without requests for cards has none, unless a row names them.
        cards = max(1, whole) if product else 0
        return NodeSpec(name=name, product=product, cards=cards)
    except InvalidScenarioValue as error:
        seen = f"node {name} would need more than it can have: {error.seen}"
        raise bad_trace(source, pods[0].row.line, seen, error.remedy) from error


def _mig_node(name: str, product: str, whole: int, wanted: Mapping[str, int]) -> NodeSpec:
    """A node of MIG cards, and of whole ones beside them."""
    known = profiles(products()[product].mig_family)
    if not whole and len(wanted) == 1:
        [(profile, count)] = wanted.items()
        layout = CardLayoutSpec("all-" + profile.replace("+", "."), ())
        cards = -(-count // known[profile].max_count)
        return NodeSpec(name=name, product=product, cards=cards, mig=MigSpec(layout))
    ordered = sorted(wanted, key=lambda profile: (-known[profile].placement_size, profile))
    cut = _packed(product, [(profile, wanted[profile]) for profile in ordered])
    written = tuple((str(index), card) for index, card in enumerate(cut))
    layout = CardLayoutSpec("", written)
    return NodeSpec(name=name, product=product, cards=len(cut) + whole, mig=MigSpec(layout))


def _packed(product: str, wanted: Sequence[tuple[str, int]]) -> list[dict[str, int]]:
    """Instances on as few cards as placing the largest ones first comes to."""
    cards: list[dict[str, int]] = []
    for profile, count in wanted:
        first = 0
        for _ in range(count):
            while first < len(cards):
                more = {**cards[first], profile: cards[first].get(profile, 0) + 1}
                if place(products()[product], more) is not None:
                    cards[first] = more
                    break
                first += 1
            else:
                cards.append({profile: 1})
    return cards


def most_at_once(pods: Iterable[TracedPod], resource: str) -> int:
    """How many devices of a resource the pods hold at one time, at most."""
    changes: dict[int, int] = defaultdict(int)
    for pod in pods:
        begin, end = pod.row.scheduled_at, _held_until(pod)
        if begin is not None:
            changes[begin] += pod.requests.get(resource, 0)
            if end is not None:
                changes[end] -= pod.requests.get(resource, 0)
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _held_until(pod: TracedPod) -> int | None:
    """When a pod's devices are free again; one that ends when it is bound needs them, too."""
    end = pod.row.finished_at
    return None if end is None else max(end, (pod.row.scheduled_at or 0) + 1)
