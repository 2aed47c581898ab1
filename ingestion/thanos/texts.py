"""Distinct values texts, `[[1790848800.123,"1"],…]`, decoded all at once.

Put here: from texts to columns of samples, fast where the texts are as servers write them, and one
by one where they are not.
Not here: which series has which text, or runs (`ingestion.thanos.decode`).

The fast way reads all texts as one array of bytes: the quotes tell where every value begins and
ends, and ten digits before a comma are a second. Whatever it does not recognise to the last byte
goes the slow way, which reads JSON; both say the same, and a property test holds them to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ingestion.json_text import NOT_JSON

QUOTE = ord('"')
SECOND_DIGITS = 10
"""Seconds since 1970 have ten digits from 2001 to 2286."""

SECONDS_LIMIT = 10**15
"""Times beyond it do not fit into 64 bits as milliseconds."""

AT_ONCE_BYTES = 1 << 20
"""About 40,000 samples: what is computed of them stays in the processor's own memory."""

PADDING = bytes(8)
"""So that eight bytes can be read wherever a time or a value begins."""

_INNER, _OUTER = (int.from_bytes(text, "little") for text in (b'"],[', b'"]],'))
_OPEN_OPEN, _COMMA_QUOTE = (int.from_bytes(text, "little") for text in (b"[[", b',"'))
_PLAIN = b"+-.0123456789EINaefin"

_ZEROS = np.uint64(int.from_bytes(b"00000000", "little"))
_DOT_PLACE, _DOT = np.uint64(0xFF << 16), np.uint64(ord(".") << 16)
_UP_TO_128, _TOP_BITS = np.uint64(0x7676767676767676), np.uint64(0x8080808080808080)
# By the width of a time: the bytes of its fraction's digits, and whether servers write such a one.
_FRACTIONS = np.array([0] * 12 + [0xFF << 40, 0xFFFF << 40, 0xFFFFFF << 40], np.uint64)
_IS_TIME = np.array([width in (10, 12, 13, 14) for width in range(15)])
# By the width of a value, the bytes that belong to it.
_KEPT = np.array([(1 << 8 * width) - 1 for width in range(9)], np.uint64)
# Neighbours together: digits become numbers of two, of four, of eight.
_STEPS = [
    (np.uint64(10 << 8 | 1), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 << 16 | 1), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 << 32 | 1), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]
_PAIRS = msgspec.json.Decoder(list[tuple[float, str]])


class MalformedSeries(ValueError):
    """A series inside a valid envelope that is not the protocol; names what is wrong."""


Text = bytes | msgspec.Raw


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of many owners, one owner after the other: owner[i] is whose sample i is."""

    owner_count: int
    owner: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    value: NDArray[np.int64]  # into values
    values: list[str]


def decoded_texts(texts: Sequence[Text], at_once_bytes: int = AT_ONCE_BYTES) -> Samples:
    """The samples of every text; the owner is the text's place."""
    parts = [part for _, part in decoded_parts(texts, at_once_bytes)]
    return parts[0] if len(parts) == 1 else one_after_the_other(parts)


def decoded_parts(
    texts: Sequence[Text], at_once_bytes: int = AT_ONCE_BYTES
) -> Iterator[tuple[int, Samples]]:
    """The samples of some texts after the other, and the place of the first of these texts."""
    if not texts:
        yield 0, _one_by_one(texts)
    first, limit = 0, at_once_bytes
    for end, size in enumerate(accumulate(map(len, texts)), start=1):
        if size > limit or end == len(texts):
            part = texts[first:end]
            yield first, _all_at_once(part) or _one_by_one(part)
            first, limit = end, size + at_once_bytes


def one_after_the_other(parts: Sequence[Samples]) -> Samples:
    """The owners of all parts, numbered through; each value once."""
    known: dict[str, int] = {}
    owners, values = [], []
    owner_count = 0
    for part in parts:
        owners.append(part.owner + owner_count)
        owner_count += part.owner_count
        places = [known.setdefault(word, len(known)) for word in part.values]
        values.append(np.array(places, np.int64)[part.value])
    time_ms = np.concatenate([part.time_ms for part in parts])
    return Samples(
        owner_count, np.concatenate(owners), time_ms, np.concatenate(values), list(known)
    )


def _all_at_once(texts: Sequence[Text]) -> Samples | None:
    """None when a single byte is not where servers write it."""
    filled = [place for place, text in enumerate(texts) if len(text) != 2 or bytes(text) != b"[]"]
    if not filled:
        nothing = np.empty(0, np.int64)
        return Samples(len(texts), nothing, nothing, nothing, [])
    joined = b",".join([*[texts[place] for place in filled], PADDING])
    quotes = np.flatnonzero(np.frombuffer(joined, np.uint8) == QUOTE)
    whole = joined.startswith(b"[[") and joined.endswith(b'"]],' + PADDING)
    if not whole or quotes.size % 2 or b"\\" in joined:
        return None
    opens, closes = quotes[0::2], quotes[1::2]
    firsts = _firsts(joined, opens, closes)
    if firsts is None or firsts.sum() != len(filled):
        return None
    starts = np.full(closes.size, 2)
    starts[1:] = closes[:-1] + np.where(firsts[1:], 6, 4)
    time_ms = _times(joined, starts, opens - 1 - starts)
    values = _values(joined, opens + 1, closes)
    if time_ms is None or values is None:
        return None
    owner = np.array(filled, np.int64)[np.cumsum(firsts) - 1]
    return Samples(len(texts), owner, time_ms, *values)


def _from_every_byte(joined: bytes, kind: str) -> NDArray[Any]:
    """The number that begins at every byte: to pick some is to read several bytes at once."""
    width = np.dtype(kind).itemsize
    return np.ndarray((len(joined) - width + 1,), kind, buffer=joined, strides=(1,))


def _firsts(joined: bytes, opens: NDArray[Any], closes: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which samples are the first of their text; None unless brackets and commas are as they must.

    Between a value and the next time stands `"],[`, or `"]],[[` where another text begins.
    """
    pairs, fours = _from_every_byte(joined, "<u2"), _from_every_byte(joined, "<u4")
    between = fours[closes[:-1]]
    outer = between == _OUTER
    if (
        ((between != _INNER) & ~outer).any()
        or (pairs[closes[:-1][outer] + 4] != _OPEN_OPEN).any()
        or (pairs[opens - 1] != _COMMA_QUOTE).any()
    ):
        return None
    return np.concatenate(([True], outer))


def _times(joined: bytes, starts: NDArray[Any], widths: NDArray[Any]) -> NDArray[np.int64] | None:
    """Milliseconds from `1790848800`, `1790848800.1`, `….12` or `….123`; None for other forms.

    Eight bytes are read as one number, and eight digits become their value in three steps.
    """
    if widths.min() < 0 or widths.max() >= _FRACTIONS.size or not _IS_TIME[widths].all():
        return None
    eights = _from_every_byte(joined, "<u8")
    first = eights[starts] ^ _ZEROS
    rest = eights[starts + 8]  # two digits, the dot and up to three more: `00.123,"`
    if ((rest & _DOT_PLACE) != _DOT)[widths > SECOND_DIGITS].any():
        return None
    rest ^= _ZEROS
    # As eight digits: `000`, the two, and the fraction, where what is not there is a zero.
    fraction = (rest << np.uint64(16)) & _FRACTIONS[widths]
    rest = ((rest & np.uint64(0xFFFF)) << np.uint64(24)) | fraction
    if (_too_large(first) | _too_large(rest)).any():
        return None
    return _eight_digits(first) * 100_000 + _eight_digits(rest)


def _too_large(digits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Not zero where one of eight bytes is above 9."""
    return ((digits + _UP_TO_128) | digits) & _TOP_BITS


def _eight_digits(digits: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The number that eight bytes of one digit each are, the first byte the largest place."""
    found = digits
    for weights, shift, kept in _STEPS:
        found = ((found * weights) >> shift) & kept
    return found.astype(np.int64)


def _values(
    joined: bytes, starts: NDArray[Any], ends: NDArray[Any]
) -> tuple[NDArray[np.int64], list[str]] | None:
    """Each distinct value text once, and which sample has which; None when one is not plain.

    Neighbours are mostly equal: only where a value changes is it looked up.
    """
    widths = ends - starts
    eights = _from_every_byte(joined, "<u8")
    heads = eights[starts] & _KEPT[np.minimum(widths, 8)]
    new = np.ones(starts.size, bool)
    new[1:] = (heads[1:] != heads[:-1]) | (widths[1:] != widths[:-1])
    more = np.flatnonzero(~new & (widths > 8))
    for at in range(8, int(widths.max()), 8):
        more = more[widths[more] > at]
        kept = _KEPT[np.minimum(widths[more] - at, 8)]
        here, before = eights[starts[more] + at] & kept, eights[starts[more - 1] + at] & kept
        new[more] |= here != before
    changes = np.flatnonzero(new)
    pieces = zip(starts[changes].tolist(), ends[changes].tolist(), strict=True)
    known: dict[bytes, int] = {}
    places = [known.setdefault(joined[start:end], len(known)) for start, end in pieces]
    if b"" in known or b"".join(known).translate(None, _PLAIN):
        return None
    value = np.array(places, np.int64)[np.cumsum(new) - 1]
    return value, [word.decode("ascii") for word in known]


def _one_by_one(texts: Sequence[Text]) -> Samples:
    owners: list[int] = []
    times: list[int] = []
    indices: list[int] = []
    values: dict[str, int] = {}
    for place, text in enumerate(texts):
        try:
            pairs = _PAIRS.decode(text)
        except NOT_JSON as cause:
            raise MalformedSeries(f"values: {cause}") from None
        for seconds, word in pairs:
            if abs(seconds) >= SECONDS_LIMIT:
                raise MalformedSeries(f"values: {seconds:g} is no time in seconds since 1970")
            owners.append(place)
            times.append(round(seconds * 1000.0))
            indices.append(values.setdefault(word, len(values)))
    owner, time_ms, value = (np.array(column, np.int64) for column in (owners, times, indices))
    return Samples(len(texts), owner, time_ms, value, list(values))
