"""Times of a pod's lifetime from its status, and the values kept when a later status differs."""

from __future__ import annotations

from typing import Any

import pytest

from ingestion.kubernetes import projections as observe
from ingestion.kubernetes.pod_times import PodFacts, merge_status, read_facts
from tests.kubernetes_by_hand import pod, running, terminated, text


def facts(**parts: Any) -> PodFacts:
    return read_facts(observe.pod(pod("u", 1, **parts)))


def test_a_pod_that_waits_for_a_node_is_neither_bound_nor_started() -> None:
    waiting = facts(phase="Pending", states={}, bound=None)
    assert (waiting.bound_at, waiting.started_at, waiting.ended_at) == ("", "", "")


def test_held_begins_at_binding_and_running_with_the_first_main_container() -> None:
    two = facts(states={"a": running(40), "b": running(31)}, bound=3)
    assert (two.bound_at, two.started_at) == (text(3), text(31))


def test_a_pod_created_with_its_node_was_bound_at_its_creation() -> None:
    document = pod("u", 1)
    document["status"]["conditions"] = []
    assert read_facts(observe.pod(document)).bound_at == text(-10)


def test_a_sidecar_does_not_start_the_pod_but_its_end_counts() -> None:
    before = facts(states={"main": {"waiting": {}}}, sidecars={"side": running(5)})
    assert before.started_at == ""
    after = facts(
        phase="Succeeded",
        states={"main": terminated(10, 100)},
        sidecars={"side": terminated(5, 104)},
    )
    assert after.ended_at == text(104)


def test_a_pod_ends_when_its_last_container_has_finished() -> None:
    done = facts(phase="Succeeded", states={"a": terminated(10, 90), "b": terminated(10, 120)})
    assert done.ended_at == text(120)


def test_a_terminated_container_does_not_end_a_running_pod() -> None:
    assert facts(states={"main": terminated(10, 60, 1)}).ended_at == ""


def test_a_restart_keeps_the_start_in_the_last_state() -> None:
    restarted = facts(states={"main": running(300)}, restarts=1, last_state=terminated(10, 290, 1))
    assert restarted.started_at == text(10)


def test_a_deadline_of_a_deletion_is_no_end() -> None:
    assert facts(deleting=40).ended_at == ""


def test_a_terminating_pod_ends_with_its_containers() -> None:
    assert facts(deleting=40, states={"main": terminated(10, 33, 137)}).ended_at == text(33)


def test_an_evicted_pod_with_containers_shown_as_running_has_no_end() -> None:
    evicted = facts(phase="Failed")
    assert evicted.terminal
    assert evicted.ended_at == ""


def test_a_failed_pod_with_a_container_shown_as_running_has_no_end() -> None:
    half = facts(phase="Failed", states={"a": terminated(10, 90), "b": running(10)})
    assert half.ended_at == ""


def test_a_container_without_an_end_time_gives_its_pod_no_end() -> None:
    states = {"a": terminated(10, 90), "b": terminated(10, None, 137)}
    assert facts(phase="Failed", states=states).ended_at == ""


def test_a_pod_that_failed_before_its_first_container_has_no_end() -> None:
    rejected = facts(phase="Failed", states={})
    assert (rejected.started_at, rejected.ended_at) == ("", "")


def test_an_init_container_that_failed_ends_a_pod_that_never_started() -> None:
    document = pod("u", 1, phase="Failed", states={"main": {"waiting": {}}})
    document["spec"]["initContainers"] = [{"name": "prep"}]
    document["status"]["initContainerStatuses"] = [
        {"name": "prep", "restartCount": 0, "state": terminated(5, 25, 1), "lastState": {}}
    ]
    failed = read_facts(observe.pod(document))
    assert (failed.started_at, failed.ended_at) == ("", text(25))


def test_a_later_status_does_not_replace_the_earliest_start() -> None:
    """kwok's completion stage does this: it sets the start to the end."""
    seen, _ = merge_status(PodFacts(), facts())
    after, notes = merge_status(
        seen, facts(phase="Succeeded", states={"main": terminated(600, 600)})
    )
    assert (after.started_at, after.ended_at) == (text(10), text(600))
    assert [(n.what, n.before, n.after) for n in notes] == [
        ("start_moved", f"main {text(10)}", f"main {text(600)}")
    ]


def test_a_later_run_of_a_container_contradicts_nothing() -> None:
    seen, _ = merge_status(PodFacts(), facts())
    after, notes = merge_status(seen, facts(states={"main": running(500)}, restarts=1))
    assert after.started_at == text(10)
    assert notes == []


def test_a_later_status_does_not_replace_the_first_end() -> None:
    first = facts(phase="Succeeded", states={"main": terminated(10, 100)})
    later = facts(phase="Succeeded", states={"main": terminated(10, 900)})
    after, notes = merge_status(merge_status(PodFacts(), first)[0], later)
    assert after.ended_at == text(100)
    assert [n.what for n in notes] == ["end_moved"]


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"phase": "Failed"}, "end_without_time"),
        ({"phase": "Succeeded", "states": {"main": terminated(10, 4)}}, "ended_before_start"),
    ],
)
def test_an_impossible_end_is_kept_as_a_contradiction(parts: dict[str, Any], what: str) -> None:
    seen, _ = merge_status(PodFacts(), facts())
    _, notes = merge_status(seen, facts(**parts))
    assert [n.what for n in notes] == [what]


def test_a_contradiction_is_reported_once() -> None:
    seen, _ = merge_status(PodFacts(), facts())
    once, _ = merge_status(seen, facts(phase="Failed"))
    _, again = merge_status(once, facts(phase="Failed"))
    assert again == []


def test_an_ended_pod_that_runs_again_is_a_contradiction_and_stays_ended() -> None:
    ended, _ = merge_status(
        PodFacts(), facts(phase="Succeeded", states={"main": terminated(10, 100)})
    )
    after, notes = merge_status(ended, facts())
    assert after.ended_at == text(100)
    assert after.terminal
    assert [n.what for n in notes] == ["alive_after_end"]
