"""The published FOCUS files are valid according to the validator of the FOCUS project."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from billing.close import close_period
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from tests.servers.focus_validator import CONTRADICTORY, validate

pytestmark = pytest.mark.servers


def close(world: World, now: datetime) -> Path:
    world.write()
    clock = StoppedClock(now)
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
    )
    return world.path / "documents" / world.period.name / "focus" / "cost-and-usage.csv"


def test_a_month_with_slices_credits_and_a_void_is_valid(tmp_path: Path) -> None:
    october = World(tmp_path / "home")
    october.outages = ["c1,2026-10-09T10:30:00Z,2026-10-09T11:00:00Z,credit,cut,bob,2026-11-02"]
    october.pods = [
        Pod("team-a", "train", at("09 10:00"), at("09 11:30:01")),
        Pod("team-a", "slice", at("09 22:00"), at("11 08:00"), weight=Fraction(3, 7),
            mig_profile="3g.20gb"),
        Pod("team-b", "=cmd()", at("30 00:00"), at("31 00:00:01"), device_count=8),
    ]  # fmt: skip
    report = validate(close(october, datetime(2026, 11, 4, tzinfo=UTC)))
    assert report.failed_rules == CONTRADICTORY
    assert report.passed > 130
    void_document(
        october.home, "INV-000001", "wrong", StoppedClock(datetime(2026, 11, 5, tzinfo=UTC))
    )
    november = World(october.path, period=BillingPeriod("2026-11"))
    november.pods = [Pod("team-a", "on", at("31 23:00"), datetime(2026, 11, 2, tzinfo=UTC))]
    report = validate(close(november, datetime(2026, 12, 4, tzinfo=UTC)))
    assert report.failed_rules == CONTRADICTORY


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    """The validator reports errors in an invalid file."""
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30:01"))]
    path = close(world, datetime(2026, 11, 4, tzinfo=UTC))
    broken = tmp_path / "broken.csv"
    broken.write_text(path.read_text().replace("Usage-Based", "Sometimes"))
    assert validate(broken).failed_rules > CONTRADICTORY
