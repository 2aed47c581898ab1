"""Real pods from a CSV file: their times, devices and owners become exact pods of a scenario.

Put here: reading a trace, and turning rows into clusters and workloads.
Not here: other people's formats (`openb`), or placing pods (`estate`).

Columns, in any order; times as seconds since the epoch or as 2026-10-01T00:00:00Z:

    cluster,namespace,pod,uid,node,gpu_product,resource,count,created_at,scheduled_at,started_at,
    finished_at,phase,owner_kind,owner_name

An empty `node` lets the scheduler choose; an empty `scheduled_at` is a pod that never was bound;
an empty `started_at` one that never ran; an empty `finished_at` one that still runs. `phase` is how
it ended: Succeeded, Failed, or anything else for a pod that was deleted while it ran. Rows of one
UID are one pod with several resources.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from domain.errors import LedgerError
from domain.interval import parse_instant
from fake_gpu.estate.hardware import products, profiles
from fake_gpu.scenario.errors import BadTrace
from fake_gpu.scenario.spec import ClusterSpec, Scenario
from fake_gpu.scenario.spec_hardware import Layout, MigSpec, NodeSpec
from fake_gpu.scenario.spec_work import KNOWN_KINDS, PodSpec, WorkloadSpec

COLUMNS = (
    "cluster",
    "namespace",
    "pod",
    "uid",
    "node",
    "gpu_product",
    "resource",
    "count",
    "created_at",
    "scheduled_at",
    "started_at",
    "finished_at",
    "phase",
    "owner_kind",
    "owner_name",
)
# What a trace is about when it does not say which card it is.
DEFAULT_PRODUCT = "NVIDIA-A100-SXM4-40GB"
CARDS_PER_NODE = 8
HOUR = 3600
# A million pods are a month of ten thousand GPUs; more than that is not read whole.
MAXIMUM_ROWS = 2_000_000


@dataclass(frozen=True, slots=True)
class TraceRow:
    cluster: str
    namespace: str
    pod: str
    uid: str
    node: str
    gpu_product: str
    resource: str
    count: int
    created_at: int
    scheduled_at: int | None
    started_at: int | None
    finished_at: int | None
    phase: str
    owner_kind: str
    owner_name: str


def parse_trace(text: str, source: str) -> list[TraceRow]:
    """The rows of a trace, checked; the first problem is raised with its line."""
    reader = csv.DictReader(io.StringIO(text))
    names = reader.fieldnames or []
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise _bad(source, 1, f"no column {', '.join(missing)}", "columns: " + ",".join(COLUMNS))
    rows = []
    for number, cells in enumerate(reader, 2):
        if number > MAXIMUM_ROWS:
            raise _bad(source, number, f"more than {MAXIMUM_ROWS} rows", "split the trace")
        rows.append(_row(cells, source, number))
    if not rows:
        raise _bad(source, 1, "no rows", "one row for each pod and resource")
    return rows


def _row(cells: dict[str, str], source: str, line: int) -> TraceRow:
    def time(name: str) -> int | None:
        text = (cells[name] or "").strip()
        if not text:
            return None
        if text.lstrip("-").isdigit():
            return int(text)
        try:
            return int(parse_instant(text, name).timestamp())
        except LedgerError as error:
            raise _bad(source, line, error.seen, error.remedy) from error

    count = (cells["count"] or "").strip()
    if not count.isdigit():
        raise _bad(source, line, f"count {count!r} is not a number of devices", "write 1 or more")
    created = time("created_at")
    if created is None:
        raise _bad(source, line, "no created_at", "every pod was created at some time")
    plain = {n: (cells[n] or "").strip() for n in COLUMNS if not n.endswith("_at") and n != "count"}
    row = TraceRow(
        count=int(count),
        created_at=created,
        scheduled_at=time("scheduled_at"),
        started_at=time("started_at"),
        finished_at=time("finished_at"),
        **plain,
    )
    _check(row, source, line)
    return row


def _check(row: TraceRow, source: str, line: int) -> None:
    times = [row.created_at, row.scheduled_at, row.started_at, row.finished_at]
    known = [t for t in times if t is not None]
    if known != sorted(known):
        order = "created ≤ scheduled ≤ started ≤ finished"
        raise _bad(source, line, "its times go backwards", order)
    if row.started_at is not None and row.scheduled_at is None:
        raise _bad(source, line, "it started and never was scheduled", "give scheduled_at")
    if row.gpu_product and row.gpu_product not in products():
        known_products = "one of: " + ", ".join(products())
        raise _bad(source, line, f"unknown product {row.gpu_product!r}", known_products)
    if not row.namespace or not row.pod:
        raise _bad(source, line, "no namespace or no pod name", "give both")


def _bad(source: str, line: int, seen: str, remedy: str) -> BadTrace:
    return BadTrace(
        where=f"{source}:{line}",
        seen=seen,
        why="a trace is the truth of what it describes, so every row has to be possible",
        remedy=remedy,
    )


# --- rows to a scenario ------------------------------------------------------------------------


def scenario_of_trace(rows: Sequence[TraceRow], name: str) -> Scenario:
    """A scenario of its own: the clusters, and as many nodes as the pods need."""
    times = [t for row in rows for t in (row.created_at, row.finished_at) if t is not None]
    by_cluster = by_key(rows, lambda row: row.cluster or "traced")
    clusters = tuple(
        ClusterSpec(
            name=cluster,
            nodes=needed_nodes(mine),
            workloads=workloads_of(mine),
        )
        for cluster, mine in by_cluster.items()
    )
    return Scenario(
        name=name,
        from_=min(times) // HOUR * HOUR,
        until=-(-(max(times) + 1) // HOUR) * HOUR,
        clusters=clusters,
        story=f"{len(rows)} traced pods.",
    )


def with_trace(scenario: Scenario, rows: Sequence[TraceRow], source: str) -> Scenario:
    """The scenario with a trace's pods besides its own workloads."""
    by_cluster = by_key(rows, lambda row: row.cluster)
    known = [cluster.name for cluster in scenario.clusters]
    if unknown := sorted(set(by_cluster) - set(known) - {""}):
        raise _bad(source, 0, f"no cluster {unknown[0]!r}", "clusters: " + ", ".join(known))
    clusters = []
    for n, cluster in enumerate(scenario.clusters):
        mine = [*by_cluster.get(cluster.name, []), *(by_cluster.get("", []) if n == 0 else [])]
        clusters.append(replace(cluster, workloads=(*cluster.workloads, *workloads_of(mine))))
    return replace(scenario, clusters=tuple(clusters))


def workloads_of(rows: Iterable[TraceRow]) -> tuple[WorkloadSpec, ...]:
    """Pods of one owner with the same requests, as one workload with exact pods."""
    by_pod: dict[str, list[TraceRow]] = by_key(rows, lambda r: r.uid or f"{r.namespace}/{r.pod}")
    grouped: dict[tuple[str, ...], list[TraceRow]] = defaultdict(list)
    requests: dict[tuple[str, ...], dict[str, int]] = {}
    for mine in by_pod.values():
        first = mine[0]
        asked = {row.resource: row.count for row in mine if row.resource and row.count}
        kind = first.owner_kind or "Pod"
        listed = ",".join(f"{r}={n}" for r, n in sorted(asked.items()))
        # A bare pod belongs to nobody, so those of one kind may stand together.
        name = first.owner_name or "pods"
        key = (first.namespace, kind, name, first.gpu_product, listed)
        grouped[key].append(first)
        requests[key] = asked
    return tuple(_workload(key, requests[key], mine) for key, mine in sorted(grouped.items()))


def _workload(
    key: tuple[str, ...], requests: dict[str, int], rows: Sequence[TraceRow]
) -> WorkloadSpec:
    namespace, kind, name, product, _ = key
    # The label of a MIG node may be another one, and the resource says enough; AMD has its own.
    plain = product.startswith(("NVIDIA", "Tesla")) and set(requests) <= {"nvidia.com/gpu"}
    return WorkloadSpec(
        name=name,
        namespace=namespace,
        kind=kind,
        api="" if kind in KNOWN_KINDS else "example.com/v1",
        requests=requests,
        node_selector={"nvidia.com/gpu.product": product} if plain else {},
        pods=tuple(_pod(row) for row in sorted(rows, key=lambda r: (r.created_at, r.pod, r.uid))),
    )


def _pod(row: TraceRow) -> PodSpec:
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
        gone=row.finished_at if deleted else None,
        ends="error" if row.phase == "Failed" else "completed",
    )


def needed_nodes(rows: Sequence[TraceRow]) -> tuple[NodeSpec, ...]:
    """Nodes for a trace that comes without any: those it names, and enough for the others."""
    nodes: list[NodeSpec] = []
    named = by_key([row for row in rows if row.node], lambda row: row.node)
    for node, mine in named.items():
        nodes.append(_node(node, mine[0], most_at_once(mine)))
    unplaced = [row for row in rows if not row.node and row.scheduled_at is not None]
    kinds = by_key(unplaced, lambda row: f"{row.gpu_product or DEFAULT_PRODUCT}|{row.resource}")
    for number, mine in enumerate(kinds.values()):
        # Twice the need: pods of several devices leave gaps that others do not fill.
        room = _units_per_card(mine[0]) * CARDS_PER_NODE
        biggest = max(row.count for row in mine)
        count = max(1, -(-2 * most_at_once(mine) // room), -(-biggest // room))
        nodes += [_node(f"traced-{number}-{n}", mine[0], room) for n in range(count)]
    return tuple(nodes)


def _units_per_card(row: TraceRow) -> int:
    """How many of the resource one card gives."""
    if not row.resource.startswith("nvidia.com/mig-"):
        return 1
    family = products()[row.gpu_product or DEFAULT_PRODUCT].mig_family
    wanted = row.resource.removeprefix("nvidia.com/mig-")
    for profile in profiles(family).values():
        if profile.profile.replace("+", ".") == wanted:
            return profile.max_count
    return 1


def _node(name: str, row: TraceRow, units: int) -> NodeSpec:
    product = row.gpu_product or DEFAULT_PRODUCT
    cards = max(1, -(-units // _units_per_card(row)))
    mig = None
    if row.resource.startswith("nvidia.com/mig-"):
        layout = Layout("all-" + row.resource.removeprefix("nvidia.com/mig-"), ())
        mig = MigSpec(layout)
    return NodeSpec(name=name, product=product, cards=cards, mig=mig)


def most_at_once(rows: Iterable[TraceRow]) -> int:
    """How many devices the rows hold at one time, at most."""
    changes: dict[int, int] = defaultdict(int)
    for row in rows:
        if row.scheduled_at is not None:
            changes[row.scheduled_at] += row.count
            if row.finished_at is not None:
                changes[row.finished_at] -= row.count
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def by_key(rows: Iterable[TraceRow], key: Callable[[TraceRow], str]) -> dict[str, list[TraceRow]]:
    found: dict[str, list[TraceRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
