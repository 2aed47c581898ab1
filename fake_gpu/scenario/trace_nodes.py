"""Nodes for a trace that comes without any: those that it names, and enough for the others.

Put here: which cards a traced node has, and how they are cut.
Not here: the pods (`trace_pods`), or placing them (`estate`).

A node that is named has what all its rows need at once: whole cards beside cards that are cut, each
with a layout of its own. A trace says nothing about shares of a card: who has any describes the
nodes in a scenario, and names the trace there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fake_gpu.estate.hardware import place, products, profiles, resource_of
from fake_gpu.scenario.schema import Unreadable
from fake_gpu.scenario.spec_hardware import Layout, MigSpec, NodeSpec
from fake_gpu.scenario.trace import bad_trace
from fake_gpu.scenario.trace_pods import TracedPod

# What a trace is about when it does not say which card it is.
DEFAULT_PRODUCT = "NVIDIA-A100-SXM4-40GB"
DEFAULT_AMD_PRODUCT = "AMD_Instinct_MI300X_OAM"
CARDS_PER_NODE = 8

WHOLE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_SLICE = "nvidia.com/mig-"


def needed_nodes(pods: Sequence[TracedPod], source: str) -> tuple[NodeSpec, ...]:
    """The nodes of one cluster."""
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
    for number, mine in enumerate(unplaced.values()):
        needs, count = _alike(mine)
        product = _product(mine[0].product, needs)
        nodes += [_node(f"traced-{number}-{n}", product, needs, mine, source) for n in range(count)]
    return tuple(nodes)


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
    """The product that a row names, else one of the vendor that has every profile asked for."""
    wanted = set(resources)
    if given or not wanted:
        return given
    if all(resource.startswith("amd.com/") for resource in wanted):
        return DEFAULT_AMD_PRODUCT
    slices = {resource for resource in wanted if resource.startswith(_SLICE)}
    order = [DEFAULT_PRODUCT, *products()]
    return next((name for name in order if slices <= set(_slices(name))), DEFAULT_PRODUCT)


def _slices(product: str) -> dict[str, str]:
    """The profiles of a product by the resource that they are asked for as."""
    return {resource_of(profile): profile for profile in profiles(products()[product].mig_family)}


def _alike(pods: Sequence[TracedPod]) -> tuple[dict[str, int], int]:
    """What each of several equal nodes gives, and how many are enough for pods of one kind."""
    biggest: dict[str, int] = {}
    for pod in pods:
        for resource, count in pod.requests.items():
            biggest[resource] = max(biggest.get(resource, 0), count)
    if len(biggest) != 1:
        # One of its own for each pod, or one for all that ask for nothing.
        return biggest, 2 * most_at_once(pods) if biggest else 1
    [(resource, largest)] = biggest.items()
    # Twice the need: pods of several devices leave gaps that others do not fill.
    room = max(_units_per_card(pods[0].product, resource) * CARDS_PER_NODE, largest)
    return {resource: room}, max(1, -(-2 * most_at_once(pods, resource) // room))


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
            return _cut(name, product, whole, wanted)
        # A node that nobody asks for a card has none, unless a row says which.
        cards = max(1, whole) if product else 0
        return NodeSpec(name=name, product=product, cards=cards)
    except Unreadable as error:
        seen = f"node {name} would need more than it can have: {error.seen}"
        raise bad_trace(source, pods[0].row.line, seen, error.remedy) from error


def _cut(name: str, product: str, whole: int, wanted: Mapping[str, int]) -> NodeSpec:
    """A node of MIG cards, and of whole ones beside them."""
    known = profiles(products()[product].mig_family)
    if not whole and len(wanted) == 1:
        [(profile, count)] = wanted.items()
        layout = Layout("all-" + profile.replace("+", "."), ())
        cards = -(-count // known[profile].max_count)
        return NodeSpec(name=name, product=product, cards=cards, mig=MigSpec(layout))
    ordered = sorted(wanted, key=lambda profile: (-known[profile].placement_size, profile))
    cut = _packed(product, [(profile, wanted[profile]) for profile in ordered])
    written = tuple((str(index), card) for index, card in enumerate(cut))
    layout = Layout("", written)
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


def most_at_once(pods: Iterable[TracedPod], resource: str = "") -> int:
    """How many devices of a resource the pods hold at one time, at most; without one, how many
    pods are bound."""
    changes: dict[int, int] = defaultdict(int)
    for pod in pods:
        begin, end = pod.row.scheduled_at, pod.row.finished_at
        count = pod.requests.get(resource, 0) if resource else 1
        if begin is not None:
            changes[begin] += count
            if end is not None:
                # A pod that ends at the second of its binding needs a place all the same.
                changes[max(end, begin + 1)] -= count
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most
