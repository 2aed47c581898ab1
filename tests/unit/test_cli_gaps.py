"""The list of gaps, and accepting one: one new row, or no change."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from domain.decisions import load_decisions
from orchestration.cli.gaps import accept_gap, gaps
from orchestration.home_lock import lock_home
from orchestration.open_home import decision_files
from tests.decisions_by_hand import HEADERS
from tests.marts_by_hand import Pod, World, at
from warehouse.home import Home

CLUSTER = "c-1,east,2026-10-01,,both,30,30,measured,Ada,2026-09-01,"
SIGNATURE = [
    *("--cluster", "c-1", "--source", "kubernetes"),
    *("--from", "2026-10-09T10:00:00Z", "--to", "2026-10-09T12:00:00Z"),
    *("--treatment", "bill_nothing", "--reason", 'upgrade, "planned"', "--by", "Ada Example"),
]


def home_with_a_cluster(folder: Path) -> Home:
    home = Home.create(folder)
    text = f"{HEADERS['clusters']}\n{CLUSTER}\n"
    (home.decisions / "clusters.csv").write_text(text, encoding="utf-8")
    return home


def test_accepting_a_gap_writes_one_valid_row(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    ran = CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    [gap] = load_decisions(decision_files(home)).accepted_gaps
    assert (gap.cluster_id, gap.treatment, gap.reason) == (
        "c-1",
        "bill_nothing",
        'upgrade, "planned"',
    )
    assert gap.interval.seconds == 7200


def test_accepting_the_same_gap_again_changes_nothing(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    before = (home.decisions / "accepted_gaps.csv").read_bytes()
    again = CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    assert "accepted before" in again.output
    assert (home.decisions / "accepted_gaps.csv").read_bytes() == before


def test_accepting_the_same_hours_differently_is_refused(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    before = (home.decisions / "accepted_gaps.csv").read_bytes()
    other = ["waive" if word == "bill_nothing" else word for word in SIGNATURE]
    refused = CliRunner().invoke(accept_gap, [*other, "--home", str(tmp_path)])
    assert refused.exception is not None
    assert (home.decisions / "accepted_gaps.csv").read_bytes() == before


def test_a_gap_of_an_unknown_cluster_cannot_be_accepted(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    wrong = ["c-2" if word == "c-1" else word for word in SIGNATURE]
    ran = CliRunner().invoke(accept_gap, [*wrong, "--home", str(tmp_path)])
    assert ran.exception is not None
    assert not (home.decisions / "accepted_gaps.csv").exists()


def test_a_gap_shows_time_cause_tenants_pods_amount_and_remedy(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.pods = [
        Pod("team-a", "before", at("20 09:10"), at("20 10:20")),
        Pod("team-b", "later", at("20 13:00"), at("20 14:00")),
    ]
    world.lose_interval("thanos", "20 10:05", "20 10:10")
    home = world.write()
    row = f"{CLUSTER.replace('c-1', 'c1')}\n"
    (home.decisions / "clusters.csv").write_text(f"{HEADERS['clusters']}\n{row}", encoding="utf-8")
    rates = "\n".join([HEADERS["rates"], *world.rates, ""])
    (home.decisions / "rates.csv").write_text(rates, encoding="utf-8")
    shown = CliRunner().invoke(gaps, ["2026-10", "--home", str(home.path)])
    assert "1.20 EUR" in shown.stdout
    ran = CliRunner().invoke(gaps, ["2026-10", "-o", "json", "--home", str(home.path)])
    assert ran.exit_code == 0, ran.output
    [gap] = json.loads(ran.stdout)
    assert (gap["from"], gap["until"]) == ("2026-10-20T10:05:00Z", "2026-10-20T10:10:00Z")
    assert gap["sources"] == "thanos"
    assert "10 of 120 samples missing" in gap["cause"]
    assert gap["tenants"] == "team-a"
    assert gap["pods"] == ["team-a/before"]
    # A third of an hour at 3.60.
    assert (gap["at_stake"], gap["currency"]) == ("1.2", "EUR")
    command = (
        "gpu-ledger pull --cluster c1 --hours 2026-10-20T10:00:00Z..2026-10-20T11:00:00Z --all"
    )
    assert gap["command"] == command
    assert shown.stdout.endswith(f"Backfill or accept:\n  {command}\n")
    with lock_home(home.dagster, "http://127.0.0.1:3000"):
        up = CliRunner().invoke(gaps, ["2026-10", "--home", str(home.path)])
    hour = "view=partitions&partition=2026-10-20T10&showAllEvents=true"
    link = f"http://127.0.0.1:3000/assets/east/thanos_hours?{hour}"
    assert up.stdout == f"{shown.stdout}In the Dagster web UI:\n  {link}\n"


def test_missing_samples_of_single_pods_are_rows_and_no_whole_hours(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.pods = [Pod("team-a", "served", at("20 09:10"), at("20 12:20"))]
    for hour, count in (("20 09:00", 3), ("20 10:00", 1), ("20 14:00", 2)):
        world.pods_missing["c1", "thanos", at(hour)] = count
    home = world.write()
    row = f"{CLUSTER.replace('c-1', 'c1')}\n"
    (home.decisions / "clusters.csv").write_text(f"{HEADERS['clusters']}\n{row}", encoding="utf-8")
    shown = CliRunner().invoke(gaps, ["2026-10", "--home", str(home.path)])
    assert "Repair or sign" not in shown.stdout
    ran = CliRunner().invoke(gaps, ["2026-10", "-o", "json", "--home", str(home.path)])
    rows = json.loads(ran.stdout)
    found = [(row["from"], row["until"], row["cause"], row["command"]) for row in rows]
    assert found == [
        (
            "2026-10-20T09:00:00Z",
            "2026-10-20T11:00:00Z",
            "thanos: 4 samples of single pods missing",
            "",
        ),
        (
            "2026-10-20T14:00:00Z",
            "2026-10-20T15:00:00Z",
            "thanos: 2 samples of single pods missing",
            "",
        ),
    ]
