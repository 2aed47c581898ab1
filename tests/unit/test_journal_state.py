"""The collector's state machine, with events written by hand."""

from __future__ import annotations

from dataclasses import replace

from domain.interval import parse_instant
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.lifecycle_rows import rows_of
from ingestion.kubernetes.observations import Listed, ListedPage
from tests.kubernetes_by_hand import (
    at,
    broken,
    changes,
    event_of,
    listed,
    mark,
    of_kind,
    pod,
    running,
    tell,
    terminated,
    text,
    vias,
)


def started(*uids: str, version: int = 100) -> JournalState:
    """A state that has listed these pods at noon and has a live watch."""
    state = JournalState()
    pods = [pod(uid, 10 + n) for n, uid in enumerate(uids)]
    tell(state, listed(*pods, version=version, seconds=0), mark(version, 0))
    return state


def test_the_first_list_writes_exactly_the_pods_with_a_device() -> None:
    lines = tell(
        JournalState(),
        listed(pod("a", 1), pod("b", 2), pod("cpu-only", 3, gpus=0), version=9, seconds=0),
    )
    assert vias(lines) == [("a", "list"), ("b", "list")]
    assert of_kind(lines, "listed")[0] | {} == {
        "line": "listed",
        "at": text(0),
        "resource": "pods",
        "why": "start",
        "began_at": text(0),
        "complete": True,
        "reason": "",
        "count": 2,
        "absent": 0,
        "version": 9,
    }


def test_a_pod_is_written_from_its_creation_to_its_deletion() -> None:
    state = started()
    lines = tell(
        state,
        event_of("ADDED", pod("a", 101, phase="Pending", states={}, bound=None), 5),
        event_of("MODIFIED", pod("a", 102, phase="Pending", states={}, bound=6), 6),
        event_of("MODIFIED", pod("a", 103, states={"main": running(20)}, bound=6), 21),
        event_of("MODIFIED", pod("a", 104, phase="Succeeded", bound=6,
                             states={"main": terminated(20, 90)}), 91),
        event_of("DELETED", pod("a", 105, phase="Succeeded", bound=6,
                            states={"main": terminated(20, 90)}), 200),
    )  # fmt: skip
    assert vias(lines) == [
        ("a", "added"), ("a", "modified"), ("a", "modified"), ("a", "modified"), ("a", "deleted"),
    ]  # fmt: skip
    assert lines[-1]["facts"] == {
        "bound_at": text(6),
        "started_at": text(20),
        "ended_at": text(90),
    }


def test_a_repeated_version_writes_nothing() -> None:
    state = started()
    new = event_of("ADDED", pod("a", 101), 5)
    assert len(tell(state, new)) == 1
    assert tell(state, new) == []
    assert state.replayed_count == 1


def test_a_replayed_stream_revives_no_deleted_pod() -> None:
    state = started("a")
    tell(state, event_of("DELETED", pod("a", 101), 10), mark(102, 11))
    replay = [event_of("ADDED", pod("a", 10), 12), event_of("MODIFIED", pod("a", 100), 13)]
    assert tell(state, *replay) == []
    assert state.open_pod_count == 0


def test_an_object_with_a_new_heartbeat_only_is_not_written_again() -> None:
    state = started("a")
    assert tell(state, event_of("MODIFIED", pod("a", 101), 10)) == []


def test_the_hourly_list_writes_every_pod_with_its_earliest_start() -> None:
    state = started("a")
    tell(state, event_of("MODIFIED", pod("a", 101, states={"main": running(500)}, restarts=1), 501))
    lines = tell(
        state,
        listed(pod("a", 101, states={"main": running(500)}, restarts=1), version=101,
               seconds=3600, why="hourly"),
    )  # fmt: skip
    assert vias(lines) == [("a", "hourly_list")]
    assert lines[0]["facts"]["started_at"] == text(10)


def test_an_unchanged_pod_is_listed_unchanged() -> None:
    state = JournalState()
    (first, _) = tell(state, listed(pod("a", 10), version=100, seconds=0))
    (again, _) = tell(state, listed(pod("a", 10), version=200, seconds=3600, why="hourly"))
    assert again == first | {"via": "hourly_list", "at": text(3600)}


def test_an_unchanged_pod_in_a_list_was_seen_at_the_list() -> None:
    state = started("a", "b")
    same = [pod("a", 10), pod("b", 11)]
    tell(state, listed(*same, version=150, seconds=3600, why="hourly"), mark(150, 3601))
    tell(state, listed(same[0], version=250, seconds=7200, why="hourly"), mark(260, 7201))
    lines = tell(state, listed(same[0], version=261, seconds=7202, why="second_look"))
    (gone,) = of_kind(lines, "object", via="gone")
    assert gone["last_seen_at"] == text(3600)


def test_objects_without_versions_are_read_again_in_every_list() -> None:
    state = JournalState()
    tell(state, listed(pod("a", 0, phase="Pending", states={}), version=100, seconds=0))
    lines = tell(state, listed(pod("a", 0), version=200, seconds=3600, why="hourly"))
    assert lines[0]["object"]["status"]["phase"] == "Running"
    assert lines[0]["facts"]["started_at"] == text(10)


def test_ended_pods_that_still_exist_have_a_short_line() -> None:
    state = started("a")
    over = pod("a", 101, phase="Succeeded", states={"main": terminated(10, 90)})
    tell(state, event_of("MODIFIED", over, 91))
    lines = tell(state, listed(over, version=101, seconds=3600, why="hourly"))
    assert vias(lines) == []
    (entry,) = of_kind(lines, "still_there")[0]["objects"]
    assert entry["facts"]["ended_at"] == text(90)
    assert entry["object"]["metadata"]["uid"] == "a"


# --- incomplete lists -----------------------------------------------------------------------------


def test_an_incomplete_list_ends_no_pod() -> None:
    state = started("a", "b", "c")
    cut = listed(pod("a", 10), version=0, seconds=60, why="expired", complete=False, reason="503")
    lines = tell(state, broken(30), cut)
    assert changes(lines) == []
    assert state.open_pod_count == 3
    assert of_kind(lines, "listed")[0]["complete"] is False
    assert of_kind(lines, "gap") == []


def test_after_a_gap_the_list_is_compared_with_the_open_pods() -> None:
    state = started("a", "b", "c", "d", "e", "f")
    rest = [pod(uid, 10 + n) for n, uid in enumerate("abcde")]
    tell(state, mark(120, 30), broken(40))
    lines = tell(state, listed(*rest, version=500, seconds=95, why="expired", reason="too old"))
    assert changes(lines) == [("f", "gone")]
    gone = of_kind(lines, "object", via="gone")[0]
    assert (gone["last_seen_at"], gone["at"]) == (text(30), text(95))
    (gap,) = of_kind(lines, "gap")
    assert (gap["from"], gap["until"], gap["reason"]) == (text(30), text(95), "too old")
    assert state.open_pod_count == 5


def test_after_a_gap_the_list_confirms_every_existing_pod() -> None:
    """Until the next full hour no other line does, so a pod's time would end where the
    gap began.
    """
    state = started("a", "b")
    rest = [pod("a", 10), pod("b", 11)]
    lines = tell(state, broken(40), listed(*rest, version=500, seconds=95, why="expired"))
    assert vias(lines) == [("a", "list"), ("b", "list")]
    assert {line["at"] for line in of_kind(lines, "object")} == {text(95)}


def test_a_pod_created_and_deleted_in_a_gap_leaves_only_the_gap() -> None:
    state = started("a")
    lines = tell(state, broken(5), listed(pod("a", 10), version=900, seconds=60, why="expired"))
    assert changes(lines) == []
    assert len(of_kind(lines, "gap")) == 1


def test_a_mass_absence_needs_a_second_list_to_end_pods() -> None:
    state = started("a", "b", "c", "d")
    lines = tell(state, broken(5), listed(pod("a", 10), version=300, seconds=60, why="expired"))
    assert changes(lines) == []
    assert state.second_look == {"pods"}
    whole = [pod(uid, 10 + n) for n, uid in enumerate("abcd")]
    again = tell(state, listed(*whole, version=301, seconds=61, why="second_look"))
    assert changes(again) == []
    assert state.open_pod_count == 4


def test_pods_absent_from_two_lists_are_gone() -> None:
    state = started("a", "b", "c", "d")
    tell(state, broken(5), listed(pod("a", 10), version=300, seconds=60, why="expired"))
    some = [pod("a", 10), pod("b", 11)]
    lines = tell(state, listed(*some, version=301, seconds=61, why="second_look"))
    assert changes(lines) == [("c", "gone"), ("d", "gone")]


def test_a_pod_absent_only_from_the_second_list_stays_open() -> None:
    state = started("a", "b", "c", "d")
    tell(state, broken(5), listed(pod("a", 10), pod("b", 11), version=300, seconds=60,
                                  why="expired"))  # fmt: skip
    lines = tell(state, listed(pod("a", 10), version=301, seconds=61, why="second_look"))
    assert changes(lines) == [("c", "gone"), ("d", "gone")]
    assert set(state.streams["pods"].records) == {"a", "b"}


def test_an_incomplete_second_list_ends_no_pod() -> None:
    state = started("a", "b", "c", "d")
    tell(state, broken(5), listed(pod("a", 10), version=300, seconds=60, why="expired"))
    cut = listed(version=0, seconds=61, why="second_look", complete=False, reason="503")
    assert vias(tell(state, cut)) == []
    assert state.open_pod_count == 4


def test_an_event_older_than_a_list_does_not_revert_the_pod() -> None:
    """The hourly list was ahead of the watch, which now sends older events."""
    state = started("a")
    over = pod("a", 150, phase="Succeeded", states={"main": terminated(10, 90)})
    tell(state, listed(over, version=150, seconds=3600, why="hourly"))
    lines = tell(state, event_of("MODIFIED", pod("a", 120), 3601))
    assert lines == []
    assert state.streams["pods"].records["a"].version == 150


def test_an_absence_of_a_fifth_is_not_a_mass_absence() -> None:
    state = started("a", "b", "c", "d", "e")
    four = [pod(uid, 10 + n) for n, uid in enumerate("abcd")]
    lines = tell(state, broken(5), listed(*four, version=300, seconds=60, why="expired"))
    assert changes(lines) == [("e", "gone")]
    assert state.second_look == set()


def test_a_list_alone_ends_no_pod_while_the_watch_is_live() -> None:
    """The watch will send the deletion with the pod's last status."""
    state = started("a", "b")
    lines = tell(state, listed(pod("a", 10), version=150, seconds=3600, why="hourly"))
    assert ("b", "gone") not in vias(lines)
    told_so = tell(state, event_of("DELETED", pod("b", 149), 3601), mark(150, 3602))
    assert vias(told_so) == [("b", "deleted")]
    assert state.second_look == set()


def test_a_deletion_missing_in_the_watch_is_decided_by_a_second_list() -> None:
    state = started("a", "b")
    tell(state, listed(pod("a", 10), version=150, seconds=3600, why="hourly"))
    tell(state, mark(160, 3660))
    assert state.second_look == {"pods"}
    lines = tell(state, listed(pod("a", 10), version=161, seconds=3661, why="second_look"))
    assert changes(lines) == [("b", "gone")]
    assert [line["what"] for line in of_kind(lines, "contradiction")] == ["delete_not_told"]


# --- contradictions -------------------------------------------------------------------------------


def test_a_deleted_pod_never_opens_again() -> None:
    state = started("a")
    tell(state, event_of("DELETED", pod("a", 101), 10))
    lines = tell(state, event_of("ADDED", pod("a", 150), 20))
    assert vias(lines) == []
    assert [line["what"] for line in of_kind(lines, "contradiction")] == ["alive_after_end"]


def test_an_absent_pod_opens_again_when_it_is_seen() -> None:
    state = started("a", "b", "c", "d", "e", "f")
    five = [pod(uid, 10 + n) for n, uid in enumerate("abcde")]
    tell(state, broken(5), listed(*five, version=300, seconds=60, why="expired"))
    lines = tell(state, event_of("MODIFIED", pod("f", 301), 70))
    assert vias(lines) == [("f", "modified")]
    assert [line["what"] for line in of_kind(lines, "contradiction")] == ["absent_then_seen"]


def test_the_same_name_with_a_new_uid_is_another_pod() -> None:
    state = started()
    lines = tell(
        state,
        event_of("ADDED", pod("first", 101, name="db-0"), 5),
        event_of("DELETED", pod("first", 102, name="db-0"), 10),
        event_of("ADDED", pod("second", 103, name="db-0"), 10),
    )
    assert vias(lines) == [("first", "added"), ("first", "deleted"), ("second", "added")]


def test_a_store_with_a_lower_version_is_noticed_and_listed_again() -> None:
    state = started("a", "b")
    lines = tell(state, mark(40, 60))
    assert [line["what"] for line in of_kind(lines, "contradiction")] == [
        "resource_version_went_back"
    ]
    assert "pods" in state.relist
    again = tell(
        state,
        listed(pod("a", 10), pod("b", 11), version=41, seconds=61, why="expired", reason="back"),
    )
    assert [(g["from"], g["until"]) for g in of_kind(again, "gap")] == [(text(0), text(61))]
    assert state.relist == {}
    assert state.open_pod_count == 2


def test_a_clock_that_goes_back_moves_no_line_back() -> None:
    state = started("a")
    lines = tell(state, mark(101, 300), event_of("DELETED", pod("a", 102), 200))
    assert [line["what"] for line in of_kind(lines, "contradiction")] == ["clock_went_back"]
    assert of_kind(lines, "object")[0]["at"] == text(300)


def test_an_event_that_waited_during_a_list_is_no_clock_going_back() -> None:
    state = started("a")
    hourly = listed(pod("a", 10), version=100, seconds=300, why="hourly")
    lines = tell(state, hourly, event_of("MODIFIED", pod("a", 101, bound=4), 200), mark(102, 210))
    assert of_kind(lines, "contradiction") == []
    # Not earlier than the list that was taken in between, which precedes it in the journal.
    assert {line["at"] for line in of_kind(lines, "object")} == {text(300)}


def test_an_event_that_waited_behind_a_list_counts_at_its_arrival() -> None:
    """The list takes four minutes and the watch breaks meanwhile, so the rest of them is
    unwatched.
    """
    names = ("a", "b", "c", "d", "e", "f")
    state = started(*names)
    pods = [pod(uid, 10 + n) for n, uid in enumerate(names)]
    hourly = listed(*pods, version=100, seconds=300, why="hourly")
    last_word = event_of("MODIFIED", pod("a", 101, bound=4), 70)
    after = listed(*pods[1:], version=400, seconds=600, why="expired")
    lines = tell(state, replace(hourly, began_at=at(60)), last_word, broken(80), after)
    (gap,) = of_kind(lines, "gap")
    assert (gap["from"], gap["until"]) == (text(70), text(600))
    (gone,) = of_kind(lines, "object", via="gone")
    assert (gone["last_seen_at"], gone["at"]) == (text(70), text(600))
    (changed,) = of_kind(lines, "object", via="modified")
    assert (changed["alive_at"], changed["at"]) == (text(70), text(300))


def test_an_hourly_list_shows_the_pods_at_the_time_of_its_query() -> None:
    """Its last page may arrive minutes later, and shows the store at the time of its first."""
    state = started("a")
    tell(state, broken(30))
    late = pod("late", 102, states={"main": running(120)})
    hourly = [
        ListedPage("pods", at(200), "hourly", (pod("a", 10),), 103, True, at(100)),
        ListedPage("pods", at(300), "hourly", (late,), 103, False, at(100)),
    ]
    lines = tell(state, *hourly)
    shown = {line["object"]["metadata"]["uid"]: line for line in of_kind(lines, "object")}
    assert {uid: (line["alive_at"], line["at"]) for uid, line in shown.items()} == {
        "a": (text(100), text(200)),
        "late": (text(120), text(300)),  # from its own status
    }
    seen = {uid: row["observed_at"] for uid, line in shown.items() for table, row in
            rows_of(line | {"position": 0}) if table == "pod_observations"}  # fmt: skip
    assert seen == {"a": at(100), "late": at(120)}


def test_a_pods_end_without_a_time_is_the_time_of_the_list() -> None:
    state = started("a")
    over = pod("a", 101, states={"main": terminated(5, None)}, phase="Failed")
    page = ListedPage("pods", at(200), "hourly", (over,), 103, True, at(100))
    (line,) = of_kind(tell(state, broken(30), page), "object")
    assert line["at"] == text(200)
    assert "alive_at" not in line


def test_a_watch_continues_at_the_first_page_of_its_list() -> None:
    state = started("a", "b")
    tell(state, mark(110, 60), broken(70))
    pages = [
        ListedPage("pods", at(100), "expired", (pod("a", 10),), 400, True, at(95)),
        ListedPage("pods", at(160), "expired", (pod("b", 11),), 400, False, at(95)),
    ]
    whole = Listed("pods", at(161), at(95), "expired", (), 400, paged=True)
    lines = tell(state, *pages, whole, mark(401, 200))
    (gap,) = of_kind(lines, "gap")
    assert (gap["from"], gap["until"]) == (text(60), text(100))
    (piece,) = state.streams["pods"].take_watched_interval()
    assert (piece["at"], piece["until"]) == (text(100), text(200))
    assert [line["at"] for line in of_kind(lines, "object")] == [text(100), text(160)]


def test_a_watch_that_breaks_late_is_no_clock_going_back() -> None:
    state = started("a")
    lines = tell(state, mark(101, 300), broken(100), mark(102, 310))
    assert of_kind(lines, "contradiction") == []


def test_a_clock_behind_the_journal_at_a_start_is_reported_once() -> None:
    state = JournalState()
    state.last_at = parse_instant(text(300))
    first = listed(pod("a", 10), version=100, seconds=200)
    lines = tell(state, first, mark(101, 210), mark(102, 220))
    assert [line["what"] for line in of_kind(lines, "contradiction")] == ["clock_went_back"]


# --- stretches -----------------------------------------------------------------------------------


def test_a_watched_interval_is_cut_at_the_hour() -> None:
    state = started("a")
    tell(state, mark(180, 3700))
    pieces = state.streams["pods"].take_watched_interval()
    assert [(p["at"], p["until"], p.get("version")) for p in pieces] == [
        (text(0), text(3600), None),
        (text(3600), text(3700), 180),
    ]
    assert state.streams["pods"].take_watched_interval() == []


def test_a_reconnect_from_the_last_version_is_no_gap() -> None:
    state = started("a")
    lines = tell(state, mark(110, 60), broken(70), mark(140, 600))
    assert of_kind(lines, "gap") == []
    (piece,) = state.streams["pods"].take_watched_interval()
    assert (piece["at"], piece["until"]) == (text(0), text(600))
    assert [line["reason"] for line in of_kind(lines, "broken")] == ["cut"]


def test_a_watched_interval_ends_at_the_last_event_before_a_gap() -> None:
    state = started("a")
    lines = tell(
        state, mark(110, 60), broken(70), listed(pod("a", 10), version=400, seconds=95,
                                                 why="expired"), mark(401, 120),
    )  # fmt: skip
    watched = of_kind(lines, "watched") + state.streams["pods"].take_watched_interval()
    assert [(w["at"], w["until"]) for w in watched] == [
        (text(0), text(60)),
        (text(95), text(120)),
    ]


def test_only_configured_labels_are_kept() -> None:
    document = pod("a", 1)
    document["metadata"]["labels"] = {"app": "train", "cost-centre": "4711", "secret": "x"}
    told_default = tell(JournalState(), listed(document, version=9, seconds=0))
    assert told_default[0]["object"]["metadata"]["labels"] == {"app": "train"}
    chosen = JournalState(pod_labels=("cost-centre",))
    told_chosen = tell(chosen, listed(document, version=9, seconds=0))
    assert told_chosen[0]["object"]["metadata"]["labels"] == {"cost-centre": "4711"}
