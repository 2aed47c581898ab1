"""Every message of checking and billing, from an input that causes it, against its golden file.

Put here: errors of `quality` and `billing`.
Not here: findings (`test_messages_findings`), or messages of other packages.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from billing.backup import back_up, restore, verify_backup
from billing.books import LedgerDocuments
from billing.close import close_period
from billing.documents_folder import render_documents
from billing.events import EventKind, Head
from billing.explain import explain_line
from billing.guard import require_head, require_writable
from billing.landed_evidence import require_held, response_key
from billing.record import Record, event_key
from billing.recount import recount_decisions
from billing.rendering import document_files
from billing.voiding import void_document
from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.findings import CheckResult
from quality.run import check_period
from tests.marts_by_hand import Pod, World, at
from warehouse.lease import acquire, lease
from warehouse.store import Store

GOLDEN = Path(__file__).parent / "golden"
CLOCK = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
PAGES = Path(__file__).parents[2] / "docs" / "errors"


def checked(world: World) -> CheckResult:
    return check_period(world.home, world.period, world.decisions, CLOCK)


def close(
    world: World, clock: StoppedClock = CLOCK, check_result: CheckResult | None = None
) -> None:
    def answer() -> CheckResult:
        return check_result or checked(world)

    close_period(world.home, world.period, world.decisions, answer, clock, dry_run=False)


def no_evidence(landing: Store, _: Record) -> list[LedgerError]:
    assert landing.list("") == []
    return []


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("messages") / "home")
    world.pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30"))]
    world.write()
    close(world)
    return world


@pytest.fixture
def world(closed: World, tmp_path: Path) -> World:
    """A closed month in a home of its own."""
    shutil.copytree(closed.path, tmp_path / "home")
    return World(tmp_path / "home", pods=closed.pods)


def record_of(world: World) -> Record:
    return Record(world.home.record_store())


def broken_seal(world: World) -> None:
    record = record_of(world)
    digest = record.invoices("2026-10")[0].sha256
    path = world.path / "record" / "sealed" / f"{digest}.json"
    path.write_bytes(path.read_bytes().replace(b"5.40", b"4.40"))
    record.sealed(digest)


def record_moved_on(world: World) -> None:
    record = record_of(world)
    with lease(record.store, "ada", CLOCK) as held:
        record.append(held, Head(), EventKind.PERIOD_CLOSED, {}, CLOCK.now(), "ada")


def stale_writer(world: World) -> None:
    record = record_of(world)
    overtaken = SimpleNamespace(check=lambda: 0)
    record.append(
        overtaken,  # type: ignore[arg-type]
        record.head(),
        EventKind.PERIOD_CLOSED,
        {},
        CLOCK.now(),
        "ada",
    )


def edited_event(world: World) -> None:
    path = world.path / "record" / event_key(1)
    path.write_bytes(path.read_bytes().replace(b"INV-000001", b"INV-000007"))
    record_of(world).ledger()
    for problem in record_of(world).verify():
        raise problem


def restored(world: World) -> None:
    back_up(world.home, world.path.with_name("copy"), no_evidence)
    copied = verify_backup(world.path.with_name("copy"), no_evidence)
    home = restore(copied, world.path.with_name("restored"), CLOCK)
    record = Record(home.record_store())
    require_writable(home, record, record.ledger())


def lost_events(world: World) -> None:
    record = record_of(world)
    require_head(record, record.ledger(), Head(2, "ab" * 32), "the given head")


def without_facts(world: World) -> None:
    (world.path / "warehouse.duckdb").unlink()
    checked(world)


def not_billable(world: World) -> None:
    world.path = world.path.with_name("another")
    world.lose("thanos", "09 11:00")
    world.lose(
        *("kubernetes", "09 11:00"), reason="no collector", backfillable=False, outcome="empty"
    )
    world.write()
    close(world)


def too_early(world: World) -> None:
    world.path = world.path.with_name("another")
    world.write()
    close(world, StoppedClock(datetime(2026, 11, 1, 12, tzinfo=UTC)))


def facts_changed(world: World) -> None:
    world.path = world.path.with_name("another")
    world.write()
    check_result = checked(world)
    close(
        world, check_result=CheckResult(check_result.period, "cd" * 32, checks=check_result.checks)
    )


def open_period(world: World) -> None:
    other = World(world.path.with_name("another"))
    recount_decisions(other.write(), other.period, other.decisions)


def voided_twice(world: World) -> None:
    void_document(world.home, "INV-000001", "wrong name", CLOCK)
    void_document(world.home, "INV-000001", "wrong name", CLOCK)


def unknown_number(world: World) -> None:
    record = record_of(world)
    LedgerDocuments(record, record.ledger()).document("INV-000009")


def unfinished_backup(world: World) -> None:
    verify_backup(world.path, no_evidence)


def changed_backup(world: World) -> None:
    copy = world.path.with_name("copy")
    back_up(world.home, copy, no_evidence)
    (copy / "config.toml").write_text("[storage]\n")
    for problem in verify_backup(copy, no_evidence).problems:
        raise problem


def unknown_line(world: World) -> None:
    explain_line(world.home, "INV-000001", 7)


def evidence_gone(world: World) -> None:
    landing = world.home.landing_store()
    sealed = {"c1": {"thanos": ["ab" * 32, "cd" * 32]}}
    landing.create(response_key("cd" * 32), b"still there")
    require_held(landing, world.period, sealed)


def rendered_differently(world: World) -> None:
    close(world)
    [issued] = world.home.documents.rglob("INV-000001.txt")
    issued.unlink()
    other = {**document_files.RENDERERS, ".txt": lambda *_: b"in another typeface"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document_files, "RENDERERS", other)
        render_documents(world.home, world.period)


PROVOKED: dict[str, Callable[[World], None]] = {
    "LOCK-001-record": record_moved_on,
    "LOCK-001-stale": stale_writer,
    "RECORD-001": edited_event,
    "RECORD-001-head": lost_events,
    "RECORD-001-seal": broken_seal,
    "RECORD-002": restored,
    "LAND-001-sealed": evidence_gone,
    "VERSION-001-rendered": rendered_differently,
    "FACTS-001-check": without_facts,
    "CLOSE-001": not_billable,
    "CLOSE-002": too_early,
    "CLOSE-003": facts_changed,
    "CLOSE-004-open": open_period,
    "VOID-001": voided_twice,
    "NAME-001": unknown_number,
    "NAME-001-line": unknown_line,
    "HOME-001-backup": unfinished_backup,
    "FILE-001-backup": changed_backup,
}


def message_of(provoke: Callable[[Any], None], world: World, folder: Path) -> tuple[str, str]:
    with pytest.raises(LedgerError) as raised:
        provoke(world)
    text = raised.value.message().replace(str(folder), "/ledgers")
    # Hashes depend on versions of libraries; the message must contain one.
    text = re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", text)
    return raised.value.code, re.sub(r"\b[0-9a-f]{16}\b", "<id>", text) + "\n"


@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_message_is_the_golden_one(name: str, world: World, tmp_path: Path) -> None:
    found, text = message_of(PROVOKED[name], world, tmp_path)
    assert name.startswith(found)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert (PAGES / f"{found}.md").is_file()


def test_a_held_lease_is_not_acquired(world: World) -> None:
    """The record depends on this refusal: every event has the fencing token of the lease."""
    store = world.home.record_store()
    held = acquire(store, "ada", CLOCK, 60)
    with pytest.raises(LedgerError, match="ada holds the lease"):
        acquire(store, "bob", CLOCK, 60)
    held.release()
