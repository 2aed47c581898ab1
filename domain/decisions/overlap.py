"""The search for two rows that hold at the same instant.

Put here: the search, which knows rows only by their validity.
Not here: what the question is that two rows answer (`contradictions`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from typing import Protocol, TypeVar

from domain.validity import Validity


class Valid(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def validity(self) -> Validity: ...


R = TypeVar("R", bound=Valid)


def overlapping_pairs(
    rows: Iterable[R],
    question: Callable[[R], Hashable],
    answer: Callable[[R], Hashable] | None = None,
) -> Iterator[tuple[R, R]]:
    """Pairs of rows about one question that hold at once, the one that begins first being first.

    With `answer`, rows that say the same may overlap. A row is compared with the one that ends
    last among those before it, so the search takes n log n and finds at least one pair for every
    row that overlaps an earlier one.
    """
    by_question: defaultdict[Hashable, list[R]] = defaultdict(list)
    for row in rows:
        by_question[question(row)].append(row)
    for group in by_question.values():
        yield from _pairs_in(sorted(group, key=_begin), answer)


def _begin(row: Valid) -> tuple[datetime, int]:
    return (row.validity.valid_from, row.line)


def _pairs_in(group: list[R], answer: Callable[[R], Hashable] | None) -> Iterator[tuple[R, R]]:
    last_to_end: dict[Hashable, R] = {}
    for row in group:
        said = answer(row) if answer else None
        earlier = [last for a, last in last_to_end.items() if answer is None or a != said]
        clash = next((e for e in earlier if e.validity.overlaps(row.validity)), None)
        if clash is not None:
            yield clash, row
        if said not in last_to_end or _ends_later(row.validity, last_to_end[said].validity):
            last_to_end[said] = row


def _ends_later(one: Validity, other: Validity) -> bool:
    if other.valid_until is None:
        return False
    return one.valid_until is None or one.valid_until > other.valid_until
