"""The ends of the chains of manifests, which no link proves, and their comparison with kept heads.

Put here: heads of chains, stored and exported, and the sealed evidence of closed months.
Not here: links and bodies (`test_landing`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from billing.close import close_period
from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import CheckResult
from ingestion.evidence.chain_heads import heads_json, heads_of, keep_heads, kept_heads, read_heads
from ingestion.evidence.landing import Landing, ManifestChanged
from orchestration import open_hours, steps
from orchestration.cli.main import cli
from orchestration.open_home import OpenHome
from quality.run import check_period
from tests.marts_by_hand import World, at
from tests.unit.test_landing import draft
from tests.unit.test_steps_evidence import fleet

NOVEMBER = StoppedClock(datetime(2026, 11, 4, tzinfo=UTC))


def land(world: World, *days: str) -> list[Path]:
    """Land an attempt with its own body for 10:00 of each day; the manifests."""
    landing = Landing(world.home.landing_store())
    for day in days:
        hour = at(f"{day} 10:00")
        landing.append_attempt(draft(hour=hour, sha256=landing.land_body(day.encode()).sha256))
    return sorted((world.path / "landing" / "manifests").rglob("*.json"))


def problems_of(world: World, *options: str) -> tuple[int, list[dict[str, str]]]:
    command = ["landing", "verify", "--home", str(world.path), "-o", "json", *options]
    ran = CliRunner().invoke(cli, command, standalone_mode=False)
    return ran.return_value, json.loads(ran.stdout)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "home")


def close(world: World) -> None:
    world.write()

    def checked() -> CheckResult:
        return check_period(world.home, world.period, world.decisions, NOVEMBER)

    close_period(world.home, world.period, world.decisions, checked, NOVEMBER, dry_run=False)


def test_deleted_manifests_of_a_closed_month_are_a_problem(world: World) -> None:
    manifests = land(world, "08", "09")
    close(world)
    assert problems_of(world) == (0, [])
    for manifest in manifests:
        manifest.unlink()
    exit_code, [problem] = problems_of(world)
    assert (exit_code, problem["code"]) == (1, "LAND-001")
    assert "2 of the 2 responses of its basis are not in any manifest" in problem["seen"]
    assert "period 2026-10" in problem["where"]


def test_an_attested_head_reveals_an_edit_of_the_newest_manifest(world: World) -> None:
    manifests = land(world, "08", "09")
    ran = CliRunner().invoke(cli, ["landing", "heads", "--home", str(world.path), "-o", "json"])
    heads = world.path.parent / "heads.json"
    heads.write_text(ran.stdout)
    [head] = read_heads(heads.read_bytes())
    assert (head.cluster_id, head.source, head.sequence) == ("c1", "thanos", 2)
    third = land(world, "10")[2]  # a chain may become longer
    assert problems_of(world, "--heads", str(heads)) == (0, [])
    third.unlink()
    text = manifests[1].read_text()
    assert '"sample_count":120' in text
    manifests[1].write_text(text.replace('"sample_count":120', '"sample_count":121'))
    assert problems_of(world) == (0, [])  # every link is valid
    exit_code, [problem] = problems_of(world, "--heads", str(heads))
    assert (exit_code, problem["code"]) == (1, "LAND-001")
    assert problem["where"] == str(manifests[1])
    manifests[1].unlink()
    exit_code, [problem] = problems_of(world, "--heads", str(heads))
    assert "no such manifest" in problem["seen"]


HEAD = '[{"cluster_id": "%s", "source": "%s", "sequence": %s, "sha256": "%s"}]'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "[{}]",
        "[" * 100_000,
        HEAD % ("../x", "thanos", 1, "a" * 64),
        HEAD % ("c1", "elsewhere", 1, "a" * 64),
        HEAD % ("c1", "thanos", -1, "a" * 64),
        HEAD % ("c1", "thanos", 1, "short"),
    ],
)
def test_a_file_without_heads_is_refused_with_its_name(world: World, text: str) -> None:
    path = world.home.path.parent / "heads.json"
    path.write_text(text)
    command = ["landing", "verify", "--home", str(world.path), "--heads", str(path)]
    ran = CliRunner().invoke(cli, command)
    assert ran.exit_code == 2
    assert str(path) in "".join(ran.stderr.split())


def test_kept_heads_only_advance(world: World) -> None:
    land(world, "08")
    landing, record = world.home.landing_store(), world.home.record_store()
    early = heads_of(landing)
    land(world, "09")
    late = heads_of(landing)
    keep_heads(record, late)
    keep_heads(record, early)
    assert kept_heads(record) == late
    assert read_heads(heads_json(late)) == late


def test_damaged_kept_heads_are_a_named_problem(world: World) -> None:
    land(world, "08")
    path = world.path / "record" / "landing-heads.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[")
    exit_code, [problem] = problems_of(world)
    assert (exit_code, problem["where"]) == (1, str(path))


@pytest.mark.deep
def test_a_check_stores_the_heads_and_the_next_check_compares_them(tmp_path: Path) -> None:
    with fleet(tmp_path, datetime(2026, 10, 5, 2, 30, tzinfo=UTC)) as (opened, _):
        hours = open_hours.open_window(opened)
        assert hours
        steps.pull(opened, hours)
        period = BillingPeriod("2026-10")
        steps.refresh(opened, period)
        steps.check_period(opened, period)
        assert kept_heads(opened.record.store) == heads_of(opened.landing.store)
        now = opened.clock.now()
    manifest = sorted((tmp_path / "home/landing/manifests").glob("*/thanos/*.json"))[-1]
    whole = manifest.read_bytes()
    changed = whole.replace(b'"reason":""', b'"reason":"x"', 1)
    assert changed != whole
    manifest.write_bytes(changed)
    again = OpenHome.at(tmp_path / "home", StoppedClock(now + timedelta(minutes=1)))
    with pytest.raises(ManifestChanged) as refused:
        steps.check_period(again, period)
    assert refused.value.where == str(manifest)
    assert "the last check has" in refused.value.seen
    manifest.write_bytes(whole)
    steps.check_period(OpenHome.at(tmp_path / "home", again.clock), period)
