"""The page about the decision tables, generated from the descriptions of their columns.

Put here: the page `docs/reference/decision-tables.md`.
Not here: the meanings (`domain.decisions.tables`), or the templates of a home
(`domain.decisions.templates`).
"""

from __future__ import annotations

from domain.decisions.table_form import DecisionColumn, DecisionTable
from domain.decisions.tables import TABLES

_PAGE_HEAD = """# Decision tables

Decisions are rows of the tables in `decisions/*.csv` of a home, with dates, reason and name. This
page is generated from the code that reads them; `gpu-ledger init` writes each table with the same
descriptions.

- The first line names the columns, in any order. Lines that begin with `#` are comments. A row is
  one line of UTF-8 text; put text with a comma in double quotes.
- A row is valid from `valid_from` (inclusive) until `valid_until` (exclusive). Times are in UTC; a
  date means midnight. Rows of one subject must not overlap.
- To change a value from a date on, end the old row and add a new one. Ending a row after a closed
  period does not change that period; editing a row that was valid in it is a finding.
- `gpu-ledger decisions check` reads all tables and names each problem with its file and line. No
  period can be refreshed or billed until all problems are fixed."""


def decision_tables_page() -> str:
    """The page `docs/reference/decision-tables.md`; a test compares the two."""
    return "\n".join([_PAGE_HEAD, *(_section(table) for table in TABLES)])


def _section(table: DecisionTable) -> str:
    head = ["", f"## {table.file}", "", table.about, "", "| column | meaning | example |"]
    return "\n".join([*head, "|---|---|---|", *(_column_line(column) for column in table.columns)])


def _column_line(column: DecisionColumn) -> str:
    example = f"`{column.example}`" if column.example else ""
    return f"| `{column.name}` | {column.meaning} | {example} |"
