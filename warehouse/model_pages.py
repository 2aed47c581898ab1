"""The models' own documentation as one HTML file that opens from disk, without a network.

Put here: generating it with dbt, and removing requests to servers from it.
Not here: the descriptions (`dbt/models/**/*.yml`), or building models (`warehouse.dbt_run`).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warehouse.dbt_run import FLAGS, ModelFailed, parse_project, places
from warehouse.page_cache import write_to_cache

TRACKER = "//d1fc8wv8zag5ca.cloudfront.net/2.9.0/sp.js"
"""The only address from which a browser would load a file for dbt's page: usage statistics."""

NO_TIME = "1970-01-01T00:00:00Z"

PAGE_VERSION = 4
"""Increased when the page of the same models changes, so that cached pages are made again."""


Lineage = Mapping[str, Mapping[str, Any]]
"""Model → `columns`: column → the [[model, column], …] from which it is calculated."""


def write_model_pages(folder: Path, path: Path, database: Path, lineage: Lineage) -> Path:
    """Write the page to `path`; `folder` is where dbt may work.

    Compiling opens the database and reads nothing of it: any file of the models' database name.
    """
    from dbt.cli.main import dbtRunner  # 1.3 s, see `warehouse.dbt_run`

    manifest = parse_project(folder, database)
    flags = [*(flag for flag in FLAGS if flag != "--no-write-json"), "--write-json"]
    # Types stand in the contracts; a catalogue would need a database for the same columns. Compiled
    # SQL does not.
    generate = ["docs", "generate", "--static", "--empty-catalog"]
    runner = dbtRunner(manifest=manifest)
    with contextlib.redirect_stdout(io.StringIO()):
        runner.invoke([*flags, "parse", *places(folder)])  # nothing to parse: it takes the flags
        untyped: Any = manifest  # its method `write` has no types
        untyped.write(str(folder / "target" / "manifest.json"))
        written = runner.invoke([*flags, *generate, *places(folder)])
    if written.exception is not None:
        raise ModelFailed(["(no pages)"], str(written.exception)) from written.exception
    page = (folder / "target" / "static_index.html").read_text(encoding="utf-8")
    manifest_text = (folder / "target" / "manifest.json").read_text(encoding="utf-8")
    page = page.replace(manifest_text, as_shown(manifest_text, lineage))
    write_to_cache(path, _without_run_details(page.replace(TRACKER, "about:blank")).encode())
    return path


def as_shown(manifest: str, lineage: Lineage) -> str:
    """The manifest with its parts sorted by name, and each column with its type and its lineage.

    dbt lists them in the order of parsing; the order within each, such as that of columns, is
    intended. The page takes types from a catalogue of a database; here they are in the contracts.
    """
    parts = json.loads(manifest)
    for part in ("nodes", "sources"):
        for node in parts.get(part, {}).values():
            followed = lineage.get(node.get("name", ""), {}).get("columns", {})
            for name, column in node.get("columns", {}).items():
                column["type"] = column.get("data_type") or ""
                if made_of := followed.get(name):
                    names = ", ".join(f"{model}.{parent}" for model, parent in made_of)
                    column["description"] += f" Made of {names}."
    return json.dumps(
        {
            name: dict(sorted(part.items())) if isinstance(part, dict) else part
            for name, part in parts.items()
        }
    )


def _without_run_details(page: str) -> str:
    """The page without times, paths and run IDs: the same models give the same bytes."""
    for pattern, instead in (
        (r'("(?:generated_at|run_started_at|invocation_started_at)": )"[^"]*"', f'"{NO_TIME}"'),
        (r'("invocation_id": )"[^"]*"', '""'),
        (r'("root_path": )"[^"]*"', '"dbt"'),
        (r'("compiled_path": )"[^"]*"', "null"),
        (r'("created_at": )[0-9.]+', "0"),
    ):
        page = re.sub(pattern, rf"\g<1>{instead}", page)
    return page
