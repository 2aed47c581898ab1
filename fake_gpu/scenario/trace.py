"""Real pods in a CSV file: its rows, read and checked one by one.

Put here: reading a trace.
Not here: rows to pods and workloads (`trace_pods`), nodes for them (`trace_nodes`), other people's
formats (`openb`).

Columns, in any order; times as whole seconds since the epoch or as 2026-10-01T00:00:00Z:

    cluster,namespace,pod,uid,node,gpu_product,resource,count,created_at,scheduled_at,started_at,
    finished_at,phase,owner_kind,owner_name

An empty `node` lets the scheduler choose; an empty `scheduled_at` is a pod that never was bound;
an empty `started_at` one that never ran; an empty `finished_at` one that still runs. `phase` is how
it ended: Succeeded, Failed, or anything else for a pod that was deleted while it ran.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from domain.errors import LedgerError
from domain.interval import parse_instant
from fake_gpu.fleet.hardware import products, similar_products
from fake_gpu.scenario.errors import InvalidScenario

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
# A million pods are a month of ten thousand GPUs; more than that is not read whole.
MAXIMUM_ROWS = 2_000_000

_FRACTION = re.compile(r"\.(\d+)", re.ASCII)
_EPOCH = re.compile(r"(-?\d+)(?:\.(\d*))?", re.ASCII)
# The year 5138 in seconds, March 1973 in milliseconds: a trace never has the former.
FIRST_MILLISECOND = 100_000_000_000


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
    line: int = 0  # where it stands
    is_rounded: bool = False  # one of its times had a fraction of a second


def parse_trace(text: str, source: str) -> list[TraceRow]:
    """The rows of a trace, checked; the first problem is raised with its line."""
    reader = csv.DictReader(io.StringIO(text))
    rows: list[TraceRow] = []
    try:
        names = reader.fieldnames or []
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            listed = "columns: " + ",".join(COLUMNS)
            raise bad_trace(source, 1, f"no column {', '.join(missing)}", listed)
        for cells in reader:
            if len(rows) == MAXIMUM_ROWS:
                seen = f"more than {MAXIMUM_ROWS} rows"
                raise bad_trace(source, reader.line_num, seen, "split the trace")
            rows.append(_row(cells, source, reader.line_num))
    except csv.Error as error:
        raise bad_trace(source, reader.line_num, f"no CSV: {error}", "mend that line") from error
    if not rows:
        raise bad_trace(source, 1, "no rows", "one row for each pod and resource")
    return rows


def rounding_warnings(rows: Sequence[TraceRow], source: str) -> tuple[str, ...]:
    """One warning about all times of a trace that were rounded."""
    lines = [row.line for row in rows if row.is_rounded]
    if not lines:
        return ()
    return (
        f"{source}: {len(lines)} rows have fractions of a second, the first in line {lines[0]}; "
        "the pod's start was rounded down and its end up",
    )


def _row(cells: dict[str, str], source: str, line: int) -> TraceRow:
    rounded: list[str] = []

    def time(name: str) -> int | None:
        text = (cells[name] or "").strip()
        if fraction := _FRACTION.search(text):
            # A pod exists in every second that it touches.
            text = text.replace(fraction[0], "", 1)
            if fraction[1].strip("0"):
                rounded.append(name)
        seconds = _time(text, name, source, line)
        is_up = seconds is not None and name == "finished_at" and name in rounded
        return seconds + 1 if is_up and seconds is not None else seconds

    count = (cells["count"] or "").strip()
    if not (count.isascii() and count.isdigit()):
        seen = f"count {count!r} is not a number of devices"
        raise bad_trace(source, line, seen, "write 1 or more")
    created = time("created_at")
    if created is None:
        raise bad_trace(source, line, "no created_at", "every pod was created at some time")
    plain = {n: (cells[n] or "").strip() for n in COLUMNS if not n.endswith("_at") and n != "count"}
    row = TraceRow(
        count=int(count),
        created_at=created,
        scheduled_at=time("scheduled_at"),
        started_at=time("started_at"),
        finished_at=time("finished_at"),
        line=line,
        is_rounded=bool(rounded),
        **plain,
    )
    _check(row, source, line)
    return row


def _time(text: str, name: str, source: str, line: int) -> int | None:
    """A cell without its fraction as seconds; no unit is guessed."""
    if not text:
        return None
    match = _EPOCH.fullmatch(text)
    if match is None:
        try:
            return int(parse_instant(text, name).timestamp())
        except LedgerError as error:
            raise bad_trace(source, line, f"{name}: {error.seen}", error.remedy) from error
    seconds = int(match[1])
    if seconds >= FIRST_MILLISECOND:
        seen = f"{name}: {text} are no seconds since 1970, but milliseconds or less"
        raise bad_trace(source, line, seen, f"write whole seconds, as {str(seconds)[:10]}")
    if seconds < 0:
        raise bad_trace(source, line, f"{name}: {text} is before 1970", "write a later time")
    return seconds


def _check(row: TraceRow, source: str, line: int) -> None:
    times = [row.created_at, row.scheduled_at, row.started_at, row.finished_at]
    known = [t for t in times if t is not None]
    if known != sorted(known):
        order = "created ≤ scheduled ≤ started ≤ finished"
        raise bad_trace(source, line, "its times go backwards", order)
    if row.started_at is not None and row.scheduled_at is None:
        raise bad_trace(source, line, "it started and never was scheduled", "give scheduled_at")
    if row.node and row.scheduled_at is None:
        seen = f"it is on node {row.node!r} and never was scheduled"
        raise bad_trace(source, line, seen, "give scheduled_at, or leave node empty")
    if row.gpu_product and row.gpu_product not in products():
        raise bad_trace(
            source, line, f"unknown product {row.gpu_product!r}", similar_products(row.gpu_product)
        )
    if not row.namespace or not row.pod:
        raise bad_trace(source, line, "no namespace or no pod name", "give both")


def bad_trace(source: str, line: int, seen: str, remedy: str) -> InvalidScenario:
    return InvalidScenario(
        where=f"{source}:{line}" if line else source,
        seen=seen,
        why="a trace is a truth ledger, so each row must be possible",
        remedy=remedy,
    )
