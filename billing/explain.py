"""The steps from an invoice line to the bytes of its evidence, and from bytes to affected lines.

Put here: each step with its rows, and a short form for a screen.
Not here: printing, or calculating: every row is read from its place.

    document > line > pods (sealed) > pod-hours (facts) > rules (method of each hour)
    > attempts (manifests) > responses (bytes)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from billing.books import LedgerDocuments
from billing.landed_evidence import NOT_NAMED, find_in_response
from billing.record import Record, sealed_key
from domain.errors import UnknownName
from domain.interval import Interval, format_instant, parse_instant
from domain.money import format_nanos
from warehouse.attempt_hours import AttemptHour, attempt_hours
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.reconciliation_rules import reconciliation_rules
from warehouse.sql_files import fetch_rows
from warehouse.switched import counted_sha256


class StepKind(Enum):
    DOCUMENT = "document"
    LINE = "line"
    PODS = "pods"
    HOURS = "hours"
    RULES = "rules"
    ATTEMPTS = "attempts"
    RESPONSES = "responses"
    TOUCHED = "touched lines"


@dataclass(frozen=True, slots=True)
class ExplainStep:
    """One step from a line to the bytes, and its rows."""

    kind: StepKind
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def explain_line(home: Home, number: str, line: int, pod_uid: str = "") -> list[ExplainStep]:
    """From a line to the bytes; `pod_uid` chooses the pod that is followed."""
    record = Record(home.record_store())
    books = LedgerDocuments(record, record.ledger())
    document = books.document(number)
    entry = _line(document, line)
    pods = _longest_first(pod for pod in document["pods"] if pod["line"] == line)
    steps = [_document_step(books, number, document), _line_step(document, entry), _pods_step(pods)]
    if not pods:
        return steps
    followed = _chosen(pods, number, pod_uid)
    hours = _pod_hours_step(home, document, entry, followed)
    steps += [hours, _rules_step(hours)] if hours.rows else [hours]
    attempts = _attempts_of(home, entry["cluster_id"], _life(followed))
    steps.append(_attempts_step(attempts))
    sealed = _sealed_evidence(record, document)
    steps.append(_bytes_step(home, attempts, followed["pod_uid"], sealed))
    return steps


def explain_response(home: Home, sha256: str) -> list[ExplainStep]:
    """From the hash of a response to the lines whose pods ran in its hours."""
    hours = [
        hour for hour in attempt_hours(home.landing_store()) if sha256 in hour.row["answer_sha256s"]
    ]
    if not hours:
        raise UnknownName(
            where=f"answer {sha256}",
            seen="no manifest names this hash",
            why="the command starts from an existing line or response",
            remedy="see the hashes with `gpu-ledger explain`",
        )
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
    lines = ExplainStep(
        StepKind.TOUCHED, "Lines whose pods ran in these hours", columns, tuple(rows)
    )
    return [_attempts_step(hours), lines]


def _line(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    for entry in document["lines"]:
        if entry["line"] == number:
            found: Mapping[str, Any] = entry
            return found
    raise UnknownName(
        where=f"{document['number']} line {number}",
        seen=f"its last line is {len(document['lines'])}",
        why="the command starts from an existing line or response",
        remedy=f"gpu-ledger explain {document['number']} --line 1",
    )


def _longest_first(pods: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A line has one price, so the longest pods cost most."""
    return sorted(pods, key=lambda pod: (-pod["device_seconds"], pod["pod_uid"]))


def _chosen(pods: Sequence[Mapping[str, Any]], number: str, uid: str) -> Mapping[str, Any]:
    for pod in pods:
        if uid in ("", pod["pod_uid"]):
            return pod
    raise UnknownName(
        where=f"{number}, pod {uid}",
        seen="the line has no pod of this UID",
        why="the command starts from an existing line or response",
        remedy="choose one of the listed pods",
    )


def _document_step(books: LedgerDocuments, number: str, document: Mapping[str, Any]) -> ExplainStep:
    issued = books.issued(number)
    return ExplainStep(
        StepKind.DOCUMENT,
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


def _line_step(document: Mapping[str, Any], line: Mapping[str, Any]) -> ExplainStep:
    columns = _columns("line kind gpu_class mig_profile device_seconds weight rate_per_hour")
    columns += _columns("cost billed_cost")
    currency = document["currency"]
    sum_text = f"{line['device_seconds']} s × {line['weight']} × {line['rate_per_hour']} / 3600 s"
    note = f"{sum_text} = {line['cost']} {currency}; rate {line['rate_id']}" if currency else ""
    return ExplainStep(StepKind.LINE, "Line", columns, (_cells(line, columns),), note)


def _pods_step(pods: Sequence[Mapping[str, Any]]) -> ExplainStep:
    columns = _columns("pod_name pod_uid node_name method device_count started_at ended_at")
    columns += _columns("device_seconds cost")
    total = sum(pod["device_seconds"] for pod in pods)
    return ExplainStep(
        StepKind.PODS,
        "Pods behind the line, as sealed, the longest first",
        columns,
        tuple(_cells(pod, columns) for pod in pods),
        f"{total} device seconds in all",
    )


def _pod_hours_step(
    home: Home,
    document: Mapping[str, Any],
    line: Mapping[str, Any],
    pod: Mapping[str, Any],
) -> ExplainStep:
    """The hours of the pod, if the warehouse has the sealed facts."""
    title = f"Hours of pod {pod['pod_name']} in the facts"
    columns = _columns("hour from until state method reason billable_seconds cost_nanos")
    period = line["charge_period"]
    if not home.warehouse_path.is_file():
        note = f"there is no warehouse; `gpu-ledger refresh --period {period}` counts it again"
        return ExplainStep(StepKind.HOURS, title, columns, (), note)
    with connected(home.warehouse_path, read_only=True) as connection:
        if counted_sha256(connection, home, period) != document["stands_on"]["facts_sha256"]:
            note = "the warehouse has other facts than the sealed ones"
            return ExplainStep(StepKind.HOURS, title, columns, (), note)
        found = fetch_rows(
            __file__,
            connection,
            "pod_hours",
            period=period,
            pod_uid=pod["pod_uid"],
            **{name: line[name] for name in ("cluster_id", "gpu_class", "mig_profile")},
        )
    rows = tuple(tuple(_text(value) for value in row) for row in found)
    return ExplainStep(StepKind.HOURS, title, columns, rows)


def _rules_step(hours: ExplainStep) -> ExplainStep:
    """The rules of two sources for these hours, in the order of the table."""
    at = [hours.columns.index(name) for name in ("method", "reason")]
    deciding = {tuple(row[index] for index in at) for row in hours.rows}
    columns = _columns("samples lifecycle method method_reason billed limit_name blocks_close")
    rules = [r for r in reconciliation_rules() if (r.method, r.method_reason) in deciding]
    return ExplainStep(
        StepKind.RULES,
        "Rules that decided these hours",
        columns,
        tuple(tuple(getattr(rule, name) for name in columns) for rule in rules),
        "all rules: docs/reference/reconciliation-rules.md",
    )


def _attempts_of(home: Home, cluster_id: str, life: Interval) -> list[AttemptHour]:
    hours = set(life.hours())
    return [
        hour
        for hour in attempt_hours(home.landing_store())
        if hour.cluster_id == cluster_id and hour.hour_started_at in hours
    ]


def _attempts_step(attempts: Iterable[AttemptHour]) -> ExplainStep:
    columns = ("source", "sequence", "hour", "outcome", "asked_at", "responses")
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
    title = "Attempts for these hours"
    return ExplainStep(StepKind.ATTEMPTS, title, columns, tuple(sorted(set(rows))))


def _bytes_step(
    home: Home, attempts: Iterable[AttemptHour], pod_uid: str, sealed: frozenset[str]
) -> ExplainStep:
    digests = sorted({d for attempt in attempts for d in attempt.row["answer_sha256s"]})
    landing = home.landing_store()
    rows = []
    for digest in digests:
        found = find_in_response(landing, digest, pod_uid)
        known = "sealed with the close" if digest in sealed else "after the close"
        rows.append((digest, str(found.byte_count), found.mentions, known))
    rows.sort(key=lambda row: row[2] == NOT_NAMED)  # those that name the pod come first
    return ExplainStep(
        StepKind.RESPONSES,
        "Responses, byte for byte",
        ("sha256", "bytes", f"mentions of {pod_uid}", "evidence"),
        tuple(rows),
        "each was read again, and its hash was compared",
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


# On a screen --------------------------------------------------------------------------------------

ROWS_SHOWN = 4
"""Rows of each step on a screen; all steps then fit 50 lines."""

NARROW = {
    StepKind.DOCUMENT: ("number", "status", "tenant", "total"),
    StepKind.PODS: ("pod_name", "pod_uid", "method", "device_seconds", "cost"),
}
"""Columns of steps that are too wide for a terminal; the others are shown whole."""


def on_a_screen(steps: Sequence[ExplainStep]) -> list[ExplainStep]:
    """The steps, each with a few rows and the number of all rows."""
    return [_shorten(_summarise(step)) for step in steps]


def _summarise(step: ExplainStep) -> ExplainStep:
    """Hours as days, the longest first; attempts by outcome."""
    match step.kind:
        case StepKind.HOURS if step.rows:
            return _group_by_day(step)
        case StepKind.ATTEMPTS:
            return _group_by_outcome(step)
        case StepKind.RESPONSES:
            return _select_responses_with_pod(step)
    return step


def _group_by_day(step: ExplainStep) -> ExplainStep:
    seconds: Counter[str] = Counter()
    nanos: Counter[str] = Counter()
    for hour, *_, billable_seconds, cost_nanos in step.rows:
        day = hour[:10]
        seconds[day] += int(billable_seconds)
        nanos[day] += int(cost_nanos)
    days = sorted(seconds, key=lambda day: (-seconds[day], day))
    return replace(
        step,
        title=step.title.replace("Hours", "Days", 1),
        columns=("day", "billable_seconds", "cost"),
        rows=tuple((day, str(seconds[day]), format_nanos(nanos[day])) for day in days),
        note=f"{sum(seconds.values())} s in {len(step.rows)} segments of hours",
    )


def _group_by_outcome(step: ExplainStep) -> ExplainStep:
    by_outcome: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for source, sequence, hour, outcome, *_ in step.rows:
        by_outcome[source, outcome].append((hour, sequence))
    rows = []
    for (source, outcome), found in sorted(by_outcome.items()):
        hours = sorted({hour for hour, _ in found})
        attempts = {sequence for _, sequence in found}
        rows.append((source, outcome, str(len(attempts)), str(len(hours)), hours[0], hours[-1]))
    columns = ("source", "outcome", "attempts", "hours", "first_hour", "last_hour")
    return replace(step, columns=columns, rows=tuple(rows))


def _select_responses_with_pod(step: ExplainStep) -> ExplainStep:
    named = sum(mentions != NOT_NAMED for _, _, mentions, _ in step.rows)
    note = f"{named} of {len(step.rows)} name the pod; {step.note}"
    kept = tuple((sha256, size, sealed) for sha256, size, _, sealed in step.rows[: named or None])
    return replace(step, columns=("sha256", "bytes", "evidence"), rows=kept, note=note)


def _shorten(step: ExplainStep) -> ExplainStep:
    columns = NARROW.get(step.kind, step.columns)
    kept = [step.columns.index(name) for name in columns]
    rows = tuple(tuple(row[at] for at in kept) for row in step.rows[:ROWS_SHOWN])
    of_many = f"{len(rows)} of {len(step.rows)} are shown" if len(rows) < len(step.rows) else ""
    note = "; ".join(part for part in (of_many, step.note) if part)
    return replace(step, columns=columns, rows=rows, note=note)
