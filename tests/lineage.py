"""Column lineage: from the cost of a charge back to the columns of the raw evidence.

Put here: following columns through the models' compiled SQL, the page about one of them, and the
file of all of them for Dagster.
Not here: the models (`dbt/models`), or comparing page and file with the result (a test).

`python -m tests.lineage HOME` writes both from the models of the last refresh of a home. Following
all columns takes a minute, so each model is stored with the hash of its SQL, and only changed
models are followed again.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from sqlglot import exp
from sqlglot.lineage import lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from orchestration.model_documentation import FILE, Lineage
from warehouse.project import dbt_project_dir
from warehouse.raw_schema import PARQUET_TABLES, RAW_TABLES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "lineage.md"
BEGIN = (("fct_charges", "cost_nanos"), ("fct_charges", "device_seconds"))
RAW = "raw__"
Column = tuple[str, str]

HEAD = """\
# Column lineage of `cost`

Generated from the compiled models; a test verifies that the page is current. The lineage starts
at the amount of an invoice line. `billed_cost` of a line is `cost` in cents: the exact total of
the document is rounded once and apportioned to its lines by the largest-remainder method
(`billing/lines.py`). `cost` is `fct_charges.cost_nanos`.

Columns that are used only in filters and joins are not listed. [From an invoice line to the raw
sample](../explanation/from-an-invoice-line-to-the-raw-sample.md) traces one line of one invoice.

No column of the cost decides whether a segment of an allocation blocks the close. The table
[`reconciliation_rules`](reconciliation-rules.md) does, in its column `blocks_close`, by the kind
of the segment: `int_allocation_segments` determines the kind, `int_allocations_reconciled` joins
the rule, and `quality/reconciliation.py` raises its finding. A disputed segment blocks the close
until an accepted gap gives it a treatment.

## Source columns

"""


class Models:
    """The compiled models with their columns."""

    def __init__(self, compiled: Path) -> None:
        # Unit tests compile their replacements of models below the name of their file.
        self._sql = {
            path.stem: _flat(path.read_text())
            for path in compiled.rglob("*.sql")
            if not any(part.endswith(".yml") for part in path.parts)
        }
        self._schema = {**dict(_declared()), **_raw()}
        self._scopes: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._sql.keys() & self._schema.keys())

    def sql_sha256(self, table: str) -> str:
        return hashlib.sha256(" ".join(self._sql[table].split()).encode()).hexdigest()

    def columns(self, table: str) -> list[str]:
        return list(self._schema[table])

    def made_of(self, column: Column) -> list[Column]:
        """The source columns of a column in other tables; empty for raw tables."""
        table, name = column
        if table not in self._sql:
            return []
        if table not in self._scopes:
            tree = sqlglot.parse_one(self._sql[table], dialect="duckdb")
            known = {"schema": self._schema, "dialect": "duckdb"}
            tree = qualify(tree, **known, validate_qualify_columns=False, identify=False)
            self._scopes[table] = build_scope(tree)
        scope = self._scopes[table]
        root = lineage(name, scope.expression, self._schema, dialect="duckdb", scope=scope)
        leaves = [node for node in root.walk() if not node.downstream]
        return sorted(
            {
                (node.expression.name, node.name.split(".")[-1].strip('"'))
                for node in leaves
                if isinstance(node.expression, exp.Table)
            }
        )


def trace(models: Models) -> dict[Column, list[Column]]:
    """The source columns of each column on the path, in the order of the path."""
    found: dict[Column, list[Column]] = {}
    todo = list(BEGIN)
    while todo:
        column = todo.pop(0)
        if column not in found:
            found[column] = models.made_of(column)
            todo += found[column]
    return found


def lineage_page(compiled: Path) -> str:
    found = trace(Models(compiled))
    ends = sorted(_name(column) for column in found if column[0].startswith(RAW))
    rows = [
        f"| `{_name(column)}` | {', '.join(f'`{_name(one)}`' for one in made)} |\n"
        for column, made in found.items()
        if made
    ]
    evidence = [f"- `{name}`\n" for name in ends]
    table = f"\n## The way\n\n| column | made of |\n|---|---|\n{''.join(rows)}"
    return HEAD + "".join(evidence) + table


def changed(models: Models, kept: Lineage) -> list[str]:
    """The models with changed SQL, and the models that were removed."""
    now = {name: models.sql_sha256(name) for name in models.names}
    then = {name: one["sql_sha256"] for name, one in kept.items()}
    return sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))


def followed(models: Models, kept: Lineage) -> Lineage:
    """All columns of all models; those of unchanged models are taken from `kept`."""
    again = set(changed(models, kept))
    return {name: _followed(models, name) if name in again else kept[name] for name in models.names}


def _followed(models: Models, name: str) -> dict[str, Any]:
    made = {column: models.made_of((name, column)) for column in models.columns(name)}
    columns = {
        column: [[table, one] for table, one in parents if not table.startswith(RAW)]
        for column, parents in made.items()
    }
    return {"sql_sha256": models.sql_sha256(name), "columns": columns}


def as_text(kept: Lineage) -> str:
    """One line per column, so that a diff shows a change of the models."""
    lines = []
    for name, one in sorted(kept.items()):
        made = sorted(one["columns"].items())
        columns = ",\n".join(f"  {json.dumps(c)}: {json.dumps(made_of)}" for c, made_of in made)
        head = f' {json.dumps(name)}: {{"sql_sha256": "{one["sql_sha256"]}", "columns": {{'
        lines.append(f"{head}\n{columns}\n }}}}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _name(column: Column) -> str:
    return f"{column[0].replace(RAW, 'raw.')}.{column[1]}"


def _flat(sql: str) -> str:
    """The SQL with one name per table: `raw__` before the tables that are not models."""
    sql = re.sub(r'"\w+"\."raw"\."(\w+)"', rf"{RAW}\1", sql)
    return re.sub(r'"\w+"\."\w+"\."(\w+)"', r"\1", sql)


def _declared() -> Iterator[tuple[str, dict[str, str]]]:
    for path in sorted(dbt_project_dir().rglob("*.yml")):
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
        for model in [*(text.get("models") or []), *(text.get("seeds") or [])]:
            if isinstance(model, dict) and "columns" in model:
                kinds = {c["name"]: c.get("data_type", "varchar") for c in model["columns"]}
                yield model["name"], kinds


def _raw() -> dict[str, dict[str, str]]:
    hashed = {"labels_sha256": "VARCHAR"}
    return {
        RAW + name: {**columns, **(hashed if name in PARQUET_TABLES else {})}
        for name, columns in RAW_TABLES.items()
    }


if __name__ == "__main__":
    built = Path(sys.argv[1]) / "build" / "dbt" / "target" / "compiled" / "gpu_ledger" / "models"
    PAGE.write_text(lineage_page(built), encoding="utf-8")
    before: Lineage = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    FILE.write_text(as_text(followed(Models(built), before)), encoding="utf-8")
    print(PAGE, FILE, sep="\n")
