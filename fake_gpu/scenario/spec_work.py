"""The keys of work: workloads, their pods, their times, quotas, budgets and claims.

Put here: the keys below `workloads`, `namespaces`, `quotas` and `budgets`.
Not here: hardware (`spec_hardware`), or how pods find a node (`fleet.scheduler`).
"""

# ruff: noqa: RUF009 (`key` is a dataclass field with a description)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from domain.request import parse_quantity
from fake_gpu.scenario.scalars import (
    DrawnSpan,
    Requests,
    Seconds,
    Share,
    Span,
    Time,
    fixed_span,
)
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, Scalar, key
from fake_gpu.scenario.utilisation import BUSY_LOAD, LoadNotation, parse_load

# A scenario is a story; a million pods are a trace or a bench.
MAXIMUM_REPLICAS = 5000

# How long the object of an ended pod stays by default.
KEPT_SECONDS = 600

KNOWN_KINDS = {
    "Pod": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}


@dataclass(frozen=True, slots=True)
class NamespaceChangeSpec:
    at: Time = key("Time of the change.")
    labels: Mapping[str, str] = key("All labels after the change.")


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    name: str = key("Name of the namespace, which is the tenant.")
    created: Time | None = key("Time of creation. Default: before the start.", default=None)
    deleted: Time | None = key(
        "Time of deletion, with all objects in it. Default: never.", default=None
    )
    labels: Mapping[str, str] = key("Labels of the namespace.", factory=dict)
    changes: tuple[NamespaceChangeSpec, ...] = key("Changes of the labels.", factory=tuple)


@dataclass(frozen=True, slots=True)
class QuotaChangeSpec:
    at: Time = key("Time of the change.")
    hard: Mapping[str, int] = key("Limits after the change.")


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    namespace: str = key("Namespace of the quota.")
    hard: Mapping[str, int] = key("Limits, as {requests.nvidia.com/gpu: 4}.")
    name: str = key("Name of the quota.", default="gpu-quota")
    changes: tuple[QuotaChangeSpec, ...] = key("Changes of the limits.", factory=tuple)


@dataclass(frozen=True, slots=True)
class BudgetChangeSpec:
    at: Time = key("Time of the change.")
    amount: str = key("Amount after the change.")


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    namespace: str = key("Namespace of the budget, which is the tenant.")
    name: str = key("Name of the budget.")
    amount: str = key("Amount of one month, as a decimal number.")
    currency: str = key("Currency code of ISO 4217.")
    billing_period: str = key("Month, as 2026-10. Default: every month.", default="")
    workload: str = key("Workload of the budget, as Deployment/chat. Default: all.", default="")
    label: str = key(
        "Label of the pods of the budget, as project=phoenix. Default: all pods.", default=""
    )
    actual_steps: tuple[int, ...] = key(
        "Percentages of the amount at which the cost causes a notification.",
        factory=lambda: (50, 75, 90, 100),
    )
    forecast_steps: tuple[int, ...] = key(
        "Percentages of the amount at which the forecast causes a notification.",
        factory=lambda: (100,),
    )
    created: Time | None = key("Time of creation. Default: before the start.", default=None)
    deleted: Time | None = key("Time of deletion. Default: never.", default=None)
    changes: tuple[BudgetChangeSpec, ...] = key("Changes of the amount.", factory=tuple)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    name: str = key("Name of the container.")
    requests: Requests = key("Requests of the container.", factory=dict)
    kind: Literal["main", "init", "sidecar"] = key(
        "`init` ends before the main containers start; `sidecar` runs before and during them.",
        default="main",
    )
    takes: DrawnSpan = key("Duration of an init container.", default=fixed_span(20), shown="20s")
    image: str = key("Image of the container.", default="registry.example/train:1")


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    device_class: str = key("The DeviceClass: gpu.nvidia.com or mig.nvidia.com.")
    count: int = key("Number of devices.", default=1)
    profile: str = key("The MIG profile, for mig.nvidia.com.", default="")
    shared: str = key(
        "Name of a claim that all pods of the workload share. Default: each pod has its own claim.",
        default="",
    )
    memory: str = key(
        "Memory of one card that the claim uses, as 10Gi, on a node with `dra_shared`. Default: "
        "whole devices.",
        default="",
    )
    admin_access: bool = key(
        "Access for administrators, which does not allocate the device and is not billed.",
        default=False,
    )

    def __post_init__(self) -> None:
        if self.memory and (self.memory_mib < 1 or self.count != 1 or self.profile):
            raise InvalidScenarioValue(
                f"a claim of {self.memory!r} of {self.count} devices {self.profile}".rstrip(),
                "whole MiB of one card, as 10Gi or 512Mi, without profile",
            )

    @property
    def memory_mib(self) -> int:
        """0 if the claim has none, or if it is no whole number of MiB."""
        quantity = parse_quantity(self.memory)
        mib = Fraction(0) if quantity is None else quantity / 2**20
        return int(mib) if mib.denominator == 1 else 0


@dataclass(frozen=True, slots=True)
class RestartsSpec:
    every: DrawnSpan = key("Time from a start to the next end.")
    pause: DrawnSpan = key(
        "Time from an end to the next start.", default=fixed_span(10), shown="10s"
    )
    exit_code: int = key("Exit code.", default=1)


@dataclass(frozen=True, slots=True)
class RunSpec:
    from_: Time = key("Start of the container.")
    until: Time | None = key("End of the container. Default: it still runs.", default=None)
    exit_code: int = key("Exit code.", default=0)


@dataclass(frozen=True, slots=True)
class CardLoadSpec:
    card: int = key("Number of the card of the node, from 0.")
    utilisation: LoadNotation = key(
        "Utilisation of the card by the pod.", default=BUSY_LOAD, shown="busy"
    )
    memory_used_mib: int | None = key("Memory of the card that the pod uses, in MiB.", default=None)
    from_: Time | None = key(
        "Time from which the entry applies. Default: the start. A card may have several entries.",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod whose times are known to the second."""

    created: Time = key("Creation of the pod.")
    name: str = key("Name of the pod. Default: derived from the name of the workload.", default="")
    uid: str = key("UID of the pod. Default: calculated from the seed.", default="")
    node: str = key("Node of the pod. Default: the scheduler chooses.", default="")
    scheduled: Time | None = key("Binding to the node. Default: `created`.", default=None)
    never_scheduled: bool = key("Whether the pod stays Pending without a node.", default=False)
    started: Time | None = key("Start of the main containers. Default: never.", default=None)
    ended: Time | None = key("End of the main containers. Default: they still run.", default=None)
    runs: tuple[RunSpec, ...] = key(
        "Runs of a main container that restarts, instead of `started` and `ended`.", factory=tuple
    )
    deleted: Time | None = key("Time of the delete request.", default=None)
    gone: Time | None = key(
        "Time at which the object is removed. Default after a deletion: the end of the pod.",
        default=None,
    )
    cards: tuple[int, ...] = key(
        "Numbers of the cards of the node that the pod gets.", factory=tuple
    )
    card_loads: tuple[CardLoadSpec, ...] = key(
        "Cards whose utilisation differs from `utilisation` of the workload.", factory=tuple
    )
    ends: Literal["completed", "error", "evicted", "evicted_without_end"] = key(
        "Kind of end.", default="completed"
    )

    def __post_init__(self) -> None:
        if self.runs and (self.started is not None or self.ended is not None):
            raise InvalidScenarioValue(
                "`runs` together with started or ended", "give one of the two"
            )
        moments = [self.created, self.scheduled, self.started, self.ended]
        known = [m for m in moments if m is not None]
        if known != sorted(known):
            raise InvalidScenarioValue(
                "its times go backwards", "created, scheduled, started, ended"
            )
        if self.ended is not None and self.started is None:
            raise InvalidScenarioValue("it ends and never starts", "give `started` too")
        if self.never_scheduled and (self.scheduled or self.started or self.runs or self.node):
            raise InvalidScenarioValue(
                "never scheduled, and yet it has a node or runs", "choose one"
            )
        edges = [e for run in self.runs for e in (run.from_, run.until)]
        closed = [e for e in edges if e is not None]
        if closed != sorted(closed) or None in edges[:-1]:
            raise InvalidScenarioValue("its runs overlap or go backwards", "give them in order")
        if self.deleted is None and self.gone is not None and not self.is_ended:
            raise InvalidScenarioValue("it is gone and never ended", "give `ended` or `deleted`")

    @property
    def is_ended(self) -> bool:
        return self.ended is not None or bool(self.runs and self.runs[-1].until is not None)


@dataclass(frozen=True, slots=True)
class ArrivalsSpec:
    every: DrawnSpan | None = key(
        "Time from one arrival to the next; `~30m` is a Poisson process.", default=None
    )
    at: tuple[Time, ...] = key("Times of the arrivals.", factory=tuple)
    hours: str = key("Hours of the day (UTC) with arrivals, as 8-18. Default: all.", default="")
    weekdays: bool = key("Whether arrivals occur only from Monday to Friday.", default=False)

    def __post_init__(self) -> None:
        if (self.every is None) == (not self.at):
            raise InvalidScenarioValue("arrivals need `every` or `at`", "give one of the two")
        if self.every is not None and self.every.low <= 0:
            raise InvalidScenarioValue("arrivals without any time between them", "write every: 30m")
        self.day_hours()

    def day_hours(self) -> tuple[int, int]:
        if not self.hours:
            return 0, 24
        first, _, last = self.hours.partition("-")
        if not (first.isdigit() and last.isdigit() and 0 <= int(first) < int(last) <= 24):
            raise InvalidScenarioValue(f"hours: {self.hours!r}", "write hours: 8-18")
        return int(first), int(last)


_STARTING = Span("even", 3, 28)  # binding to start, as measured on real clusters
_SCHEDULING = Span("even", 1, 3)
_STOPPING = Span("even", 1, 10)


def _ratio(text: str, reader: Reader) -> Fraction:
    del reader
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidScenarioValue(f"{text!r} is no number", "write 0.2 or 1/5") from None


Ratio = Annotated[Fraction, Scalar(_ratio, "write 0.2 or 1/5")]


@dataclass(frozen=True, slots=True)
class OwnerSpec:
    kind: str = key("Kind of the owner, as InferenceService.")
    api: str = key("apiVersion of the owner, as serving.kserve.io/v1beta1.")
    name: str = key("Name of the owner.")

    def __post_init__(self) -> None:
        if "/" not in self.api:
            raise InvalidScenarioValue(
                f"owner {self.kind} without an api", "give `api: group/version`"
            )


@dataclass(frozen=True, slots=True)
class OwnerChangeSpec:
    """A change of the object of a workload, or of an owner above it, as by `kubectl scale`."""

    at: Time = key("Time of the change.")
    replicas: int | None = key("Number of pods after the change. Default: unchanged.", default=None)
    annotations: Mapping[str, str] = key("All annotations after the change.", factory=dict)
    owner: str = key(
        "Changed owner above the workload, as Notebook/lab. Default: the workload itself.",
        default="",
    )


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    name: str = key("Name of the workload.")
    namespace: str = key("Namespace of the workload.")
    kind: str = key(
        "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, Pod, or any custom kind.",
        default="Deployment",
    )
    api: str = key("The apiVersion of a custom kind, as kubeflow.org/v1.", default="")
    owners: tuple[OwnerSpec, ...] = key(
        "The owners of the workload, from its direct owner upwards: an InferenceService above a "
        "Deployment, a Notebook above a StatefulSet.",
        factory=tuple,
    )
    replicas: int = key(
        "Number of pods at a time; with `arrivals`, of each Job or custom object.", default=1
    )
    requests: Requests = key(
        "Requests of the container `main`: a number of nvidia.com/gpu, or "
        "{nvidia.com/mig-1g.5gb: 1}.",
        factory=dict,
    )
    containers: tuple[ContainerSpec, ...] = key("Containers, instead of `requests`.", factory=tuple)
    claims: tuple[ClaimSpec, ...] = key("Devices by ResourceClaims (DRA).", factory=tuple)
    labels: Mapping[str, str] = key("Labels of the pods.", factory=dict)
    annotations: Mapping[str, str] = key("Annotations of the pods.", factory=dict)
    from_: Time | None = key("Time of creation. Default: before the start.", default=None)
    until: Time | None = key("Time of deletion. Default: never.", default=None)
    arrivals: ArrivalsSpec | None = key(
        "Times at which new pods, Jobs or custom objects are created.", default=None
    )
    lifetime: DrawnSpan | None = key(
        "Duration of a pod. Default: it runs until it is deleted.", default=None
    )
    pods: tuple[PodSpec, ...] = key("Pods with exact times.", factory=tuple)
    changes: tuple[OwnerChangeSpec, ...] = key(
        "Changes of replicas and annotations, for workloads without `pods` and `arrivals`.",
        factory=tuple,
    )
    node: str = key("Node of the pods. Default: the scheduler chooses.", default="")
    node_selector: Mapping[str, str] = key("Labels that the node of a pod must have.", factory=dict)
    scheduling: DrawnSpan = key(
        "Time from creation to binding, if a node has room.", default=_SCHEDULING, shown="1s..3s"
    )
    starting: DrawnSpan = key(
        "Time from binding to the first start.", default=_STARTING, shown="3s..28s"
    )
    stopping: DrawnSpan = key(
        "Time from a deletion to the end.", default=_STOPPING, shown="1s..10s"
    )
    failures: Share = key(
        "Share of the pods that end with an error.", default=Fraction(0), shown="0"
    )
    restarts: RestartsSpec | None = key("Restarts of the containers.", default=None)
    keep: Seconds = key(
        "Time for which the object of an ended pod is kept.", default=KEPT_SECONDS, shown="10m"
    )
    utilisation: LoadNotation = key(
        "Utilisation of the devices: 80, 10-30, idle, busy, burst, or phases.",
        default=BUSY_LOAD,
        shown="busy",
    )
    memory_used_pct: int = key("Percentage of the devices' memory that a pod uses.", default=80)
    grace_seconds: int = key("terminationGracePeriodSeconds of the pods.", default=30)
    priority: int = key(
        "Priority of the pods; those with a higher priority are scheduled first.", default=0
    )

    def __post_init__(self) -> None:
        if not 0 <= self.replicas <= MAXIMUM_REPLICAS:
            raise InvalidScenarioValue(f"{self.replicas} replicas", f"0 to {MAXIMUM_REPLICAS}")
        if self.requests and self.containers:
            raise InvalidScenarioValue(
                "`requests` and `containers`", "put the requests into the containers"
            )
        if self.containers and not any(c.kind == "main" for c in self.containers):
            raise InvalidScenarioValue("no main container", "give one container without `kind`")
        if self.kind not in KNOWN_KINDS and "/" not in self.api:
            raise InvalidScenarioValue(f"kind {self.kind} without an api", "give `api: group/v1`")
        if not 0 <= self.memory_used_pct <= 100:
            raise InvalidScenarioValue(f"memory_used_pct: {self.memory_used_pct}", "0 to 100")
        if annotated := self.annotations.get("run.ai/simulated-gpu-utilization"):
            parse_load(annotated)  # raises its errors here, and not during the simulation
        if self.changes and (self.pods or self.arrivals):
            raise InvalidScenarioValue("`changes` beside `pods` or `arrivals`", "give one of them")
        moments = [change.at for change in self.changes]
        if moments != sorted(moments):
            raise InvalidScenarioValue(
                "its changes go backwards", "write them in the order of `at`"
            )
        if any(not 0 <= (c.replicas or 0) <= MAXIMUM_REPLICAS for c in self.changes):
            raise InvalidScenarioValue("a number of replicas", f"0 to {MAXIMUM_REPLICAS}")
        names = [c.name for c in self.containers]
        if len(set(names)) != len(names):
            raise InvalidScenarioValue("two containers of one name", "rename one")
        if self.kind == "CronJob" and self.arrivals is None:
            raise InvalidScenarioValue("a CronJob without arrivals", "give `arrivals: {every: 6h}`")
        if self.arrivals and self.kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
            raise InvalidScenarioValue(
                f"arrivals of a {self.kind}", "use Job, Pod or a custom kind"
            )

    @property
    def api_version(self) -> str:
        return self.api or KNOWN_KINDS[self.kind]

    def replicas_at(self, at: int) -> int:
        """The number of its pods at a second."""
        numbers = [c.replicas for c in self.changes if c.replicas is not None and c.at <= at]
        return numbers[-1] if numbers else self.replicas

    def all_containers(self) -> tuple[ContainerSpec, ...]:
        """Init and sidecar containers in their order, then main ones."""
        if not self.containers:
            return (ContainerSpec("main", self.requests),)
        early = tuple(c for c in self.containers if c.kind != "main")
        return (*early, *(c for c in self.containers if c.kind == "main"))
