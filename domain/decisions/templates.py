"""The decision tables explained: as a new home gets them, and as a page of the documentation.

Put here: the text that explains a table to the person who fills it in.
Not here: the meanings themselves, which stand beside the columns.
"""

from __future__ import annotations

import csv
from io import StringIO

from domain.decisions.table_form import Column, Table
from domain.decisions.tables import TABLES


def template_files() -> dict[str, str]:
    """The text of every table by file name; each is an empty table that can be loaded."""
    return {table.file: _template(table) for table in TABLES}


def reference_page() -> str:
    """The page `docs/reference/decision-tables.md`; a test compares the two."""
    return "\n".join([_PAGE_HEAD, *(_section(table) for table in TABLES)])


def _section(table: Table) -> str:
    head = ["", f"## {table.file}", "", table.about, "", "| column | meaning | example |"]
    return "\n".join([*head, "|---|---|---|", *(_column_line(column) for column in table.columns)])


def _column_line(column: Column) -> str:
    example = f"`{column.example}`" if column.example else ""
    return f"| `{column.name}` | {column.meaning} | {example} |"


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


def _template(table: Table) -> str:
    comments = [f"# {table.about}", "#"]
    comments += [f"# {column.name}: {column.meaning}" for column in table.columns]
    comments += ["#", "# An example; take away the first # and change it:"]
    header = _line([column.name for column in table.columns])
    example = _line([column.example for column in table.columns])
    return "\n".join([header, *comments, f"#{example}", ""])


def _line(cells: list[str]) -> str:
    out = StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()
