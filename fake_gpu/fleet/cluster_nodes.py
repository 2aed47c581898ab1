"""The nodes of one cluster while it is simulated: the pods and the free devices of each.

Put here: binding and release of pods; cordons, unhealthy devices and changed MIG layouts.
Not here: time (`cluster_simulation`), quotas (`quotas`), objects of claims (`claims`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from domain.interval import format_instant
from fake_gpu.fleet.calendar import FOR_EVER, Booking, NodeCalendar
from fake_gpu.fleet.claims import ClusterClaims
from fake_gpu.fleet.model import Device, Node, NodeState, effective_requests, instant
from fake_gpu.fleet.scheduler import FreeIndex, matches
from fake_gpu.fleet.simulated_pods import DeviceGrant, SimulatedPod
from fake_gpu.scenario.errors import InvalidScenario
from fake_gpu.scenario.spec_hardware import NodeSpec
from fake_gpu.scenario.spec_work import ClaimSpec, WorkloadSpec

ANYTHING = ""  # the offer of a node to pods that request no device

MOST_NODES_SHOWN = 10
"""Nodes that an error lists; of the others it has the number."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The devices that a pod requests of a node."""

    offer: str
    count: int
    resource: str  # "" for a claim
    claim: ClaimSpec | None = None


def device_requests_of(spec: WorkloadSpec) -> tuple[DeviceRequest, ...]:
    """A pod's effective request and its claims."""
    requests = effective_requests(spec.all_containers())
    wants = [
        DeviceRequest(resource, count, resource) for resource, count in requests.items() if count
    ]
    wants += [DeviceRequest(claim_offer(c), c.memory_mib or c.count, "", c) for c in spec.claims]
    return tuple(wants)


def claim_offer(claim: ClaimSpec) -> str:
    kind = "shared" if claim.memory else claim.profile or "whole"
    return f"dra:{claim.device_class}:{kind}"


def offers_of(device: Device, spec: NodeSpec) -> tuple[str, ...]:
    """The names under which a device can be requested."""
    if not spec.dra:
        return (device.resource,)
    kind = "mig" if device.makeup in ("mig", "mig_replica") else "gpu"
    profile = "shared" if device.makeup == "shared" else device.profile
    offers = (f"dra:{kind}.nvidia.com:{profile}",)
    return (*offers, "nvidia.com/gpu") if spec.dra_extended_resource and kind == "gpu" else offers


@dataclass(slots=True)
class ClusterNodes:
    """The nodes by number, and their free devices, which `refresh` updates."""

    nodes: Sequence[Node]
    specs: Mapping[str, NodeSpec]  # by node name
    claims: ClusterClaims
    horizon: int  # the end of the history
    _calendars: list[NodeCalendar] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _index: FreeIndex = field(default_factory=FreeIndex)
    _states: dict[int, NodeState | None] = field(default_factory=dict)
    _pods: dict[int, dict[str, SimulatedPod]] = field(default_factory=dict)
    _known_wants: dict[int, tuple[WorkloadSpec, tuple[DeviceRequest, ...]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for number, node in enumerate(self.nodes):
            calendar = NodeCalendar(node.name)
            for device in node.devices:
                calendar.add(offers_of(device, self.specs[node.name]), device)
            self._calendars.append(calendar)
            self._numbers[node.name] = number
            self._pods[number] = {}

    # --- nodes --------------------------------------------------------------------------------

    def node_at(self, name: str, at: int) -> NodeState | None:
        """The state of a node at an instant; None before it joins and after it is gone."""
        number = self._numbers.get(name)
        if number is None:
            return None
        node = self.nodes[number]
        if at < node.created_at or (node.gone_at is not None and at >= node.gone_at):
            return None
        return node.state_at(at)

    def refresh(self, name: str, at: int) -> None:
        """Count the free devices of a node again, after its state has changed."""
        number = self._numbers[name]
        self._states[number] = self.node_at(name, at)
        self._recount(number, at)

    def pods_on(self, name: str) -> list[SimulatedPod]:
        return list(self._pods[self._numbers[name]].values())

    def nodes_matching(self, spec: WorkloadSpec) -> Iterator[Node]:
        """The nodes where a DaemonSet runs: those with its labels and its requested devices."""
        wants = device_requests_of(spec)
        for number, node in enumerate(self.nodes):
            fits = all(want.offer in self._calendars[number].slots for want in wants)
            pinned = spec.node in ("", node.name)
            if fits and pinned and matches(node.states[0].labels, spec.node_selector):
                yield node

    def _recount(self, number: int, at: int) -> None:
        state = self._states.get(number)
        takes = (
            state is not None
            and state.ready == "True"
            and not state.unschedulable
            and not state.exporters_paused
        )
        product = self.specs[self.nodes[number].name].product
        unhealthy = self._unhealthy(number, at)
        for offer in self._calendars[number].slots:
            free = self._calendars[number].free(offer, at, unhealthy) if takes else -1
            self._index.put(offer, product, number, free)
        self._index.put(ANYTHING, product, number, len(self._pods[number]) if takes else -1)

    def _unhealthy(self, number: int, at: int) -> frozenset[str]:
        incidents = self.nodes[number].incidents
        return frozenset(i.card_id for i in incidents if i.covers(at))

    # --- binding ------------------------------------------------------------------------------

    def bind(
        self, pod: SimulatedPod, at: int, ended: int | None, *, whole_lifetime: bool = False
    ) -> str | None:
        """Bind the pod, and book its devices until `ended`; the node, or None if none has room."""
        wants = self._device_requests(pod)
        until = FOR_EVER if ended is None else ended
        for number in self._choices(pod.spec, wants):
            grants = self._take(pod, wants, number, at, until, whole_lifetime=whole_lifetime)
            if grants is not None:
                pod.grants = grants
                self._settle(pod, number, at)
                return self.nodes[number].name
        return None

    def _choices(self, spec: WorkloadSpec, wants: Sequence[DeviceRequest]) -> Iterator[int]:
        """The nodes that may have room, in the order of preference."""
        shared_on = self.claims.nodes_of_shared(spec)
        first = wants[0] if wants else DeviceRequest(ANYTHING, 0, "")
        needed = 0 if shared_on else first.count
        for number in self._index.candidates(first.offer, needed):
            node = self.nodes[number]
            state = self._states.get(number)
            if state is None or spec.node not in ("", node.name):
                continue
            if shared_on and node.name not in shared_on:
                continue
            if spec.node_selector and not matches(state.labels, spec.node_selector):
                continue
            yield number

    def _take(
        self,
        pod: SimulatedPod,
        wants: Sequence[DeviceRequest],
        number: int,
        at: int,
        until: int,
        *,
        whole_lifetime: bool,
        only: Sequence[str] = (),
    ) -> list[DeviceGrant] | None:
        calendar = self._calendars[number]
        unhealthy = frozenset() if pod.exact else self._unhealthy(number, at)
        grants: list[DeviceGrant] = []
        for want in wants:
            shared = self.claims.shared_bookings(pod.spec, want.claim)
            if shared is not None:
                grants.append(DeviceGrant(want.resource, shared, joined=True))
                continue
            # A shared claim ends with its last pod, which is not known yet.
            end = FOR_EVER if want.claim is not None and want.claim.shared else until
            bookings = calendar.book(
                want.offer,
                want.count,
                at,
                end,
                unusable=unhealthy,
                only=only,
                whole_lifetime=whole_lifetime,
            )
            if bookings is None:
                for grant in grants:
                    if not grant.joined:
                        self._give_back(number, grant.bookings, at)
                return None
            grants.append(DeviceGrant(want.resource, bookings))
        return grants

    def _settle(self, pod: SimulatedPod, number: int, at: int) -> None:
        """Record the pod on the node, allocate its claims, and update the free devices."""
        self._pods[number][pod.uid] = pod
        self.claims.allocate(pod, self.nodes[number], at, self._device_requests(pod))
        self._shift(number, pod.grants, -1, at)

    def release(self, pod: SimulatedPod, at: int) -> None:
        """Free the devices of a pod after all its containers have ended."""
        if not pod.node_name:
            return
        number = self._numbers[pod.node_name]
        self._pods[number].pop(pod.uid, None)
        still_shared = self.claims.leave(pod, at)
        free_again = [grant for grant in pod.grants if grant.claim_uid not in still_shared]
        for grant in free_again:
            self._give_back(number, grant.bookings, at)
        self._shift(number, free_again, +1, at)

    def _shift(self, number: int, grants: Sequence[DeviceGrant], sign: int, at: int) -> None:
        """Add or remove free units: faster than `_recount`, with the same result."""
        calendar = self._calendars[number]
        product = self.specs[self.nodes[number].name].product
        if not calendar.plain:
            self._recount(number, at)
            return
        unhealthy = self._unhealthy(number, at)
        for grant in grants:
            units = sum(
                booking.replica_count
                for booking in grant.bookings
                if booking.device.exists_at(at) and booking.device.card_id not in unhealthy
            )
            free = self._index.free(grant.resource, number)
            if free >= 0 and units:
                self._index.put(grant.resource, product, number, free + sign * units)
        if self._index.free(ANYTHING, number) >= 0:
            self._index.put(ANYTHING, product, number, len(self._pods[number]))

    def _device_requests(self, pod: SimulatedPod) -> tuple[DeviceRequest, ...]:
        """The requests of a pod, which all pods of its workload have."""
        key = id(pod.spec)
        known = self._known_wants.get(key)
        if known is None or known[0] is not pod.spec:
            known = (pod.spec, device_requests_of(pod.spec))
            self._known_wants[key] = known
        return known[1]

    def counts_agree(self, at: int) -> bool:
        """Whether the updated numbers of free devices equal a new count; for tests."""
        for number, calendar in enumerate(self._calendars):
            unhealthy = self._unhealthy(number, at)
            for offer in calendar.slots:
                quick = self._index.free(offer, number)
                if quick >= 0 and quick != calendar.free(offer, at, unhealthy):
                    return False
        return True

    def _give_back(self, number: int, bookings: Sequence[Booking], at: int) -> None:
        for booking in bookings:
            self._calendars[number].end_early(booking, at)
        self._calendars[number].forget_before(bookings, at)

    # --- exact pods ---------------------------------------------------------------------------

    def reserve_exact(self, pod: SimulatedPod, cards: Sequence[int]) -> None:
        """Book the devices of a pod with a node and exact times, before those of all other pods."""
        number = self._numbers.get(pod.node_name)
        if number is None or pod.scheduled_at is None:
            raise does_not_fit(
                pod,
                f"there is no node {pod.node_name!r}",
                why="a pod that is bound is on a node of its cluster",
                remedy="name one of the cluster's nodes, or remove `node`",
            )
        node = self.nodes[number]
        until = FOR_EVER if pod.finished_at is None else pod.finished_at
        gone = FOR_EVER if node.gone_at is None else node.gone_at
        if pod.scheduled_at < node.created_at or gone < min(until, self.horizon):
            raise does_not_fit(
                pod,
                f"{node.name} does not exist during the whole time of the pod",
                why="a pod can be on a node only while the node exists",
                remedy="compare `joins` and `leaves` of the node, or name another node",
            )
        if missing := [index for index in cards if not 0 <= index < len(node.cards)]:
            raise does_not_fit(
                pod,
                f"it requests card {missing[0]} of {node.name}, which has {len(node.cards)}",
                why="cards are counted from 0",
                remedy="name cards that the node has, or remove `cards`",
            )
        only = [node.cards[index].card_id for index in cards]
        grants = self._take(
            pod,
            self._device_requests(pod),
            number,
            pod.scheduled_at,
            until,
            whole_lifetime=True,
            only=only,
        )
        if grants is None:
            raise does_not_fit(pod, self._explain_misfit(pod, number, until))
        for grant in grants if cards else ():
            # Containers get devices in the order of the scenario, not in the order of the cards.
            grant.bookings.sort(key=lambda booking: only.index(booking.device.card_id))
        pod.grants = grants
        require_memory(pod)

    def begin_exact(self, pod: SimulatedPod, at: int) -> None:
        """Bind a pod with exact times."""
        if pod.node_name:
            self._settle(pod, self._numbers[pod.node_name], at)
            return
        node = self.bind(pod, at, pod.finished_at, whole_lifetime=True)
        if node is None:
            raise does_not_fit(pod, self._reason_not_placed(pod, at))
        pod.node_name = node
        require_memory(pod)

    def _reason_not_placed(self, pod: SimulatedPod, at: int) -> str:
        """The requests of a pod, and the free devices of each existing node."""
        wants = self._device_requests(pod)
        wanted = " and ".join(f"{want.count} of {want.offer}" for want in wants)
        free = [
            f"{self.nodes[number].name} ("
            + ", ".join(str(self._calendars[number].free(want.offer, at)) for want in wants)
            + ")"
            for number in sorted(self._states)
        ]
        shown = ", ".join(free[:MOST_NODES_SHOWN]) or "there is no node"
        more = f" and {len(free) - MOST_NODES_SHOWN} more" if len(free) > MOST_NODES_SHOWN else ""
        return (
            f"it requests {wanted} from {format_instant(instant(at))}, and no node has them free "
            "for its whole time; the nodes, with the devices that are free at its start: "
            f"{shown}{more}"
        )

    def _explain_misfit(self, pod: SimulatedPod, number: int, until: int) -> str:
        assert pod.scheduled_at is not None, "only bound pods are reserved"
        reasons = []
        for want in self._device_requests(pod):
            calendar = self._calendars[number]
            free = calendar.free(want.offer, pod.scheduled_at)
            begin = format_instant(instant(pod.scheduled_at))
            end = "for ever" if until == FOR_EVER else f"until {format_instant(instant(until))}"
            reasons.append(
                f"{want.count} of {want.offer} from {begin} {end} ({free} free at its start)"
            )
        return f"on {pod.node_name} it requests " + " and ".join(reasons)


def require_memory(pod: SimulatedPod) -> None:
    """Raise InvalidScenario if a pod uses more memory of a device than the device has."""
    for booking in (booking for grant in pod.grants for booking in grant.bookings):
        device = booking.device
        _, used = pod.card_loads.get(device.card_index, (None, None))
        if used is not None and not 0 <= used <= device.memory_mib:
            raise does_not_fit(
                pod,
                f"it uses {used} of {device.memory_mib} MiB of card {device.card_index}",
                why="used and free memory of a device must add up to its memory",
                remedy="lower the used memory (`memory_used_mib`, `fb-used`)",
            )


def does_not_fit(
    pod: SimulatedPod,
    seen: str,
    *,
    why: str = "one pod at a time can hold a device, and only while the device exists",
    remedy: str = "change its time or its node, or remove `node` and `cards`",
) -> InvalidScenario:
    return InvalidScenario(
        where=f"pod {pod.spec.namespace}/{pod.name}", seen=seen, why=why, remedy=remedy
    )
