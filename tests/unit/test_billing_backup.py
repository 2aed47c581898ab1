"""Backup and restore: four folders suffice, and a restored record is not written without
approval.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from billing.backup import Backup, BackupChanged, NotABackup
from billing.backup import back_up as back_up_with
from billing.backup import restore as restore_verified
from billing.backup import verify_backup as verify_with
from billing.close import close_period
from billing.documents_folder import render_documents
from billing.events import Head
from billing.guard import KnownHeadMissing, RestoredRecord, release_restored
from billing.record import Record
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import Clock, StoppedClock
from domain.errors import LedgerError
from ingestion.evidence.landing import Landing
from orchestration.cli.main import cli
from orchestration.steps import verify_landing
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from tests.unit.test_landing import draft
from warehouse.home import Home
from warehouse.store import Store, StoreUnusable

CLOCK = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


def evidence_problems(landing: Store, record: Record) -> Sequence[LedgerError]:
    return verify_landing(Landing(landing), record).problems


def back_up(home: Home, folder: Path) -> Backup:
    return back_up_with(home, folder, evidence_problems)


def verify_backup(folder: Path) -> Backup:
    return verify_with(folder, evidence_problems)


def restore(folder: Path, path: Path, clock: Clock) -> Home:
    return restore_verified(verify_backup(folder), path, clock)


def close(world: World, now: datetime = CLOCK.instant) -> None:
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


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("closed") / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    (world.home.decisions / "clusters.csv").write_text("kept as it is\n")
    landing = Landing(world.home.landing_store())
    for day in ("08", "09"):
        digest = landing.land_body(f"evidence of {day}".encode()).sha256
        landing.append_attempt(draft(hour=at(f"{day} 10:00"), sha256=digest))
    close(world)
    return world


@pytest.fixture
def world(closed: World, tmp_path: Path) -> World:
    return closed.copied(tmp_path / "home")


def documents(home: Home) -> dict[str, bytes]:
    found = home.documents.rglob("*")
    return {str(p.relative_to(home.documents)): p.read_bytes() for p in found if p.is_file()}


def head_of(home: Home) -> Head:
    return Record(home.record_store()).head()


def test_a_restored_home_gives_the_same_bytes(world: World, tmp_path: Path) -> None:
    report = back_up(world.home, tmp_path / "copy")
    assert verify_backup(tmp_path / "copy") == report
    assert report.problems == ()
    before = documents(world.home)
    shutil.rmtree(world.path)
    home = restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    render_documents(home, BillingPeriod("2026-10"))
    assert documents(home) == before
    assert (home.decisions / "clusters.csv").read_text() == "kept as it is\n"
    assert evidence_problems(home.landing_store(), Record(home.record_store())) == ()
    assert len(Landing(home.landing_store()).attempts()) == 2


@pytest.mark.parametrize("part", ["config.toml", "decisions", "landing", "record"])
def test_a_changed_backup_is_not_restored(world: World, tmp_path: Path, part: str) -> None:
    back_up(world.home, tmp_path / "copy")
    path = next(p for p in sorted((tmp_path / "copy" / part).rglob("*")) if p.is_file()) if (
        tmp_path / "copy" / part
    ).is_dir() else tmp_path / "copy" / part  # fmt: skip
    path.write_bytes(path.read_bytes() + b"x")
    assert any(isinstance(p, BackupChanged) for p in verify_backup(tmp_path / "copy").problems)
    with pytest.raises(LedgerError):
        restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    assert not (tmp_path / "restored").exists()


def test_missing_and_added_files_are_found(world: World, tmp_path: Path) -> None:
    back_up(world.home, tmp_path / "copy")
    extra = tmp_path / "copy" / "decisions" / "rates.csv"
    extra.write_text("cheaper\n")
    (tmp_path / "copy" / "config.toml").unlink()
    problems = verify_backup(tmp_path / "copy").problems
    assert [problem.seen for problem in problems] == [
        "it is there and not listed",
        "it is listed and missing",
    ]


def damage(home: Path) -> list[Path]:
    """Damage one body, the newest manifest and the event of the close."""
    paths = [
        sorted((home / "landing/objects").rglob("*.zst"))[0],
        sorted((home / "landing/manifests").rglob("*.json"))[0],
        *sorted((home / "record/events").glob("*.json")),
    ]
    for path in paths:
        path.write_bytes(path.read_bytes()[:-2] + b"x\n")
    return paths


def test_backup_of_a_damaged_home_names_every_damage(world: World, tmp_path: Path) -> None:
    damaged = damage(world.path)
    report = back_up(world.home, tmp_path / "copy")
    named = {problem.where for problem in report.problems}
    assert {str(tmp_path / "copy" / path.relative_to(world.path)) for path in damaged} <= named
    with pytest.raises(LedgerError):
        restore(tmp_path / "copy", tmp_path / "restored", CLOCK)
    assert not (tmp_path / "restored").exists()


def test_the_commands_list_all_damage_and_exit_with_1(world: World, tmp_path: Path) -> None:
    damaged = damage(world.path)

    def run(*arguments: object) -> tuple[int, dict[str, Any]]:
        words = [*map(str, arguments), "-o", "json"]
        ran = CliRunner().invoke(cli, words, standalone_mode=False)
        return ran.return_value, json.loads(ran.stdout)

    copy = tmp_path / "copy"
    exit_code, done = run("backup", copy, "--home", world.path)
    assert exit_code == 1
    assert len(done["problems"]) >= len(damaged)
    exit_code, done = run("restore", copy, "--home", tmp_path / "restored")
    assert (exit_code, done["is_restored"]) == (1, False)
    assert len(done["problems"]) >= len(damaged)
    assert not (tmp_path / "restored").exists()


def test_damage_with_a_matching_listing_is_found(world: World, tmp_path: Path) -> None:
    back_up(world.home, tmp_path / "copy")
    damaged = damage(tmp_path / "copy")
    listing = tmp_path / "copy" / "backup.json"
    document = json.loads(listing.read_bytes())
    for path in damaged:
        name = str(path.relative_to(tmp_path / "copy"))
        document["files"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    listing.write_text(json.dumps(document))
    named = {problem.where for problem in verify_backup(tmp_path / "copy").problems}
    assert set(map(str, damaged)) <= named


def test_a_backup_without_the_manifests_of_a_closed_month_is_damaged(
    world: World, tmp_path: Path
) -> None:
    shutil.rmtree(world.path / "landing" / "manifests")
    [problem] = back_up(world.home, tmp_path / "copy").problems
    assert problem.code == "LAND-001"


LISTING = {"schema": "gpu-ledger/backup/1", "files": {}, "head": {"sequence": 0, "sha256": ""}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "\udcff",
        "[" * 100_000,
        json.dumps({**LISTING, "schema": "another/1"}),
        json.dumps({**LISTING, "files": []}),
        json.dumps({**LISTING, "files": {"config.toml": 1}}),
        json.dumps({**LISTING, "files": {"../../etc/passwd": "a" * 64}}),
        json.dumps({**LISTING, "files": {"warehouse.duckdb": "a" * 64}}),
        json.dumps({**LISTING, "files": {"record/restores/x.json": "a" * 64}}),
        json.dumps({**LISTING, "head": "event 1"}),
    ],
)
def test_a_malformed_listing_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "backup.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(NotABackup, match=r"its backup\.json is not a listing"):
        verify_backup(tmp_path)


def test_a_symbolic_link_in_a_backup_is_damage(world: World, tmp_path: Path) -> None:
    back_up(world.home, tmp_path / "copy")
    config = tmp_path / "copy" / "config.toml"
    config.rename(tmp_path / "elsewhere.toml")
    config.symlink_to(tmp_path / "elsewhere.toml")
    [problem] = verify_backup(tmp_path / "copy").problems
    assert (problem.where, problem.seen) == (str(config), "it is a symbolic link, not a copy")


def test_a_linked_file_is_backed_up_as_its_content(world: World, tmp_path: Path) -> None:
    clusters = world.home.decisions / "clusters.csv"
    clusters.rename(tmp_path / "reviewed.csv")
    clusters.symlink_to(tmp_path / "reviewed.csv")
    assert back_up(world.home, tmp_path / "copy").problems == ()
    copied = tmp_path / "copy" / "decisions" / "clusters.csv"
    assert copied.read_text() == "kept as it is\n"
    assert not copied.is_symlink()


def test_a_linked_folder_of_evidence_is_refused(world: World, tmp_path: Path) -> None:
    objects = world.path / "landing" / "objects"
    objects.rename(tmp_path / "other-disk")
    objects.symlink_to(tmp_path / "other-disk")
    with pytest.raises(StoreUnusable, match="objects is a symbolic link"):
        back_up(world.home, tmp_path / "copy")


def test_a_backup_is_outside_the_home(world: World) -> None:
    with pytest.raises(NotABackup, match="inside the home"):
        back_up(world.home, world.path / "landing" / "copy")


def test_backup_needs_an_empty_folder_and_so_does_restore(world: World, tmp_path: Path) -> None:
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


def test_a_restored_record_is_read_only_until_it_is_approved(world: World, tmp_path: Path) -> None:
    november = restored(world, tmp_path)
    with pytest.raises(RestoredRecord):
        close(november, DECEMBER)
    with pytest.raises(RestoredRecord):
        void_document(november.home, "INV-000001", "why", CLOCK)
    release_restored(Record(november.home.record_store()), CLOCK, attested=head_of(world.home))
    close(november, DECEMBER)
    assert "2026-11" in Record(november.home.record_store()).closed_periods()


def test_a_head_that_the_backup_lacks_keeps_the_record_closed(world: World, tmp_path: Path) -> None:
    november = restored(world, tmp_path)
    void_document(world.home, "INV-000001", "issued after the backup", CLOCK)
    record = Record(november.home.record_store())
    with pytest.raises(KnownHeadMissing):
        release_restored(record, CLOCK, attested=head_of(world.home))
    with pytest.raises(RestoredRecord):
        close(november, DECEMBER)


def test_approval_by_two_different_names_is_recorded(world: World, tmp_path: Path) -> None:
    november = restored(world, tmp_path)
    record = Record(november.home.record_store())
    for names in (("ada", "ada"), ("ada", ""), ("", "")):
        with pytest.raises(RestoredRecord):
            release_restored(record, CLOCK, names=names)
    release_restored(record, CLOCK, names=("ada", "bob"))
    assert record.events()[-1].body["signed_by"] == ["ada", "bob"]
    close(november, DECEMBER)


def test_an_older_record_copied_over_a_newer_one_is_noticed(world: World, tmp_path: Path) -> None:
    """Without `restore`: the heads in documents/ show the state of the newer record."""
    older = tmp_path / "older"
    shutil.copytree(world.home.record, older)
    november = World(world.path, period=BillingPeriod("2026-11"), pods=[])
    close(november, DECEMBER)
    shutil.rmtree(world.home.record)
    shutil.copytree(older, world.path / "record")
    december = World(world.path, period=BillingPeriod("2026-12"), pods=[])
    with pytest.raises(KnownHeadMissing, match=r"2026-11/head\.json"):
        close(december, datetime(2027, 1, 5, tzinfo=UTC))


def test_the_head_is_a_file_for_attestation(world: World) -> None:
    written = json.loads((world.home.documents / "2026-10" / "head.json").read_bytes())
    head = head_of(world.home)
    assert written == {"period": "2026-10", "sequence": head.sequence, "sha256": head.sha256}
