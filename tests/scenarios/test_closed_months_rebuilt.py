"""A closed month whose warehouse is lost: built again from the sealed evidence, to the same bytes.

Put here: the steps of people after a loss, in their order, on the home of `thin_line`.
Not here: the arithmetic of that scenario (`test_thin_line`), or the evidence of a close, attempt
by attempt (`tests/unit/test_billing_sealed_facts.py`).

Output is compared with that before the loss, because issued invoices agree only with that.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from billing.backup import back_up, restore
from billing.landed_evidence import EvidenceMissing
from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR
from ingestion.evidence.landing import Landing
from orchestration import steps
from orchestration.cli.doctor import check_facts
from orchestration.cli.main import cli
from orchestration.open_home import OpenHome
from orchestration.publishing import publish
from orchestration.steps import recount
from tests.closed_home import copy_closed_home
from warehouse import project
from warehouse.build import PeriodIsClosed, SealedFactsDiffer
from warehouse.connection import connected
from warehouse.content_hash import period_sha256
from warehouse.reports.opened_facts import NoFactsYet
from warehouse.switched import WarehouseLost

pytestmark = pytest.mark.deep

PERIOD, NEXT = BillingPeriod("2026-10"), BillingPeriod("2026-11")
DERIVED = ("runs", "build", "published", "documents", "warehouse.duckdb")
TOLD = (
    ("usage", "--period", "2026-10", "--json"),
    ("usage", "--period", "2026-10", "--by", "hour", "--csv"),
    ("nodes", "--period", "2026-10", "--json"),
    ("gaps", "2026-10", "-o", "json"),
)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> OpenHome:
    return copy_closed_home(tmp_path_factory.mktemp("closed") / "home")


def run(opened: OpenHome, *arguments: str) -> Result:
    place = ["--home", str(opened.home.path)]
    return CliRunner().invoke(cli, [*arguments, *place], catch_exceptions=False)


def answers(opened: OpenHome) -> list[str]:
    """The month in the output of the commands and in the published copy."""
    ran = [run(opened, *asked) for asked in TOLD]
    assert [one.exit_code for one in ran] == [0] * len(TOLD)
    copy = publish(opened)
    with connected(copy.path, read_only=True) as connection:
        about = connection.execute(
            "select * from about_periods where billing_period = '2026-10'"
        ).fetchall()
        facts = period_sha256(connection, "2026-10", "main")
    return [*(one.stdout for one in ran), str(about), facts]


@pytest.fixture(scope="module")
def before(closed: OpenHome) -> list[str]:
    found = answers(closed)
    # Calculated by hand at the top of `test_thin_line`: 4.74 and 17.38.
    assert [row["rounded_cost"] for row in json.loads(found[0])["rows"]] == ["4.74", "17.38"]
    assert json.loads(found[0])["amounts"] == "final"
    return found


def copied(closed: OpenHome, tmp_path: Path) -> OpenHome:
    shutil.copytree(closed.home.path, tmp_path / "home")
    return OpenHome.at(tmp_path / "home", closed.clock)


def lose(opened: OpenHome, *parts: str) -> None:
    for part in parts:
        path = opened.home.path / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def sealed_sha256(opened: OpenHome) -> str:
    [document, *_] = [opened.record.sealed(d.sha256) for d in opened.record.invoices("2026-10")]
    return str(document["stands_on"]["facts_sha256"])


def test_a_rebuilt_closed_month_gives_the_same_output(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    opened = copied(closed, tmp_path)
    lose(opened, "warehouse.duckdb", "published")
    refused = run_refused(opened, "usage", "--period", "2026-10")
    assert refused == "gpu-ledger refresh --period 2026-10"
    # The command in the message helps.
    assert steps.refresh(opened, PERIOD).facts_sha256 == sealed_sha256(opened)
    assert answers(opened) == before
    with pytest.raises(PeriodIsClosed):
        steps.refresh(opened, PERIOD)
    assert answers(opened) == before


def run_refused(opened: OpenHome, *arguments: str) -> str:
    """The remedy of a command that found no facts."""
    with pytest.raises(NoFactsYet) as refused:
        run(opened, *arguments)
    return refused.value.remedy


def test_a_missing_month_is_never_shown_as_a_month_without_use(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """All derived files are lost, and another month is built first."""
    opened = copied(closed, tmp_path)
    lose(opened, *DERIVED)
    steps.refresh(opened, NEXT)
    for asked in TOLD[:3]:
        assert run_refused(opened, *asked) == "gpu-ledger refresh --period 2026-10"
    assert "2026-10" not in periods_of(publish(opened).path)
    [line] = [row for row in check_facts(opened) if not row["fine"]]
    assert (line["remedy"], "2026-10" in line["seen"]) == (
        "gpu-ledger refresh --period 2026-10",
        True,
    )
    steps.refresh(opened, PERIOD)
    assert answers(opened) == before
    assert [row["fine"] for row in check_facts(opened)] == [True]


def periods_of(copy: Path) -> list[str]:
    with connected(copy, read_only=True) as connection:
        found = connection.execute("select billing_period from about_periods order by 1")
        return [name for (name,) in found.fetchall()]


def test_publishing_restores_the_switched_facts(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """The notes beside the warehouse still have the month, so a copy without it would lose it."""
    opened = copied(closed, tmp_path)
    lose(opened, "warehouse.duckdb")
    assert periods_of(publish(opened).path) == ["2026-10"]
    assert answers(opened) == before


def test_checking_a_closed_month_brings_its_facts_back(closed: OpenHome, tmp_path: Path) -> None:
    opened = copied(closed, tmp_path)
    lose(opened, "warehouse.duckdb", "build")
    assert steps.check_period(opened, PERIOD).facts_sha256 == sealed_sha256(opened)


def test_a_restored_home_has_the_same_output(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """Reading needs no acceptance, and rebuilding a closed month changes no record."""
    copied = back_up(
        closed.home,
        tmp_path / "copy",
        lambda landing, record: steps.verify_landing(Landing(landing), record).problems,
    )
    home = restore(copied, tmp_path / "restored", closed.clock)
    opened = OpenHome.at(home.path, closed.clock)
    assert run_refused(opened, "usage", "--period", "2026-10").endswith("--period 2026-10")
    assert run(opened, "refresh", "--period", "2026-10").exit_code == 0
    assert answers(opened) == before
    names = ("--by", "Ada Example", "--and", "Bob Example")
    assert run(opened, "restore", *names).exit_code == 0
    assert answers(opened) == before


def late_asking(opened: OpenHome) -> None:
    """Query an hour again after the close; the store returns the samples of another hour."""
    attempts = opened.landing.attempts(source=Source.THANOS)
    first = min(attempts, key=lambda one: (one.window.started_at, one.draft.asked_at))
    [other] = [one for one in attempts if one.window.ended_at - one.window.started_at == HOUR][:1]
    draft = replace(
        first.draft,
        asked_at=first.draft.asked_at + timedelta(days=90),
        answered_at=first.draft.answered_at + timedelta(days=90),
        answers=other.answers,
    )
    opened.landing.append_attempt(draft)


def test_rebuilding_a_closed_month_ignores_everything_after_the_close(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """Neither the response nor a price changes the facts; a recount shows their effect."""
    changed = copied(closed, tmp_path)
    late_asking(changed)
    rates = changed.home.decisions / "rates.csv"
    rates.write_text(rates.read_text(encoding="utf-8").replace(",1.80,", ",9.90,"))
    lose(changed, "warehouse.duckdb", "runs", "published")
    opened = OpenHome.at(changed.home.path, closed.clock)
    steps.refresh(opened, PERIOD)
    assert answers(opened) == before
    recount(opened, PERIOD)
    with connected(opened.home.build / "2026-10.recount.duckdb", read_only=True) as connection:
        assert period_sha256(connection, "2026-10") != sealed_sha256(opened)


def test_lost_evidence_is_named_and_no_facts_are_switched_in(
    closed: OpenHome, tmp_path: Path
) -> None:
    opened = copied(closed, tmp_path)
    lose(opened, "warehouse.duckdb")
    sorted((opened.home.landing / "objects").rglob("*.zst"))[0].unlink()
    with pytest.raises(EvidenceMissing):
        steps.refresh(opened, PERIOD)
    assert not opened.home.warehouse_path.exists()


def test_other_code_with_other_facts_is_refused_with_the_differences(
    closed: OpenHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version knows another card, so its facts differ from the sealed ones."""
    opened = copied(closed, tmp_path)
    lose(opened, "warehouse.duckdb", "published")
    shutil.copytree(project.dbt_project_dir(), tmp_path / "dbt")
    products = tmp_path / "dbt" / "seeds" / "gpu_products.csv"
    header, first, *rest = products.read_text(encoding="utf-8").splitlines()
    another = first.replace(first.split(",")[0], "NVIDIA-Z900", 1)
    products.write_text("\n".join([header, another, first, *rest]) + "\n", encoding="utf-8")
    monkeypatch.setattr(project, "__file__", str(tmp_path / "warehouse" / "project.py"))
    with pytest.raises(SealedFactsDiffer) as refused:
        steps.refresh(opened, PERIOD)
    assert "gpu_products.csv has other rows now" in refused.value.seen
    assert sealed_sha256(opened)[:12] in refused.value.seen
    assert not opened.home.warehouse_path.exists()


def damage(opened: OpenHome, statement: str) -> None:
    with connected(opened.home.warehouse_path) as connection:
        connection.execute(statement)


def test_rows_that_are_missing_stop_readers_and_are_repaired(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    opened = copied(closed, tmp_path)
    lose(opened, "published")
    damage(opened, "delete from stored.fct_pod_hours_texts where workload_name = 'serve'")
    for asked in TOLD:
        with pytest.raises(WarehouseLost) as lost:
            run(opened, *asked)
        assert lost.value.remedy == "gpu-ledger refresh --period 2026-10"
    assert [row["fine"] for row in check_facts(opened)] == [False]
    steps.refresh(opened, PERIOD)
    assert answers(opened) == before


def test_edited_facts_are_not_published(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """The same number of rows with other amounts: only the hash differs."""
    opened = copied(closed, tmp_path)
    lose(opened, "published")
    damage(opened, "update stored.fct_pod_hours_rest set cost_nanos = cost_nanos * 2")
    copy = publish(opened)
    with connected(copy.path, read_only=True) as connection:
        assert period_sha256(connection, "2026-10", "main") == sealed_sha256(opened)
    assert answers(opened) == before


def test_a_warehouse_without_its_notes_is_recognised(
    closed: OpenHome, before: list[str], tmp_path: Path
) -> None:
    """`build/` was deleted; the facts are in the warehouse and equal the sealed ones."""
    opened = copied(closed, tmp_path)
    lose(opened, "build", "published")
    with pytest.raises(PeriodIsClosed):
        steps.refresh(opened, PERIOD)
    assert answers(opened) == before


@pytest.fixture(scope="module")
def begun(closed: OpenHome, tmp_path_factory: pytest.TempPathFactory) -> OpenHome:
    """November has begun: its period exists, and none of its hours was due yet."""
    opened = copied(closed, tmp_path_factory.mktemp("begun"))
    steps.refresh(opened, NEXT)
    return opened


@pytest.mark.parametrize("named", [TOLD[0], TOLD[2], TOLD[3]], ids=lambda words: words[0])
def test_without_a_period_the_newest_month_with_facts_is_used_and_named(
    begun: OpenHome, named: tuple[str, ...]
) -> None:
    ran = run(begun, *(w for w in named if w not in ("--period", "2026-10")))
    words = "No period was named; this is 2026-10, the newest month with facts."
    assert words in ran.output
    found, expected = json.loads(ran.stdout), json.loads(run(begun, *named).stdout)
    if named[0] == "usage":
        assert found.pop("notes") == [*expected.pop("notes"), words]
    assert found == expected
