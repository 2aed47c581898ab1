"""A trace's rows as pods: each with its resources, a name for itself, and its owner's workload.

Put here: rows to pods, and pods to workloads.
Not here: reading rows (`trace`), nodes for the pods (`trace_nodes`).

Rows of one UID are one pod with several resources; without UIDs, rows of one name and one time of
creation are. The other columns of such rows must agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from domain.interval import format_instant
from fake_gpu.fleet.model_time import instant
from fake_gpu.scenario.schema import InvalidScenarioValue
from fake_gpu.scenario.spec_work import KEPT_SECONDS, KNOWN_KINDS, PodSpec, WorkloadSpec
from fake_gpu.scenario.trace import COLUMNS, TraceRow, bad_trace

# Columns in which rows of one pod may differ; an empty product is ignored.
OWN_COLUMNS = ("resource", "count", "gpu_product", "uid")


@dataclass(slots=True)
class TracedPod:
    """One pod of a trace: the values of its first row, and the requests of all its rows."""

    row: TraceRow
    requests: dict[str, int] = field(default_factory=dict)
    product: str = ""
    gone_at: int | None = None  # when its name is needed again sooner than objects usually go


def pods_of(rows: Iterable[TraceRow], source: str) -> list[TracedPod]:
    """Rows as pods, in the order in which these are named first."""
    pods: dict[tuple[object, ...], TracedPod] = {}
    for row in rows:
        by_time = (row.cluster, row.namespace, row.pod, row.created_at)
        key = (row.uid,) if row.uid else by_time
        pod = pods.get(key)
        if pod is None:
            pod = pods[key] = TracedPod(row)
        _add(pod, row, source)
    by_name: dict[tuple[str, str, str], list[TracedPod]] = defaultdict(list)
    for pod in pods.values():
        by_name[(pod.row.cluster, pod.row.namespace, pod.row.pod)].append(pod)
    for same in by_name.values():
        _one_after_another(same, source)
    return list(pods.values())


def _add(pod: TracedPod, row: TraceRow, source: str) -> None:
    """One more row of a pod, which has the same facts as the first."""
    first, remedy = pod.row, "rows of one pod differ in resource and count alone"
    for name in COLUMNS:
        ours, theirs = getattr(first, name), getattr(row, name)
        if name not in OWN_COLUMNS and ours != theirs:
            seen = f"{_named(row)} has {name} {_shown(theirs)!r}, and {_shown(ours)!r}"
            raise bad_trace(source, row.line, f"{seen} in line {first.line}", remedy)
    if row.gpu_product and pod.product not in ("", row.gpu_product):
        seen = f"{_named(row)} is on {row.gpu_product} here, and on {pod.product} in another line"
        raise bad_trace(source, row.line, seen, remedy)
    pod.product = pod.product or row.gpu_product
    if row.resource and row.count:
        if row.resource in pod.requests:
            seen = f"a second line of {row.resource} for {_named(row)}"
            raise bad_trace(source, row.line, seen, "write one, with the sum of the counts")
        pod.requests[row.resource] = row.count


def _named(row: TraceRow) -> str:
    return f"pod {row.namespace}/{row.pod}" + (f" ({row.uid})" if row.uid else "")


def _shown(value: object) -> object:
    return format_instant(instant(value)) if isinstance(value, int) else value or ""


def _one_after_another(pods: list[TracedPod], source: str) -> None:
    """Pods of one name: each ends before the next is made, and its object is gone by then."""
    for before, after in pairwise(sorted(pods, key=lambda pod: pod.row.created_at)):
        made, ended = after.row.created_at, before.row.finished_at
        if ended is None or ended > made or before.row.created_at == made:
            lasts = "does not end" if ended is None else f"ends at {_shown(ended)}"
            raise bad_trace(
                source,
                after.row.line,
                f"{_named(after.row)} is made at {_shown(made)}, and the one of that name in line "
                f"{before.row.line} {lasts}",
                "a name is one pod's at a time: mend the times or the names",
            )
        if ended + KEPT_SECONDS > made:
            before.gone_at = made


# --- workloads ----------------------------------------------------------------------------------


def workloads_of(pods: Iterable[TracedPod], source: str) -> tuple[WorkloadSpec, ...]:
    """Pods of one owner with the same requests, as one workload with exact pods."""
    grouped: dict[tuple[str, ...], list[TracedPod]] = defaultdict(list)
    for pod in pods:
        row = pod.row
        listed = ",".join(f"{r}={n}" for r, n in sorted(pod.requests.items()))
        # A bare pod has no owner, so those of one kind may be combined.
        name = row.owner_name or "pods"
        grouped[(row.namespace, row.owner_kind or "Pod", name, pod.product, listed)].append(pod)
    return tuple(_workload(key, mine, source) for key, mine in sorted(grouped.items()))


def _workload(key: tuple[str, ...], pods: Sequence[TracedPod], source: str) -> WorkloadSpec:
    namespace, kind, name, product, _ = key
    requests = pods[0].requests
    # The label of a MIG node may be another one, and the resource suffices; AMD has its own.
    plain = product.startswith(("NVIDIA", "Tesla")) and set(requests) <= {"nvidia.com/gpu"}
    ordered = sorted(pods, key=lambda pod: (pod.row.created_at, pod.row.pod, pod.row.uid))
    try:
        return WorkloadSpec(
            name=name,
            namespace=namespace,
            kind=kind,
            api="" if kind in KNOWN_KINDS else "example.com/v1",
            requests=requests,
            node_selector={"nvidia.com/gpu.product": product} if plain else {},
            pods=tuple(_pod(pod) for pod in ordered),
        )
    except InvalidScenarioValue as error:
        raise bad_trace(source, pods[0].row.line, error.seen, error.remedy) from error


def _pod(pod: TracedPod) -> PodSpec:
    row = pod.row
    ended = row.finished_at if row.started_at is not None else None
    deleted = row.phase not in ("Succeeded", "Failed") or row.started_at is None
    return PodSpec(
        created=row.created_at,
        name=row.pod,
        uid=row.uid,
        node=row.node,
        scheduled=row.scheduled_at,
        never_scheduled=row.scheduled_at is None,
        started=row.started_at,
        ended=ended,
        deleted=row.finished_at if deleted else None,
        gone=row.finished_at if deleted else pod.gone_at,
        ends="error" if row.phase == "Failed" else "completed",
    )
