"""The page about the decision tables, made of the meanings that stand beside their columns.

Put here: the page `docs/reference/decision-tables.md`.
Not here: the meanings (`domain.decisions.tables`), or the templates of a home
(`domain.decisions.templates`).
"""

from __future__ import annotations

from domain.decisions.table_form import Column, Table
from domain.decisions.tables import TABLES

_PAGE_HEAD = """# Decision tables

What people decide is kept in `decisions/*.csv` of a home: plain tables, dated and signed. This
page is made from the code that reads them; `gpu-ledger init` writes each table with the same
explanations.

- The first line names the columns; their order is free. Lines that begin with `#` are comments.
  A row is one line of UTF-8 text; text that holds a comma stands in double quotes.
- A row holds from `valid_from` (inclusive) until `valid_until` (exclusive). Times are in UTC; a
  bare date is its midnight. Two rows may touch, and never overlap.
- To change something from a date on, end the old row and add a new one. Ending a row later than
  a closed period changes nothing in that period; editing one that held in it is found.
- `gpu-ledger decisions check` reads all tables and names every problem with its file and line.
  While there is one, nothing is counted or billed."""


def decision_tables_page() -> str:
    """The page `docs/reference/decision-tables.md`; a test compares the two."""
    return "\n".join([_PAGE_HEAD, *(_section(table) for table in TABLES)])


def _section(table: Table) -> str:
    head = ["", f"## {table.file}", "", table.about, "", "| column | meaning | example |"]
    return "\n".join([*head, "|---|---|---|", *(_column_line(column) for column in table.columns)])


def _column_line(column: Column) -> str:
    example = f"`{column.example}`" if column.example else ""
    return f"| `{column.name}` | {column.meaning} | {example} |"
