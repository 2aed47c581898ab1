"""The thin line: six hours, seven pods, from an estate that is not there to two invoices.

Every expected amount here can be checked with a pencil from `fake_gpu/scenarios/thin_line.yaml`.
A100-40GB costs 1.80 an hour; a 3g.20gb weighs 1/2 and a 1g.5gb 1/7 of a card.

    vision  serve     6 h × 1 card                             21600 s           10.80
            train     01:10:20 to 03:00:00, 2 cards     2 × 6580 s                6.58
    speech  notebook  00:30:15 to 04:15:45, 1/2 card     13530 s / 2              3.3825
            sweep     1193 s and 1521 s, one card                                 1.357
            blink     11 s of 1/7 card                                            0.000785714
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.errors import NotBillable
from domain.interval import HOUR, Interval
from fake_gpu.estate.build import build_estate
from fake_gpu.estate.model import Estate
from fake_gpu.scenario.load import load_scenario
from orchestration import steps
from orchestration.demo.story import Told, tell
from orchestration.open_home import OpenHome
from orchestration.recounting import recount
from tests.scenarios import against_truth as truth
from warehouse.connection import connected

PERIOD = BillingPeriod("2026-10")
LEFT_OUT = "2026-10-01T03:00:46Z"  # the last sample before the middle one of the six hours


@contextlib.contextmanager
def no_bar(_: str) -> Iterator[Callable[[int, int, str], None]]:
    yield lambda done, total, what: None


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    home = tmp_path_factory.mktemp("thin") / "home"
    return tell("thin_line", home, no_bar, lambda text: None)


@pytest.fixture(scope="module")
def estate() -> Estate:
    return build_estate(load_scenario("thin_line"))


def sealed(told: Told) -> dict[str, dict[str, object]]:
    record = told.opened.record
    documents = (record.sealed(d.sha256) for d in record.invoices(PERIOD.name))
    return {str(document["tenant"]): dict(document) for document in documents}


def test_every_pod_has_its_true_seconds(told: Told, estate: Estate) -> None:
    expected = truth.true_allocations(estate)
    assert len(expected) == 7
    assert truth.counted_allocations(told.opened.home) == expected


def test_every_mart_says_what_was(told: Told, estate: Estate) -> None:
    """At two o'clock six cards were in use: the two pods on gpu-b lay on two, and would fit on one.

    One hour is not asked before it is healed; telemetry names the cards of all that ran.
    """
    true = truth.Truth(estate)
    assert truth.wrong_facts(told.opened.home, {"thin_line": true}) == {}
    second = 1_790_812_800 + 2 * 3600
    east = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"
    hour = true.clusters[east, second]
    assert (hour["sum_of_node_max"], hour["simultaneous_max"]) == (6, 6)
    counted = truth.counted(told.opened.home, "cluster-hours")[east, second]
    assert counted == (2, 2, 6, 5, 6, hour["gpu_seconds"], "by_devices")


def test_every_second_was_confirmed_or_is_too_short_to_be_sampled(told: Told) -> None:
    statement = """
        select distinct pod_name, method, method_reason from marts.fct_pod_hours
        where method <> 'confirmed' and state = 'running'
    """
    assert truth.ask(told.opened.home, statement) == [("blink", "lifecycle_only", "too_short")]


def test_nothing_is_found_but_the_pod_too_short_to_be_sampled(told: Told) -> None:
    judgement = steps.judge(told.opened, PERIOD)
    assert [(finding.code, "blink" in finding.where) for finding in judgement.findings] == [
        ("REC-003", True)
    ]


def test_invoices_are_what_a_pencil_says(told: Told) -> None:
    issued = {document.tenant: document.billed_nanos for document in told.months[0].result.invoices}
    assert issued == {"speech": 4_740_000_000, "vision": 17_380_000_000}
    exact = "select tenant, sum(cost_nanos) from marts.fct_charges where belongs_to = 'tenant' "
    rows = truth.ask(told.opened.home, exact + "group by all order by all")
    assert [(tenant, int(nanos)) for tenant, nanos in rows] == [
        ("speech", 3_382_500_000 + 1_357_000_000 + 785_714),
        ("vision", 10_800_000_000 + 6_580_000_000),
    ]


def test_the_missing_hour_was_named_with_its_money(told: Told) -> None:
    [refusal] = told.months[0].refusals
    assert LEFT_OUT in refusal
    assert refusal.startswith("CLOSE-001 period 2026-10")


def test_an_hour_taken_away_refuses_the_close_and_names_it(told: Told, tmp_path: Path) -> None:
    """Not asked, or lost from the landing: both are an hour that nobody can prove."""
    home = copied(told, tmp_path)
    forget_hour(home.home.landing, datetime(2026, 10, 1, 4, tzinfo=UTC))
    shutil.rmtree(home.home.record)
    steps.refresh(home, PERIOD)
    with pytest.raises(NotBillable) as refused:
        steps.close(home, PERIOD, dry_run=False)
    # Its neighbours were pulled with one sample beyond their edges.
    assert "2026-10-01T04:00:46Z to 2026-10-01T04:59:58Z" in refused.value.message()
    assert home.record.events() == []


def test_what_was_decided_after_the_count_is_counted_before_it_is_sealed(
    told: Told, tmp_path: Path
) -> None:
    """At 2.00 an hour: 34760 s are 19.3111…, and 6765 + 2714 + 11/7 s are 5.2669841…"""
    home = copied(told, tmp_path)
    shutil.rmtree(home.home.record)
    shutil.rmtree(home.home.documents)
    rates = home.home.decisions / "rates.csv"
    rates.write_text(rates.read_text(encoding="utf-8").replace(",1.80,", ",2.00,"))
    result = steps.close(OpenHome.at(home.home.path, home.clock), PERIOD, dry_run=False)
    billed = {document.tenant: document.billed_nanos for document in result.invoices}
    assert billed == {"speech": 5_270_000_000, "vision": 19_310_000_000}
    assert recount(OpenHome.at(home.home.path, home.clock), PERIOD).lines == ()


def test_without_the_warehouse_the_same_invoices_come_again(told: Told, tmp_path: Path) -> None:
    """Everything below the four kept parts is deleted, and the month is done again."""
    again = copied(told, tmp_path)
    shutil.rmtree(again.home.record)
    for derived in ("runs", "build", "documents", "warehouse.duckdb"):
        path = again.home.path / derived
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    steps.refresh(again, PERIOD)
    steps.close(again, PERIOD, dry_run=False)
    assert documents(again.home.documents) == documents(told.opened.home.documents)


def test_bits_that_flip_in_derived_files_change_no_fact_and_no_bill(
    told: Told, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are made again from the landing, which is said in one line."""
    home = copied(told, tmp_path)
    flip_a_bit_in_each_of(home.home.runs)
    assert recount(home, PERIOD).lines == ()
    shutil.rmtree(home.home.record)
    flip_a_bit_in_each_of(home.home.runs)
    facts_sha256 = steps.refresh(home, PERIOD).facts_sha256
    assert {facts_sha256} == {
        document["stands_on"]["facts_sha256"]  # type: ignore[index]
        for document in sealed(told).values()
    }
    lines = [line for line in caplog.messages if "not as it was written" in line]
    assert [line.partition(" ")[0].endswith(".parquet") for line in lines] == [True, True]


def flip_a_bit_in_each_of(runs: Path) -> None:
    for path in sorted(runs.rglob("*.parquet")):
        body = bytearray(path.read_bytes())
        body[len(body) // 3] ^= 4
        path.write_bytes(body)


def test_facts_that_were_edited_are_counted_again_before_they_are_judged(
    told: Told, tmp_path: Path
) -> None:
    """A cut log, a file copied without it and a hand in the tables are one case: not what was
    counted."""
    home = copied(told, tmp_path)
    shutil.rmtree(home.home.record)
    expected = steps.judge(home, PERIOD)
    with connected(home.home.warehouse_path) as connection:
        connection.execute("update marts.fct_pod_hours set running_seconds = 0")
        connection.execute("delete from marts.fct_charges")
    assert steps.judge(home, PERIOD) == expected
    assert truth.counted_allocations(home.home) == truth.counted_allocations(told.opened.home)


def test_closing_twice_changes_nothing(told: Told) -> None:
    before = documents(told.opened.home.documents)
    events = told.opened.record.events()
    result = steps.close(OpenHome(told.opened.home, told.opened.clock), PERIOD, dry_run=False)
    assert result.closed
    assert told.opened.record.events() == events
    assert documents(told.opened.home.documents) == before


def test_the_record_holds_and_a_changed_byte_is_found(told: Told, tmp_path: Path) -> None:
    home = copied(told, tmp_path)
    assert home.record.verify() == []
    victim = sorted((home.home.record / "sealed").rglob("*.json"))[0]
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.chmod(0o644)
    victim.write_bytes(body)
    assert [
        victim.stem in problem.seen or victim.name in problem.where
        for problem in home.record.verify()
    ] == [True]


def test_the_invoice_names_its_evidence_and_rules(told: Told) -> None:
    vision = sealed(told)["vision"]
    text = json.dumps(vision)
    for name in ("evidence_sha256", "decisions_sha256", "facts_sha256", "checks_sha256"):
        assert name in text


def copied(told: Told, tmp_path: Path) -> OpenHome:
    """A copy of the told home, to break things in; opened with the same clock."""
    shutil.copytree(told.opened.home.path, tmp_path / "home")
    return OpenHome.at(tmp_path / "home", told.opened.clock)


def documents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def forget_hour(landing: Path, hour: datetime) -> None:
    """Begin the landing anew without what was ever answered about an hour."""
    opened = OpenHome.at(landing.parent)
    attempts = opened.landing.attempts()
    manifests = landing / "manifests"
    shutil.rmtree(manifests)
    from dataclasses import replace

    for attempt in attempts:
        draft = attempt.draft
        for window in without(draft.window, hour):
            hours = tuple(entry for entry in draft.hours if window.contains(entry.hour))
            opened.landing.append_attempt(replace(draft, window=window, hours=hours))
    from ingestion.rebuild import rebuild

    rebuild(opened.landing, opened.home.runs)


def without(window: Interval, hour: datetime) -> list[Interval]:
    edges = [
        (window.started_at, min(window.ended_at, hour)),
        (max(window.started_at, hour + HOUR), window.ended_at),
    ]
    return [Interval(a, b) for a, b in edges if a < b]
