"""The pages of the findings have the codes and texts of the catalogue.

After an intended change, run this file with GPU_LEDGER_WRITE_GOLDEN=1 and review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quality.finding_catalogue import CATALOGUE

PAGES = Path(__file__).parents[2] / "docs" / "findings"
KINDS = {kind.code: kind for kind in CATALOGUE.values()}


@pytest.mark.parametrize("code", sorted(KINDS))
def test_the_page_agrees_with_the_catalogue(code: str) -> None:
    page = PAGES / f"{code}.md"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        page.write_text(KINDS[code].page(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == KINDS[code].page()


def test_there_is_no_page_without_a_finding() -> None:
    assert {page.stem for page in PAGES.glob("*-*.md")} == set(KINDS)


def test_a_page_has_the_effect_on_bills_and_the_remedy() -> None:
    for kind in KINDS.values():
        page = kind.page()
        assert page.startswith(f"# {kind.code}: {kind.name}\n")
        assert ("It blocks a close." in page) is kind.blocks
        for section in ("## What it means", "## Effect on bills", "## What to do"):
            assert section in page
