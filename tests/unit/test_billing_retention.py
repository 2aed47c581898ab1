"""Evidence is kept for as long as a bill that depends on it can be disputed.

Put here: a close and a recount after landed responses were deleted.
Not here: changed bytes (`test_landing`), or their explanation (`test_billing_explain`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing.close import close_period
from billing.landed_evidence import EvidenceMissing
from billing.record import Record
from billing.recount import recount_decisions, recount_period
from domain.clock import StoppedClock
from domain.findings import CheckResult
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from tests.unit.test_billing_explain import land

NOVEMBER = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:15"), at("09 11:30"))]
    land(world, b"what was said of ten o'clock", "2026-10-09T10:00:00Z", 1)
    land(world, b"what was said of eleven", "2026-10-09T11:00:00Z", 2)
    world.write()
    return world


def close(world: World) -> None:
    def checked() -> CheckResult:
        return check_period(world.home, world.period, world.decisions, NOVEMBER)

    close_period(world.home, world.period, world.decisions, checked, NOVEMBER, dry_run=False)


def recount(world: World, pods: list[Pod]) -> int:
    """Count October again; the nanos that are credited."""
    beside = World(world.path.with_name("beside"), pods=pods)
    beside.write()
    counted_with = recount_decisions(world.home, world.period, world.decisions)
    return recount_period(
        world.home,
        world.period,
        counted_with,
        beside.home.warehouse_path,
        lambda: check_period(beside.home, world.period, counted_with.decisions, NOVEMBER),
        NOVEMBER,
        dry_run=False,
    ).nanos


def answers(world: World) -> list[Path]:
    return sorted((world.path / "landing" / "objects").rglob("*.zst"))


def test_close_refuses_a_month_whose_responses_are_deleted(world: World) -> None:
    gone = answers(world)[0]
    gone.unlink()
    with pytest.raises(EvidenceMissing) as refused:
        close(world)
    said = f"1 of the 2 responses of its basis are missing, the first is {gone.stem}"
    assert refused.value.seen == said
    assert Record(world.home.record_store()).head().sequence == 0


@pytest.mark.parametrize("and_its_manifest", [False, True])
def test_deleted_evidence_of_a_closed_month_gives_no_credit(
    world: World, and_its_manifest: bool
) -> None:
    close(world)
    before = Record(world.home.record_store()).head()
    gone = answers(world)[0]
    if and_its_manifest:
        for path in (world.path / "landing" / "manifests").rglob("*.json"):
            if gone.stem in path.read_text(encoding="utf-8"):
                path.unlink()
    gone.unlink()
    with pytest.raises(EvidenceMissing):
        recount(world, [Pod("team-a", "train", at("09 10:15"), at("09 11:00"))])
    assert Record(world.home.record_store()).head() == before


def test_deleted_later_evidence_gives_no_credit(world: World) -> None:
    close(world)
    land(world, b"what was said of eleven, once more", "2026-10-09T11:00:00Z", 3)
    assert recount(world, world.pods) == 0
