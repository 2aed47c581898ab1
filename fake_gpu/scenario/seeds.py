"""Random numbers that are the same on every machine and for ever.

Put here: streams of draws, one per object.
Not here: the draws (`fleet`, `prometheus`, `kubernetes`, `faults`).

Every draw comes from SHA-256 over the seed and the names of the thing. So adding a workload
changes nothing about the others, and no floating-point library is used: exponential and normal
draws are computed with `decimal`, whose results are defined to the last digit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import TypeVar

T = TypeVar("T")

# Enough for any whole number of seconds; more digits only cost time.
_CONTEXT = Context(prec=18)
_TWO_64 = 1 << 64
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # the alphabet of Kubernetes' generated names


class RandomStream:
    """An endless stream of draws for one thing, such as one pod."""

    __slots__ = ("_block", "_counter", "_key", "_left")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0
        self._block = b""
        self._left = 0

    def word(self) -> int:
        """The next 64 bits."""
        if not self._left:
            self._block = hashlib.sha256(self._key + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            self._left = 4
        start = 32 - 8 * self._left
        self._left -= 1
        return int.from_bytes(self._block[start : start + 8], "big")

    def below(self, limit: int) -> int:
        """A whole number in `[0, limit)`."""
        return self.word() * limit // _TWO_64

    def between(self, low: int, high: int) -> int:
        """A whole number in `[low, high]`."""
        return low + self.below(high - low + 1)

    def chance(self, numerator: int, denominator: int) -> bool:
        """True in `numerator` of `denominator` cases."""
        return self.below(denominator) < numerator

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def exponential(self, mean: int) -> int:
        """Seconds until the next of many independent events that are `mean` seconds apart."""
        unit = _CONTEXT.divide(Decimal(self.word() + 1), Decimal(_TWO_64))
        return int(-_CONTEXT.multiply(_CONTEXT.ln(unit), Decimal(mean)))

    def lognormal(self, median: int, sigma_thousandths: int) -> int:
        """Half of the draws below `median`, with a long tail above it."""
        # The sum of twelve uniform draws has variance one and looks normal: no logarithm needed.
        twelve = sum(self.word() for _ in range(12)) - 6 * _TWO_64
        exponent = _CONTEXT.divide(Decimal(twelve * sigma_thousandths), Decimal(_TWO_64 * 1000))
        return int(_CONTEXT.multiply(_CONTEXT.exp(exponent), Decimal(median)))

    def hexadecimal(self, digits: int) -> str:
        text = ""
        while len(text) < digits:
            text += f"{self.word():016x}"
        return text[:digits]

    def uuid(self) -> str:
        """A random-looking UUID of version 4."""
        text = self.hexadecimal(32)
        variant = "89ab"[int(text[16], 16) % 4]
        parts = (text[:8], text[8:12], "4" + text[13:16], variant + text[17:20], text[20:])
        return "-".join(parts)

    def letters(self, count: int) -> str:
        """The random end of a generated name: `x7k2p`."""
        return "".join(_LETTERS[self.below(len(_LETTERS))] for _ in range(count))


class StreamFamily:
    """The streams of things whose names begin alike; quicker than naming each in full."""

    __slots__ = ("_begun",)

    def __init__(self, seed: int, *names: object) -> None:
        self._begun = hashlib.sha256(_named((seed, *names)))

    def stream(self, *names: object) -> RandomStream:
        """The same stream as `stream(seed, *the family's names, *names)`."""
        whole = self._begun.copy()
        whole.update(_named(names))
        return RandomStream(whole.digest())


def _named(names: tuple[object, ...]) -> bytes:
    """Names that cannot be mistaken for others: each is preceded by its length."""
    parts = []
    for name in names:
        text = str(name).encode()
        parts.append(b"%d:%s" % (len(text), text))
    return b"".join(parts)


def stream(seed: int, *names: object) -> RandomStream:
    """The stream of the thing with these names; no two lists of names share one."""
    return RandomStream(hashlib.sha256(_named((seed, *names))).digest())


def uuid_of(seed: int, *names: object) -> str:
    """The UUID of the thing with these names."""
    return stream(seed, "uuid", *names).uuid()
