"""The stand-alone verifier accepts issued bundles and finds every changed byte."""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from billing import verifier
from billing.close import close_period
from billing.record import Record
from billing.recount import recount_decisions, recount_period
from billing.verifier import canonical, verify, write_bundle
from billing.voiding import void_document
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from quality.run import check_period
from tests.marts_by_hand import SIGNED, Pod, World, at
from warehouse.store import open_store

SOURCE = Path(verifier.__file__)
ONE_BYTE_CHANGES = 10_000
"""Spread over the whole file: contents, names, and the bytes between them."""


def close(world: World, now: datetime) -> None:
    world.write()
    clock = StoppedClock(now)
    close_period(
        world.home,
        world.period,
        world.decisions,
        lambda: check_period(world.home, world.period, world.decisions, clock),
        clock,
        dry_run=False,
        model_pages=lambda: b"<html>what the columns mean</html>",
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two closed months, with a correction and a void in the second."""
    path = tmp_path_factory.mktemp("verifier") / "home"
    pods = [
        Pod("team-a", "train", at("09 10:00"), at("09 11:30:01")),
        Pod("team-a", "=evil()", at("09 10:00"), at("09 11:30:01"), mig_profile="3g.20gb",
            weight=Fraction(3, 7)),
        Pod("team-b", "serve", at("09 22:00"), at("10 08:00")),
    ]  # fmt: skip
    october = World(path, pods=pods)
    close(october, datetime(2026, 11, 4, tzinfo=UTC))
    void_document(
        october.home, "INV-000002", "wrong name", StoppedClock(datetime(2026, 11, 5, tzinfo=UTC))
    )
    beside = World(path.with_name("beside"), pods=[*pods[1:], Pod("team-a", "late", at("09 10:00"),
                   at("09 11:00"))])  # fmt: skip
    beside.write()
    clock = StoppedClock(datetime(2026, 11, 6, tzinfo=UTC))
    counted_with = recount_decisions(october.home, october.period, october.decisions)
    recount_period(
        october.home,
        october.period,
        counted_with,
        beside.home.warehouse_path,
        lambda: check_period(beside.home, october.period, counted_with.decisions, clock),
        clock,
        dry_run=False,
    )
    november = World(path, period=BillingPeriod("2026-11"), pods=[])
    close(november, datetime(2026, 12, 4, tzinfo=UTC))
    return path


def bundle(home: Path, name: str) -> bytes:
    return (home / "documents" / name).read_bytes()


BUNDLES = (
    "2026-10/tenants/team-a/INV-000001.zip",
    "2026-10/2026-10.zip",
    "2026-11/2026-11.zip",
    "2026-11/tenants/team-b/INV-000003.zip",
    "2026-11/tenants/team-a/INV-000004.zip",
)


@pytest.mark.parametrize("name", BUNDLES)
def test_issued_documents_are_accepted(home: Path, name: str) -> None:
    report = verify(bundle(home, name))
    assert report.problems == []
    assert report.passed


def test_a_tenants_bundle_names_no_other_tenant(home: Path) -> None:
    body = bundle(home, "2026-10/tenants/team-a/INV-000001.zip")
    assert b"team-a" in body
    assert b"team-b" not in body


def test_the_verifier_runs_from_an_empty_folder(home: Path, tmp_path: Path) -> None:
    """A copy of its one file, with an interpreter that cannot import gpu-ledger."""
    copy = tmp_path / "verifier.py"
    copy.write_bytes(SOURCE.read_bytes())
    path = home / "documents/2026-10/tenants/team-a/INV-000001.zip"
    head = home / "documents/2026-11/head.json"
    command = [sys.executable, "-I", str(copy), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "verified")
    refused = subprocess.run(
        [*command, "--head", str(head)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "is not the one that was attested" in refused.stdout


def test_the_verifier_imports_only_the_standard_library_and_is_short() -> None:
    text = SOURCE.read_text()
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names
    assert len(text.splitlines()) < 650


@pytest.mark.deep
def test_every_one_byte_change_is_found(home: Path) -> None:
    body = bundle(home, "2026-10/2026-10.zip")
    choose = random.Random(20261118)
    for _ in range(ONE_BYTE_CHANGES):
        place = choose.randrange(len(body))
        changed = bytearray(body)
        changed[place] ^= choose.randrange(1, 256)
        assert not verify(bytes(changed)).passed, place


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -100])
def test_a_truncated_bundle_is_refused(home: Path, cut: int) -> None:
    body = bundle(home, "2026-10/tenants/team-a/INV-000001.zip")
    assert not verify(body[:cut]).passed
    assert not verify(body + b"x").passed


def test_a_compressed_bundle_is_refused_and_never_unpacked() -> None:
    """10,000 random changes need not turn a stored file into a deflated one; here each file is."""
    body = write_bundle("2026-10", {"a.txt": b"one", "b.txt": b"two"})
    method = body.index(b"PK\x01\x02") + 10
    for kind in range(1, 256):
        changed = bytearray(body)
        changed[method] = kind
        report = verify(bytes(changed))
        assert [problem for problem in report.problems if "is compressed" in problem], kind


def files_of(body: bytes) -> dict[str, bytes]:
    bundle = verifier.Bundle()
    verifier._read(body, bundle)
    return bundle.files


MONTH = "2026-10/2026-10.zip"


def swap(files: dict[str, bytes], one: str, other: str) -> None:
    files[one], files[other] = files[other], files[one]


def alter(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def remove_tenant(files: dict[str, bytes]) -> None:
    [sealed] = [n for n, b in files.items() if n.startswith("sealed/") and b'"INV-000002"' in b
                and b'"schema":"gpu-ledger/invoice/1"' in b]  # fmt: skip
    for name in [sealed, *(name for name in files if "INV-000002" in name)]:
        del files[name]


FORGERIES: dict[str, tuple[Callable[[dict[str, bytes]], object], str]] = {
    "another PDF": (alter("documents/INV-000001.pdf", b"%PDF-1.7", b"%PDF-1.4"), "INV-000001.pdf"),
    "exchanged PDFs": (
        lambda files: swap(files, "documents/INV-000001.pdf", "documents/INV-000002.pdf"),
        "INV-000002.pdf",
    ),
    "an altered TXT": (alter("documents/INV-000001.txt", b"INV", b"INW"), "INV-000001.txt"),
    "an altered JSON copy": (alter("documents/INV-000001.json", b"team-a", b"team-z"), ".json"),
    "an altered FOCUS CSV": (alter("documents/INV-000001-focus.csv", b"EUR", b"USD"), "-focus.csv"),
    "a renamed CSV column": (
        alter("documents/INV-000001.csv", b"billed_cost", b"bill_cost"),
        "INV-000001.csv",
    ),
    "a PDF that was never issued": (
        lambda files: files.update({"documents/INV-000009.pdf": b"%PDF-"}),
        "INV-000009.pdf: it was never issued",
    ),
    "another verifier.py": (
        lambda files: files.update({"verifier.py": b"print('verified')\n"}),
        "verifier.py",
    ),
    "another models.html": (
        lambda files: files.update({"models.html": b"<html>nothing to see</html>"}),
        "models.html",
    ),
    "a removed tenant": (remove_tenant, "INV-000002.pdf: missing"),
    "a removed PDF": (lambda files: files.pop("documents/INV-000001.pdf"), "missing"),
    "an altered statement of the provider": (
        lambda files: files.update({"provider/capacity.csv": b"cluster_id\n"}),
        "provider/capacity.csv",
    ),
    "a removed file of the month": (lambda files: files.pop("focus/invoice-detail.csv"), "missing"),
    "a removed basis": (
        lambda files: files.pop(
            next(n for n, b in files.items() if b'"schema":"gpu-ledger/basis' in b)
        ),
        "missing",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_named_even_if_the_manifest_matches(home: Path, forgery: str) -> None:
    """The forger rewrites manifest.json, which lists the files, but not the attested chain."""
    change, named = FORGERIES[forgery]
    files = files_of(bundle(home, MONTH))
    change(files)
    body = write_bundle("2026-10", files)
    head = (home / "documents/2026-10/head.json").read_bytes()
    for report in (verify(body), verify(body, head)):
        assert not report.passed
        assert any(named in problem for problem in report.problems), report.problems


def test_a_bundle_of_a_month_does_not_pass_as_one_of_a_document(home: Path) -> None:
    files = files_of(bundle(home, MONTH))
    problems = verify(write_bundle("INV-000001", files)).problems
    assert any("INV-000002.pdf: it was never issued with INV-000001" in p for p in problems)
    assert not verify(write_bundle("2026-11", files)).passed


def test_verifier_lists_the_claims_that_a_bundle_cannot_prove(home: Path) -> None:
    head = (home / "documents/2026-10/head.json").read_bytes()
    month = verify(bundle(home, MONTH), head).unverified
    assert [line.split(":")[0] for line in month] == [
        "the texts of PDF, TXT, HTML and FOCUS files",
        "verifier.py has the bytes that were issued, as far as the verifier that is running now "
        "was not taken from this bundle itself",
        "the evidence behind the amounts",
    ]  # fmt: skip
    one = verify(bundle(home, "2026-10/tenants/team-a/INV-000001.zip")).unverified
    assert any("without a head that was kept outside" in line for line in one)
    assert any(line.startswith("INV-000001: its basis") for line in one)
    assert any(line.startswith("1 other documents of the chain") for line in one)


def test_a_month_without_invoices_verifies(tmp_path: Path) -> None:
    world = World(tmp_path / "home", pods=[])
    close(world, datetime(2026, 11, 4, tzinfo=UTC))
    report = verify(bundle(world.path, MONTH))
    assert report.problems == []
    assert report.passed


def forged(home: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """The problems of a bundle whose invoice, events and hashes were all rewritten consistently."""
    files = files_of(bundle(home, "2026-10/tenants/team-a/INV-000001.zip"))
    event = json.loads(files["events/0000000001.json"])
    document = json.loads(files.pop(f"sealed/{event['body']['documents'][0]['sha256']}.json"))
    change(document)
    listed = json.loads(files.pop(f"sealed/{event['body']['files_sha256']}.json"))
    event["body"]["documents"][0]["sha256"] = seal(files, document)
    event["body"]["files_sha256"] = seal(files, listed)
    files["events/0000000001.json"] = canonical(event)
    files["head.json"] = head_of(event)
    return verify(write_bundle("INV-000001", files)).problems


def seal(files: dict[str, bytes], document: dict[str, Any]) -> str:
    body = canonical(document)
    digest = verifier._sha256(body)
    files[f"sealed/{digest}.json"] = body
    return digest


def head_of(event: dict[str, Any]) -> bytes:
    digest = verifier._sha256(canonical(event))
    return canonical({"sequence": event["sequence"], "sha256": digest})


def test_a_consistent_forgery_needs_every_number_to_fit(home: Path) -> None:
    """Without an attested head, a rewritten chain is accepted only if its amounts are
    consistent.
    """
    assert forged(home, lambda document: None) == []
    one_cent_more = forged(home, lambda d: d.update(total_billed_cost="99.99"))
    assert any("cents" in problem for problem in one_cent_more)

    def taxed(document: dict[str, Any]) -> None:
        document["tax"]["percent"] = "19"

    assert any("tax or the amount to pay" in problem for problem in forged(home, taxed))

    def more_seconds(document: dict[str, Any]) -> None:
        document["lines"][0]["device_seconds"] += 1

    assert any("priced again" in problem for problem in forged(home, more_seconds))

    def other_rate(document: dict[str, Any]) -> None:
        document["lines"][0]["rate_per_hour"] = "3.7"

    assert any("another rate" in problem for problem in forged(home, other_rate))

    def pod_gone(document: dict[str, Any]) -> None:
        document["pods"].pop()

    assert any("add up to lines" in problem for problem in forged(home, pod_gone))

    def other_name(document: dict[str, Any]) -> None:
        document["lines"][0]["gpu_class"] = "B300"

    assert any("CSV files say the same" in problem for problem in forged(home, other_name))

    def other_number(document: dict[str, Any]) -> None:
        document["number"] = "INV-000002"

    assert forged(home, other_number) != []


EVENT = "events/000000000{}.json"


def rewritten(home: Path, change: Callable[[dict[str, bytes]], None]) -> list[str]:
    """The problems of a month's bundle whose listing was rewritten to match a change."""
    files = files_of(bundle(home, "2026-11/2026-11.zip"))
    assert EVENT.format(4) in files
    change(files)
    return verify(write_bundle("2026-11", files)).problems


def test_an_edited_moved_or_removed_event_is_found(home: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        event = json.loads(files[EVENT.format(2)])
        event["recorded_by"] = "mallory"
        files[EVENT.format(2)] = canonical(event)

    def swap(files: dict[str, bytes]) -> None:
        second, third = EVENT.format(2), EVENT.format(3)
        files[second], files[third] = files[third], files[second]

    def take_out(files: dict[str, bytes]) -> None:
        files[EVENT.format(2)] = files.pop(EVENT.format(3))

    def overtake(files: dict[str, bytes]) -> None:
        event = json.loads(files[EVENT.format(4)])
        event["fence"] = 0
        files[EVENT.format(4)] = canonical(event)

    def leave_out_the_last(files: dict[str, bytes]) -> None:
        del files[EVENT.format(4)]

    assert any("event 3 does not follow" in problem for problem in rewritten(home, edit))
    assert any("stands at place" in problem for problem in rewritten(home, swap))
    assert any("stands at place" in problem for problem in rewritten(home, take_out))
    assert any("had been overtaken" in problem for problem in rewritten(home, overtake))
    assert any("event 3, at the end of the chain" in p for p in rewritten(home, leave_out_the_last))


def test_a_void_that_does_not_negate_is_found(home: Path) -> None:
    files = files_of(bundle(home, "2026-11/tenants/team-b/INV-000003.zip"))
    event = json.loads(files[EVENT.format(2)])
    document = json.loads(files.pop(f"sealed/{event['body']['documents'][0]['sha256']}.json"))
    document["lines"][0]["billed_cost"] = document["total_billed_cost"] = "-1.00"
    event["body"]["documents"][0]["sha256"] = seal(files, document)
    files[EVENT.format(2)] = canonical(event)
    files["head.json"] = head_of(event)
    problems = verify(write_bundle("INV-000003", files)).problems
    assert any("negated in billed_cost" in problem for problem in problems)


def test_a_rewritten_chain_is_found_by_the_attested_head(home: Path) -> None:
    body = bundle(home, "2026-10/tenants/team-a/INV-000001.zip")
    head = (home / "documents/2026-10/head.json").read_bytes()
    assert verify(body, head).passed
    assert "events up to the attested head: 1" in verify(body, head).checked
    other = {**json.loads(head), "sha256": "0" * 64}
    assert not verify(body, json.dumps(other).encode()).passed


@pytest.mark.parametrize(
    "head",
    [
        "",
        "no JSON",
        "{}",
        "[]",
        "null",
        "0",
        '"head"',
        '{"sequence": 1}',
        '{"sequence": 0, "sha256": ""}',
        '{"sequence": null, "sha256": ""}',
    ],
)
def test_an_invalid_head_attests_nothing(home: Path, head: str) -> None:
    body = bundle(home, "2026-10/tenants/team-a/INV-000001.zip")
    report = verify(body, head.encode())
    assert not report.passed
    [problem] = report.problems
    assert problem.startswith("events up to the attested head: ")


def test_a_rewritten_record_differs_from_the_attested_head(home: Path, tmp_path: Path) -> None:
    """An insider with write access closes the same month again at half the price."""
    halved = [f",A100-40,whole,EUR,1.8,2026-01-01,,{SIGNED},"]
    pods = [Pod("team-a", "train", at("09 10:00"), at("09 11:30:01"))]
    insider = World(tmp_path / "home", pods=pods, rates=halved)
    close(insider, datetime(2026, 11, 4, tzinfo=UTC))
    forged = bundle(insider.path, "2026-10/tenants/team-a/INV-000001.zip")
    assert verify(forged).passed
    attested = (home / "documents/2026-10/head.json").read_bytes()
    assert verify(bundle(home, "2026-10/tenants/team-a/INV-000001.zip"), attested).passed
    [problem] = verify(forged, attested).problems
    assert "is not the one that was attested" in problem


def test_verification_needs_no_key(home: Path, tmp_path: Path) -> None:
    """Every seal is a hash that anyone can calculate; an attested head shows who wrote it."""
    path = home / "documents/2026-10/tenants/team-a/INV-000001.zip"
    command = [sys.executable, "-I", str(SOURCE), str(path), "--head"]
    ran = subprocess.run(
        [*command, str(home / "documents/2026-10/head.json")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={},
        check=False,
    )
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "verified")
    # A copy of the record alone, without settings or secrets of its home.
    alone = Record(open_store(shutil.copytree(home / "record", tmp_path / "record")))
    assert list(alone.verify()) == []
    assert alone.head() == Record(World(home).home.record_store()).head()


def test_halves_are_rounded_to_even() -> None:
    values = [Fraction(n, 2) for n in (-3, -1, 1, 3, 5)]
    assert [verifier.half_even(value) for value in values] == [-2, 0, 0, 2, 2]


@pytest.mark.parametrize("text", ["1e3", "1_000", "1/3", "", "x", "0.0000000001"])
def test_only_plain_amounts_are_parsed(text: str) -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        verifier.nanos(text)
