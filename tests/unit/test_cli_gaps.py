"""Signing for a gap: one row more, or nothing changed."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from domain.decisions import load_decisions
from orchestration.cli.gaps import accept_gap
from orchestration.open_home import decision_files
from tests.decisions_by_hand import HEADERS
from warehouse.home import Home

CLUSTER = "c-1,east,2026-10-01,,both,30,30,measured,Ada,2026-09-01"
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


def test_a_signature_is_one_row_that_reads_back(tmp_path: Path) -> None:
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


def test_signing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    before = (home.decisions / "accepted_gaps.csv").read_bytes()
    again = CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    assert "signed before" in again.output
    assert (home.decisions / "accepted_gaps.csv").read_bytes() == before


def test_signing_the_same_hours_otherwise_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    CliRunner().invoke(accept_gap, [*SIGNATURE, "--home", str(tmp_path)])
    before = (home.decisions / "accepted_gaps.csv").read_bytes()
    other = ["waive" if word == "bill_nothing" else word for word in SIGNATURE]
    refused = CliRunner().invoke(accept_gap, [*other, "--home", str(tmp_path)])
    assert refused.exception is not None
    assert (home.decisions / "accepted_gaps.csv").read_bytes() == before


def test_a_gap_of_an_unknown_cluster_cannot_be_signed(tmp_path: Path) -> None:
    home = home_with_a_cluster(tmp_path)
    wrong = ["c-2" if word == "c-1" else word for word in SIGNATURE]
    ran = CliRunner().invoke(accept_gap, [*wrong, "--home", str(tmp_path)])
    assert ran.exception is not None
    assert not (home.decisions / "accepted_gaps.csv").exists()
