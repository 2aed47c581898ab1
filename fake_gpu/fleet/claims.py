"""ResourceClaims while a cluster is played: one for each pod, or one that pods share.

Put here: the claims' objects, and who may use each.
Not here: finding devices (`calendar`, `room`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fake_gpu.fleet.calendar import Booking
from fake_gpu.fleet.lives import GivenDevices, SimulatedPod
from fake_gpu.fleet.model import ClaimLife, ClaimResult, Node, PodClaim
from fake_gpu.scenario.seeds import uuid_of
from fake_gpu.scenario.spec_work import ClaimSpec, WorkloadSpec

if TYPE_CHECKING:
    from fake_gpu.fleet.room import DeviceRequest

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
class ClaimDesk:
    """All claims of one cluster."""

    seed: int
    cluster_id: str
    finished: list[ClaimLife] = field(default_factory=list)
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
        self, life: SimulatedPod, node: Node, at: int, wants: Sequence[DeviceRequest]
    ) -> None:
        """The pod's claims are allocated to it; requests on a DRA node become claims too."""
        claims: list[PodClaim] = []
        for number, (want, lot) in enumerate(zip(wants, life.taken, strict=True)):
            if want.claim is None and not node.dra:
                continue
            opened = self._opened(life, node, at, want, lot, number)
            lot.claim_uid = opened.uid
            opened.users[life.uid] = [(life.uid, life.name, at, None)]
            name = f"claim-{number}"
            shared = bool(want.claim and want.claim.shared)
            template = "" if shared or opened.extended else f"{life.spec.name}-{name}"
            claims.append(PodClaim(name, opened.name, opened.uid, template, opened.extended))
        life.claims = tuple(claims)

    def _opened(
        self,
        life: SimulatedPod,
        node: Node,
        at: int,
        want: DeviceRequest,
        lot: GivenDevices,
        number: int,
    ) -> _Open:
        extended = want.claim is None
        spec = want.claim or ClaimSpec("gpu.nvidia.com", want.count)
        key = (life.spec.namespace, spec.shared)
        if spec.shared and key in self._shared:
            return self._open[self._shared[key]]
        suffix = uuid_of(self.seed, self.cluster_id, "claim-name", life.uid, number)[:5]
        name = spec.shared or f"{life.name}-claim-{number}-{suffix}"
        uid = uuid_of(self.seed, self.cluster_id, "claim", life.uid, name)
        opened = _Open(
            uid=uid,
            name=name,
            spec=spec,
            namespace=life.spec.namespace,
            node=node.name,
            created_at=life.created_at,
            allocated_at=at,
            bookings=lot.bookings,
            template="" if spec.shared or extended else f"{life.spec.name}-claim-{number}",
            extended=extended,
        )
        self._open[uid] = opened
        if spec.shared:
            self._shared[key] = uid
        return opened

    def leave(self, life: SimulatedPod, at: int) -> frozenset[str]:
        """A pod ends; returns the claims that others still use."""
        still: set[str] = set()
        for lot in life.taken:
            opened = self._open.get(lot.claim_uid)
            if opened is None:
                continue
            uid, name, since, _ = opened.users[life.uid][0]
            opened.users[life.uid] = [(uid, name, since, at)]
            if any(entry[0][3] is None for entry in opened.users.values()):
                still.add(lot.claim_uid)
                continue
            self.finished.append(self._frozen(opened, at))
            del self._open[lot.claim_uid]
            self._shared.pop((opened.namespace, opened.spec.shared), None)
        return frozenset(still)

    def all_claims(self) -> tuple[ClaimLife, ...]:
        """Finished and open ones, at the end of the play."""
        lives = [*self.finished, *(self._frozen(o, None) for o in self._open.values())]
        return tuple(sorted(lives, key=lambda c: (c.created_at, c.namespace, c.name)))

    def _frozen(self, opened: _Open, gone_at: int | None) -> ClaimLife:
        memory = opened.spec.memory
        devices = {b.device.device_id: b.device.dra_name for b in opened.bookings}
        return ClaimLife(
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
