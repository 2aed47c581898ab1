"""Where the dbt project lies: inside the installed package, or beside it in a checkout.

Put here: the folder and its seed files.
Not here: running dbt (`warehouse.dbt_run`).

Nothing is ever written into that folder: it may be read-only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from domain.errors import TemporarilyUnavailable

_BLOCK = re.compile(r"{% docs (\w+) %}(.*?){% enddocs %}", re.DOTALL)
_REFERENCE = re.compile(r"{{ doc\('(\w+)'\) }}")

PROJECT_SUFFIXES = (".sql", ".yml", ".csv", ".md")


class ProjectMissing(TemporarilyUnavailable):
    """The package was installed without its dbt project."""

    code = "INSTALL-001"

    def __init__(self, folders: tuple[Path, ...]) -> None:
        super().__init__(
            where=" or ".join(str(folder) for folder in folders),
            seen="no dbt_project.yml there",
            why="the models that count are in it; without them nothing can be counted",
            remedy="install the wheel again: pip install --force-reinstall gpu-ledger",
        )


def dbt_project_dir() -> Path:
    """The folder with dbt_project.yml."""
    here = Path(__file__).resolve().parent
    # In a wheel it is not called dbt/: the installed dbt-core owns that package name.
    candidates = (here / "_dbt_project", here.parent / "dbt")
    for folder in candidates:
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise ProjectMissing(candidates)


def project_sha256() -> str:
    """Changes when any file of the dbt project does."""
    digest, count = hashlib.sha256(), 0
    root = dbt_project_dir()
    for path in sorted(root.rglob("*")):
        # The place of the project itself does not matter: it may be in a folder `target`.
        within = path.relative_to(root)
        if path.suffix in PROJECT_SUFFIXES and "target" not in within.parts:
            name, body = within.as_posix().encode(), path.read_bytes()
            digest.update(b"%d:%s%d:%s" % (len(name), name, len(body), body))
            count += 1
    assert count, f"nothing of the models is in {root}"
    return digest.hexdigest()


def seed_text(name: str) -> str:
    """The text of a shipped table of product facts, such as `gpu_products`."""
    return (dbt_project_dir() / "seeds" / f"{name}.csv").read_text(encoding="utf-8")


def source_freshness(table: str) -> tuple[timedelta, timedelta]:
    """How old the newest evidence of a source may be: before it is odd, and before it is wrong."""
    [source] = read_yaml(dbt_project_dir() / "models" / "staging" / "sources.yml")["sources"]
    [declared] = [one for one in source["tables"] if one["name"] == table]
    limits = declared["config"]["freshness"]
    odd, wrong = (limits[name] for name in ("warn_after", "error_after"))
    assert {odd["period"], wrong["period"]} == {"hour"}, table
    return timedelta(hours=odd["count"]), timedelta(hours=wrong["count"])


def mart_descriptions() -> dict[str, tuple[str, dict[str, str]]]:
    """The descriptions of the marts and their columns, by name."""
    return {
        model["name"]: (model["description"], column_descriptions(model))
        for path in sorted((dbt_project_dir() / "models" / "marts").glob("*.yml"))
        for model in read_yaml(path).get("models", [])
    }


def column_descriptions(model: Mapping[str, Any]) -> dict[str, str]:
    """The descriptions of a model's columns, with the text of doc blocks that several share."""
    blocks = _doc_blocks(dbt_project_dir())
    return {
        column["name"]: _REFERENCE.sub(lambda found: blocks[found[1]], column["description"])
        for column in model["columns"]
    }


@cache
def _doc_blocks(project: Path) -> dict[str, str]:
    text = (project / "models" / "columns.md").read_text(encoding="utf-8")
    return {name: " ".join(block.split()) for name, block in _BLOCK.findall(text)}


def read_yaml(path: Path) -> Any:
    """A file of the project."""
    # Ten times faster, where yaml was built with it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return loader(path.read_text(encoding="utf-8")).get_single_data()
