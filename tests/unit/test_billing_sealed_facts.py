"""Evidence that a close depended on, identified by its time and its seal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from billing.sealed_facts import _IsInBasis
from domain.billing_period import BillingPeriod
from warehouse.attempt_hours import AttemptHour

CLOSED = datetime(2026, 11, 4, 6, tzinfo=UTC)
SEALED, EMPTY, LATE = "aa" * 32, "ee" * 32, "bb" * 32
STOOD_ON = _IsInBasis(
    BillingPeriod("2026-10"), {("c1", "thanos"): frozenset({SEALED, EMPTY})}, CLOSED
)
INSIDE = datetime(2026, 10, 31, 23, tzinfo=UTC)
AFTER_IT = datetime(2026, 11, 1, 0, tzinfo=UTC)
BEFORE_IT = datetime(2026, 9, 30, 23, tzinfo=UTC)
IN_TIME, TOO_LATE = datetime(2026, 11, 1, 2, tzinfo=UTC), datetime(2026, 11, 4, 6, tzinfo=UTC)


def attempt_hour(
    hour: datetime, asked_at: datetime, answers: list[str], outcome: str = "ok", cluster: str = "c1"
) -> AttemptHour:
    row: dict[str, Any] = {"asked_at": asked_at, "answer_sha256s": answers, "outcome": outcome}
    return AttemptHour(cluster, "thanos", "", 1, hour, row)


@pytest.mark.parametrize(
    ("hour", "is_part"),
    [
        (attempt_hour(INSIDE, IN_TIME, [SEALED]), True),
        (attempt_hour(INSIDE, IN_TIME, [EMPTY, SEALED]), True),
        # It landed while the close was read, or in a cluster without a decision to measure it.
        (attempt_hour(INSIDE, IN_TIME, [SEALED, LATE]), False),
        (attempt_hour(INSIDE, IN_TIME, [SEALED], cluster="c2"), False),
        # The same bytes, queried later: one empty response looks like any other.
        (attempt_hour(INSIDE, TOO_LATE, [EMPTY]), False),
        (attempt_hour(INSIDE, TOO_LATE, [SEALED]), False),
        # A failed attempt has no response that could be sealed.
        (attempt_hour(INSIDE, IN_TIME, [], "failed"), True),
        (attempt_hour(INSIDE, TOO_LATE, [], "failed"), False),
        # Neighbouring hours are read as well; their responses belong to other periods.
        (attempt_hour(AFTER_IT, IN_TIME, [LATE]), True),
        (attempt_hour(AFTER_IT, TOO_LATE, [LATE]), False),
        (attempt_hour(BEFORE_IT, IN_TIME, [LATE]), True),
    ],
)
def test_evidence_belongs_to_a_close_by_its_time_and_seal(hour: AttemptHour, is_part: bool) -> None:
    assert STOOD_ON(hour) is is_part
