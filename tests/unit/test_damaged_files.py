"""Damaged files of a home end in a named error, never in a traceback.

Put here: every kept file and note of a closed home, damaged in many ways, and the commands that
read it; random input for the parsers of bundles, backups, decisions and settings.
Not here: responses of sources (`test_hostile_responses`), or the text of each error.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from billing import verifier
from billing.backup import NotABackup, back_up, verify_backup
from billing.close import close_period
from billing.record import Record
from billing.verifier import canonical, verify, write_bundle
from domain.clock import StoppedClock
from domain.decisions import canonical_files, read_decisions
from domain.errors import LedgerError
from ingestion.evidence.chain_heads import heads_of, keep_heads
from ingestion.evidence.landing import Landing
from ingestion.settings import parse_settings, template_config
from ingestion.thanos import attempt_client
from orchestration.cli.main import COMMANDS
from orchestration.steps import verify_landing
from quality.run import check_period
from tests.closed_home import copy_closed_home
from tests.damaged_homes import DAMAGES as DAMAGED
from tests.damaged_homes import (
    ENDLESS,
    cases,
    commands,
    copied,
    error_of,
    fault_of,
    kinds_of_files,
    unnamed_on_a_full_disk,
    walk,
)
from tests.marts_by_hand import SIGNED, Pod, World, at
from tests.unit.test_landing import draft
from warehouse.home import Home
from warehouse.store import Store
from warehouse.switched import SwitchedPeriod, note

CASES = int(os.environ.get("N", "2000"))
SEED = int(os.environ.get("SEED", "1"))

WITHOUT_HOME = {"init", "gpu", "fake", "completion"}
Damage = Callable[[bytes, random.Random], bytes]


def flipped(body: bytes, choose: random.Random) -> bytes:
    changed = bytearray(body or b"\0")
    for _ in range(choose.randrange(1, 4)):
        changed[choose.randrange(len(changed))] ^= choose.randrange(1, 256)
    return bytes(changed)


def other_value(body: bytes, choose: random.Random) -> bytes:
    """Valid JSON of another shape: one value is replaced, removed, or of another type."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return flipped(body, choose)
    places = [place for place in _places(document) if place]
    if not places:
        return b"7\n"
    *path, last = choose.choice(places)
    inside = document
    for step in path:
        inside = inside[step]
    if choose.random() < 0.25:
        del inside[last]
    else:
        inside[last] = choose.choice(
            (None, True, -1, 0, 1.5, 10**30, "", "\x00", "é", "1e999999999", "9/0", [], {}, [[]],
             {"": {}}, "2026-13-99T99:99:99Z", float("nan"))
        )  # fmt: skip
    return canonical(document)


def _places(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    yield path
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        yield from _places(item, *path, key)


DAMAGES: tuple[Damage, ...] = (
    lambda body, _: b"",
    lambda body, _: body[: len(body) // 2],
    lambda body, _: b"\xff\xfe\x00" + body,
    lambda body, _: b"[]",
    lambda body, _: b'{"a":' * 50_000,
    lambda body, _: b"[" * 100_000,
    lambda body, choose: choose.randbytes(len(body)),
    lambda body, choose: body + choose.randbytes(20),
    flipped,
    other_value,
    other_value,
    other_value,
)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """October is closed on real evidence; the notes of checks and counts exist."""
    folder = tmp_path_factory.mktemp("damaged")
    world = World(folder / "home", pods=[Pod("team-a", "train", at("08 10:10"), at("08 10:40"))])
    world.parties = [f"customer,team-a,Team A,1 Road,,a@example.org,2026-01-01,,{SIGNED}"]
    landing = Landing(world.home.landing_store())
    for day in ("08", "09"):
        digest = landing.land_body(f"evidence of {day}".encode() * 20).sha256
        landing.append_attempt(draft(hour=at(f"{day} 10:00"), sha256=digest))
    world.write()
    clock = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))
    check_result = check_period(world.home, world.period, world.decisions, clock)
    close_period(
        world.home, world.period, world.decisions, lambda: check_result, clock, dry_run=False
    )
    for name, text in canonical_files(world.decisions.rows).items():
        (world.home.decisions / name).write_text(text)
    world.home.config_path.write_text(template_config())
    note(world.home, "2026-10", SwitchedPeriod(check_result.facts_sha256, {"fct_charges": 1}))
    keep_heads(world.home.record_store(), heads_of(world.home.landing_store()))
    back_up(world.home, folder / "copy", evidence_problems)
    return world


def evidence_problems(landing: Store, record: Record) -> tuple[LedgerError, ...]:
    return verify_landing(Landing(landing), record).problems


@pytest.mark.parametrize(
    ("kind", "damage", "command", "code"),
    [
        ("home//config.toml", "not UTF-8", "hours", "CONF-001"),
        ("home//config.toml", "a folder", "usage", "HOME-001"),
        ("home/decisions/clusters.csv", "not UTF-8", "hours", "DEC-001"),
        ("home/decisions/clusters.csv", "a folder", "hours", "STORE-001"),
        ("home/build/switched.json", "truncated", "publish", "FILE-001"),
        ("home/landing/….json", "truncated", "hours", "LAND-001"),
        ("home/landing/….zst", "missing", "landing show", "LAND-001"),
        ("home/record/….json", "empty", "invoice", "RECORD-001"),
        ("home//warehouse.duckdb", "random bytes", "nodes", "WARE-002"),
        ("copy//backup.json", "a folder", "restore", "HOME-001"),
    ],
)
def test_a_damaged_file_is_named_by_the_command_that_reads_it(
    closed: World, tmp_path: Path, kind: str, damage: str, command: str, code: str
) -> None:
    template = closed.path.parent
    there = copied(template, tmp_path / "there")
    place = kinds_of_files(template)[kind][0]
    [typed] = [one for one in commands(there / "home") if one.name == command]
    DAMAGED[damage](there / place, random.Random(7))
    raised = error_of(typed.words)
    assert isinstance(raised, LedgerError), raised
    assert (raised.code, fault_of(raised, place)) == (code, "")


def test_every_command_with_a_home_is_tested(closed: World) -> None:
    """A new command is in this list, or `ENDLESS` gives the reason."""
    names = {one.name.split()[0] for one in commands(closed.path)}
    assert names | set(ENDLESS) >= set(COMMANDS) - WITHOUT_HOME
    assert not names & WITHOUT_HOME


@pytest.mark.deep
def test_damaged_homes_end_in_named_errors(closed: World, tmp_path: Path) -> None:
    choose = random.Random(20261119)
    chosen = cases(closed.path.parent, choose)[:30]
    _, faults = walk(
        closed.path.parent, tmp_path, chosen, choose, but=("recount", "refresh", "up"), count=8
    )
    assert faults == []


@pytest.mark.deep
@pytest.mark.parametrize("limit", [0, 4_096])
def test_a_file_that_a_full_disk_refuses_is_named_by_every_command(
    closed: World, tmp_path: Path, limit: int
) -> None:
    but = ("recount", "refresh", "up", "publish")  # dbt: `test_full_disk`; or all marts
    assert unnamed_on_a_full_disk(closed.path.parent, tmp_path, limit, but) == []


@pytest.mark.explore
def test_damaged_homes_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command, on homes that the demo has pulled, collected, counted and closed."""
    template = tmp_path / "template"
    home = copy_closed_home(template / "home").home
    monkeypatch.setattr(attempt_client, "WAIT_BUDGET_SECONDS", 0.0)  # its servers have stopped
    back_up(home, template / "copy", evidence_problems)
    choose = random.Random(SEED)
    chosen = cases(template, choose)[: max(1, CASES // 20)]
    tried, faults = walk(template, tmp_path, chosen, choose, count=6)
    with capsys.disabled():
        print(f"{tried} commands on {len(chosen)} damaged homes")
    assert faults == [], f"SEED={SEED}"


@pytest.mark.explore
def test_random_bundles(closed: World) -> None:
    """No damage passes or raises, also if the listing and the chain were rewritten to match."""
    choose = random.Random(SEED)
    body = (closed.path / "documents/2026-10/2026-10.zip").read_bytes()
    whole = verifier.Bundle()
    verifier._read(body, whole)
    for number in range(CASES):
        files = dict(whole.files)
        name = choose.choice(sorted(files))
        files[name] = choose.choice(DAMAGES)(files[name], choose)
        if choose.random() < 0.5:
            files = fitted(files)
        bundle = write_bundle(choose.choice(["2026-10", "INV-000001", "", "\ud800"]), files)
        if number % 5 == 0:
            bundle = flipped(bundle, choose)
        report = verify(bundle, choose.choice([None, files.get("head.json", b"")]))
        assert report.problems or files == whole.files, f"SEED={SEED} {number} {name}"


def fitted(files: dict[str, bytes]) -> dict[str, bytes]:
    """Renew the hashes of the listing, as a forger who ignores the chain would."""
    return {
        f"sealed/{verifier._sha256(body)}.json" if name.startswith("sealed/") else name: body
        for name, body in files.items()
    }


@pytest.mark.explore
def test_random_backups(closed: World, tmp_path: Path) -> None:
    choose = random.Random(SEED)
    source = closed.path.parent / "copy"
    names = sorted(p.relative_to(source) for p in source.rglob("*") if p.is_file())
    copy = shutil.copytree(source, tmp_path / "copy")
    for number in range(max(1, CASES // 4)):
        name = choose.choice([Path("backup.json"), *names])
        body = (source / name).read_bytes()
        damaged = choose.choice(DAMAGES)(body, choose)
        (copy / name).write_bytes(damaged)
        try:
            problems = verify_backup(copy, evidence_problems).problems
        except NotABackup:
            problems = ()
            assert name.name == "backup.json", f"SEED={SEED} {number} {name}"
        else:
            assert problems or damaged == body or name.name == "backup.json", f"SEED={SEED} {name}"
        (copy / name).write_bytes(body)


@pytest.mark.explore
def test_random_decisions(closed: World) -> None:
    """Any tables are read, or every problem names its file."""
    choose = random.Random(SEED)
    files = {path.name: path.read_bytes() for path in Home(closed.path).decisions.glob("*.csv")}
    for number in range(CASES):
        name = choose.choice(sorted(files))
        body = choose.choice((*DAMAGES, other_cell, other_cell, other_cell))(files[name], choose)
        decisions, problems = read_decisions({**files, name: body})
        for problem in problems:
            assert problem.where, f"SEED={SEED} {number}"
        _ = decisions.valid_in(closed.period.interval).sha256


CELLS = ("", ",", '"', "\0", "é", "\u202e", "1e9999", "-1", "0", "9" * 400, "NaN", "Infinity",
         "2026-02-30", "0001-01-01", "9999-12-31T23:59:59+23:59", "2026-10-01T00:00:00.5Z",
         "../../x", "=1+1", "'", "both", "EUR", "\n", "\r", " ", "x" * 5000)  # fmt: skip


def other_cell(body: bytes, choose: random.Random) -> bytes:
    lines = body.split(b"\n")
    row = choose.randrange(len(lines))
    cells = lines[row].split(b",")
    cells[choose.randrange(len(cells))] = choose.choice(CELLS).encode()
    lines[row] = b",".join(cells)
    return b"\n".join(lines)


SETTINGS = (template_config(), """
[thanos.hub]
url = "https://hub.example:9090/prometheus"
cluster_matcher = 'cluster="a"'
[clusters.6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11]
thanos = "hub"
[storage]
landing = "s3://bucket/landing"
""")  # fmt: skip
TOML = ("", "[", "]", "=", '"', "'''", "[a]", "a.b.c", "1e999999", "nan", "2026-13-01", "{", "}",
        "[[[[", "\\u0000", "\\ud800", "true", "-1", "0", "https://u:p@h", "file:///", "\x00",
        "[thanos.x]", "[storage]", "url = 3")  # fmt: skip


@pytest.mark.explore
def test_random_settings(tmp_path: Path) -> None:
    choose = random.Random(SEED)
    config, refused = tmp_path / "config.toml", 0
    for _ in range(CASES):
        lines = choose.choice(SETTINGS).splitlines()
        for _ in range(choose.randrange(1, 4)):
            row = choose.randrange(len(lines))
            place = choose.randrange(len(lines[row]) + 1)
            lines[row] = lines[row][:place] + choose.choice(TOML) + lines[row][place + 1 :]
        text = "\n".join(lines).removeprefix("#" * choose.randrange(2))
        for read in (lambda said=text: parse_settings(said), lambda: Home(tmp_path).record_store()):
            config.write_text(text, encoding="utf-8")
            try:
                read()
            except LedgerError as error:
                refused += bool(error.where)
    assert refused
