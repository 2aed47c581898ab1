"""The page of all dbt models, and the column lineage that it shows.

Put here: the page's bytes, made once per version of the models, and the kept lineage.
Not here: writing the page (`warehouse.model_pages`), or following columns through SQL, which takes
a minute and a parser (`tests.lineage`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from warehouse.build import WORKING_NAME
from warehouse.home import Home
from warehouse.model_pages import PAGE_VERSION, write_model_pages
from warehouse.page_cache import find_cache_folder
from warehouse.project import project_sha256

FILE = Path(__file__).with_suffix(".json")

Lineage = Mapping[str, Mapping[str, Any]]
"""Model → `sql_sha256` of the followed SQL, and `columns`: column → [[model, column], …]."""


@cache
def kept_lineage() -> Lineage:
    """The columns of other models that each column is made of, as they were followed last."""
    found: Lineage = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def model_page(home: Home) -> bytes:
    """The documentation of all models as one HTML file. It has no data of the home."""
    folder = home.build / "pages"
    key = f"{project_sha256()[:16]}-{version('dbt-core')}-{PAGE_VERSION}"
    kept = find_cache_folder(folder) / f"{key}.html"
    if not kept.is_file():
        # dbt opens a database to compile; the file of a build may be locked by another process.
        write_model_pages(folder, kept, folder / WORKING_NAME, kept_lineage())
    return kept.read_bytes()
