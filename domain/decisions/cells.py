"""The cells of decision tables: reading their text into values, and writing values back.

Put here: the kinds of cells, their bounds, and the remedy for invalid text.
Not here: which column has which kind (`domain.decisions.tables`).

Writing is canonical: equal values have equal text (`1.50` and `1.5` are written `1.5`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from fractions import Fraction
from typing import Any, Generic, TypeVar
from unicodedata import normalize

from domain.billing_period import BillingPeriod
from domain.budgets import LARGEST_STEP, STEPS_LIMIT
from domain.errors import BadInput, shown
from domain.glyphs import can_be_shown
from domain.interval import format_instant, parse_instant
from domain.mig.profile import parse_profile
from domain.money import format_nanos, parse_nanos, require_currency

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

LONGEST_TEXT = 1_000
"""Characters in one cell of free text; an invoice shows the reasons, and they must fit on it."""

_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"(\d{1,9})(?:/(\d{1,9})|\.(\d{1,9}))?", re.ASCII)
_PARTITION = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_PRODUCT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,250}[A-Za-z0-9])?", re.ASCII)


class CellRefused(ValueError):
    """The text of a cell is not valid in its column; the table reader adds the place."""

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen)
        self.seen = seen
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Cell(Generic[T]):
    """How one kind of cell is read, and how it is written."""

    read: Callable[[str], T]
    write: Callable[[T], str]


def text() -> Cell[str]:
    """Free text that is not empty."""
    return Cell(_read_text, str)


def printed_text() -> Cell[str]:
    """Free text that an invoice has to show as it is: every character has a glyph in its fonts."""

    def read(typed: str) -> str:
        text = _read_text(typed)
        hidden = sorted({char for char in normalize("NFC", text) if not can_be_shown(char)})
        if hidden:
            named = ", ".join(f"{char} (U+{ord(char):04X})" for char in hidden[:5])
            raise CellRefused(
                f"{shown(typed)}: the fonts of an invoice have no glyph for {named}",
                "write it in Latin, Greek, Cyrillic, Armenian or Hebrew letters",
            )
        return text

    return Cell(read, str)


def percent() -> Cell[str]:
    """A percentage from 0 to 100 with at most three decimals, in its shortest spelling."""
    parse = _parsed_by(parse_nanos)

    def read(typed: str) -> str:
        nanos = parse(typed)
        if not 0 <= nanos <= 100 * 10**9 or nanos % 10**6:
            remedy = "write a percentage from 0 to 100 with at most 3 decimals, such as 8.875"
            raise CellRefused(shown(typed), remedy)
        return format_nanos(nanos)

    return Cell(read, str)


def optional(cell: Cell[T], empty: Any = None) -> Cell[Any]:
    """A cell that may be empty, and the value of an empty one."""

    def read(typed: str) -> Any:
        return cell.read(typed) if typed else empty

    def write(value: Any) -> str:
        return "" if value == empty else cell.write(value)

    return Cell(read, write)


def namespace() -> Cell[str]:
    return _matching(_NAMESPACE, "a namespace", "at most 63 lower-case letters, digits and dashes")


def identifier() -> Cell[str]:
    return _matching(_IDENTIFIER, "an identifier", "the UID as Kubernetes shows it")


def product() -> Cell[str]:
    """A product or a class, in the letters that the product table allows."""
    return _matching(_PRODUCT, "a name of a GPU", "letters, digits, and . _ / - between them")


def profile() -> Cell[str]:
    """`whole`, a MIG profile in its one spelling, or a partition in lower case (`cpx_nps4`)."""

    def read(typed: str) -> str:
        if _PARTITION.fullmatch(typed):
            return typed
        spelled = str(_parsed_by(parse_profile)(typed))
        if spelled != typed:
            raise CellRefused(f"{shown(typed)}, another spelling of {spelled}", f"write {spelled}")
        return typed

    return Cell(read, str)


def currency() -> Cell[str]:
    return Cell(_parsed_by(require_currency), str)


def instant() -> Cell[datetime]:
    return Cell(_parsed_by(parse_instant), format_instant)


def billing_period() -> Cell[BillingPeriod]:
    return Cell(_parsed_by(BillingPeriod), str)


def one_of(kind: type[E]) -> Cell[E]:
    """A word out of a list, exactly as listed."""
    by_text = {str(member.value): member for member in kind}

    def read(typed: str) -> E:
        if typed not in by_text:
            raise CellRefused(f"{shown(typed)}", f"write one of: {', '.join(by_text)}")
        return by_text[typed]

    return Cell(read, lambda member: str(member.value))


def whole_number(least: int, most: int) -> Cell[int]:
    def read(typed: str) -> int:
        number = int(typed) if _WHOLE_NUMBER.fullmatch(typed) else -1
        if not least <= number <= most:
            raise CellRefused(shown(typed), f"write a whole number from {least} to {most}")
        return number

    return Cell(read, str)


def amount_nanos(most_units: int) -> Cell[int]:
    """Money that is not negative, as decimal text."""
    parse = _parsed_by(parse_nanos)

    def read(typed: str) -> int:
        nanos = parse(typed)
        if not 0 <= nanos <= most_units * 10**9:
            raise CellRefused(shown(typed), f"write an amount from 0 to {most_units}")
        return nanos

    return Cell(read, format_nanos)


def share() -> Cell[Fraction]:
    """A limit as a share of the whole: from 0 to 1, `0.005` being half a percent."""

    def read(typed: str) -> Fraction:
        number = _fraction(typed)
        if number is None or number > 1:
            raise CellRefused(shown(typed), "write a share from 0 to 1, such as 0.005")
        return number

    return Cell(read, str)


def pair(separator: str, example: str) -> Cell[tuple[str, str]]:
    """Two texts, such as a label and its value; only the second may contain the separator."""

    def read(typed: str) -> tuple[str, str]:
        first, _, second = typed.partition(separator)
        if not (first and second and len(typed) <= LONGEST_TEXT):
            raise CellRefused(shown(typed), f"write it as {example}")
        return first, second

    return Cell(read, separator.join)


def steps() -> Cell[tuple[int, ...]]:
    """Percentages of a budget, the lower ones first; `none` for no step."""

    def read(typed: str) -> tuple[int, ...]:
        if typed == "none":
            return ()
        found = [int(one) if _WHOLE_NUMBER.fullmatch(one) else 0 for one in typed.split(" ")]
        is_valid = all(1 <= step <= LARGEST_STEP for step in found)
        if not is_valid or sorted(set(found)) != found or len(found) > STEPS_LIMIT:
            raise CellRefused(
                shown(typed),
                f"write at most {STEPS_LIMIT} whole percentages from 1 to {LARGEST_STEP}, each "
                "higher than the one before it, such as 50 75 90 100; or none",
            )
        return tuple(found)

    return Cell(read, lambda steps: " ".join(map(str, steps)) or "none")


def day() -> Cell[date]:
    def read(typed: str) -> date:
        try:
            if _DATE.fullmatch(typed):
                return date.fromisoformat(typed)
        except ValueError:
            pass  # a valid form that is no day, such as 2026-02-30
        raise CellRefused(f"{shown(typed)} is not a day", "write it as 2026-10-01")

    return Cell(read, date.isoformat)


def _read_text(typed: str) -> str:
    if not typed:
        raise CellRefused("nothing", "fill it in: it is printed where the decision is used")
    if len(typed) > LONGEST_TEXT:
        raise CellRefused(f"{len(typed)} characters", f"shorten it to {LONGEST_TEXT}")
    return typed


def _matching(form: re.Pattern[str], kind: str, remedy: str) -> Cell[str]:
    def read(typed: str) -> str:
        if not form.fullmatch(typed):
            raise CellRefused(f"{shown(typed)} is not {kind}", f"write {remedy}")
        return typed

    return Cell(read, str)


def _parsed_by(parse: Callable[[str], T]) -> Callable[[str], T]:
    def read(typed: str) -> T:
        try:
            return parse(typed)
        except BadInput as error:
            raise CellRefused(error.seen, error.remedy) from None

    return read


def _fraction(typed: str) -> Fraction | None:
    match = _FRACTION.fullmatch(typed)
    if not match or (match[2] and int(match[2]) == 0):
        return None
    return Fraction(typed)
