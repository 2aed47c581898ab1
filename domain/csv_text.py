"""CSV that is the same bytes everywhere and harmless in a spreadsheet.

Put here: quoting, line ends, and the defence against cells that a spreadsheet would execute.
Not here: which columns a file has.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"-?\d+([./]\d+)?", re.ASCII)
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """`csv_text` in UTF-8."""
    return csv_text(columns, rows).encode("utf-8", "backslashreplace")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """CSV with LF and minimal quotes; floats are refused, because they are not exact amounts."""
    text = io.StringIO()
    minimal = csv.writer(text, lineterminator="\n")
    # The writer does not quote a lone carriage return, which would split the row.
    full = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    minimal.writerow(columns)
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{len(row)} cells for {len(columns)} columns")
        cells = [_cell(value) for value in row]
        (full if any("\r" in cell for cell in cells) else minimal).writerow(cells)
    return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, float):
        raise TypeError("no floating-point number belongs in a document")
    text = "" if value is None else str(value)
    # A pod may be called =HYPERLINK(…); a leading quote makes spreadsheets show it as text.
    if text.startswith(_RISKY) and not _NUMBER.fullmatch(text):
        return "'" + text
    return text
