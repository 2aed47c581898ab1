"""The parsed project that is kept says what parsing says, and only for what it was parsed from."""

from __future__ import annotations

import hashlib
import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from warehouse import kept, parsed, project
from warehouse.dbt_run import parse_project
from warehouse.model_pages import write_model_pages

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / kept.CACHE


class Small:
    """What `parsed_project` needs of a manifest to keep it."""

    def to_msgpack(self, _: Any) -> bytes:
        return b"parsed"


def times_parsed(folder: Path, profile: str, count: int = 1) -> int:
    asked: list[str] = []

    def parse() -> Any:
        asked.append(profile)
        return Small()

    for _ in range(count):
        parsed.parsed_project(folder, profile, parse)
    return len(asked)


def test_another_home_is_given_what_parsing_the_project_gives(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = parse_project(tmp_path / "one", tmp_path / "one" / "facts.duckdb")
    [path] = cache.glob("*.parsed")
    written = path.stat().st_mtime_ns
    second = parse_project(tmp_path / "two", tmp_path / "two" / "facts.duckdb")

    assert path.stat().st_mtime_ns == written
    assert said(second) == said(first)
    assert len(second.nodes) > 200
    assert not (tmp_path / "two" / "target").exists()  # dbt was not asked

    # As in a process that has not run dbt yet.
    monkeypatch.setattr("dbt.flags.GLOBAL_FLAGS", Namespace(USE_COLORS=True))
    page = write_model_pages(tmp_path, tmp_path / "page.html", tmp_path / "facts.duckdb", {})
    assert "fct_charges" in page.read_text(encoding="utf-8")


def said(manifest: Manifest) -> dict[str, Any]:
    """All that a run needs: nodes, macros, sources, tests of units, and who needs whom."""
    told = {
        part: {name: node.to_dict() for name, node in getattr(manifest, part).items()}
        for part in ("nodes", "macros", "sources", "unit_tests", "exposures", "docs")
    }
    manifest.build_parent_and_child_maps()
    return {**told, "parents": manifest.parent_map, "children": manifest.child_map}


def test_a_broken_file_is_parsed_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert times_parsed(tmp_path, "profile") == 1
    [path] = cache.glob("*.parsed")
    path.write_bytes(path.read_bytes()[:-1])
    assert times_parsed(tmp_path, "profile") == 1
    # Whole, and what another version of a reader wrote: no manifest.
    body = b"from another world"
    path.write_bytes(hashlib.sha256(body).digest() + body)
    assert times_parsed(tmp_path, "profile") == 1
    # Not to be read at all.
    path.unlink()
    path.mkdir()
    assert times_parsed(tmp_path, "profile") == 1


def test_nothing_unfinished_is_left_behind(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    left = cache / f".killed.parsed.{kept.UNFINISHED}"
    cache.mkdir(parents=True)
    left.write_bytes(b"half")
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        assert times_parsed(tmp_path, "profile") == 1
    assert list(cache.iterdir()) == [left]
    os.utime(left, (0, 0))
    assert times_parsed(tmp_path, "profile") == 1
    assert [path.suffix for path in cache.iterdir()] == [".parsed"]


def test_a_project_below_a_folder_named_target_is_known_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_folder = tmp_path / "target" / "dbt"
    project_folder.mkdir(parents=True)
    monkeypatch.setattr(project, "dbt_project_dir", lambda: project_folder)
    known = set()
    for text in ("select 1", "select 2"):
        (project_folder / "model.sql").write_text(text)
        known.add(project.project_sha256())
    (project_folder / "target").mkdir()
    (project_folder / "target" / "model.sql").write_text("compiled")
    assert project.project_sha256() in known
    assert len(known) == 2


def test_what_was_edited_while_it_was_parsed_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edited_meanwhile() -> Any:
        monkeypatch.setattr(parsed, "project_sha256", lambda: "an edited model")
        return Small()

    parsed.parsed_project(tmp_path, "profile", edited_meanwhile)
    assert list(cache.iterdir()) == []


def test_another_profile_project_or_version_is_parsed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {parsed._known_by("one"), parsed._known_by("two")}
    monkeypatch.setattr(parsed, "project_sha256", lambda: "an edited model")
    known.add(parsed._known_by("one"))
    monkeypatch.setattr(parsed, "dbt_project_dir", lambda: tmp_path)
    known.add(parsed._known_by("one"))
    monkeypatch.setattr(parsed, "version", lambda name: "1.99")
    known.add(parsed._known_by("one"))
    assert len(known) == 5


def test_only_the_newest_versions_are_kept(tmp_path: Path, cache: Path) -> None:
    for number in range(kept.VERSIONS_KEPT + 2):
        times_parsed(tmp_path, f"profile {number}")
    assert len(list(cache.iterdir())) == kept.VERSIONS_KEPT


def test_without_a_folder_of_the_user_it_is_kept_in_the_home(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be", encoding="utf-8")
    assert times_parsed(tmp_path / "home", "profile") == 1
    assert len(list((tmp_path / "home").glob("*.parsed"))) == 1
