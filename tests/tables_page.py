"""The reference of the tables as one page of Markdown, from the descriptions of the models.

Put here: the page.
Not here: the descriptions (`dbt/models/**/*.yml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warehouse.project import column_descriptions, dbt_project_dir, read_yaml

_REFERENCE = re.compile(r"ref\('(\w+)'\)")
_SOURCE = re.compile(r"source\('\w+', '(\w+)'\)")

HEAD = """\
# Tables

Generated from the descriptions beside the models; a test compares. Times are UTC, quantities and
money are whole numbers, and the unit is the last word of a name. `_nanos` are 10⁻⁹ currency units.
A published copy carries the same words as comments on its tables and columns.

"""


def tables_page() -> str:
    """The whole page: marts with their columns, then the models below them."""
    models = {str(model["name"]): (model, path) for model, path in _models()}
    marts = [name for name, (_, path) in models.items() if path.parent.name == "marts"]
    parts = [HEAD, *(_mart(*models[name]) for name in marts)]
    parts.append("## What they are made of\n\n| model | description | made of |\n|---|---|---|\n")
    parts += [_line(*models[name]) for name in models if name not in marts]
    return "".join(parts)


def _models() -> Iterator[tuple[Mapping[str, Any], Path]]:

    folder = dbt_project_dir() / "models"
    for layer in ("marts", "intermediate", "staging"):
        for path in sorted((folder / layer).glob("*.yml")):
            for model in read_yaml(path).get("models", []):
                if "description" in model:
                    yield model, path.with_name(f"{model['name']}.sql")


def _mart(model: Mapping[str, Any], sql: Path) -> str:
    group = model.get("config", {}).get("group", "")
    descriptions = column_descriptions(model)
    rows = [
        f"| `{column['name']}` | {column['data_type']} | {_cell(descriptions[column['name']])} |\n"
        for column in model["columns"]
    ]
    return (
        f"## {model['name']}\n\n{_cell(model['description'])}\n\n"
        f"Group {group}; made of {_upstream(sql)}.\n\n"
        f"| column | type | description |\n|---|---|---|\n{''.join(rows)}\n"
    )


def _line(model: Mapping[str, Any], sql: Path) -> str:
    return f"| `{model['name']}` | {_cell(model['description'])} | {_upstream(sql)} |\n"


def _upstream(sql: Path) -> str:
    text = sql.read_text(encoding="utf-8")
    names = [*_REFERENCE.findall(text), *(f"raw.{name}" for name in _SOURCE.findall(text))]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names)) or "nothing"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
