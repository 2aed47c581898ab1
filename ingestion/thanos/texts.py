"""Distinct values texts, `[[1790848800.123,"1"],…]`, decoded all at once.

Put here: from texts to columns of samples, fast where the texts are as servers write them, and one
by one where they are not.
Not here: which series has which text, or runs (`ingestion.thanos.decode`).

The fast way reads all texts as one array of bytes: the quotes tell where every value begins and
ends, and ten digits before a comma are a second. Whatever it does not recognise to the last byte
goes the slow way, which reads JSON; both say the same, and a property test holds them to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

QUOTE, COMMA, OPEN, CLOSE, DOT, ZERO = (ord(character) for character in '",[].0')
SECOND_DIGITS = 10
"""Seconds since 1970 have ten digits from 2001 to 2286."""

_PLAIN_VALUE = re.compile(r"[-+0-9.eEinfaNI]+")
_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])


class MalformedSeries(ValueError):
    """A series inside a valid envelope that is not the protocol; names what is wrong."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of many owners, one owner after the other: owner[i] is whose sample i is."""

    owner_count: int
    owner: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    value: NDArray[np.int64]  # into values
    values: list[str]


def decoded_texts(texts: Sequence[bytes]) -> Samples:
    """The samples of every text; the owner is the text's place."""
    return _all_at_once(texts) or _one_by_one(texts)


def _all_at_once(texts: Sequence[bytes]) -> Samples | None:
    """None when a single byte is not where servers write it."""
    filled = [place for place, text in enumerate(texts) if text != b"[]"]
    joined = b",".join([texts[place] for place in filled])
    if b"\\" in joined:
        return None
    read = np.frombuffer(joined, np.uint8)
    quotes = np.flatnonzero(read == QUOTE)
    if not quotes.size:
        nothing = np.empty(0, np.int64)
        return Samples(len(texts), nothing, nothing, nothing, []) if not filled else None
    if quotes.size % 2 or read.size < quotes[-1] + 3:
        return None
    opens, closes = quotes[0::2], quotes[1::2]
    starts, firsts = _starts(read, closes)
    time_ms = _times(read, starts, opens - 1 - starts)
    if time_ms is None or not _framed(read, starts, opens, closes, firsts):
        return None
    value, values = _values(read, opens + 1, closes - opens - 1)
    if firsts.sum() != len(filled) or not all(_PLAIN_VALUE.fullmatch(text) for text in values):
        return None
    owner = np.array(filled, np.int64)[np.cumsum(firsts) - 1]
    return Samples(len(texts), owner, time_ms, value, values)


def _starts(read: NDArray[Any], closes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where each time begins, and whether it is its text's first: `"],[1` or `"]],[[1`."""
    firsts = np.ones(closes.size, bool)
    firsts[1:] = read[closes[:-1] + 2] == CLOSE
    starts = np.full(closes.size, 2)
    starts[1:] = closes[:-1] + np.where(firsts[1:], 6, 4)
    return starts, firsts


def _framed(
    read: NDArray[Any],
    starts: NDArray[Any],
    opens: NDArray[Any],
    closes: NDArray[Any],
    firsts: NDArray[Any],
) -> bool:
    """Whether nothing but `[`, `]` and `,` stands between values and times."""
    before, after = closes[:-1], firsts[1:]
    inner, outer = before[~after], before[after]
    return bool(
        read[0] == read[1] == OPEN
        and read[-1] == read[-2] == CLOSE
        and closes[-1] == read.size - 3
        and (read[opens - 1] == COMMA).all()
        and (read[starts - 1] == OPEN).all()
        and (read[closes + 1] == CLOSE).all()
        and (read[inner + 2] == COMMA).all()
        and (read[outer + 3] == COMMA).all()
        and (read[outer + 4] == OPEN).all()
    )


def _times(
    read: NDArray[Any], starts: NDArray[Any], widths: NDArray[Any]
) -> NDArray[np.int64] | None:
    """Milliseconds from `1790848800`, `1790848800.1`, `….12` or `….123`; None for other forms."""
    fractions = widths - SECOND_DIGITS - 1
    if not np.isin(fractions, (-1, 1, 2, 3)).all() or starts[-1] + SECOND_DIGITS >= read.size:
        return None
    dotted = np.flatnonzero(fractions > 0)
    if (read[starts[dotted] + SECOND_DIGITS] != DOT).any():
        return None
    worst = np.zeros(starts.size, np.uint8)
    time_ms = np.zeros(starts.size, np.int64)
    for place in range(SECOND_DIGITS):
        digit = read[starts + place] - np.uint8(ZERO)  # below "0" it wraps around to above 9
        np.maximum(worst, digit, out=worst)
        time_ms *= 10
        time_ms += digit
    time_ms *= 1000
    for place, weight in ((1, 100), (2, 10), (3, 1)):
        rows = dotted[fractions[dotted] >= place]
        digit = read[starts[rows] + SECOND_DIGITS + place] - np.uint8(ZERO)
        worst[rows] = np.maximum(worst[rows], digit)
        time_ms[rows] += digit.astype(np.int64) * weight
    return None if worst.max() > 9 else time_ms


def _values(
    read: NDArray[Any], starts: NDArray[Any], widths: NDArray[Any]
) -> tuple[NDArray[np.int64], list[str]]:
    """Each distinct value text once, and which sample has which."""
    value = np.empty(starts.size, np.int64)
    values: list[str] = []
    for width in np.flatnonzero(np.bincount(widths)).tolist():
        rows = np.flatnonzero(widths == width)
        if width == 1:
            letters = read[starts[rows]]
            places = np.cumsum(np.bincount(letters, minlength=256) > 0) - 1
            words = [bytes([letter]) for letter in np.flatnonzero(np.bincount(letters)).tolist()]
            value[rows] = places[letters] + len(values)
        else:
            known: dict[bytes, int] = {}
            spans = np.ascontiguousarray(read[starts[rows][:, None] + np.arange(width)])
            # Neighbours are mostly equal: only where a value changes is it looked up.
            new = np.ones(rows.size, bool)
            new[1:] = (spans[1:] != spans[:-1]).any(axis=1)
            every = spans[new].tobytes()
            cut = [every[at : at + width] for at in range(0, len(every), width or 1)] or [b""]
            inverse = np.array([known.setdefault(word, len(known)) for word in cut], np.int64)
            words = list(known)
            value[rows] = inverse[np.cumsum(new) - 1] + len(values)
        values += [word.decode("latin-1") for word in words]
    return value, values


def _one_by_one(texts: Sequence[bytes]) -> Samples:
    owners: list[int] = []
    times: list[int] = []
    indices: list[int] = []
    values: dict[str, int] = {}
    for place, text in enumerate(texts):
        try:
            pairs = _PAIRS.decode(text)
        except msgspec.MsgspecError as cause:
            raise MalformedSeries(f"values: {cause}") from None
        for seconds, word in pairs:
            owners.append(place)
            times.append(round(seconds * 1000.0))
            indices.append(values.setdefault(word, len(values)))
    owner, time_ms, value = (np.array(column, np.int64) for column in (owners, times, indices))
    return Samples(len(texts), owner, time_ms, value, list(values))
