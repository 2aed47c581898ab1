"""The hour ledger: expected hours, their attempts, and due hours in their order.

Put here: when an hour is due and why, which hours can be backfilled, and windows of neighbouring
hours.
Not here: coverage statuses, or queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from domain.clock import READY_AFTER
from domain.decisions.rows import Source
from domain.interval import HOUR, Interval
from ingestion.evidence.hour_ledger import (
    MASS_ENDINGS,
    SUSPICIONS,
    DueReason,
    HourEntry,
    due_windows,
    hour_ledger,
    why_due,
)
from warehouse.manifest import Attempt, AttemptDraft, Hour, Outcome, Sampling

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
ELEVEN = TEN + HOUR
THANOS, KUBERNETES = Source.THANOS, Source.KUBERNETES
MINUTE = timedelta(minutes=1)


def attempt(
    asked_at: datetime,
    outcome: Outcome = Outcome.OK,
    hour: datetime = TEN,
    source: Source = THANOS,
    counts: Mapping[str, tuple[int, int]] | None = None,
    facts: Mapping[str, int] | None = None,
    sequence: int = 1,
) -> Attempt:
    rows = (Hour(hour, outcome, "", 0, 0, counts or {}, facts or {}),)
    window = Interval(hour, hour + HOUR)
    draft = AttemptDraft(
        "c", source, asked_at, asked_at, window, "0.1.0", Sampling(30, 30), (), rows
    )
    return draft.at(sequence, "")


def entry(*attempts: Attempt, source: Source = THANOS) -> HourEntry:
    [found] = hour_ledger([("c", source, TEN)], attempts)
    return found


def test_every_expected_hour_is_a_row_also_without_an_attempt() -> None:
    expected = [("c", THANOS, ELEVEN), ("c", THANOS, TEN), ("b", KUBERNETES, TEN)]
    found = hour_ledger(expected, [attempt(ELEVEN)])
    assert [(e.cluster_id, e.hour_started_at, len(e.responses)) for e in found] == [
        ("b", TEN, 0),
        ("c", TEN, 1),
        ("c", ELEVEN, 0),
    ]


def test_an_hour_that_is_not_expected_is_no_row() -> None:
    assert hour_ledger([], [attempt(ELEVEN)]) == []


def test_an_hour_is_due_after_the_delay_of_its_last_samples() -> None:
    assert why_due(entry(), ELEVEN + READY_AFTER - timedelta(seconds=1)) is None
    assert why_due(entry(), ELEVEN + READY_AFTER) is DueReason.NEVER_ASKED


def test_a_complete_hour_is_queried_again_after_three_hours_and_a_day() -> None:
    first = attempt(ELEVEN + 15 * MINUTE)
    assert why_due(entry(first), ELEVEN + 2 * HOUR) is None
    assert why_due(entry(first), ELEVEN + 3 * HOUR) is DueReason.LATE_DATA
    second = attempt(ELEVEN + 3 * HOUR, sequence=2)
    assert why_due(entry(first, second), ELEVEN + 25 * HOUR) is None
    assert why_due(entry(first, second), ELEVEN + 26 * HOUR) is DueReason.LATE_DATA
    third = attempt(ELEVEN + 26 * HOUR, sequence=3)
    assert why_due(entry(first, second, third), ELEVEN + 9000 * HOUR) is None


def test_an_hour_first_queried_much_later_is_queried_once() -> None:
    late = attempt(ELEVEN + 100 * HOUR)
    assert why_due(entry(late), ELEVEN + 200 * HOUR) is None


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_a_failed_hour_is_queried_again_at_growing_intervals(outcome: Outcome) -> None:
    asked_at = ELEVEN + 15 * MINUTE
    tries = []
    for number, wait in enumerate([10, 20, 40, 80, 160, 320, 360, 360]):
        tries.append(attempt(asked_at, outcome, sequence=number + 1))
        assert why_due(entry(*tries), asked_at + (wait - 1) * MINUTE) is None
        asked_at += wait * MINUTE
        assert why_due(entry(*tries), asked_at) is DueReason.NOT_OK


def test_a_later_failure_does_not_replace_an_earlier_success() -> None:
    good, bad = attempt(ELEVEN + 27 * HOUR), attempt(ELEVEN + 30 * HOUR, Outcome.FAILED, sequence=2)
    found = entry(good, bad)
    assert found.best is not None
    assert found.best.outcome is Outcome.OK
    assert why_due(found, ELEVEN + 99 * HOUR) is None


@pytest.mark.parametrize("suspicion", SUSPICIONS)
def test_a_suspected_loss_is_accepted_after_a_second_query(suspicion: str) -> None:
    facts = {suspicion: 40}
    first = attempt(ELEVEN + 27 * HOUR, counts={"requests": (60, 3600)}, facts=facts)
    assert why_due(entry(first), ELEVEN + 27 * HOUR + 9 * MINUTE) is None
    assert why_due(entry(first), ELEVEN + 27 * HOUR + 10 * MINUTE) is DueReason.SUSPICION
    again = attempt(ELEVEN + 28 * HOUR, counts={"requests": (60, 3600)}, facts=facts, sequence=2)
    assert why_due(entry(first, again), ELEVEN + 99 * HOUR) is None


def test_changing_mass_endings_are_queried_until_they_are_stable() -> None:
    facts = {MASS_ENDINGS: 40}
    first = attempt(ELEVEN + 27 * HOUR, counts={"requests": (60, 3600)}, facts=facts)
    other = attempt(ELEVEN + 28 * HOUR, counts={"requests": (70, 4200)}, facts=facts, sequence=2)
    assert why_due(entry(first, other), ELEVEN + 29 * HOUR) is DueReason.SUSPICION
    repaired = attempt(ELEVEN + 29 * HOUR, counts={"requests": (100, 6000)}, sequence=3)
    assert why_due(entry(first, other, repaired), ELEVEN + 99 * HOUR) is None


def test_samples_can_be_backfilled_while_the_server_keeps_them() -> None:
    assert entry().backfillable(TEN + timedelta(days=29), raw_retention_days=30)
    assert not entry().backfillable(TEN + timedelta(days=30), raw_retention_days=30)
    assert due_windows([entry()], TEN + timedelta(days=31), raw_retention_days=30) == []


def test_an_unwatched_journal_hour_cannot_be_backfilled() -> None:
    now = ELEVEN + 5 * HOUR
    unwatched = attempt(ELEVEN + HOUR, Outcome.EMPTY, source=KUBERNETES)
    assert not entry(unwatched, source=KUBERNETES).backfillable(now)
    assert due_windows([entry(unwatched, source=KUBERNETES)], now) == []
    # The journal has not reached the hour: its collector may be unable to write for a while.
    not_yet = attempt(
        ELEVEN + HOUR, Outcome.EMPTY, source=KUBERNETES, facts={"journal_ends_before": 1}
    )
    assert entry(not_yet, source=KUBERNETES).backfillable(now)
    # Watched in part and closed: the rest of it can never be watched.
    in_part = attempt(ELEVEN + HOUR, Outcome.DEGRADED, source=KUBERNETES, facts={"closed": 1})
    assert not entry(in_part, source=KUBERNETES).backfillable(now)
    assert due_windows([entry(in_part, source=KUBERNETES)], now) == []
    still_open = attempt(ELEVEN + HOUR, Outcome.DEGRADED, source=KUBERNETES, facts={"closed": 0})
    assert entry(still_open, source=KUBERNETES).backfillable(now)


def test_a_journal_hour_is_read_until_it_succeeds_once() -> None:
    now = ELEVEN + 50 * HOUR
    assert why_due(entry(source=KUBERNETES), now) is DueReason.NEVER_ASKED
    unread = attempt(ELEVEN + HOUR, Outcome.FAILED, source=KUBERNETES)
    assert why_due(entry(unread, source=KUBERNETES), now) is DueReason.NOT_OK
    assert entry(unread, source=KUBERNETES).backfillable(now)
    read = attempt(ELEVEN + HOUR, source=KUBERNETES)
    assert why_due(entry(read, source=KUBERNETES), now) is None


def ledger(hours: int, *attempts: Attempt, cluster_ids: str = "c") -> list[HourEntry]:
    expected = [
        (cluster_id, THANOS, TEN + n * HOUR) for n in range(hours) for cluster_id in cluster_ids
    ]
    return hour_ledger(expected, attempts)


def test_the_live_hour_comes_first_and_then_the_oldest() -> None:
    now = TEN + 30 * HOUR + READY_AFTER
    found = due_windows(ledger(40, cluster_ids="ab"), now)
    assert [
        (d.cluster_id, d.is_live, d.window.started_at - TEN, d.window.seconds // 3600)
        for d in found
    ] == [
        ("a", True, 29 * HOUR, 1),
        ("b", True, 29 * HOUR, 1),
        ("a", False, 0 * HOUR, 24),
        ("b", False, 0 * HOUR, 24),
        ("a", False, 24 * HOUR, 5),
        ("b", False, 24 * HOUR, 5),
    ]


def test_neighbours_with_different_reasons_are_queried_separately() -> None:
    now = TEN + 10 * HOUR + READY_AFTER
    bad = attempt(TEN + 9 * HOUR, Outcome.FAILED, hour=TEN + 3 * HOUR)
    good = attempt(TEN + 9 * HOUR, hour=TEN + 5 * HOUR)
    found = [due for due in due_windows(ledger(8, bad, good), now) if not due.is_live]
    assert [(d.why, d.window.started_at - TEN, d.window.seconds // 3600) for d in found] == [
        (DueReason.NEVER_ASKED, 0 * HOUR, 3),
        (DueReason.NOT_OK, 3 * HOUR, 1),
        (DueReason.NEVER_ASKED, 4 * HOUR, 1),
        (DueReason.NEVER_ASKED, 6 * HOUR, 1),
    ]


def test_no_window_spans_a_change_of_sampling() -> None:
    now = TEN + 10 * HOUR + READY_AFTER
    found = due_windows(ledger(8), now, edges=[("c", TEN + 2 * HOUR), ("other", TEN + 4 * HOUR)])
    lengths = [due.window.seconds // 3600 for due in found if not due.is_live]
    assert lengths == [2, 5]


def test_hours_that_are_not_over_are_not_due() -> None:
    assert due_windows(ledger(8), TEN) == []


def test_the_difference_between_two_responses_is_recorded() -> None:
    before = attempt(ELEVEN + HOUR, counts={"up": (5, 600), "requests": (10, 1200)})
    after = attempt(ELEVEN + 4 * HOUR, counts={"up": (5, 600), "requests": (11, 1300)}, sequence=2)
    assert entry(before, after).changes == {"requests": (1200, 1300)}
    assert entry(before).changes == {}
    failed = attempt(ELEVEN + 5 * HOUR, Outcome.FAILED, sequence=3)
    assert entry(before, after, failed).changes == {"requests": (1200, 1300)}
