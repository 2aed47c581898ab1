"""The decision tables explained, as a new home gets them.

Put here: the text that explains a table to the person who fills it in.
Not here: the meanings themselves, which stand beside the columns.
"""

from __future__ import annotations

import csv
from io import StringIO

from domain.decisions.table_form import DecisionTable
from domain.decisions.tables import TABLES


def template_files() -> dict[str, str]:
    """The text of every table by file name; each is an empty table that can be loaded."""
    return {table.file: _template(table) for table in TABLES}


def _template(table: DecisionTable) -> str:
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
