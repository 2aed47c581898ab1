"""The command as a process: exit codes, errors in four parts, help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.cli.main import COMMANDS


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    code = "from orchestration.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_help_lists_every_command_with_its_summary() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    for name, (_, _, summary) in COMMANDS.items():
        assert name in shown.stdout
        assert summary.split()[0] in shown.stdout


def test_a_wrong_option_exits_with_2_and_is_named() -> None:
    ran = run("close", "--no-such-option")
    assert ran.returncode == 2
    assert "--no-such-option" in ran.stderr


def test_an_impossible_period_is_refused_in_four_parts(tmp_path: Path) -> None:
    ran = run("check", "2026-13", "--home", str(tmp_path))
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == (
        "VALUE-001 a billing period\n"
        "  seen:   '2026-13' is not a month\n"
        "  why:    an invoice covers exactly one calendar month in UTC\n"
        "  remedy: write it as 2026-10\n"
        "  see:    gpu-ledger explain VALUE-001\n"
    )


@pytest.mark.parametrize("place", [0, 1, 4])
def test_errors_can_be_printed_as_json(tmp_path: Path, place: int) -> None:
    words = ["check", "2026-10", "--home", str(tmp_path / "nowhere")]
    ran = run(*words[:place], "--json-errors", *words[place:])
    assert ran.returncode == 2
    assert json.loads(ran.stderr)["code"] == "HOME-001"


def test_a_misspelled_command_gets_a_suggestion() -> None:
    ran = run("colse", "2026-10")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "close" in ran.stderr
    said = json.loads(run("colse", "--json-errors").stderr)
    assert (said["code"], "close" in said["seen"]) == ("COMMAND-001", True)


def test_an_unwritable_folder_is_reported_in_four_parts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run("init", str(tmp_path / "file" / "home"))
    assert ran.returncode == 3
    assert ran.stderr.startswith(f"STORE-001 {tmp_path / 'file'}")
    assert "Traceback" not in ran.stderr


def test_explain_prints_the_page_of_a_code_without_a_home(tmp_path: Path) -> None:
    for code, title in (("GAP-001", "# GAP-001: hour_not_measured"), ("value-001", "# VALUE-001")):
        ran = run("explain", code, cwd=tmp_path)
        assert (ran.returncode, ran.stdout.startswith(title)) == (0, True)
    ran = run("explain", "GAP-999", cwd=tmp_path)
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, "NAME-001 code 'GAP-999'")


def test_init_writes_a_home_that_passes_its_own_checks(tmp_path: Path) -> None:
    home = tmp_path / "ledger"
    made = run("init", str(home))
    assert made.returncode == 0, made.stderr
    assert (home / "config.toml").read_text().startswith("#")
    names = sorted(path.name for path in (home / "decisions").iterdir())
    assert {"clusters.csv", "rates.csv", "tenants.csv", "accepted_gaps.csv"} <= set(names)
    checked = run("decisions", "check", "--home", str(home))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_init_changes_no_existing_file(tmp_path: Path) -> None:
    run("init", str(tmp_path))
    rates = tmp_path / "decisions" / "rates.csv"
    rates.write_text("mine\n")
    run("init", str(tmp_path))
    assert rates.read_text() == "mine\n"


def test_a_bad_decision_is_named_with_file_and_line_and_exits_with_1(tmp_path: Path) -> None:
    run("init", str(tmp_path))
    clusters = tmp_path / "decisions" / "clusters.csv"
    clusters.write_text(clusters.read_text() + "c1,east,2026-13-01,,both,30,30,r,p,2026-10-01,\n")
    ran = run("decisions", "check", "--home", str(tmp_path), "-o", "json")
    assert ran.returncode == 1
    [problem] = json.loads(ran.stdout)
    line = clusters.read_text().splitlines().index("c1,east,2026-13-01,,both,30,30,r,p,2026-10-01,")
    assert "clusters.csv" in problem["where"]
    assert str(line + 1) in problem["where"]
    assert "2026-13-01" in problem["seen"]


@pytest.mark.parametrize("text", ["2026-10-01T00", "2026-10-01T05..2026-10-01T05", "a..b"])
def test_invalid_hours_are_refused(text: str, tmp_path: Path) -> None:
    run("init", str(tmp_path))
    ran = run("pull", "--hours", text, "--home", str(tmp_path))
    assert ran.returncode == 2
    assert ran.stderr
