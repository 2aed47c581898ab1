"""The page of named questions is written from the questions.

After a change that is meant: GPU_LEDGER_WRITE_GOLDEN=1 pytest, with this file.
"""

from __future__ import annotations

import os
from pathlib import Path

from warehouse.reports.questions import questions

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "queries.md"


def page() -> str:
    parts = [
        "# Named questions\n",
        "`gpu-ledger query NAME` asks one of these of the published copy, or of the warehouse;"
        " `--show` prints\nits SQL, to start from. Each is run in the tests, and its answer on the"
        " demo's smallest scenario is known.\n",
    ]
    for one in questions():
        parts += [f"## {one.name}\n", f"{one.title} {one.meaning}".strip() + "\n"]
        given = [f"`{name}` (default: {value})" for name, value in one.parameters.items()]
        parts += [f"Parameters: {', '.join(given)}.\n"] if given else []
        parts += [f"No row means: {one.when_empty}\n"] if one.when_empty else []
        parts += [f"```sql\n{one.sql.strip()}\n```\n"]
    return "\n".join(parts)


def test_every_question_is_on_the_page_as_it_is_asked() -> None:
    text = page()
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    assert len(questions()) >= 20
    assert PAGE.read_text(encoding="utf-8") == text
