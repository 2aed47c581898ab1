"""JSON output of commands that change something, compared with their schemas.

Put here: results of such commands, in JSON and as a row of CSV.
Not here: commands that only read (`test_cli_json`, `scenarios/test_thin_line`).
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from orchestration.cli.main import COMMANDS, cli
from tests.json_output import commands_with_json, differences
from tests.marts_by_hand import Pod, World, at
from tests.unit.test_billing_close import close as closed

SIGNATURE = (
    *("--cluster", "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11", "--source", "kubernetes"),
    *("--from", "2026-10-09T10:00:00Z", "--to", "2026-10-09T12:00:00Z"),
    *("--treatment", "bill_nothing", "--reason", "collector upgrade", "--by", "Ada Example"),
)
FOR_PEOPLE = [
    "fake cluster run",
    "fake show",
    "collect",
    "landing show",
    "portal token create",
    "up",
    "completion",
]
"""They print a file unchanged, or run until they are stopped."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    pods = [Pod("team-a", "serve", at("09 10:00"), at("09 11:30"))]
    return World(tmp_path / "home", pods=pods)


def printed(command: str, *arguments: object) -> Any:
    """The parsed JSON of the command, after a comparison with its schema."""
    words = [*command.split(), *map(str, arguments), "--json"]
    ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert differences(command, ran.stdout) == []
    return json.loads(ran.stdout)


def test_commands_without_json_are_those_without_a_result() -> None:
    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in COMMANDS}
    leaves = [leaf for name, one in found.items() for leaf in leaves_of(name, one)]
    assert [leaf for leaf in leaves if leaf not in commands_with_json()] == FOR_PEOPLE


def leaves_of(name: str, command: click.Command | None) -> list[str]:
    if not isinstance(command, click.Group):
        return [name]
    return [
        leaf for sub, one in command.commands.items() for leaf in leaves_of(f"{name} {sub}", one)
    ]


def test_short_options_equal_the_long_ones() -> None:
    listed = [["fake", "list", *form] for form in (("-o", "json"), ("--json",))]
    assert len({CliRunner().invoke(cli, words).stdout for words in listed}) == 1
    listed = [["fake", "list", *form] for form in (("-o", "csv"), ("--csv",))]
    assert len({CliRunner().invoke(cli, words).stdout for words in listed}) == 1


def test_init_lists_its_files_and_marks_the_new_ones(tmp_path: Path) -> None:
    first = printed("init", tmp_path / "home")
    assert [row["file"] for row in first if row["file"].endswith(".toml")] == [
        str(tmp_path / "home" / "config.toml")
    ]
    assert {row["is_new"] for row in first} == {True}
    again = printed("init", tmp_path / "home")
    assert {row["is_new"] for row in again} == {False}
    assert [row["file"] for row in again] == [row["file"] for row in first]


def test_exported_samples_are_listed_with_their_size(tmp_path: Path) -> None:
    rows = printed("fake export", "thin_line", "--openmetrics", tmp_path, "--match", "up")
    assert rows
    assert {Path(row["file"]): row["bytes"] for row in rows} == {
        path: len(path.read_bytes()) for path in tmp_path.iterdir()
    }


def test_an_accepted_gap_is_new_only_once(tmp_path: Path) -> None:
    home = World(tmp_path / "home").home
    done = printed("accept-gap", *SIGNATURE, "--home", home.path)
    assert done["is_new"]
    assert (done["decided_by"], done["started_at"]) == ("Ada Example", "2026-10-09T10:00:00Z")
    assert not printed("accept-gap", *SIGNATURE, "--home", home.path)["is_new"]


def test_backup_and_restore_report_their_result(world: World, tmp_path: Path) -> None:
    world.write()
    closed(world)
    backup = tmp_path / "backup"
    done = printed("backup", backup, "--home", world.path)
    copied = [path for path in backup.rglob("*") if path.is_file()]
    assert done["file_count"] <= len(copied)
    restored = printed("restore", backup, "--home", tmp_path / "restored")
    assert restored == {
        "home": str(tmp_path / "restored"),
        "is_restored": True,
        "may_be_written": False,
        "problems": [],
    }
    words = ("--by", "Ada Example", "--and", "Bob Example", "--home", tmp_path / "restored")
    assert printed("restore", *words)["may_be_written"]


def test_repaired_evidence_is_counted(tmp_path: Path) -> None:
    home = World(tmp_path / "home").home
    assert printed("rebuild", "--home", home.path) == {"attempts": 0}


def test_a_bundle_has_its_file_and_size(world: World, tmp_path: Path) -> None:
    place = tmp_path / "bundle.zip"
    done = printed("support-bundle", "--to", place, "--home", world.write().path)
    assert done == {"file": str(place), "bytes": len(place.read_bytes())}


def test_the_explanation_of_a_code_is_text_in_json() -> None:
    done = printed("explain", "gap-001")
    assert done["code"] == "GAP-001"
    assert done["page"].startswith("# GAP-001: hour_not_measured\n")
    for_people = CliRunner().invoke(cli, ["explain", "GAP-001"])
    assert for_people.stdout == done["page"]


def test_the_result_is_one_row_of_csv(tmp_path: Path) -> None:
    home = World(tmp_path / "home").home
    ran = CliRunner().invoke(cli, ["rebuild", "--home", str(home.path), "--csv"])
    assert list(csv.DictReader(io.StringIO(ran.stdout))) == [{"attempts": "0"}]
