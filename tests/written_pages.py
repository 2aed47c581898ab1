"""Pages that are generated from the code: their folder, their text, a sentence for a table cell.

Put here: functions for all such pages.
Not here: the text of a page (the tests beside its subject).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TOCTREE = "\n```{toctree}\n:hidden:\n:glob:\n\n*-*\n```\n"


def written(name: str, text: str) -> str:
    """The text of the page; with GPU_LEDGER_WRITE_GOLDEN=1 the page is written again first."""
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        (DOCS / name).write_text(text, encoding="utf-8")
    return (DOCS / name).read_text(encoding="utf-8")


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph, in the form of a table cell."""
    line = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", line)[0].replace("|", "\\|")
