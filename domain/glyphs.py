"""The characters that the fonts of a PDF can show, and the substitutes of the others.

Put here: the ranges, and the substitution.
Not here: laying out pages, or where a character without a glyph is refused (`decisions.cells`).

An archival PDF must not hold a character that its fonts cannot show, and the fonts are those inside
typst, the same everywhere. Latin, Greek, Cyrillic, Armenian and Hebrew letters, punctuation,
currencies, arrows and mathematics are in them; other characters are written as their code points.
The sealed JSON, which is attached to the page, has every name as it is.
"""

from __future__ import annotations

import unicodedata
from typing import Any

DISPLAYABLE = (
    (0x0020, 0x007E),
    (0x00A0, 0x024F),
    (0x0370, 0x03FF),
    (0x0400, 0x04FF),
    (0x0530, 0x058F),
    (0x05BE, 0x05FF),
    (0x1E00, 0x1EFF),
    (0x2010, 0x2027),
    (0x2030, 0x2040),
    (0x2044, 0x2052),
    (0x2070, 0x209F),
    (0x20A0, 0x20BF),
    (0x2190, 0x22FF),
)
"""Every assigned character in them that is no mark and no control has a glyph; a test tries all."""


def displayable(text: str) -> str:
    """The text with every character that cannot be shown as its code point, such as [U+1F680]."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(char if can_be_shown(char) else f"[U+{ord(char):04X}]" for char in composed)


def can_be_shown(char: str) -> bool:
    point = ord(char)
    inside = any(first <= point <= last for first, last in DISPLAYABLE)
    return inside and unicodedata.category(char)[0] not in "CM"


def displayable_everywhere(value: Any) -> Any:
    """The same structure with every text in it made displayable."""
    if isinstance(value, str):
        return displayable(value)
    if isinstance(value, list):
        return [displayable_everywhere(item) for item in value]
    if isinstance(value, dict):
        return {key: displayable_everywhere(item) for key, item in value.items()}
    return value
