"""ResourceClaims while a cluster is simulated: one for each pod, or one that pods share.

Put here: the claims' objects, and who may use each.
Not here: finding devices (`calendar`, `cluster_nodes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fake_gpu.fleet.calendar import Booking
from fake_gpu.fleet.model import ClaimLifetime, ClaimResult, Node, PodClaim
from fake_gpu.fleet.simulated_pods import DeviceGrant, SimulatedPod
from fake_gpu.scenario.seeds import uuid_of
from fake_gpu.scenario.spec_work import ClaimSpec, WorkloadSpec

if TYPE_CHECKING:
    from fake_gpu.fleet.cluster_nodes import DeviceRequest

DRIVER = "gpu.nvidia.com"


@dataclass(slots=True)
class _Open:
    """A claim that pods use now."""

    uid: str
    name: str
    spec: ClaimSpec
    namespace: str
    node: str
    created_at: int
    allocated_at: int
    bookings: list[Booking]
    template: str
    extended: bool
    users: dict[str, list[tuple[str, str, int, int | None]]] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterClaims:
    """All claims of one cluster."""

    seed: int
    cluster_id: str
    finished: list[ClaimLifetime] = field(default_factory=list)
    _open: dict[str, _Open] = field(default_factory=dict)  # by uid
    _shared: dict[tuple[str, str], str] = field(default_factory=dict)  # (namespace, name) -> uid

    def nodes_of_shared(self, spec: WorkloadSpec) -> frozenset[str]:
        """Where the claims are that a pod would share; empty when none is allocated yet."""
        uids = [self._shared.get((spec.namespace, c.shared)) for c in spec.claims if c.shared]
        return frozenset(self._open[uid].node for uid in uids if uid is not None)

    def shared_bookings(self, spec: WorkloadSpec, claim: ClaimSpec | None) -> list[Booking] | None:
        if claim is None or not claim.shared:
            return None
        uid = self._shared.get((spec.namespace, claim.shared))
        return self._open[uid].bookings if uid is not None else None

    def allocate(
        self, pod: SimulatedPod, node: Node, at: int, wants: Sequence[DeviceRequest]
    ) -> None:
        """The pod's claims are allocated to it; requests on a DRA node become claims too."""
        claims: list[PodClaim] = []
        for number, (want, grant) in enumerate(zip(wants, pod.grants, strict=True)):
            if want.claim is None and not node.dra:
                continue
            opened = self._opened(pod, node, at, want, grant, number)
            grant.claim_uid = opened.uid
            opened.users[pod.uid] = [(pod.uid, pod.name, at, None)]
            name = f"claim-{number}"
            shared = bool(want.claim and want.claim.shared)
            template = "" if shared or opened.extended else f"{pod.spec.name}-{name}"
            claims.append(PodClaim(name, opened.name, opened.uid, template, opened.extended))
        pod.claims = tuple(claims)

    def _opened(
        self,
        pod: SimulatedPod,
        node: Node,
        at: int,
        want: DeviceRequest,
        grant: DeviceGrant,
        number: int,
    ) -> _Open:
        extended = want.claim is None
        spec = want.claim or ClaimSpec("gpu.nvidia.com", want.count)
        key = (pod.spec.namespace, spec.shared)
        if spec.shared and key in self._shared:
            return self._open[self._shared[key]]
        suffix = uuid_of(self.seed, self.cluster_id, "claim-name", pod.uid, number)[:5]
        name = spec.shared or f"{pod.name}-claim-{number}-{suffix}"
        uid = uuid_of(self.seed, self.cluster_id, "claim", pod.uid, name)
        opened = _Open(
            uid=uid,
            name=name,
            spec=spec,
            namespace=pod.spec.namespace,
            node=node.name,
            created_at=pod.created_at,
            allocated_at=at,
            bookings=grant.bookings,
            template="" if spec.shared or extended else f"{pod.spec.name}-claim-{number}",
            extended=extended,
        )
        self._open[uid] = opened
        if spec.shared:
            self._shared[key] = uid
        return opened

    def leave(self, pod: SimulatedPod, at: int) -> frozenset[str]:
        """A pod ends; returns the claims that others still use."""
        still: set[str] = set()
        for grant in pod.grants:
            opened = self._open.get(grant.claim_uid)
            if opened is None:
                continue
            uid, name, since, _ = opened.users[pod.uid][0]
            opened.users[pod.uid] = [(uid, name, since, at)]
            if any(entry[0][3] is None for entry in opened.users.values()):
                still.add(grant.claim_uid)
                continue
            self.finished.append(self._frozen(opened, at))
            del self._open[grant.claim_uid]
            self._shared.pop((opened.namespace, opened.spec.shared), None)
        return frozenset(still)

    def all_claims(self) -> tuple[ClaimLifetime, ...]:
        """Finished and open claims, at the end of the simulation."""
        claims = [*self.finished, *(self._frozen(o, None) for o in self._open.values())]
        return tuple(sorted(claims, key=lambda c: (c.created_at, c.namespace, c.name)))

    def _frozen(self, opened: _Open, gone_at: int | None) -> ClaimLifetime:
        memory = opened.spec.memory
        devices = {b.device.device_id: b.device.dra_name for b in opened.bookings}
        return ClaimLifetime(
            cluster_id=self.cluster_id,
            namespace=opened.namespace,
            name=opened.name,
            uid=opened.uid,
            created_at=opened.created_at,
            allocated_at=opened.allocated_at,
            gone_at=gone_at,
            device_class=opened.spec.device_class,
            request="gpu",
            count=opened.spec.count,
            results=tuple(
                ClaimResult(
                    *("gpu", DRIVER, opened.node, dra_name, device_id),
                    uuid_of(self.seed, self.cluster_id, "share", opened.uid) if memory else "",
                    memory,
                )
                for device_id, dra_name in devices.items()
            ),
            reserved=tuple(entry[0] for entry in opened.users.values()),
            template_name=opened.template,
            extended_resource=opened.extended,
            admin_access=opened.spec.admin_access,
            memory=memory,
        )
