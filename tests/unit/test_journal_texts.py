"""Cached texts of projections are written as if they were parsed and serialized again.

Put here: the collector's cache of texts. Not here: its rules (`test_journal_state`).
"""

from __future__ import annotations

import pytest

from ingestion.kubernetes.documents import as_text
from ingestion.kubernetes.journal import JournalWriter
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.lifecycle_rows import Known, rows_of
from ingestion.kubernetes.observations import OwnerSeen
from tests.kubernetes_by_hand import at, listed, pod, tell, terminated, text
from tests.store_in_memory import MemoryStore


def test_an_unchanged_list_is_written_like_the_first_one() -> None:
    """The lines are compared byte by byte."""
    state, over = JournalState(), pod("b", 12, phase="Succeeded", states={
        "main": terminated(10, 90)})  # fmt: skip
    documents = (pod("a", 10), pod("e", 11, name='é\N{GRINNING FACE}"\\\x7f'), over)
    tell(state, listed(*documents, version=100, seconds=0, why="hourly"))
    lines = tell(state, listed(*documents, version=200, seconds=3600, why="hourly"))
    anew = JournalState()
    tell(anew, listed(over, version=50, seconds=-10))
    expected = tell(anew, listed(*documents, version=200, seconds=3600, why="hourly"))
    written = JournalWriter(MemoryStore(), "c-1", "test", "1")
    again = JournalWriter(MemoryStore(), "c-1", "test", "1")
    written.add([line for line in lines if line["line"] != "listed"])
    again.add([line for line in expected if line["line"] != "listed"])
    assert written.pending == again.pending
    assert written.pending_count == 3


def test_an_owner_without_a_response_is_queried_with_the_next_list() -> None:
    owned = pod("a", 10)
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-1"}
    owned["metadata"]["ownerReferences"] = [controller | {"controller": True}]
    state = JournalState()
    tell(state, listed(owned, version=100, seconds=0))
    assert state.unknown_owners([owned]) == {"j-1": controller | {"namespace": "team-a"}}
    tell(state, OwnerSeen("owners", at(1), "j-1", {"metadata": {}}))
    assert state.unknown_owners([owned]) == {}


def test_the_same_status_with_other_facts_is_decoded_again() -> None:
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


def test_an_original_object_of_a_server_is_not_written() -> None:
    """Only its projection is, because the other fields may contain secrets."""
    with pytest.raises(TypeError, match="no place in a journal"):
        as_text({"spec": {"env": "s3cr3t"}})
