"""The pages of the findings are those of the catalogue: same codes, same words.

After a change that is meant, run this file with GPU_LEDGER_WRITE_GOLDEN=1, and read what changed
as the person would who is told it at the end of a month.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quality.finding_catalogue import CATALOGUE

PAGES = Path(__file__).parents[2] / "docs" / "findings"
KINDS = {kind.code: kind for kind in CATALOGUE.values()}


@pytest.mark.parametrize("code", sorted(KINDS))
def test_the_page_says_what_the_catalogue_says(code: str) -> None:
    page = PAGES / f"{code}.md"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        page.write_text(KINDS[code].page(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == KINDS[code].page()


def test_there_is_no_page_without_a_finding() -> None:
    assert {page.stem for page in PAGES.glob("*-*.md")} == set(KINDS)


def test_a_page_tells_whether_a_bill_changes_and_what_to_do() -> None:
    for kind in KINDS.values():
        page = kind.page()
        assert page.startswith(f"# {kind.code}: {kind.name}\n")
        assert ("It blocks a close." in page) is kind.blocks
        for section in ("## What it means", "## Does it change a bill", "## What to do"):
            assert section in page
