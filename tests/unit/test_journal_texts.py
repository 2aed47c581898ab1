"""Lists as a server's text: what of them is read, and what is written of what is not read again.

Put here: the collector's memory against texts. Not here: its rules (`test_journal_state`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingestion.kubernetes.documents import LazyObject, as_text, page_of
from ingestion.kubernetes.lines import Line
from ingestion.kubernetes.observations import Listed, ListedPage, OwnerSeen
from ingestion.kubernetes.rows import Known, rows_of
from ingestion.kubernetes.spool import JournalWriter
from ingestion.kubernetes.state import JournalState
from tests.kubernetes_by_hand import at, listed, mark, pod, running, tell, terminated, text, vias
from tests.store_in_memory import MemoryStore


class Reading:
    """Reads the text of an object, and counts whose was read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, text: bytes | msgspec.Raw) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(text)
        self.read.append(document["metadata"]["uid"])
        return document

    def page(self, *documents: dict[str, Any], version: int, seconds: int) -> ListedPage:
        """The page of an hourly list, as a server's text."""
        body = {"metadata": {"resourceVersion": str(version)}, "items": documents}
        page = page_of(msgspec.json.encode(body), self)
        assert page is not None, "a list as every server writes it"
        moment = at(seconds)
        return ListedPage("pods", moment, "hourly", page.documents, version, True, moment)

    def hour(
        self, state: JournalState, *documents: dict[str, Any], version: int, seconds: int
    ) -> tuple[list[str], list[Line]]:
        """An hour's list: whose text was read, and the lines."""
        self.read.clear()
        page = self.page(*documents, version=version, seconds=seconds)
        state.unknown_owners(page.documents)
        end = Listed("pods", at(seconds), at(seconds), "hourly", (), version, paged=True)
        return sorted(set(self.read)), tell(state, page, end)


def test_of_a_list_only_what_changed_is_read() -> None:
    state, reading = JournalState(), Reading()
    plain = pod("cpu", 11, gpus=0)
    first, _ = reading.hour(state, pod("a", 10), plain, version=100, seconds=0)
    second, lines = reading.hour(state, pod("a", 10), plain, version=200, seconds=3600)
    changed = pod("a", 250, states={"main": running(4000)}, restarts=1)
    third, _ = reading.hour(state, changed, plain, version=300, seconds=7200)
    asks = pod("cpu", 350, gpus=1)
    fourth, more = reading.hour(state, changed, asks, version=400, seconds=10800)
    assert (first, second, third, fourth) == (["a", "cpu"], [], ["a"], ["cpu"])
    assert vias(lines) == [("a", "hourly_list")]
    assert vias(more) == [("a", "hourly_list"), ("cpu", "hourly_list")]


def test_what_is_not_read_again_is_written_as_if_it_were() -> None:
    """Byte for byte: the line of a list that said nothing new is that of one that is new."""
    state, reading, over = JournalState(), Reading(), pod("b", 12, phase="Succeeded", states={
        "main": terminated(10, 90)})  # fmt: skip
    documents = (pod("a", 10), pod("e", 11, name='é\N{GRINNING FACE}"\\\x7f'), over)
    reading.hour(state, *documents, version=100, seconds=0)
    read, lines = reading.hour(state, *documents, version=200, seconds=3600)
    anew = JournalState()
    tell(anew, listed(over, version=50, seconds=-10))
    expected = tell(anew, listed(*documents, version=200, seconds=3600, why="hourly"))
    written = JournalWriter(MemoryStore(), "c-1", "test", "1")
    again = JournalWriter(MemoryStore(), "c-1", "test", "1")
    written.add([line for line in lines if line["line"] != "listed"])
    again.add([line for line in expected if line["line"] != "listed"])
    assert read == []
    assert written.pending == again.pending
    assert written.pending_count == 3


def test_after_a_store_was_set_back_a_list_is_read_whole() -> None:
    state, reading = JournalState(), Reading()
    plain = pod("cpu", 11, gpus=0)
    reading.hour(state, pod("a", 10), plain, version=100, seconds=0)
    tell(state, mark(110, 5), mark(90, 10))
    _, lines = reading.hour(state, pod("a", 10), plain, version=95, seconds=3600)
    assert sorted(set(reading.read)) == ["a", "cpu"]
    assert vias(lines) == [("a", "hourly_list")]


def test_a_list_that_broke_off_and_was_begun_again_forgets_nobody_who_asks_for_no_device() -> None:
    state, reading = JournalState(), Reading()
    plain = pod("cpu", 11, gpus=0)
    reading.hour(state, plain, version=100, seconds=0)
    tell(state, reading.page(plain, version=150, seconds=1800))  # its token expired
    read, _ = reading.hour(state, plain, version=200, seconds=3600)
    assert read == []


def test_an_owner_of_whom_nobody_answered_is_asked_for_with_the_next_list() -> None:
    owned = pod("a", 10)
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-1"}
    owned["metadata"]["ownerReferences"] = [controller | {"controller": True}]
    state, reading = JournalState(), Reading()
    page = reading.page(owned, version=100, seconds=0)
    tell(state, page)
    wanted = controller | {"namespace": "team-a"}
    assert state.unknown_owners(page.documents) == {"j-1": wanted}
    tell(state, OwnerSeen("owners", at(1), "j-1", {"metadata": {}}))
    again = reading.page(owned, version=200, seconds=3600)
    reading.read.clear()
    assert (state.unknown_owners(again.documents), reading.read) == ({}, [])


def test_the_same_status_with_other_facts_is_another_statement() -> None:
    (line, _) = tell(JournalState(), listed(pod("a", 10), version=100, seconds=0))
    line |= {"position": 0}
    ended = line | {"facts": line["facts"] | {"ended_at": text(90)}}
    owned = line | {"kin": line["kin"] | {"workload_name": "train"}}
    known: Known = {}
    rows = [
        dict(rows_of(one, b"the same", known))["pod_observations"]
        for one in (line, ended, owned, line | {"at": text(3600), "via": "hourly_list"})
    ]
    assert [row["ended_at"] for row in rows] == [None, at(90), None, None]
    assert [row["workload_name"] for row in rows] == ["a", "a", "train", "a"]
    assert [row["observed_at"] for row in rows] == [at(0), at(0), at(0), at(3600)]
    assert [row["via"] for row in rows] == ["list", "list", "list", "hourly_list"]


def test_what_a_server_said_has_no_place_in_a_journal() -> None:
    """Only a projection has: the rest of an object may hold secrets."""
    said = LazyObject(msgspec.Raw(b'{"spec": {"env": "s3cr3t"}}'), "a", 1, Reading())
    with pytest.raises(TypeError, match="no place in a journal"):
        as_text(said)


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"resourceVersion": "7"}, "items": null}',
        b'{"metadata": {"resourceVersion": "x"}, "items": []}',
        b'{"metadata": null, "items": []}',
        b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": null}]}',
        b'{"metadata": {"resourceVersion": "7"}, "items": [5]}',
        b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"uid": 5}}]}',
        b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"uid": "\xff"}}]}',
        b'{"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {}, "spec": "\xff"}]}',
        b"[]",
    ],
)
def test_a_list_that_no_server_writes_is_left_to_whoever_looks_at_it_whole(body: bytes) -> None:
    assert page_of(body, Reading()) is None
