"""Backup and restore: four parts are enough, and a restored record is not written blindly."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing.backup import BackupChanged, NotABackup, back_up, restore, verify_backup
from billing.close import close_period
from billing.events import Head
from billing.guard import RecordBehindItsHead, RestoredRecord, admit_restored
from billing.record import Record
from billing.render import render_documents
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from quality.run import judge
from tests.marts_by_hand import Pod, World, at
from warehouse.home import Home

CLOCK = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


def close(world: World, now: datetime = CLOCK.instant) -> None:
    world.write()
    clock = StoppedClock(now)
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: judge(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    (world.home.decisions / "clusters.csv").write_text("kept as it is\n")
    world.home.landing_store().create("objects/aa/evidence.zst", b"\x00evidence")
    close(world)
    return world


def documents(home: Home) -> dict[str, bytes]:
    found = home.documents.rglob("*")
    return {str(p.relative_to(home.documents)): p.read_bytes() for p in found if p.is_file()}


def head_of(home: Home) -> Head:
    return Record(home.record_store()).head()


def test_a_restored_home_gives_the_same_bytes(world: World, tmp_path: Path) -> None:
    report = back_up(world.home, tmp_path / "copy")
    assert verify_backup(tmp_path / "copy") == report
    before = documents(world.home)
    shutil.rmtree(world.path)
    home = restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    render_documents(home, BillingPeriod("2026-10"))
    assert documents(home) == before
    assert (home.decisions / "clusters.csv").read_text() == "kept as it is\n"
    assert home.landing_store().read("objects/aa/evidence.zst") == b"\x00evidence"


@pytest.mark.parametrize("part", ["config.toml", "decisions", "landing", "record"])
def test_a_changed_backup_is_not_restored(world: World, tmp_path: Path, part: str) -> None:
    back_up(world.home, tmp_path / "copy")
    path = next(p for p in sorted((tmp_path / "copy" / part).rglob("*")) if p.is_file()) if (
        tmp_path / "copy" / part
    ).is_dir() else tmp_path / "copy" / part  # fmt: skip
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(BackupChanged):
        restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    assert not (tmp_path / "restored").exists()


def test_missing_and_added_files_are_found(world: World, tmp_path: Path) -> None:
    back_up(world.home, tmp_path / "copy")
    extra = tmp_path / "copy" / "decisions" / "rates.csv"
    extra.write_text("cheaper\n")
    with pytest.raises(BackupChanged, match="not listed"):
        verify_backup(tmp_path / "copy")
    extra.unlink()
    (tmp_path / "copy" / "config.toml").unlink()
    with pytest.raises(BackupChanged, match="missing"):
        verify_backup(tmp_path / "copy")


def test_a_backup_goes_into_an_empty_folder_and_comes_back_into_one(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(NotABackup):
        back_up(world.home, world.path)
    back_up(world.home, tmp_path / "copy")
    with pytest.raises(NotABackup):
        restore(tmp_path / "copy", world.path, CLOCK)
    with pytest.raises(NotABackup):
        restore(tmp_path / "elsewhere", tmp_path / "restored", CLOCK)


def restored(world: World, tmp_path: Path) -> World:
    back_up(world.home, tmp_path / "copy")
    home = restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    november = World(home.path, period=BillingPeriod("2026-11"), pods=[])
    november.write()
    return november


DECEMBER = datetime(2026, 12, 4, tzinfo=UTC)


def test_a_restored_record_is_not_written_until_somebody_vouches_for_it(
    world: World, tmp_path: Path
) -> None:
    november = restored(world, tmp_path)
    with pytest.raises(RestoredRecord):
        close(november, DECEMBER)
    with pytest.raises(RestoredRecord):
        void_document(november.home, "INV-000001", "why", CLOCK)
    admit_restored(Record(november.home.record_store()), CLOCK, witnessed=head_of(world.home))
    close(november, DECEMBER)
    assert "2026-11" in Record(november.home.record_store()).closed_periods()


def test_a_head_that_the_backup_does_not_have_keeps_it_closed(world: World, tmp_path: Path) -> None:
    november = restored(world, tmp_path)
    void_document(world.home, "INV-000001", "issued after the backup", CLOCK)
    record = Record(november.home.record_store())
    with pytest.raises(RecordBehindItsHead):
        admit_restored(record, CLOCK, witnessed=head_of(world.home))
    with pytest.raises(RestoredRecord):
        close(november, DECEMBER)


def test_two_different_names_can_vouch_and_are_recorded(world: World, tmp_path: Path) -> None:
    november = restored(world, tmp_path)
    record = Record(november.home.record_store())
    for names in (("ada", "ada"), ("ada", ""), ("", "")):
        with pytest.raises(RestoredRecord):
            admit_restored(record, CLOCK, names=names)
    admit_restored(record, CLOCK, names=("ada", "bob"))
    assert record.events()[-1].body["signed_by"] == ["ada", "bob"]
    close(november, DECEMBER)


def test_an_older_record_copied_over_a_newer_one_is_noticed(world: World, tmp_path: Path) -> None:
    """Without `restore`: the heads in documents/ remember what was there."""
    older = tmp_path / "older"
    shutil.copytree(world.home.record, older)
    november = World(world.path, period=BillingPeriod("2026-11"), pods=[])
    close(november, DECEMBER)
    shutil.rmtree(world.home.record)
    shutil.copytree(older, world.path / "record")
    december = World(world.path, period=BillingPeriod("2026-12"), pods=[])
    with pytest.raises(RecordBehindItsHead, match=r"2026-11/head\.json"):
        close(december, datetime(2027, 1, 5, tzinfo=UTC))


def test_the_head_is_a_file_to_hand_to_a_witness(world: World) -> None:
    written = json.loads((world.home.documents / "2026-10" / "head.json").read_bytes())
    head = head_of(world.home)
    assert written == {"period": "2026-10", "sequence": head.sequence, "sha256": head.sha256}
