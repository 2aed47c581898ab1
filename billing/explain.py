"""The walk from an invoice line to the bytes it came from, and from bytes to the lines they touch.

Put here: the stops of the walk, each with its rows.
Not here: how a walk is printed, or any computing: every row is read from where it is kept.

    document > line > pods (sealed) > pod-hours (facts) > rules (how each hour is known)
    > attempts (manifests) > answers (bytes)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from billing.answers import NOT_NAMED, find_in_answer
from billing.books import Books
from billing.record import Record, sealed_key
from domain.errors import WrongUse
from domain.interval import Interval, format_instant, parse_instant
from warehouse.attempt_hours import AttemptHour, attempt_hours
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.reconciliation_rules import reconciliation_rules
from warehouse.switched import counted_sha256


class NoSuchLine(WrongUse):
    """A line, a pod or an answer that the walk does not meet."""

    code = "EXPLAIN-001"

    def __init__(self, where: str, seen: str, remedy: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="a walk begins at something that is there",
            remedy=remedy,
        )


class Stage(Enum):
    """Where on the walk a stop is."""

    DOCUMENT = "document"
    LINE = "line"
    PODS = "pods"
    HOURS = "hours"
    RULES = "rules"
    ATTEMPTS = "attempts"
    ANSWERS = "answers"
    TOUCHED = "touched lines"


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of a walk: what it is, and its rows."""

    stage: Stage
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def explain_line(home: Home, number: str, line: int, pod_uid: str = "") -> list[Stop]:
    """Backward: from a line to the bytes; `pod_uid` chooses the pod that is followed to the end."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
    document = books.document(number)
    entry = _line(document, line)
    pods = _longest_first(pod for pod in document["pods"] if pod["line"] == line)
    stops = [_document_stop(books, number, document), _line_stop(document, entry), _pods_stop(pods)]
    if not pods:
        return stops
    followed = _chosen(pods, number, pod_uid)
    hours = _pod_hours_stop(home, document, entry, followed)
    stops += [hours, _rules_stop(hours)] if hours.rows else [hours]
    attempts = _attempts_of(home, entry["cluster_id"], _life(followed))
    stops.append(_attempts_stop(attempts))
    sealed = _sealed_evidence(record, document)
    stops.append(_bytes_stop(home, attempts, followed["pod_uid"], sealed))
    return stops


def explain_answer(home: Home, sha256: str) -> list[Stop]:
    """Forward: from the hash of an answer to the lines of documents that its hours touch."""
    hours = [
        hour for hour in attempt_hours(home.landing_store()) if sha256 in hour.row["answer_sha256s"]
    ]
    if not hours:
        seen = "no manifest names this hash"
        raise NoSuchLine(f"answer {sha256}", seen, "see the hashes with `gpu-ledger explain`")
    record = Record(home.record_store())
    rows = []
    for issued in record.ledger().documents():
        document: dict[str, Any] = record.sealed(issued.sha256)
        for line in document["lines"]:
            touched = [pod for pod in document["pods"] if _touches(pod, line, hours)]
            if touched:
                names = sorted({pod["pod_name"] for pod in touched})
                cells = (issued.number, str(line["line"]), document["tenant"], ", ".join(names))
                rows.append(cells)
    columns = ("document", "line", "tenant", "pods")
    lines = Stop(Stage.TOUCHED, "Lines whose pods ran in these hours", columns, tuple(rows))
    return [_attempts_stop(hours), lines]


def _line(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    for entry in document["lines"]:
        if entry["line"] == number:
            found: Mapping[str, Any] = entry
            return found
    raise NoSuchLine(
        f"{document['number']} line {number}",
        f"its last line is {len(document['lines'])}",
        f"gpu-ledger explain {document['number']} --line 1",
    )


def _longest_first(pods: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A line has one price, so the longest are the dearest."""
    return sorted(pods, key=lambda pod: (-pod["device_seconds"], pod["pod_uid"]))


def _chosen(pods: Sequence[Mapping[str, Any]], number: str, uid: str) -> Mapping[str, Any]:
    for pod in pods:
        if uid in ("", pod["pod_uid"]):
            return pod
    raise NoSuchLine(
        f"{number}, pod {uid}",
        "the line has no pod of this UID",
        "choose one of the pods that the walk lists",
    )


def _document_stop(books: Books, number: str, document: Mapping[str, Any]) -> Stop:
    issued = books.issued(number)
    return Stop(
        Stage.DOCUMENT,
        "Document",
        ("number", "status", "tenant", "total", "sealed as", "issued by event"),
        (
            (
                number,
                books.ledger.status(number).value,
                document["tenant"],
                f"{document['total_billed_cost']} {document['currency']}".strip(),
                sealed_key(issued.sha256),
                str(issued.event_sequence),
            ),
        ),
    )


def _line_stop(document: Mapping[str, Any], line: Mapping[str, Any]) -> Stop:
    columns = _columns("line kind gpu_class mig_profile device_seconds weight rate_per_hour")
    columns += _columns("cost billed_cost")
    currency = document["currency"]
    sum_text = f"{line['device_seconds']} s × {line['weight']} × {line['rate_per_hour']} / 3600 s"
    note = f"{sum_text} = {line['cost']} {currency}; rate {line['rate_id']}" if currency else ""
    return Stop(Stage.LINE, "Line", columns, (_cells(line, columns),), note)


def _pods_stop(pods: Sequence[Mapping[str, Any]]) -> Stop:
    columns = _columns("pod_name pod_uid node_name method device_count started_at ended_at")
    columns += _columns("device_seconds cost")
    total = sum(pod["device_seconds"] for pod in pods)
    return Stop(
        Stage.PODS,
        "Pods behind the line, as sealed, the longest first",
        columns,
        tuple(_cells(pod, columns) for pod in pods),
        f"{total} device seconds in all",
    )


_POD_HOURS = """
    select hour_started_at, segment_started_at, segment_ended_at, state, method,
        method_reason, billable_seconds, cost_nanos
    from marts.fct_pod_hours
    where billing_period = $period and cluster_id = $cluster and pod_uid = $pod
        and gpu_class = $gpu_class and mig_profile = $mig_profile
    order by all
"""


def _pod_hours_stop(
    home: Home,
    document: Mapping[str, Any],
    line: Mapping[str, Any],
    pod: Mapping[str, Any],
) -> Stop:
    """The pod's hours in the warehouse, if it still holds the facts that were sealed."""
    title = f"Hours of pod {pod['pod_name']} in the facts"
    columns = _columns("hour from until state method reason billable_seconds cost_nanos")
    period = line["charge_period"]
    if not home.warehouse_path.is_file():
        note = f"no warehouse: `gpu-ledger refresh --period {period}` counts it again"
        return Stop(Stage.HOURS, title, columns, (), note)
    with connected(home.warehouse_path, read_only=True) as connection:
        if counted_sha256(connection, home, period) != document["stands_on"]["facts_sha256"]:
            note = "the warehouse holds other facts than those that were sealed"
            return Stop(Stage.HOURS, title, columns, (), note)
        parameters = {
            "period": period,
            "cluster": line["cluster_id"],
            "pod": pod["pod_uid"],
            "gpu_class": line["gpu_class"],
            "mig_profile": line["mig_profile"],
        }
        found = connection.execute(_POD_HOURS, parameters).fetchall()
    rows = tuple(tuple(_text(value) for value in row) for row in found)
    return Stop(Stage.HOURS, title, columns, rows)


def _rules_stop(hours: Stop) -> Stop:
    """The rules of two sources that decided these hours, in the order of the table."""
    at = [hours.columns.index(name) for name in ("method", "reason")]
    deciding = {tuple(row[index] for index in at) for row in hours.rows}
    columns = _columns("samples lifecycle method method_reason billed limit_name blocks_close")
    rules = [r for r in reconciliation_rules() if (r.method, r.method_reason) in deciding]
    return Stop(
        Stage.RULES,
        "Rules that decided these hours",
        columns,
        tuple(tuple(getattr(rule, name) for name in columns) for rule in rules),
        "the whole table: docs/reference/reconciliation-rules.md",
    )


def _attempts_of(home: Home, cluster_id: str, life: Interval) -> list[AttemptHour]:
    hours = set(life.hours())
    return [
        hour
        for hour in attempt_hours(home.landing_store())
        if hour.cluster_id == cluster_id and hour.hour_started_at in hours
    ]


def _attempts_stop(attempts: Iterable[AttemptHour]) -> Stop:
    columns = ("source", "sequence", "hour", "outcome", "asked_at", "answers")
    rows = [
        (
            attempt.source,
            str(attempt.sequence),
            format_instant(attempt.hour_started_at),
            str(attempt.row["outcome"]),
            format_instant(attempt.row["asked_at"]),
            str(len(attempt.row["answer_sha256s"])),
        )
        for attempt in attempts
    ]
    title = "Attempts that asked for these hours"
    return Stop(Stage.ATTEMPTS, title, columns, tuple(sorted(set(rows))))


def _bytes_stop(
    home: Home, attempts: Iterable[AttemptHour], pod_uid: str, sealed: frozenset[str]
) -> Stop:
    digests = sorted({d for attempt in attempts for d in attempt.row["answer_sha256s"]})
    landing = home.landing_store()
    rows = []
    for digest in digests:
        found = find_in_answer(landing, digest, pod_uid)
        known = "sealed with the close" if digest in sealed else "after the close"
        rows.append((digest, str(found.byte_count), found.mentions, known))
    rows.sort(
        key=lambda row: row[2] == NOT_NAMED
    )  # of hundreds, those that name the pod come first
    return Stop(
        Stage.ANSWERS,
        "Answers, byte for byte",
        ("sha256", "bytes", f"mentions of {pod_uid}", "evidence"),
        tuple(rows),
        "each was read again, and has the hash that is its name",
    )


def _sealed_evidence(record: Record, document: Mapping[str, Any]) -> frozenset[str]:
    basis: dict[str, Any] = record.sealed(document["stands_on"]["basis_sha256"])
    return frozenset(
        digest
        for sources in basis["evidence"].values()
        for digests in sources.values()
        for digest in digests
    )


def _touches(pod: Mapping[str, Any], line: Mapping[str, Any], hours: Iterable[AttemptHour]) -> bool:
    if pod["line"] != line["line"]:
        return False
    lived = set(_life(pod).hours())
    return any(
        hour.cluster_id == line["cluster_id"] and hour.hour_started_at in lived for hour in hours
    )


def _life(pod: Mapping[str, Any]) -> Interval:
    return Interval(parse_instant(pod["started_at"]), parse_instant(pod["ended_at"]))


def _columns(names: str) -> tuple[str, ...]:
    return tuple(names.split())


def _cells(entry: Mapping[str, Any], columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(entry[name]) for name in columns)


def _text(value: object) -> str:
    return format_instant(value) if isinstance(value, datetime) else str(value)
