"""The lines of a journal: their kinds and their forms.

Put here: how each line is written. Not here: when it is (`state`), or where it goes (`spool`).

Every line is a JSON object with `line` (its kind), `at` (when it was observed) and, once it is in a
segment, `position` (its place in the whole journal):

| line | says |
|---|---|
| opened | a segment begins: whose, which hour, which sequence, written by which code |
| object | an object was seen (`via` list, added, modified, hourly_list), `deleted`, or is `gone`; |
|        | `alive_at`: until when this shows that a pod is alive, where the line was written later |
| still_there | ended pods that the hourly list still shows, in short |
| listed | a list came to its end: complete or not, how many, how many were absent |
| watched | an interval in which a watch was unbroken; `version` is from where it can go on |
| broken, gap | a watch ended; and, when it could not go on, what was not seen, with both ends |
| contradiction | two statements that cannot both be true |
| owner | what an owner says about its own owner |
| access | what the collector may read |
| hour_closed | nothing more is expected for this hour |
| sealed | the segment is over: the hash of all its lines before, and nothing else |
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from domain.interval import format_instant
from ingestion.kubernetes.pod_times import Contradiction, PodFacts
from ingestion.kubernetes.projections import Document

Line = dict[str, Any]


# An instant is written as often as a list of it has objects.
_text = lru_cache(maxsize=64)(format_instant)


def line_of(kind: str, at: datetime, **parts: str) -> Line:
    return {"line": kind, "at": _text(at)} | parts


def contradiction_line(at: datetime, resource: str, uid: str, note: Contradiction) -> Line:
    line = line_of("contradiction", at, resource=resource, uid=uid)
    return line | {"what": note.what, "before": note.before, "after": note.after}


def object_line(resource: str, via: str, at: datetime, projection: Document) -> Line:
    return line_of("object", at, resource=resource, via=via) | {"object": projection}


def pod_line(
    via: str, at: datetime, projection: Document, facts: PodFacts, kin: dict[str, str]
) -> Line:
    """An observation of a pod, with the known facts besides this one status."""
    return object_line("pods", via, at, projection) | {"facts": facts.as_line(), "kin": kin}


def alive_at(seen_at: datetime, at: datetime, facts: PodFacts) -> Line:
    """Until when a statement shows that a pod is alive, where its line was written later.

    Of an ended pod nothing is added: that it was over is known from when it was said.
    """
    seen = max(_text(seen_at), facts.started_at)
    return {} if facts.terminal or seen >= _text(at) else {"alive_at": seen}


def last_seen(at: datetime | None) -> Line:
    return {} if at is None else {"last_seen_at": _text(at)}
