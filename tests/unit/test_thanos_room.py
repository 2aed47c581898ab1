"""Large answers: one in memory at a time, with the same evidence as if they were small.

Put here: who waits for whom.
Not here: the largest answer that is taken at all (`test_thanos_client`), or the memory of a day of
a large cluster, which is measured (`bench_pull`).
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread

import httpx
import pytest

from domain.clock import StoppedClock
from domain.interval import HOUR, Interval
from ingestion.landing import Landing
from ingestion.manifest import Attempt, Outcome
from ingestion.settings import Connection
from ingestion.thanos import room as room_module
from ingestion.thanos.client import TRIES_LIMIT, ThanosClient
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.room import LARGE_BYTES, Room
from tests.samples_by_hand import CLUSTER, TEN, Form, Server, every_ten_minutes, healthy, matrix
from warehouse.store import FolderStore

LARGE = LARGE_BYTES + 1
MANY = 4


def test_one_large_body_is_in_memory_at_a_time() -> None:
    room, counting = Room(), Lock()
    now, most = [0], [0]

    def fetch(_: int) -> None:
        with room:
            room.take(LARGE)
            room.take(LARGE)  # it grows, and is still the same
            with counting:
                now[0] += 1
                most[0] = max(most[0], now[0])
            Event().wait(0.01)
            with counting:
                now[0] -= 1

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(fetch, range(2 * MANY)))
    assert most == [1]


def test_small_bodies_and_those_who_look_only_wait_for_nobody() -> None:
    room = Room()
    with room, ThreadPoolExecutor(1) as pool:
        room.take(LARGE)

        def small() -> str:
            with room:
                room.take(LARGE_BYTES)
            room.take(LARGE)  # outside of the room: a probe that asks one question
            return "passed"

        assert pool.submit(small).result(timeout=60) == "passed"


def test_room_is_left_when_a_body_breaks_off() -> None:
    room = Room()

    def broken_off() -> None:
        with room:
            room.take(LARGE)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        broken_off()
    with room, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: room.__enter__().take(LARGE)).result(timeout=60)


def test_waiting_for_room_is_no_slowness_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another large body arrives for longer than an answer may take."""
    monkeypatch.setattr(room_module, "LARGE_BYTES", 1)
    body = httpx.ByteStream(b'{"status":"success"}')
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=body))
    with ThanosClient(Connection("http://hub.test", timeout_seconds=1), transport) as client:
        taken = Event()

        def other() -> None:
            with client.room as room:
                room.take(LARGE)
                taken.set()
                Event().wait(1.5)

        with ThreadPoolExecutor(1) as pool, client.room:
            pool.submit(other)
            assert taken.wait(60)
            assert client.post("/", {}).failure == ""


def test_whoever_waits_to_ask_again_leaves_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "LARGE_BYTES", 1)
    passed = []

    def other() -> None:
        with client.room as room:
            room.take(LARGE)
            passed.append(True)

    def wait(_: float) -> None:
        let_in = Thread(target=other, daemon=True)
        let_in.start()
        let_in.join(5)

    busy = httpx.MockTransport(lambda _: httpx.Response(503, stream=httpx.ByteStream(b"busy")))
    with ThanosClient(Connection("http://hub.test"), busy, wait=wait) as client, client.room:
        assert client.post("/", {}).status == 503
        assert passed == [True] * (TRIES_LIMIT - 1)


def answered(form: Form) -> httpx.Response:
    """One metric is not the protocol, one is too much at once, and the rest says something."""
    query = form["query"]
    if "kube_pod_owner" in query and "kube_pod_info" in query:
        said = b'{"status":"error","errorType":"x","error":"too many samples"}'
        return httpx.Response(422, headers={"content-type": "application/json"}, content=said)
    if "kube_node_role" in query:
        return matrix(({"__name__": "kube_node_role"}, [[1, "1"], [2, None]]))  # type: ignore[list-item]
    if "[" in query and "_over_time" not in query and "kube_pod_info" in query:
        return matrix(({"__name__": "kube_pod_info", "uid": "u1"}, every_ten_minutes("1")))
    return healthy(form)


@pytest.mark.parametrize("answer", [healthy, answered])
def test_what_waits_packed_is_the_same_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    asked = pull(tmp_path / "small", answer)
    monkeypatch.setattr(room_module, "LARGE_BYTES", 1)
    again = pull(tmp_path / "large", answer)
    assert [one.outcome for one in asked.answers] == [one.outcome for one in again.answers]
    assert Outcome.OK in {one.outcome for one in again.answers}
    assert files(tmp_path / "large") == files(tmp_path / "small")


def pull(home: Path, answer: object) -> Attempt:
    window = Interval(TEN, TEN + HOUR)
    clock = StoppedClock(TEN + timedelta(days=2))
    landing = Landing(FolderStore(home / "landing"))
    client = Server(answer).client()  # type: ignore[arg-type]
    return pull_hours(CLUSTER, window, landing, home / "runs", clock, client)


def files(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file()
    }
