"""The page of an error or of a finding, by its code.

Put here: the folder of the pages, in a checkout and in an installed package.
Not here: their text (`docs/errors`, `docs/findings`).
"""

from __future__ import annotations

import re
from pathlib import Path

from domain.errors import UnknownName

_CODE = re.compile(r"[A-Za-z]+-[0-9]{3}")


def is_code(text: str) -> bool:
    """Whether it is written as a code: documents have longer numbers, INV-000001."""
    return _CODE.fullmatch(text) is not None


def page_of(code: str) -> str:
    """The page, as Markdown; raises UnknownName."""
    for folder in ("errors", "findings"):
        path = _pages() / folder / f"{code.upper()}.md"
        if is_code(code) and path.is_file():
            return path.read_text(encoding="utf-8")
    raise UnknownName(
        where=f"code {code!r}",
        seen="no error and no finding has this code",
        why="each printed code has a page",
        remedy="copy it from the message, such as: gpu-ledger explain GAP-001",
    )


def _pages() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "_pages"
    return installed if installed.is_dir() else here.parent / "docs"
