"""The home: its parts, and how it is recognised.

Put here: creating and opening a home, and the places of its stores.
Not here: the settings in its config.toml (`test_settings`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import WrongFolder
from warehouse.home import (
    KEPT,
    LAYOUT,
    Home,
    HomeNewer,
    PlacesUnreadable,
)
from warehouse.store import FolderStore


def test_a_new_home_has_exactly_its_four_kept_parts(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "ledger", "# settings\n")
    assert sorted(path.name for path in home.path.iterdir()) == sorted(KEPT)
    assert home.config_path.read_text() == "# settings\n"


def test_creating_a_home_again_changes_nothing_in_it(tmp_path: Path) -> None:
    Home.create(tmp_path / "ledger", "# mine\n")
    assert Home.create(tmp_path / "ledger", "# other\n").config_path.read_text() == "# mine\n"


def test_a_folder_without_settings_is_no_home(tmp_path: Path) -> None:
    with pytest.raises(WrongFolder, match=r"no config\.toml"):
        Home.open(tmp_path)
    with pytest.raises(WrongFolder, match="no such folder"):
        Home.open(tmp_path / "absent")


def test_a_folder_with_other_files_does_not_become_a_home(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(WrongFolder, match=r"thesis\.tex"):
        Home.create(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_home_restored_without_its_derived_parts_opens(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "ledger")
    (home.path / "runs").mkdir()
    (home.path / "runs").rmdir()
    assert Home.open(tmp_path / "ledger") == home


def test_the_stores_are_in_the_home_by_default(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "ledger")
    landing = home.landing_store()
    assert isinstance(landing, FolderStore)
    assert landing.folder == home.landing
    home.config_path.write_text('[storage]\nlanding = "memory://evidence"\n')
    assert home.landing_store().location.startswith("memory://")
    assert isinstance(home.record_store(), FolderStore)


@pytest.mark.parametrize("text", ["[storage", "[storage]\nlanding = 3\n"])
def test_invalid_settings_do_not_select_another_place(tmp_path: Path, text: str) -> None:
    home = Home.create(tmp_path / "ledger", text)
    with pytest.raises(PlacesUnreadable):
        home.landing_store()


def test_a_home_without_a_version_has_the_first_layout(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    assert home.layout == LAYOUT
    home.layout_path.unlink()
    assert Home.open(home.path).layout == 1


@pytest.mark.parametrize("text", ['{"layout": 99}', '{"layout": true}', "[", '{"layout": 0}'])
def test_a_home_of_an_unknown_layout_is_refused(tmp_path: Path, text: str) -> None:
    home = Home.create(tmp_path / "home")
    home.layout_path.write_text(text)
    with pytest.raises(HomeNewer):
        Home.open(home.path)


def test_an_older_home_is_migrated_stepwise_and_also_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home", "# old settings\n")
    (home.decisions / "rates.csv").write_text("old\n")
    home.record_store().create("events/0000000001.json", b"closed")
    done: list[str] = []

    def second(home: Home) -> None:
        done.append("2 to 3")
        home.config_path.write_text("# new settings\n")
        (home.decisions / "rates.csv").write_text("new\n")
        if done.count("2 to 3") == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("warehouse.home.LAYOUT", 3)
    steps = {1: lambda home: done.append("1 to 2"), 2: second}
    monkeypatch.setattr("warehouse.home.MIGRATIONS", steps)
    with pytest.raises(KeyboardInterrupt):
        Home.open(home.path)
    assert Home.open(home.path).layout == 3
    assert done == ["1 to 2", "2 to 3", "2 to 3"]
    copy = home.path / "before-layout-3"
    assert {str(p.relative_to(copy)): p.read_text() for p in copy.rglob("*") if p.is_file()} == {
        "config.toml": "# old settings\n",
        "home.json": '{"layout": 1}\n',
        "decisions/rates.csv": "old\n",
        "record/events/0000000001.json": "closed",
    }
    monkeypatch.setattr("warehouse.home.LAYOUT", 1)
    with pytest.raises(HomeNewer):
        Home.open(home.path)
