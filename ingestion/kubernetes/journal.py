"""The journal on disk: segments, each written completely and synced.

Put here: segments and their keys, writing and reading them.
Not here: the lines (`journal_lines`), or landing them (`pull`).

    journal/<cluster_id>/<hour>-<sequence>.jsonl

A segment is one object of a store, written by conditional create: it is complete, or it does not
exist, and it never changes. Its last line is a seal with the hash of all lines before it. An hour
has one segment per flush; the last one has the line `hour_closed`. Two collectors of one cluster
use different sequence numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from domain.errors import EvidenceChanged
from domain.identity import sha256_bytes
from domain.interval import HOUR, format_instant, hour_of, parse_instant
from ingestion.kubernetes.documents import as_text
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.line_schema import check_form
from warehouse.store import Store

JOURNAL_VERSION = 2

# With a flush every 30 s and one at the end, an hour has 121 segments. Many more are a defect.
SEGMENTS_PER_HOUR_LIMIT = 100_000


class SegmentDamaged(EvidenceChanged):
    """A segment of a journal is damaged."""

    code = "LAND-001"

    def __init__(self, key: str, seen: str) -> None:
        super().__init__(
            where=key,
            seen=seen,
            why="the observations of this segment cannot be trusted",
            remedy="restore the file from a backup of the journal; without a backup, the hour is a "
            "gap of the journal",
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """The name of one segment in the store."""

    key: str
    hour: datetime
    sequence: int


def segment_key(cluster_id: str, hour: datetime, sequence: int) -> str:
    return f"{cluster_prefix(cluster_id)}{_hour_text(hour)}-{sequence:06d}.jsonl"


def cluster_prefix(cluster_id: str) -> str:
    return f"journal/{cluster_id}/"


def segments(store: Store, cluster_id: str, hour: datetime | None = None) -> list[Segment]:
    """The segments of a cluster, or of one of its hours, in the order of their writing."""
    prefix = cluster_prefix(cluster_id)
    keys = store.list(prefix + _hour_text(hour) if hour is not None else prefix)
    return [_segment(key) for key in keys]


def latest_segments(store: Store, cluster_id: str, at: datetime, back: timedelta) -> list[Segment]:
    """The newest segment, and the segments of the time `back` before it.

    They are listed by day: a journal of a year has half a million names, and a bucket lists a
    thousand names per request.
    """
    found: list[Segment] = []
    day = at - back
    while day.date() <= at.date():
        found += segments_of_day(store, cluster_id, day)
        day += timedelta(days=1)
    found = found or segments(store, cluster_id)
    return [s for s in found if s.hour >= found[-1].hour - back]


def segments_of_day(store: Store, cluster_id: str, day: datetime) -> list[Segment]:
    """The segments of the hours of one day (UTC)."""
    keys = store.list(f"{cluster_prefix(cluster_id)}{day:%Y-%m-%d}")
    return [_segment(key) for key in keys]


def _segment(key: str) -> Segment:
    name = key.rpartition("/")[2].removesuffix(".jsonl")
    hour_text, _, sequence = name.rpartition("-")
    try:
        hour = datetime.strptime(hour_text, "%Y-%m-%dT%HZ").replace(tzinfo=UTC)
        return Segment(key, hour, int(sequence))
    except ValueError:
        raise SegmentDamaged(key, "its name is not <hour>-<sequence>.jsonl") from None


def _hour_text(hour: datetime) -> str:
    return hour.strftime("%Y-%m-%dT%HZ")


def parse_lines(key: str, body: bytes) -> Iterator[Line]:
    """The lines of a segment without its seal; raises SegmentDamaged if it is damaged.

    The seal is compared before the first line is returned, so every changed byte is found. The form
    of each line is also checked, because a seal may be valid for lines of another form.
    """
    for number, text in enumerate(_before_seal(key, body).splitlines(), start=1):
        try:
            line = msgspec.json.decode(text)
        except ValueError as cause:
            raise SegmentDamaged(key, f"line {number} is not JSON: {cause}") from None
        try:
            check_form(line)
        except ValueError as cause:
            raise SegmentDamaged(key, f"line {number} has another form: {cause}") from None
        if (number == 1) != (line["line"] == "opened"):
            raise SegmentDamaged(key, f"line {number} is `{line['line']}`; `opened` is the first")
        yield line


def _before_seal(key: str, body: bytes) -> bytes:
    """The lines before the seal; raises if the seal is missing or has another hash."""
    if not body.endswith(b"\n"):
        raise SegmentDamaged(key, "its last line has no end")
    last = body.rfind(b"\n", 0, -1) + 1
    try:
        seal = msgspec.json.decode(body[last:], type=_Seal)
    except ValueError:
        raise SegmentDamaged(key, "it does not end with its seal") from None
    found = sha256_bytes(body[:last])
    if seal.sha256 != found:
        seen = f"its lines have the hash {found[:12]}…, its seal says {seal.sha256[:12]}…"
        raise SegmentDamaged(key, seen)
    if not last:
        raise SegmentDamaged(key, "it has no line but its seal")
    return body[:last]


class _Seal(msgspec.Struct, tag_field="line", tag="sealed", forbid_unknown_fields=True):
    sha256: str


_Numbered = tuple[int, bytes]  # a line's position and its text


@lru_cache(maxsize=64)
def _hour_at(text: str) -> datetime:
    """The hour of a time. Cached, because all lines of a list have the same time."""
    return hour_of(parse_instant(text))


_text = msgspec.json.Encoder(order="sorted", enc_hook=as_text).encode


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A segment that is written, unchanged, until the store has it."""

    hour: datetime
    sequence: int
    lines: list[_Numbered]
    at: datetime
    body: bytes

    @property
    def line_count(self) -> int:
        return len(self.lines)


class JournalWriter:
    """Collects lines and writes them as segments of their hours."""

    def __init__(
        self, store: Store, cluster_id: str, collector: str, code_version: str, position: int = 0
    ) -> None:
        self.store = store
        self.cluster_id = cluster_id
        self.collector = collector
        self.code_version = code_version
        self.position = position
        # As text, because a line as a document needs ten times the memory.
        self.pending: dict[datetime, list[_Numbered]] = {}
        self.segment_count = 0
        self._sequences: dict[datetime, int] = {}
        self._listed_until: datetime | None = None  # hours whose earlier segments are known
        self._tried: _Prepared | None = None

    @property
    def pending_count(self) -> int:
        return sum(len(lines) for lines in self.pending.values())

    def add(self, lines: list[Line]) -> None:
        """Number the lines and keep them for their hours until the next flush."""
        for line in lines:
            hour = _hour_at(line["at"])
            numbered = (self.position, _text(line | {"position": self.position}))
            self.pending.setdefault(hour, []).append(numbered)
            self.position += 1

    def has_written(self, hour: datetime) -> bool:
        """Whether the hour has a line, pending or in a segment."""
        return hour in self.pending or bool(segments(self.store, self.cluster_id, hour))

    def flush(self, at: datetime) -> list[str]:
        """Write all pending lines, the oldest hour first; the keys of the written segments.

        If the store refuses, unwritten lines stay pending in order, and the same bytes are tried
        again under the same name: the store may have written them before it failed.
        """
        keys = []
        for hour in sorted(self.pending):
            while self.pending.get(hour):
                if self._tried is None or self._tried.hour != hour:
                    self._tried = self._prepare(hour, at)
                keys.append(self._write(self._tried))
                rest = self.pending[hour][self._tried.line_count :]
                self.pending[hour], self._tried = rest, None
            del self.pending[hour]
        return keys

    def _prepare(self, hour: datetime, at: datetime) -> _Prepared:
        sequence = self._sequences.get(hour) or self._first_sequence(hour)
        return self._prepared(hour, sequence, list(self.pending[hour]), at)

    def _prepared(
        self, hour: datetime, sequence: int, lines: list[_Numbered], at: datetime
    ) -> _Prepared:
        body = self._body(hour, sequence, lines, at)
        return _Prepared(hour, sequence, lines, at, body)

    def _write(self, tried: _Prepared) -> str:
        hour, first = tried.hour, tried.sequence
        while tried.sequence < first + SEGMENTS_PER_HOUR_LIMIT:
            key = segment_key(self.cluster_id, hour, tried.sequence)
            # The same bytes are our own: the response to an earlier try was lost.
            if self.store.create(key, tried.body) or self.store.read(key) == tried.body:
                # The previous hour may still get lines.
                near = {h: s for h, s in self._sequences.items() if h >= hour - HOUR}
                self._sequences = near | {hour: tried.sequence + 1}
                self.segment_count += 1
                return key
            sequence = max(tried.sequence + 1, self._next_sequence(hour))
            tried = self._prepared(hour, sequence, tried.lines, tried.at)
            self._tried = tried
        raise SegmentDamaged(
            segment_key(self.cluster_id, hour, first),
            f"more than {SEGMENTS_PER_HOUR_LIMIT} segments in one hour",
        )

    def _first_sequence(self, hour: datetime) -> int:
        """The next sequence of an hour: 1 if the hour began after the start of this process.

        The names of a store with a year of segments are not listed for every hour. A second
        collector is noticed when a name already exists.
        """
        if self._listed_until is not None and hour > self._listed_until:
            return 1
        self._listed_until = max(hour, self._listed_until or hour)
        return self._next_sequence(hour)

    def _next_sequence(self, hour: datetime) -> int:
        there = segments(self.store, self.cluster_id, hour)
        return there[-1].sequence + 1 if there else 1

    def _body(self, hour: datetime, sequence: int, lines: list[_Numbered], at: datetime) -> bytes:
        opened: Line = {
            "line": "opened",
            "at": format_instant(at),
            "version": JOURNAL_VERSION,
            "cluster_id": self.cluster_id,
            "collector": self.collector,
            "code_version": self.code_version,
            "hour": format_instant(hour),
            "sequence": sequence,
            "position": lines[0][0],
        }
        texts = [_text(opened), *(text for _, text in lines)]
        digest = hashlib.sha256()
        for text in texts:
            digest.update(text + b"\n")
        # Joined once: a complete list of a large cluster has tens of megabytes.
        return b"\n".join([*texts, _text(_Seal(digest.hexdigest())), b""])
