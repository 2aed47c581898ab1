"""The models' own documentation as one HTML file that opens from disk, without a network.

Put here: having dbt write it, and taking out of it what would ask a server.
Not here: the descriptions (`dbt/models/**/*.yml`), or building models (`warehouse.dbt_run`).
"""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from warehouse.dbt_run import FLAGS, ModelFailed, places, write_profile

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

TRACKER = "//d1fc8wv8zag5ca.cloudfront.net/2.9.0/sp.js"
"""The one address in dbt's page from which a browser would load anything: usage statistics."""


def write_model_pages(folder: Path, path: Path, parsed: Path, database: Path) -> Path:
    """Write the page to `path`; `folder` is where dbt may work.

    What builds have `parsed` of the project need not be read again: with the profile of the same
    database it is still valid. Nothing opens that.
    """
    from dbt.cli.main import dbtRunner

    write_profile(folder, database)
    if parsed.is_file():
        (folder / "target").mkdir(exist_ok=True)
        shutil.copyfile(parsed, folder / "target" / parsed.name)
    flags = [*(flag for flag in FLAGS if flag != "--no-write-json"), "--write-json"]
    # Types stand in the contracts; a catalogue would need a database for the same columns.
    generate = ["docs", "generate", "--static", "--empty-catalog", "--no-compile"]
    with contextlib.redirect_stdout(io.StringIO()):
        parsed = dbtRunner().invoke([*flags, "parse", *places(folder)])
        if parsed.exception is not None:
            raise ModelFailed(["(none parsed)"], str(parsed.exception)) from parsed.exception
        manifest = cast("Manifest", parsed.result)
        written = dbtRunner(manifest=manifest).invoke([*flags, *generate, *places(folder)])
    if written.exception is not None:
        raise ModelFailed(["(no pages)"], str(written.exception)) from written.exception
    page = (folder / "target" / "static_index.html").read_text(encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(page.replace(TRACKER, "about:blank"), encoding="utf-8")
    unfinished.replace(path)
    return path
