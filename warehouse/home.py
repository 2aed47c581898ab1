"""The home: one folder of the user's choice that holds everything a ledger keeps.

Put here: which parts a home has, which of them are a backup, and where its two stores live.
Not here: the meaning of the settings (`ingestion.settings`) or the content of the parts.

    config.toml  decisions/  landing/  record/         kept: a copy of these four is a backup
    home.json                                          the version of their layout, kept with them
    before-layout-N/                                   copies of a migration; delete them when done
    runs/  build/  warehouse.duckdb  published/  snapshots/  documents/  dagster/
                                           rebuilt from the four
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from domain.errors import BadInput, OtherVersionNeeded, WrongFolder
from warehouse.store import (
    FolderStore,
    Store,
    make_folder,
    open_store,
    sync_folder,
    write_whole,
)

_EMPTY_CONFIG = "# The settings of this ledger; `gpu-ledger init` writes them with explanations.\n"
LAYOUT_FILE = "home.json"
KEPT = ("config.toml", LAYOUT_FILE, "decisions", "landing", "record")
"""The parts that are a complete backup."""
LAYOUT = 1
"""The layout of the kept parts that this program writes."""
MIGRATIONS: Mapping[int, Callable[[Home], None]] = {}
"""From a layout to the next one: a function that changes the kept parts and can be repeated."""


def _layout_text(layout: int) -> bytes:
    return f'{{"layout": {layout}}}\n'.encode()


class PlacesUnreadable(BadInput):
    """config.toml cannot be read far enough to find the stores."""

    code = "CONF-001"

    def __init__(self, path: Path, seen: str) -> None:
        super().__init__(
            where=str(path),
            seen=seen,
            why="without it the ledger does not know where evidence and record live",
            remedy="correct that line, then run `gpu-ledger doctor`",
        )


class HomeNewer(OtherVersionNeeded):
    """The home was written by a newer program, whose files this one does not know."""

    def __init__(self, path: Path, found: object) -> None:
        super().__init__(
            where=str(path),
            seen=f"its layout is {str(found)[:40]!r}; this program knows layouts 1 to {LAYOUT}",
            why="this program could misread parts of it, or overwrite parts that it does not know",
            remedy="run the newer program, or restore a backup from before the upgrade",
        )


@dataclass(frozen=True, slots=True)
class Home:
    """The parts of a home, by name. Paths are not made until something is written there."""

    path: Path

    @classmethod
    def open(cls, path: Path) -> Home:
        home = cls(path.resolve())
        if not home.config_path.is_file():
            raise WrongFolder(
                where=str(path),
                seen="no config.toml here" if path.is_dir() else "no such folder",
                why="a ledger's home is known by its config.toml; another folder would start a "
                "new one",
                remedy=f"point --home to the right folder, or make one: gpu-ledger init {path}",
            )
        home.migrate()
        return home

    @classmethod
    def create(cls, path: Path, config: str = _EMPTY_CONFIG) -> Home:
        """Make the kept parts of a home; existing ones stay as they are."""
        home = cls(path.resolve())
        if home.path.is_dir() and not home.config_path.is_file():
            for found in sorted(home.path.iterdir()):
                if found.name not in KEPT:
                    raise WrongFolder(
                        where=str(path),
                        seen=f"the folder already holds {found.name!r}, which is no part of a home",
                        why="a home owns its folder: backups copy it, and derived parts in it "
                        "are thrown away",
                        remedy="choose an empty or a new folder",
                    )
        is_new = not home.path.exists()
        for folder in (home.path, home.decisions, home.landing, home.record):
            make_folder(folder)
        if is_new:  # a folder that was there may be shared on purpose
            home.path.chmod(0o700)
        if not home.config_path.exists():
            write_whole(home.config_path, config.encode())
            write_whole(home.layout_path, _layout_text(LAYOUT))
        return home

    def migrate(self) -> None:
        """Bring the kept parts to this program's layout, one step after the other.

        A home without the file is of layout 1. Each step can be repeated: the file is written after
        it. Before the first step, everything but the landing, which no step changes, is copied to
        `before-layout-N/`.
        """
        layout = self.layout
        if layout < LAYOUT:
            self._copy_before(LAYOUT)
        for step in range(layout, LAYOUT):
            MIGRATIONS[step](self)
            write_whole(self.layout_path, _layout_text(step + 1))

    def _copy_before(self, layout: int) -> None:
        """Copy the kept parts but the landing, whole or not at all; an existing copy stays."""
        target = self.path / f"before-layout-{layout}"
        if target.exists():
            return
        unfinished = FolderStore(target.with_name(f".{target.name}"))
        shutil.rmtree(unfinished.folder, ignore_errors=True)
        for name in (self.config_path.name, LAYOUT_FILE):
            if (self.path / name).is_file():
                unfinished.create(name, (self.path / name).read_bytes())
        parts = {"decisions": FolderStore(self.decisions), "record": self.record_store()}
        for part, store in parts.items():
            for key in store.list(""):
                unfinished.create(f"{part}/{key}", store.read(key))
        unfinished.folder.rename(target)
        sync_folder(self.path)

    @property
    def layout(self) -> int:
        """The version of the kept parts; raises HomeNewer where this program does not know it."""
        try:
            text = self.layout_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return 1
        except (OSError, ValueError) as cause:
            raise HomeNewer(self.layout_path, type(cause).__name__) from None
        try:
            found = json.loads(text)["layout"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise HomeNewer(self.layout_path, text) from None
        if type(found) is not int or not 1 <= found <= LAYOUT:
            raise HomeNewer(self.layout_path, found)
        return found

    @property
    def layout_path(self) -> Path:
        return self.path / LAYOUT_FILE

    @property
    def config_path(self) -> Path:
        return self.path / "config.toml"

    @property
    def decisions(self) -> Path:
        return self.path / "decisions"

    @property
    def landing(self) -> Path:
        return self.path / "landing"

    @property
    def record(self) -> Path:
        return self.path / "record"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def build(self) -> Path:
        return self.path / "build"

    @property
    def warehouse_path(self) -> Path:
        return self.path / "warehouse.duckdb"

    @property
    def published(self) -> Path:
        return self.path / "published"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def documents(self) -> Path:
        return self.path / "documents"

    @property
    def dagster(self) -> Path:
        return self.path / "dagster"

    def landing_store(self) -> Store:
        """Where evidence lives: `landing/`, or the URL in config.toml under [storage]."""
        return open_store(self._place("landing") or self.landing)

    def record_store(self) -> Store:
        """Where the record lives: `record/`, or the URL in config.toml under [storage]."""
        return open_store(self._place("record") or self.record)

    def _place(self, name: str) -> str:
        try:
            config = tomllib.loads(self.config_path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as cause:
            raise PlacesUnreadable(self.config_path, f"it is not readable TOML: {cause}") from None
        places = config.get("storage", {})
        place = places.get(name, "") if isinstance(places, dict) else None
        if not isinstance(place, str):
            raise PlacesUnreadable(
                self.config_path,
                f"[storage] {name} is {place!r}, not the text of a URL or a folder",
            )
        return place
