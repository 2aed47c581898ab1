"""The form of every line of a journal: its required fields and their types.

Put here: the fields that readers of lines use. Not here: writing lines (`journal_lines`), or their
meaning (`lifecycle_rows`, `recover`).

A seal shows that a segment is as it was written; it does not show that it was written correctly.
Fields that no reader uses are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from domain.errors import LedgerError
from domain.interval import parse_instant

# Tables have 64 bits for the restarts of all containers of a pod, and for positions.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Position = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Version = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Texts = dict[str, str]
Resource = Literal[
    "pods",
    "nodes",
    "namespaces",
    "resourcequotas",
    "gpubudgets",
    "resourceclaims",
    "resourceslices",
]
Content = TypeVar("Content")


class Instant(str):
    """A time, as `parse_instant` reads it."""

    __slots__ = ()


class InstantOrNone(Instant):
    """A time, or "" where there is none."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def _instant(kind: type[Instant], text: str) -> Instant:
    if text or kind is Instant:
        try:
            parse_instant(text)
        except LedgerError:
            raise ValueError("Expected a time") from None
    return kind(text)


def _converted(kind: type, value: object) -> Instant:
    if not isinstance(value, str):
        raise ValueError("Expected a time")
    return _instant(kind, value)


def check_form(line: object) -> None:
    """Raise ValueError with the place in the line, unless the line has a valid form."""
    checked = msgspec.convert(line, AnyLine, dec_hook=_converted)
    if isinstance(checked, ObjectSeen):
        msgspec.convert(line, _OBJECTS[checked.resource], dec_hook=_converted)


# --- lines ---------------------------------------------------------------------------------------


class _Line(msgspec.Struct, tag_field="line"):
    at: Instant


class Opened(_Line, tag="opened"):
    version: Literal[2]
    cluster_id: str
    hour: Instant
    position: Position


class ObjectSeen(_Line, tag="object"):
    resource: Resource
    via: Literal["list", "added", "modified", "hourly_list", "deleted", "gone"]
    position: Position
    alive_at: InstantOrNone = InstantOrNone("")
    last_seen_at: InstantOrNone = InstantOrNone("")


class StillThere(_Line, tag="still_there"):
    resource: str
    position: Position
    objects: list[PodInShort]


class Listed(_Line, tag="listed"):
    resource: str
    position: Position
    why: str
    complete: bool
    version: Version = 0


class Watched(_Line, tag="watched"):
    resource: str
    position: Position
    until: Instant
    version: Version = 0

    def __post_init__(self) -> None:
        _require_order(self.at, self.until)


class Broken(_Line, tag="broken"):
    position: Position


class Gap(_Line, tag="gap"):
    resource: str
    position: Position
    from_: Instant = msgspec.field(name="from")
    until: Instant
    reason: str

    def __post_init__(self) -> None:
        _require_order(self.from_, self.until)


class Contradiction(_Line, tag="contradiction"):
    resource: str
    uid: str
    position: Position
    what: str
    before: str
    after: str


class Owner(_Line, tag="owner"):
    uid: str
    position: Position
    object: OwnerObject


class Access(_Line, tag="access"):
    resource: str
    position: Position
    allowed: bool


class HourClosed(_Line, tag="hour_closed"):
    position: Position


AnyLine = (
    Opened | ObjectSeen | StillThere | Listed | Watched | Broken | Gap | Contradiction | Owner
    | Access | HourClosed
)  # fmt: skip


def _require_order(started_at: str, ended_at: str) -> None:
    if parse_instant(ended_at) < parse_instant(started_at):
        raise ValueError("Expected an end after its start")


# --- objects -------------------------------------------------------------------------------------


class OwnerReference(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class OwnerMetadata(msgspec.Struct):
    owner: OwnerReference | msgspec.UnsetType = msgspec.UNSET


class OwnerObject(msgspec.Struct):
    metadata: OwnerMetadata | msgspec.UnsetType = msgspec.UNSET  # of an owner that is gone


class Metadata(msgspec.Struct):
    uid: str
    creationTimestamp: InstantOrNone
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""
    deletionTimestamp: InstantOrNone = InstantOrNone("")
    labels: Texts = {}
    owner: OwnerReference | msgspec.UnsetType = msgspec.UNSET


class Container(msgspec.Struct):
    requests: Texts
    restartPolicy: str = ""


class PodSpec(msgspec.Struct):
    nodeName: str
    containers: list[Container]
    initContainers: list[Container]


class Condition(msgspec.Struct):
    lastTransitionTime: InstantOrNone
    type: str = ""
    status: str = ""


class ContainerTimes(msgspec.Struct):
    startedAt: InstantOrNone = InstantOrNone("")
    finishedAt: InstantOrNone = InstantOrNone("")


class ContainerStatus(msgspec.Struct):
    name: str
    restartCount: Count
    state: dict[str, ContainerTimes]
    lastState: dict[str, ContainerTimes]


class PodStatus(msgspec.Struct):
    phase: str
    conditions: list[Condition]
    containerStatuses: list[ContainerStatus]
    initContainerStatuses: list[ContainerStatus]
    reason: str = ""


class Pod(msgspec.Struct):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    bound_at: InstantOrNone
    started_at: InstantOrNone
    ended_at: InstantOrNone


class Kin(msgspec.Struct):
    namespace_uid: str
    workload_kind: str
    workload_name: str


class PodInShort(msgspec.Struct):
    object: Pod
    facts: Facts


class PodSeen(PodInShort):
    kin: Kin


class Node(msgspec.Struct):
    metadata: Metadata
    unschedulable: bool
    ready: list[Condition]
    capacity: Texts
    allocatable: Texts


class Namespace(msgspec.Struct):
    metadata: Metadata


class Quota(msgspec.Struct):
    metadata: Metadata
    hard: Texts
    used: Texts


class BudgetSpec(msgspec.Struct):
    amount: str
    currency: str
    billingPeriod: str
    workload: str
    label: str
    actualSteps: list[str] | msgspec.UnsetType = msgspec.UNSET
    forecastSteps: list[str] | msgspec.UnsetType = msgspec.UNSET


class Budget(msgspec.Struct):
    metadata: Metadata
    spec: BudgetSpec


class ClaimRequest(msgspec.Struct):
    name: str = ""
    deviceClassName: str = ""


class ClaimResult(msgspec.Struct):
    driver: str = ""
    pool: str = ""
    device: str = ""
    request: str = ""
    shareID: str = ""
    adminAccess: bool = False
    consumedCapacity: Texts = {}


class ClaimUser(msgspec.Struct):
    uid: str = ""


class Claim(msgspec.Struct):
    metadata: Metadata
    extendedResource: bool
    requests: list[ClaimRequest]
    results: list[ClaimResult]
    reservedFor: list[ClaimUser]


class Amount(msgspec.Struct):
    value: str


class Taint(msgspec.Struct):
    effect: str = ""


class Device(msgspec.Struct):
    name: str
    attributes: Texts
    capacity: dict[str, Amount]
    allowMultipleAllocations: bool
    taints: list[Taint]
    nodeName: str = ""


class Slice(msgspec.Struct):
    metadata: Metadata
    driver: str
    nodeName: str
    pool: str
    devices: list[Device]


class Seen(msgspec.Struct, Generic[Content]):
    """A line that has such an object."""

    object: Content


_OBJECTS: Mapping[str, object] = {
    "pods": PodSeen,
    "nodes": Seen[Node],
    "namespaces": Seen[Namespace],
    "resourcequotas": Seen[Quota],
    "gpubudgets": Seen[Budget],
    "resourceclaims": Seen[Claim],
    "resourceslices": Seen[Slice],
}

# msgspec reads the annotations of a type when it is first used, and crashes if two threads do so.
for _form in (AnyLine, *_OBJECTS.values()):
    msgspec.json.Decoder(_form, dec_hook=_converted)
