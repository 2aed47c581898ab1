"""The journal against a naive observer with the whole history, for random pods and faults.

The model is a list of pods with the times of their events. The naive observer knows all of it. The
state machine receives it through a stream that repeats events, breaks, expires and lists in part.
Its journal must never contradict the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from domain.interval import parse_instant
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.recover import replay
from tests.kubernetes_by_hand import (
    NOON,
    broken,
    event_of,
    listed,
    mark,
    pod,
    running,
    tell,
    terminated,
    text,
)

SPAN = 600  # seconds of a random history


@dataclass(frozen=True)
class Life:
    """One pod: seconds after noon; a later event may never happen."""

    uid: str
    created: int
    bound: int
    started: int
    ended: int
    gone: int

    def document(self, at: int, version: int) -> dict[str, Any]:
        if at < self.bound:
            return pod(self.uid, version, phase="Pending", states={}, bound=None)
        if at < self.started:
            return pod(self.uid, version, phase="Pending", states={}, bound=self.bound)
        if at < self.ended:
            states = {"main": running(self.started)}
            return pod(self.uid, version, states=states, bound=self.bound)
        states = {"main": terminated(self.started, self.ended)}
        return pod(self.uid, version, phase="Succeeded", states=states, bound=self.bound)

    def changes(self) -> list[tuple[int, str]]:
        steps = [(self.created, "ADDED"), (self.bound, "MODIFIED"), (self.started, "MODIFIED")]
        return [*steps, (self.ended, "MODIFIED"), (self.gone, "DELETED")]


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        created = draw(st.integers(-300, SPAN))
        gaps = [draw(st.integers(0, 200)) for _ in range(4)]
        times = [created + sum(gaps[: i + 1]) for i in range(4)]
        found.append(Life(f"pod-{number}", created, *times))
    return found


@dataclass(frozen=True)
class Change:
    at: int
    verb: str
    life: Life
    version: int


def history(pods: list[Life]) -> list[Change]:
    """All changes in order, with numbers like those of a server."""
    ordered = sorted(
        (
            (at, index, verb, life)
            for life in pods
            for index, (at, verb) in enumerate(life.changes())
        ),
        key=lambda change: (change[0], change[3].uid, change[1]),
    )
    return [
        Change(at, verb, life, 1001 + number) for number, (at, _, verb, life) in enumerate(ordered)
    ]


class Server:
    """The responses of an API server."""

    def __init__(self, changes: list[Change]) -> None:
        self.changes = changes

    def version(self, at: int) -> int:
        return 1000 + sum(1 for c in self.changes if c.at <= at)

    def documents(self, at: int) -> list[dict[str, Any]]:
        there: dict[str, dict[str, Any]] = {}
        for change in self.changes:
            if change.at > at:
                break
            if change.verb == "DELETED":
                there.pop(change.life.uid, None)
            else:
                document = change.life.document(change.at, change.version)
                there[change.life.uid] = document
        return [there[uid] for uid in sorted(there)]

    def events(self, after: int, until: int) -> list[Change]:
        return [c for c in self.changes if after < c.version <= self.version(until)]


# The event at each second: one change, a repeated change, a cut, a cut with expired history, an
# hourly list, an incomplete list.
STEPS = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.sampled_from(["told", "told", "told", "twice", "cut", "gap", "hourly", "half"]),
    ),
    min_size=3,
    max_size=25,
)


def play(pods: list[Life], steps: list[tuple[int, str]]) -> tuple[JournalState, list[Line], int]:
    """The state, every line, and the last second of the history."""
    server = Server(history(pods))
    state, now = JournalState(), 0
    begin = server.version(0)
    lines = tell(state, listed(*server.documents(0), version=begin, seconds=0), mark(begin, 0))
    connected = True
    for seconds, what in steps:
        now += seconds
        stream = state.streams["pods"]
        if what in ("cut", "gap"):
            lines += tell(state, broken(now))
            connected = False
            if what == "gap":
                lines += relist(state, server, now)
                connected = True
            continue
        if what == "half":
            half = server.documents(now)[::2]
            lines += tell(state, listed(*half, version=0, seconds=now, why="hourly",
                                        complete=False, reason="cut"))  # fmt: skip
        if what == "hourly":
            documents = server.documents(now)
            lines += tell(state, listed(*documents, version=server.version(now), seconds=now,
                                        why="hourly"))  # fmt: skip
        for _ in range(2 if what == "twice" else 1):
            for change in server.events(stream.version if connected else 0, now):
                document = change.life.document(change.at, change.version)
                lines += tell(state, event_of(change.verb, document, now))
        connected = True
        lines += tell(state, mark(server.version(now), now))
        lines += second_looks(state, server, now)
    return state, lines, now


def relist(state: JournalState, server: Server, now: int) -> list[Line]:
    documents = server.documents(now)
    lines = tell(state, listed(*documents, version=server.version(now), seconds=now,
                               why="expired"))  # fmt: skip
    return [*lines, *second_looks(state, server, now)]


def second_looks(state: JournalState, server: Server, now: int) -> list[Line]:
    lines: list[Line] = []
    while state.second_look:
        state.second_look.discard("pods")
        lines += tell(state, listed(*server.documents(now), version=server.version(now),
                                    seconds=now, why="second_look"))  # fmt: skip
    return lines


def pod_lines(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["line"] == "object"]


def second(time: str) -> int:
    return int((parse_instant(time) - NOON).total_seconds())


@given(lives(), STEPS)
def test_the_journal_agrees_with_the_truth(pods: list[Life], steps: list[tuple[int, str]]) -> None:
    """Times of binding, start and end in the journal are those of the pod."""
    _, lines, _ = play(pods, steps)
    by_uid = {life.uid: life for life in pods}
    for line in pod_lines(lines):
        life, facts = by_uid[line["object"]["metadata"]["uid"]], line["facts"]
        assert facts["bound_at"] in ("", text(life.bound))
        assert facts["started_at"] in ("", text(life.started))
        assert facts["ended_at"] in ("", text(life.ended))


@given(lives(), STEPS)
def test_a_gone_pod_is_gone_and_existed_when_last_seen(
    pods: list[Life], steps: list[tuple[int, str]]
) -> None:
    _, lines, _ = play(pods, steps)
    by_uid = {life.uid: life for life in pods}
    for line in pod_lines(lines):
        if line["via"] not in ("deleted", "gone"):
            continue
        life = by_uid[line["object"]["metadata"]["uid"]]
        assert life.gone <= second(line["at"])
        if "last_seen_at" in line and line["via"] == "gone":
            assert second(line["last_seen_at"]) < life.gone or life.gone == life.created


@given(lives(), STEPS)
def test_open_pods_at_the_end_are_the_pods_that_exist(
    pods: list[Life], steps: list[tuple[int, str]]
) -> None:
    state, _, now = play(pods, [*steps, (1, "told")])
    there = {life.uid for life in pods if life.created <= now < life.gone}
    assert set(state.streams["pods"].records) == there


@given(lives(), STEPS)
def test_no_pod_is_deleted_twice_and_none_comes_after_its_deletion(
    pods: list[Life], steps: list[tuple[int, str]]
) -> None:
    _, lines, _ = play(pods, steps)
    ended: set[str] = set()
    for line in pod_lines(lines):
        uid = line["object"]["metadata"]["uid"]
        assert uid not in ended
        if line["via"] in ("deleted", "gone"):
            ended.add(uid)


@given(lives(), STEPS)
def test_a_pod_outside_all_gaps_is_recorded_completely(
    pods: list[Life], steps: list[tuple[int, str]]
) -> None:
    """The journal has all times of every pod that ended during an unbroken watch."""
    _, lines, now = play(pods, [*steps, (1, "told")])
    gaps = [(second(g["from"]), second(g["until"])) for g in lines if g["line"] == "gap"]
    last: dict[str, Line] = {}
    for line in pod_lines(lines):
        last[line["object"]["metadata"]["uid"]] = line
    for life in pods:
        touched = any(a < life.gone and life.created <= b for a, b in gaps)
        if touched or life.gone <= 0 or life.gone > now:
            continue
        facts = last[life.uid]["facts"]
        assert facts["bound_at"] == text(life.bound)
        assert facts["started_at"] == text(life.started)
        assert facts["ended_at"] == text(life.ended)
        assert last[life.uid]["via"] == "deleted"


@given(lives(), STEPS, st.integers(0, 30))
def test_the_journal_can_be_read_back_into_the_state_that_wrote_it(
    pods: list[Life], steps: list[tuple[int, str]], cut: int
) -> None:
    """After a kill at any line, recovery gives the state at the time of that line."""
    state, lines, _ = play(pods, steps[:cut])
    written = [json.loads(json.dumps(line, default=dict)) for line in lines]
    written += state.streams["pods"].take_watched_interval()
    recovered = JournalState()
    for line in written:
        replay(recovered, line)
    before, after = state.streams["pods"], recovered.streams["pods"]
    assert after.records.keys() == before.records.keys()
    for uid, record in before.records.items():
        known = after.records[uid].facts
        assert (known.started_at, known.ended_at, known.bound_at) == (
            record.facts.started_at,
            record.facts.ended_at,
            record.facts.bound_at,
        )
    assert after.version == before.version
    assert after.tombstones.keys() == before.tombstones.keys()
    assert (after.heard_until is None) == (before.heard_until is None)


@given(lives(), STEPS)
def test_repeated_events_change_nothing(pods: list[Life], steps: list[tuple[int, str]]) -> None:
    once = [(s, "told" if w == "twice" else w) for s, w in steps]
    twice = [(s, "twice" if w == "told" else w) for s, w in once]
    assert play(pods, once)[1] == play(pods, twice)[1]
