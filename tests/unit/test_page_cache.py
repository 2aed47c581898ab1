"""Cached files in the user's folder are complete, of the newest versions, and separate by
project.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warehouse import page_cache, project


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return page_cache.find_cache_folder(tmp_path / "home")


def test_no_unfinished_file_is_left(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    left = cache / f".killed.html.{page_cache.UNFINISHED}"
    left.write_bytes(b"half")
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", full)
        with pytest.raises(OSError, match="No space left"):
            page_cache.write_to_cache(cache / "page.html", b"page")
    assert list(cache.iterdir()) == [left]
    os.utime(left, (0, 0))
    page_cache.write_to_cache(cache / "page.html", b"page")
    assert [path.name for path in cache.iterdir()] == ["page.html"]


def test_a_project_below_a_folder_named_target_is_recognised(
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


def test_only_the_newest_versions_are_kept(cache: Path) -> None:
    for number in range(page_cache.VERSIONS_KEPT + 2):
        page_cache.write_to_cache(cache / f"{number}.html", b"page")
        os.utime(cache / f"{number}.html", (number, number))
    page_cache.write_to_cache(cache / "newest.html", b"page")
    assert {path.stem for path in cache.iterdir()} == {"3", "4", "5", "newest"}


def test_without_a_user_folder_the_cache_is_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("a file where the folder would be", encoding="utf-8")
    assert page_cache.find_cache_folder(tmp_path / "home") == tmp_path / "home"
