"""Under a driven clock, events of several watches have one order, whichever thread is faster.

Put here: events that arrive in every order.
Not here: collectors during faults (`test_collector_faults`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

from ingestion.kubernetes.instant_barrier import InstantBarrier
from ingestion.kubernetes.observations import Bookmark, Broken
from ingestion.kubernetes.watcher import Item, NeedsList

NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
RESOURCES = ("nodes", "claims", "pods", "quotas")


def needs(resource: str, at: datetime = NOON) -> NeedsList:
    return NeedsList(resource, at, "expired", "too old")


def test_lists_and_events_of_one_instant_have_one_order() -> None:
    words: dict[str, Item] = {
        "nodes": Bookmark("nodes", NOON, 7),
        "claims": needs("claims"),
        "pods": needs("pods"),
        "quotas": Broken("quotas", NOON, "cut"),
    }
    for order in permutations(RESOURCES):
        lockstep = InstantBarrier(RESOURCES)
        released = [lockstep.step(words[resource], NOON) for resource in order]
        assert released == [[], [], [], list(words.values())], order


def test_listed_watches_report_again_before_the_clock_advances() -> None:
    lockstep = InstantBarrier(RESOURCES)
    for resource in RESOURCES:
        lockstep.step(needs(resource), NOON)
    marks = [Bookmark(resource, NOON, 9) for resource in RESOURCES]
    assert [lockstep.step(mark, NOON) for mark in reversed(marks)] == [[], [], [], marks]


def test_a_failed_list_blocks_no_other_watch() -> None:
    lockstep = InstantBarrier(("claims", "pods"))
    mark = Bookmark("pods", NOON, 9)
    lockstep.step(needs("claims"), NOON)
    assert lockstep.step(mark, NOON) == [needs("claims"), mark]
    assert lockstep.list_failed("claims", NOON) == []
    again = Bookmark("pods", LATER, 10)
    assert lockstep.step(again, LATER) == []
    assert lockstep.list_failed("claims", LATER) == [again]


def test_a_list_between_two_stops_waits_for_no_other_watch() -> None:
    lockstep = InstantBarrier(("claims", "pods"))
    lockstep.told_at = NOON
    assert lockstep.step(needs("pods", LATER), LATER) == [needs("pods", LATER)]
