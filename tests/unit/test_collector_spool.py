"""Segments are complete or absent, written once, in their hour; a full spool loses nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.identity import sha256_bytes
from domain.interval import format_instant
from ingestion.kubernetes.journal import (
    JournalWriter,
    SegmentDamaged,
    latest_segments,
    parse_lines,
    segment_key,
    segments,
)
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.recover import recover
from tests.collected import World, world
from tests.small_fleets import HOUR, MIDNIGHT, quiet_cluster
from tests.store_in_memory import MemoryStore
from warehouse.manifest import Outcome
from warehouse.store import FolderStore, Keys, Store, StoreUnusable

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
MIDNIGHT_AT = datetime(2026, 10, 1, tzinfo=UTC)
CLUSTER = "prod-eu"


def line(seconds: int, **parts: object) -> Line:
    return {"line": "broken", "at": format_instant(NOON + timedelta(seconds=seconds))} | parts


def writer(store: FolderStore, name: str = "one", position: int = 0) -> JournalWriter:
    return JournalWriter(store, CLUSTER, name, "0.1.0", position)


def written(store: Store) -> list[Line]:
    found = []
    for segment in segments(store, CLUSTER):
        found += list(parse_lines(segment.key, store.read(segment.key)))
    return found


def test_lines_go_to_the_segment_of_their_hour_in_order(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    journal = writer(store)
    journal.add([line(10), line(3590), line(3600), line(3700)])
    assert journal.flush(NOON + timedelta(seconds=3700)) == [
        "journal/prod-eu/2026-10-01T12Z-000001.jsonl",
        "journal/prod-eu/2026-10-01T13Z-000001.jsonl",
    ]
    assert [x["position"] for x in written(store) if x["line"] == "broken"] == [0, 1, 2, 3]
    journal.add([line(3800)])
    journal.flush(NOON)
    assert [s.sequence for s in segments(store, CLUSTER, NOON + timedelta(hours=1))] == [1, 2]


def test_a_segment_names_its_cluster_and_writer(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    journal = writer(store, "collector-7f9", position=41)
    journal.add([line(10)])
    journal.flush(NOON)
    assert written(store)[0] == {
        "line": "opened",
        "at": "2026-10-01T12:00:00Z",
        "version": 2,
        "cluster_id": CLUSTER,
        "collector": "collector-7f9",
        "code_version": "0.1.0",
        "hour": "2026-10-01T12:00:00Z",
        "sequence": 1,
        "position": 41,
    }


def test_two_writers_take_different_sequences(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    one, two = writer(store, "one"), writer(store, "two")
    for turn in range(3):
        for journal in (one, two):
            journal.add([line(turn)])
            journal.flush(NOON)
    there = segments(store, CLUSTER)
    assert [s.sequence for s in there] == [1, 2, 3, 4, 5, 6]
    who = [written_by(store, s.key) for s in there]
    assert who.count("one") == who.count("two") == 3


def written_by(store: FolderStore, key: str) -> str:
    return str(next(parse_lines(key, store.read(key)))["collector"])


@dataclass
class Forgetful(FolderStore):
    """A store whose write succeeds and then raises an error."""

    folder: Path
    failures: int = 1
    refused: list[str] = field(default_factory=list)

    def create(self, key: str, body: bytes) -> bool:
        made = super().create(key, body)
        if made and self.failures:
            self.failures -= 1
            raise StoreUnusable(self.location, f"write {key}", OSError(5, "I/O error"))
        return made


def test_a_durable_write_with_an_error_is_not_repeated(tmp_path: Path) -> None:
    store = Forgetful(tmp_path)
    journal = writer(store)
    journal.add([line(10), line(20)])
    with pytest.raises(StoreUnusable):
        journal.flush(NOON)
    assert journal.pending_count == 2
    assert journal.flush(NOON) == ["journal/prod-eu/2026-10-01T12Z-000001.jsonl"]
    assert len(segments(store, CLUSTER)) == 1
    assert len([x for x in written(store) if x["line"] == "broken"]) == 2


class Full(FolderStore):
    """A disk that is full until space is freed."""

    full = False

    def create(self, key: str, body: bytes) -> bool:
        if self.full:
            raise StoreUnusable(self.location, f"write {key}", OSError(28, "No space left"))
        return super().create(key, body)

    def list(self, prefix: str) -> Keys:
        return super().list(prefix)


def test_a_full_disk_loses_nothing_and_writing_resumes(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.spool = disk = Full(tmp_path / "spool")
        collector = made.start_collector(flush_seconds=60)
        made.advance(600 + 60)
        disk.full = True
        made.advance(1800)  # `short` starts and ends meanwhile
        assert "No space left" in collector.health.spool_trouble
        assert not collector.health.is_ready(made.clock.now())
        disk.full = False
        made.advance(HOUR - 1860)
        assert collector.health.spool_trouble == ""
        attempt = made.pull()
        assert [h.reason for h in attempt.hours] == [""]
        told = [r["via"] for r in made.rows(attempt)["pod_observations"]
                if r["pod_name"] == "short"]  # fmt: skip
        assert told[0] == "added"
        assert told[-1] == "deleted"


OPENED = (
    b'{"line":"opened","at":"2026-10-01T12:00:00Z","version":2,"cluster_id":"c",'
    b'"hour":"2026-10-01T12:00:00Z","position":0}\n'
)
BROKEN = b'{"line":"broken","at":"2026-10-01T12:00:00Z","position":0}\n'


def sealed(lines: bytes) -> bytes:
    return lines + b'{"line":"sealed","sha256":"%s"}\n' % sha256_bytes(lines).encode()


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (b"", "its last line has no end"),
        (OPENED[:-1], "its last line has no end"),
        (OPENED, "it does not end with its seal"),
        (OPENED.replace(b'"version":2', b'"version":1'), "it does not end with its seal"),
        (sealed(b""), "it has no line but its seal"),
        (
            OPENED + b'{"line":"sealed","sha256":"0123456789abcdef"}\n',
            "its lines have the hash 59e9545e119e…, its seal says 0123456789ab…",
        ),
        (sealed(OPENED + b"not json\n"), "line 2 is not JSON"),
        (sealed(BROKEN), "line 1 is `broken`; `opened` is the first"),
        (sealed(OPENED + OPENED), "line 2 is `opened`; `opened` is the first"),
    ],
)
def test_an_invalid_segment_is_refused(body: bytes, seen: str) -> None:
    with pytest.raises(SegmentDamaged, match=seen):
        list(parse_lines("journal/c/2026-10-01T12Z-000001.jsonl", body))


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `line`"),
        ('{"line":"broken","position":0}', "missing required field `at`"),
        ('{"line":"broken","at":"2026-02-30T00:00:00Z","position":0}', r"a time - at `\$.at`"),
        ('{"line":"broken","at":7,"position":0}', r"a time - at `\$.at`"),
        ('{"line":"broken","at":"2026-10-01T12:00:00Z","position":"0"}', r"`\$.position`"),
        ('{"line":"new","at":"2026-10-01T12:00:00Z","position":0}', "Invalid value 'new'"),
        (
            '{"line":"watched","at":"2026-10-01T12:00:10Z","until":"2026-10-01T12:00:00Z",'
            '"resource":"pods","position":0}',
            "an end after its start",
        ),
        (
            '{"line":"object","at":"2026-10-01T12:00:00Z","resource":"secrets","via":"list",'
            '"position":0,"object":{}}',
            "Invalid enum value 'secrets'",
        ),
        (
            '{"line":"object","at":"2026-10-01T12:00:00Z","resource":"pods","via":"list",'
            '"position":0,"object":{"metadata":{"uid":7}}}',
            "got `int` - at `\\$.object.metadata.uid`",
        ),
    ],
)
def test_an_invalid_line_is_named_by_its_place(line: str, seen: str) -> None:
    body = sealed(OPENED + line.encode() + b"\n")
    with pytest.raises(SegmentDamaged, match=f"line 2 has another form: .*{seen}"):
        list(parse_lines("journal/c/2026-10-01T12Z-000001.jsonl", body))


def test_a_segment_of_another_version_is_refused() -> None:
    body = sealed(OPENED.replace(b'"version":2', b'"version":1'))
    with pytest.raises(SegmentDamaged, match=r"line 1 has another form: .*`\$.version`"):
        list(parse_lines("journal/c/2026-10-01T12Z-000001.jsonl", body))


def test_an_hour_with_an_invalid_line_is_degraded(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector(flush_seconds=600)
        made.advance(600 + 2 * HOUR)
        made.stop_collector()
        key = next(key for key in made.spool.list("journal/") if "2026-10-01T00Z" in key)
        path = made.spool.folder / key
        lines = path.read_bytes()[: path.read_bytes().rindex(b'{"line":"sealed"')]
        path.write_bytes(sealed(lines.replace(b'"uid":"', b'"id":"')))
        attempt = made.pull(2)
        assert [hour.outcome for hour in attempt.hours] == [Outcome.DEGRADED, Outcome.OK]
        assert attempt.hours[0].reason.startswith(f"{key}: line ")
        assert "has another form" in attempt.hours[0].reason
        assert made.rows(attempt)  # the other segments are read


def test_a_segment_with_a_flipped_bit_is_refused_whole(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    journal = writer(store)
    journal.add([line(10, number=1), line(20, text="å")])
    [key] = journal.flush(NOON)
    body = store.read(key)
    assert [x.get("number") for x in parse_lines(key, body)] == [None, 1, None]
    for place in range(len(body)):
        for bit in range(8):
            changed = body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :]
            with pytest.raises(SegmentDamaged):
                next(parse_lines(key, changed))
    for end in range(len(body)):
        with pytest.raises(SegmentDamaged):
            next(parse_lines(key, body[:end]))


def test_an_invalid_name_is_refused(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.create("journal/prod-eu/notes.jsonl", b"x")
    with pytest.raises(SegmentDamaged, match="its name is not"):
        segments(store, CLUSTER)


def test_a_key_can_be_parsed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    key = segment_key(CLUSTER, NOON, 7)
    store.create(key, b"x")
    (segment,) = segments(store, CLUSTER)
    assert (segment.key, segment.hour, segment.sequence) == (key, NOON, 7)


def test_the_last_segments_are_found_by_day_or_in_the_whole_journal(
    tmp_path: Path,
) -> None:
    store = FolderStore(tmp_path)
    back = timedelta(hours=48)
    old = [NOON - timedelta(days=days) for days in (30, 3, 2, 1)]
    for hour in old:
        store.create(segment_key(CLUSTER, hour, 1), b"x")
    found = latest_segments(store, CLUSTER, NOON + timedelta(hours=2), back)
    assert [s.hour for s in found] == old[2:]
    months_later = latest_segments(store, CLUSTER, NOON + timedelta(days=90), back)
    assert [s.hour for s in months_later] == old[1:]


def test_an_unwritten_journal_is_recovered_as_empty(tmp_path: Path) -> None:
    state = JournalState()
    assert recover(FolderStore(tmp_path), CLUSTER, state, NOON) == 0
    assert state.last_at is None


def test_unwatched_hours_leave_nothing_in_the_spool(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector()
        made.advance(60)
        made.stop_collector()
        for _ in range(20):
            made.clock.advance(24 * HOUR)
        made.start_collector()
        made.advance(HOUR)
        hours = [line["hour"] for line in made.lines("hour_closed")]
        assert hours == ["2026-09-30T23:00:00Z", "2026-10-20T23:00:00Z"]
        (gap,) = made.lines("gap", resource="pods")
        assert (gap["from"], gap["until"]) == ("2026-09-30T23:51:00Z", "2026-10-20T23:51:00Z")


def damage(made: World, key: str) -> None:
    path = made.spool.folder / key
    path.write_bytes(path.read_bytes()[:-20])


def test_a_damaged_segment_is_landed_unchanged_and_reported(tmp_path: Path) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector(flush_seconds=600)
        made.advance(600 + 2 * HOUR)
        key = "journal/11111111-aaaa-4bbb-8ccc-000000000001/2026-10-01T00Z-000003.jsonl"
        damage(made, key)
        attempt = made.pull(2)
        first, second = attempt.hours
        assert (first.outcome, second.outcome) == (Outcome.DEGRADED, Outcome.OK)
        assert first.reason == f"{key}: its last line has no end"
        (answer,) = [a for a in attempt.answers if a.query == key]
        assert made.landing.read_body(answer.sha256) == made.spool.read(key)
        assert made.rows(attempt)["pod_observations"]


def test_a_flipped_bit_in_a_segment_is_reported_and_never_evidence(
    tmp_path: Path,
) -> None:
    """The decoded rows are those of the other segments."""
    rng = random.Random(12)
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector(flush_seconds=600)
        made.advance(600 + 2 * HOUR)
        made.stop_collector()
        keys = [key for key in made.spool.list("journal/") if "2026-10-01T00Z" in key]
        assert len(keys) > 4
        for key in keys:
            path = made.spool.folder / key
            body = bytearray(path.read_bytes())
            whole = bytes(body)
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            path.write_bytes(body)
            first, second = (attempt := made.pull(2)).hours
            assert (first.outcome, second.outcome) == (Outcome.DEGRADED, Outcome.OK)
            assert first.reason.startswith(f"{key}: ")
            path.unlink()
            without = made.pull(2)
            assert made.rows(attempt) == made.rows(without)
            path.write_bytes(whole)
        assert made.pull(2).outcome is Outcome.OK


def test_a_segment_of_another_hour_or_cluster_is_not_decoded(
    tmp_path: Path,
) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector(flush_seconds=600)
        made.advance(600 + 2 * HOUR)
        made.stop_collector()
        cluster_id = made.cluster.cluster_id
        there = made.rows(made.pull(2))
        [before, *_] = [key for key in made.spool.list("journal/") if "2026-10-01T00Z" in key]
        stray = f"journal/{cluster_id}/2026-10-01T01Z-000099.jsonl"
        of_hour = f"it says that it is of cluster {cluster_id}, hour 2026-10-01T00:00:00Z"
        of_cluster = "it says that it is of cluster other, hour 2026-10-01T01:00:00Z"
        hour = MIDNIGHT_AT + timedelta(hours=1)
        other = JournalWriter(FolderStore(tmp_path / "other"), "other", "one", "0.1.0")
        other.add([line(0) | {"at": format_instant(hour)}])
        [key] = other.flush(hour)
        for body, seen in (
            (made.spool.read(before), of_hour),
            (other.store.read(key), of_cluster),
        ):
            (made.spool.folder / stray).write_bytes(body)
            attempt = made.pull(2)
            assert [one.outcome for one in attempt.hours] == [Outcome.OK, Outcome.DEGRADED]
            assert attempt.hours[1].reason == f"{stray}: {seen}"
            assert made.rows(attempt) == there


def test_a_collector_lists_again_after_a_damaged_segment(
    tmp_path: Path,
) -> None:
    with world(quiet_cluster(), tmp_path, MIDNIGHT - 600) as made:
        made.start_collector(flush_seconds=600)
        made.advance(600 + 1300)
        made.stop_collector()
        damage(made, made.spool.list("journal/")[-1])
        made.start_collector()
        made.advance(HOUR - 1300)
        gaps = [line for line in readable(made) if line["line"] == "gap"]
        (gap,) = [line for line in gaps if line["resource"] == "pods"]
        assert (gap["from"], gap["until"]) == ("2026-10-01T00:20:00Z", "2026-10-01T00:21:40Z")
        positions = [x["position"] for x in readable(made) if x["line"] != "opened"]
        assert len(positions) == len(set(positions))


def readable(made: World) -> list[Line]:
    found: list[Line] = []
    for segment in segments(made.spool, made.cluster.cluster_id):
        try:
            found += list(parse_lines(segment.key, made.spool.read(segment.key)))
        except SegmentDamaged:
            continue
    return found


class CountingStore(MemoryStore):
    """A store that counts how often its names are listed."""

    listed_count = 0

    def list(self, prefix: str) -> Keys:
        self.listed_count += 1
        return super().list(prefix)


def test_a_spool_of_a_year_is_not_listed_every_hour() -> None:
    store = CountingStore()
    journal = JournalWriter(store, CLUSTER, "one", "0.1.0")
    for hour in range(24):
        journal.add([line(3600 * hour), line(3600 * hour + 3599)])
        journal.flush(NOON + timedelta(hours=hour, minutes=59))
        journal.add([line(3600 * hour + 3600), line(3600 * hour + 3599)])
        journal.flush(NOON + timedelta(hours=hour + 1))
    assert store.listed_count == 1
    sequences = [s.sequence for s in segments(store, CLUSTER)]
    assert sequences == [1, 2, *([1, 2, 3] * 23), 1]


def test_two_writers_of_a_later_hour_take_consecutive_sequences() -> None:
    store = CountingStore()
    ours, theirs = (JournalWriter(store, CLUSTER, name, "0.1.0") for name in ("one", "two"))
    for journal, seconds in ((ours, 0), (theirs, 1), (theirs, 3600), (theirs, 3601), (ours, 3602)):
        journal.add([line(seconds)])
        journal.flush(NOON + timedelta(seconds=seconds))
    later = NOON + timedelta(hours=1)
    assert [s.sequence for s in segments(store, CLUSTER, later)] == [1, 2, 3]
    assert len([x for x in written(store) if x["line"] == "broken"]) == 5
