"""Which columns of other models a model's column is made of, as it was followed beforehand.

Put here: reading the kept file, and how Dagster shows it.
Not here: following columns through SQL, which takes a minute and a parser (`tests.lineage`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

FILE = Path(__file__).with_suffix(".json")

Kept = Mapping[str, Mapping[str, Any]]
"""Model → `sql_sha256` of what was followed, and `columns`: column → [[model, column], …]."""


@cache
def kept_lineage() -> Kept:
    found: Kept = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def lineage_of(
    model: str, columns: Mapping[str, set[str]], key: Callable[[str], dg.AssetKey]
) -> dg.TableColumnLineage:
    """Of every column that the model has: the columns of other models that it is made of.

    What was kept of a column that is there no more, on either side, is left out.
    """
    followed = kept_lineage().get(model, {}).get("columns", {})
    return dg.TableColumnLineage(
        {
            column: [
                dg.TableColumnDep(key(parent), name)
                for parent, name in made_of
                if name in columns.get(parent, ())
            ]
            for column, made_of in followed.items()
            if column in columns[model]
        }
    )
