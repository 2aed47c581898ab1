"""Pages that are written from the code: their folder, what they say, a sentence for a table.

Put here: what every such page needs.
Not here: what any page says (the tests beside what it is about).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
TOCTREE = "\n```{toctree}\n:hidden:\n:glob:\n\n*-*\n```\n"


def written(name: str, text: str) -> str:
    """What the page says; after a change that is meant, it is written anew from the text."""
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        (DOCS / name).write_text(text, encoding="utf-8")
    return (DOCS / name).read_text(encoding="utf-8")


def first_sentence(text: str) -> str:
    """As a cell of a table."""
    line = " ".join(text.split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", line)[0].replace("|", "\\|")
