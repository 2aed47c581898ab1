"""The commands about documents: compare, void, restore and show."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from billing.backup import back_up
from billing.guard import RestoredRecord
from billing.record import Record
from domain.billing_period import BillingPeriod
from orchestration.cli.audit import compare, restore
from orchestration.cli.billing import close, invoice, void
from tests.marts_by_hand import Pod, World, at
from tests.unit.test_billing_close import close as closed
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.switched import restore_note


@pytest.fixture
def world(tmp_path: Path) -> World:
    pods = [Pod("team-a", "serve", at("09 10:00"), at("09 11:30"))]
    return World(tmp_path / "home", pods=pods)


def run(command: object, *arguments: str, home: Path) -> Result:
    return CliRunner().invoke(command, [*arguments, "--home", str(home)])  # type: ignore[arg-type]


def write_as_counted(world: World) -> None:
    """Note these facts as current: facts without a note are counted again before they are read."""
    with connected(world.write().warehouse_path, read_only=True) as connection:
        found = period_sha256(connection, world.period.name)
    assert restore_note(world.home, world.period.name, found)


def test_compare_shows_each_rule_with_its_difference(world: World) -> None:
    write_as_counted(world)
    ran = run(compare, "2026-10", "-o", "json", home=world.path)
    rows = json.loads(ran.stdout)
    assert len(rows) == 4
    # 1.5 h at 3.60; steps of a quarter of an hour are rounded up to two whole hours.
    assert rows[0] == {
        "tenant": "team-a",
        "rule": "MOC (NERC): steps, rounded up to whole hours",
        "ledger": "5.4",
        "would_bill": "7.2",
        "difference": "1.8",
    }


def test_void_prints_its_number_and_a_second_one_is_refused(world: World) -> None:
    world.write()
    closed(world)
    ran = run(void, "INV-000001", "--reason", "another party", home=world.path)
    folder = world.path / "documents" / "2026-11"
    assert ran.output == f"INV-000002 voids INV-000001; its document is in {folder}.\n"
    assert {path.name for path in (folder / "tenants" / "team-a").iterdir()} >= {
        "INV-000002.pdf",
        "INV-000002.zip",
    }
    again = run(void, "INV-000001", "--reason", "once more", home=world.path)
    assert type(again.exception).__name__ == "CannotBeVoided"
    # A second close of its month renders it again, to the same bytes.
    files = {path: path.read_bytes() for path in (folder / "tenants" / "team-a").iterdir()}
    november = World(world.path, period=BillingPeriod("2026-11"))
    november.write()
    closed(november, now=datetime(2026, 12, 4, tzinfo=UTC))
    assert {path: path.read_bytes() for path in files} == files


def test_documents_are_listed_with_kind_and_amount(world: World) -> None:
    world.write()
    closed(world)
    run(void, "INV-000001", "--reason", "another party", home=world.path)
    [first] = json.loads(run(invoice, "2026-10", "-o", "json", home=world.path).stdout)
    assert first.pop("sha256")
    assert first == {
        "number": "INV-000001",
        "document": "invoice",
        "tenant": "team-a",
        "status": "Voided",
        "billed": "5.40",
        "currency": "EUR",
    }
    [second] = json.loads(run(invoice, "2026-11", "-o", "json", home=world.path).stdout)
    assert (second["document"], second["status"], second["billed"]) == ("void", "Issued", "-5.40")


def test_a_dry_run_shows_changes_since_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    look = lambda *_, dry_run: closed(world, dry_run=dry_run)  # noqa: E731
    monkeypatch.setattr("orchestration.cli.billing.close_period", look)
    for more in ([], [Pod("team-a", "more", at("09 12:00"), at("09 13:00"))]):
        world.pods += more
        world.write()
        ran = run(close, "2026-10", "-o", "json", home=world.path)
        shown.append(json.loads(ran.stdout)["invoices"][0])
    assert [row["billed"] for row in shown] == ["5.40", "9.00"]
    assert [row["since_last_look"] for row in shown] == ["", "3.60"]


def test_a_restored_home_is_admitted_by_its_attested_head_or_two_names(
    world: World, tmp_path: Path
) -> None:
    world.write()
    closed(world)
    back_up(world.home, tmp_path / "copy", lambda *_: ())
    head = world.home.documents / "2026-10" / "head.json"
    nothing = tmp_path / "nothing.json"
    nothing.write_text('{"sequence": 0, "sha256": ""}')
    for number, (vouch, done) in enumerate(
        [
            ([], False),
            (["--by", "Ada", "--and", "Ada"], False),
            (["--head", str(nothing)], False),
            (["--by", "Ada", "--and", "Bob"], True),
            (["--head", str(head)], True),
        ]
    ):
        home = tmp_path / f"restored-{number}"
        made = run(restore, str(tmp_path / "copy"), home=home)
        assert made.exit_code == 0, made.output
        ran = run(restore, *vouch, home=home)
        assert (ran.exit_code == 0) is done
        if vouch[:1] == ["--by"] and not done:
            assert isinstance(ran.exception, RestoredRecord)
        if str(nothing) in vouch:
            assert (ran.exit_code, "is no head" in ran.output) == (2, True)
        voided = run(void, "INV-000001", "--reason", "why", home=home)
        assert (voided.exit_code == 0) is done
        kinds = [event.kind.value for event in Record(world.home.record_store()).events()]
        assert kinds == ["period_closed"]
