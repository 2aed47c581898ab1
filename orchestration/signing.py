"""Signing for a gap: a dated row in decisions/accepted_gaps.csv, refused when it cannot be meant.

Put here: adding the row; the command line and the demo call this.
Not here: what a signature does to an amount (`dbt/`), or which gaps there are (`quality`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from domain.decisions import load_decisions, template_files
from orchestration.open_home import OpenHome, decision_files
from warehouse.store import write_whole

TABLE = "accepted_gaps.csv"


def sign_gaps(opened: OpenHome, rows: Iterable[Mapping[str, str]]) -> bool:
    """Add rows that say what is billed for gaps; False when all of them were signed before.

    Read back before it replaces the table, so that a row that cannot be meant leaves no trace.
    """
    path = opened.home.decisions / TABLE
    before = path.read_text(encoding="utf-8") if path.exists() else template_files()[TABLE]
    after = before
    for row in rows:
        after = _with_row(after, {**row, "decided_on": opened.clock.now().date().isoformat()})
    files = decision_files(opened.home)
    signed = load_decisions({**files, TABLE: after.encode()})
    if set(signed.accepted_gaps) == set(load_decisions(files).accepted_gaps):
        return False
    write_whole(path, after.encode())
    return True


def _with_row(table: str, row: Mapping[str, str]) -> str:
    header = next(line for line in table.splitlines() if line and not line.startswith("#"))
    buffer = io.StringIO()
    names = next(csv.reader([header]))
    csv.writer(buffer, lineterminator="\n").writerow([row.get(name, "") for name in names])
    return table + ("" if table.endswith("\n") else "\n") + buffer.getvalue()
