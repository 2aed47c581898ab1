"""The lines of a journal: their kinds and their forms.

Put here: writing a line. Not here: when it is written (`journal_state`), or where (`journal`).

Every line is a JSON object with `line` (its kind), `at` (when it was observed) and, once it is in a
segment, `position` (its place in the whole journal):

| line | meaning |
|---|---|
| opened | the first line of a segment: cluster, hour, sequence, version of the code |
| object | an object was seen (`via` list, added, modified, hourly_list), `deleted`, or is `gone`; |
|        | `alive_at`: until when this shows that a pod is alive, where the line was written later |
| still_there | ended pods in the hourly list, in short |
| listed | the end of a list: complete or not, the numbers of listed and of absent objects |
| watched | an interval with an unbroken watch; it can continue from `version` |
| broken, gap | the end of a watch; and the unwatched interval if it could not continue |
| contradiction | two statements that cannot both be true |
| owner | the owner of an owner |
| access | whether the collector may list and watch a resource |
| hour_closed | the last line of an hour |
| sealed | the last line of a segment: the hash of all lines before it |
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

from domain.interval import format_instant
from ingestion.kubernetes.pod_times import Contradiction, PodFacts
from ingestion.kubernetes.projections import Document

Line = dict[str, Any]


# All lines of a list have the same time.
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
    """The time at which a pod was seen, if its line was written later.

    Not for an ended pod: the time of its line shows when the end was known.
    """
    seen = max(_text(seen_at), facts.started_at)
    return {} if facts.terminal or seen >= _text(at) else {"alive_at": seen}


def last_seen(at: datetime | None) -> Line:
    return {} if at is None else {"last_seen_at": _text(at)}
