"""Lands whole hours of a journal as one attempt (`kubernetes_hours`).

Put here: landing segments byte-exactly, and the outcome of each hour.
Not here: requests to an API server, which has no past (`collector`), decoding (`journal_decoder`),
or coverage status (`quality`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from domain.clock import Clock
from domain.decisions.rows import Source
from domain.interval import (
    HOUR,
    Interval,
    format_instant,
    parse_instant,
    subtract,
    total_seconds,
)
from ingestion.evidence.hour_ledger import FIRST_UNWATCHED, JOURNAL_ENDS_BEFORE
from ingestion.evidence.landing import LandedBody, Landing, PackedBody, pack_body
from ingestion.kubernetes.journal import (
    Segment,
    SegmentDamaged,
    parse_lines,
    segments_of_day,
)
from ingestion.kubernetes.journal_lines import Line
from warehouse.manifest import (
    Attempt,
    AttemptDraft,
    Hour,
    Outcome,
    QueryResponse,
    Sampling,
    code_version_of_manifests,
    whole_hours,
)
from warehouse.store import Store

# A journal is not sampled at intervals.
NO_SAMPLING = Sampling(sample_interval_seconds=0, scrape_interval_seconds=0)


def pull_hours(
    cluster_id: str,
    window: Interval,
    spool: Store,
    landing: Landing,
    clock: Clock,
) -> Attempt:
    """Land the journal's segments of a window of whole hours as one attempt."""
    asked_at = clock.now().replace(microsecond=0)
    answers: list[QueryResponse] = []
    bodies: list[PackedBody] = []
    hours: list[Hour] = []
    wanted = whole_hours(window)
    # Later segments, if any, are of the day on which the window ends, or of today.
    days = {at.date(): at for at in (*wanted, window.ended_at, asked_at)}
    seen = [s for day in days.values() for s in segments_of_day(spool, cluster_id, day)]
    there = {hour: [s for s in seen if s.hour == hour] for hour in wanted}
    last_hour = max((s.hour for s in seen), default=None)
    for hour in wanted:
        lines: list[Line] = []
        damage = ""
        for segment in there[hour]:
            answer, body, said = _take(segment, spool, cluster_id)
            answers.append(answer)
            bodies.append(body)
            lines += said
            damage = damage or answer.reason
        goes_on = last_hour is not None and last_hour > hour
        described = describe_hour(hour, lines, asked_at, goes_on)
        if damage:
            described = replace(described, outcome=Outcome.DEGRADED, reason=damage)
        hours.append(described)
    repaired = landing.land(bodies)
    draft = AttemptDraft(
        cluster_id=cluster_id,
        source=Source.KUBERNETES,
        asked_at=asked_at,
        answered_at=clock.now().replace(microsecond=0),
        window=window,
        code_version=code_version_of_manifests(),
        sampling=NO_SAMPLING,
        answers=tuple(answers),
        hours=tuple(hours),
    )
    return landing.append_attempt(draft.noting(bodies_repaired=repaired))


def _take(
    segment: Segment, spool: Store, cluster_id: str
) -> tuple[QueryResponse, PackedBody, list[Line]]:
    """The bytes of a segment, to be landed, and its lines; no lines if it is damaged."""
    text = spool.read(segment.key)
    body = pack_body(text)
    answer = _answer(segment, body.landed)
    try:
        lines = list(parse_lines(segment.key, text))
        _require_its_own(segment, cluster_id, lines[0])
        return answer, body, lines
    except SegmentDamaged as damaged:
        reason = f"{segment.key}: {damaged.seen}"[:200]
        return replace(answer, outcome=Outcome.TRUNCATED, reason=reason), body, []


def _require_its_own(segment: Segment, cluster_id: str, opened: Line) -> None:
    """Refuse a segment whose name is of another cluster or hour than its first line."""
    said = (opened.get("cluster_id"), opened.get("hour"))
    if said != (cluster_id, format_instant(segment.hour)):
        raise SegmentDamaged(
            segment.key, f"it says that it is of cluster {said[0]}, hour {said[1]}"
        )


def _answer(segment: Segment, landed: LandedBody) -> QueryResponse:
    return QueryResponse(
        ask="journal",
        query=segment.key,
        status=200,
        sha256=landed.sha256,
        byte_count=landed.byte_count,
        stored_byte_count=landed.stored_byte_count,
        window=Interval(segment.hour, segment.hour + HOUR),
    )


def describe_hour(hour: datetime, lines: list[Line], asked_at: datetime, goes_on: bool) -> Hour:
    """The journal's part of one hour: an outcome, its reason, and counts."""
    intervals = watched_intervals(hour, lines)
    watched = total_seconds(intervals)
    unwatched = subtract([Interval(hour, hour + HOUR)], intervals)
    closed = any(line["line"] == "hour_closed" for line in lines)
    listed = list_complete(lines)
    facts = {
        "segment_count": sum(1 for line in lines if line["line"] == "opened"),
        "observation_count": sum(1 for line in lines if line["line"] == "object"),
        "contradiction_count": sum(1 for line in lines if line["line"] == "contradiction"),
        "watched_seconds": watched,
        **({FIRST_UNWATCHED: Interval(hour, unwatched[0].started_at).seconds} if unwatched else {}),
        "list_complete": int(listed),
        "closed": int(closed),
        **({JOURNAL_ENDS_BEFORE: 1} if not lines and not goes_on else {}),
    }
    outcome, reason = _outcome(hour, lines, watched, asked_at, goes_on)
    return Hour(hour=hour, outcome=outcome, reason=reason, facts=facts)


def _outcome(
    hour: datetime, lines: list[Line], watched: int, asked_at: datetime, goes_on: bool
) -> tuple[Outcome, str]:
    if asked_at < hour + HOUR:
        return Outcome.FAILED, f"asked at {format_instant(asked_at)}, before the hour was over"
    if not watched:
        why = "no collector watched this hour, and nothing can bring it back"
        return Outcome.EMPTY, why if goes_on or lines else "the journal has nothing of this hour"
    if not any(line["line"] == "hour_closed" for line in lines):
        late = "the journal went on without closing it" if goes_on else "it is not closed yet"
        return Outcome.DEGRADED, f"{late}; {watched} of 3600 s watched so far"
    if watched < HOUR.total_seconds():
        return Outcome.DEGRADED, f"{watched} of 3600 s were watched without a break"
    if not list_complete(lines):
        return Outcome.DEGRADED, "no complete list of the pods was made in this hour"
    return Outcome.OK, ""


def list_complete(lines: Iterable[Line]) -> bool:
    """Whether a complete list of the pods was made in these lines' hour.

    A list does not count after a review that this collector may not see all pods.
    """
    refused = False
    for line in lines:
        if line.get("resource") != "pods":
            continue
        if line["line"] == "access":
            refused = not line["allowed"]
        elif line["line"] == "listed" and line["complete"] and not refused:
            return True
    return False


def watched_intervals(
    hour: datetime, lines: Iterable[Line], resource: str = "pods"
) -> list[Interval]:
    """The parts of an hour in which the watch of a resource was unbroken."""
    window = Interval(hour, hour + HOUR)
    intervals = [
        Interval(parse_instant(line["at"]), parse_instant(line["until"])).clipped_to(window)
        for line in lines
        if line["line"] == "watched" and line["resource"] == resource
    ]
    return [interval for interval in intervals if interval]
