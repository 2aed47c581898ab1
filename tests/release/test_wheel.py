"""The wheel contains all files that the commands need without a checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestration.deployment_checks import COMPONENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(listed.splitlines())


def test_the_whole_dbt_project_is_inside_under_a_name_of_its_own(names: set[str]) -> None:
    expected = {f"warehouse/_dbt_project/{name[4:]}" for name in tracked("dbt")}
    assert len(expected) > 20
    assert expected <= names
    assert not any(name.startswith("dbt/") for name in names)


def test_the_named_questions_are_inside(names: set[str]) -> None:
    asked = {Path(name).name for name in tracked("docs/reference/queries")}
    assert len(asked) == 23
    assert {f"warehouse/_questions/{name}" for name in asked} <= names


def test_the_manifests_with_rights_are_inside(names: set[str]) -> None:
    assert {f"orchestration/_manifests/{name}" for name in COMPONENTS.values()} <= names


def test_the_pages_of_errors_and_findings_are_inside(names: set[str]) -> None:
    pages = {name.removeprefix("docs/") for name in tracked("docs/errors", "docs/findings")}
    assert len(pages) > 50
    assert {f"orchestration/_pages/{name}" for name in pages} <= names


def test_every_file_of_every_package_is_inside(names: set[str]) -> None:
    packages = (
        "domain",
        "clients",
        "idle_pruner",
        "ingestion",
        "warehouse",
        "quality",
        "billing",
        "portal",
        "orchestration",
    )
    assert tracked(*packages, "fake_gpu", "amd_exporter") <= names


def test_nothing_else_is_inside(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "domain",
        "clients",
        "idle_pruner",
        "ingestion",
        "warehouse",
        "quality",
        "billing",
        "portal",
        "orchestration",
        "fake_gpu",
        "amd_exporter",
    }
    assert not any(name.endswith((".duckdb", ".pyc")) for name in names)
