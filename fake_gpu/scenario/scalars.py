"""The notations of durations, instants, spans, shares and requests in a scenario.

Put here: the notations of single values, and their parsers.
Not here: the keys that use them (`spec`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import yaml

from domain.errors import LedgerError
from domain.interval import parse_instant
from fake_gpu.scenario.schema import InvalidScenarioValue, Reader, Scalar, Shaped
from fake_gpu.scenario.seeds import RandomStream

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?")
_PART = re.compile(r"(\d+)([dhms])")

DURATION_NOTATION = "write a duration as 90s, 5m, 2h30m or 1d"
INSTANT_NOTATION = "write a time as 2026-10-01T00:00:00Z, or +2h30m after the scenario's start"
SPAN_NOTATION = "write 40m, 10m..2h (evenly), ~1h (exponential), or 30m~1.2 (log-normal)"


def parse_duration(text: str) -> int:
    """The seconds of a duration such as `2h30m`; a number without a unit is in seconds."""
    cleaned = text.strip()
    if cleaned.isascii() and cleaned.isdigit():
        return int(cleaned)
    if not cleaned or not _DURATION.fullmatch(cleaned):
        raise InvalidScenarioValue(f"{text!r} is not a duration", DURATION_NOTATION)
    return sum(int(n) * _UNITS[unit] for n, unit in _PART.findall(cleaned))


def parse_time(text: str, start: int | None) -> int:
    """An instant in seconds since the epoch."""
    cleaned = text.strip()
    if cleaned.startswith("+"):
        if start is None:
            raise InvalidScenarioValue(
                f"{text!r} is relative to a start that is not known", INSTANT_NOTATION
            )
        return start + parse_duration(cleaned[1:])
    try:
        return int(parse_instant(cleaned).timestamp())
    except LedgerError as error:
        raise InvalidScenarioValue(error.seen, INSTANT_NOTATION) from error


def parse_share(text: str) -> Fraction:
    """The exact fraction of `0.2`, `20%` or `1/5`; from 0 to 1."""
    cleaned = text.strip()
    try:
        share = Fraction(cleaned[:-1]) / 100 if cleaned.endswith("%") else Fraction(cleaned)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise InvalidScenarioValue(f"{text!r} is not a share", "write 0.2, 20% or 1/5")
    return share


@dataclass(frozen=True, slots=True)
class Span:
    """A random duration: fixed, uniform between two bounds, exponential, or log-normal."""

    form: Literal["fixed", "even", "exponential", "lognormal"]
    low: int
    high: int = 0
    sigma_thousandths: int = 0

    @property
    def middle(self) -> int:
        """A typical value: the fixed value, the mean, or the median of the log-normal form."""
        return (self.low + self.high) // 2 if self.form == "even" else self.low

    def draw(self, stream: RandomStream, at_least: int = 0) -> int:
        match self.form:
            case "fixed":
                seconds = self.low
            case "even":
                seconds = stream.between(self.low, self.high)
            case "exponential":
                seconds = stream.exponential(self.low)
            case "lognormal":
                seconds = stream.lognormal(self.low, self.sigma_thousandths)
        return max(at_least, seconds)


def fixed_span(seconds: int) -> Span:
    return Span("fixed", seconds)


def parse_span(text: str) -> Span:
    cleaned = text.strip()
    if ".." in cleaned:
        low, high = (parse_duration(part) for part in cleaned.split("..", 1))
        if high < low:
            raise InvalidScenarioValue(f"{text!r} ends before it starts", SPAN_NOTATION)
        return Span("even", low, high)
    if cleaned.startswith("~"):
        return Span("exponential", parse_duration(cleaned[1:]))
    if "~" in cleaned:
        median, sigma = cleaned.split("~", 1)
        try:
            thousandths = int(Fraction(sigma) * 1000)
        except (ValueError, ZeroDivisionError):
            raise InvalidScenarioValue(f"{sigma!r} is not a spread", SPAN_NOTATION) from None
        if not 0 <= thousandths <= 5000:
            raise InvalidScenarioValue(f"a spread of {sigma} is not between 0 and 5", SPAN_NOTATION)
        return Span("lognormal", parse_duration(median), 0, thousandths)
    return fixed_span(parse_duration(cleaned))


def _instant(text: str, reader: Reader) -> int:
    return parse_time(text, reader.context.get("start"))


def _requests(node: yaml.Node, path: str, reader: Reader) -> Mapping[str, int]:
    """`2` means two of nvidia.com/gpu; other resources are a mapping of names to counts."""
    if isinstance(node, yaml.ScalarNode):
        count = reader.read(node, int, path)
        return {} if count is None else _counts({"nvidia.com/gpu": count})
    read = reader.read(node, Mapping[str, int], path)
    return _counts({name: count for name, count in read.items() if count is not None})


def _counts(requests: Mapping[str, int]) -> Mapping[str, int]:
    for name, count in requests.items():
        if count < 0:
            raise InvalidScenarioValue(f"{count} of {name}", "write 0 or more")
        if "/" not in name:
            raise InvalidScenarioValue(
                f"{name!r} is no extended resource", "write it as nvidia.com/gpu"
            )
    return requests


Seconds = Annotated[int, Scalar(lambda t, _: parse_duration(t), DURATION_NOTATION)]
Time = Annotated[int, Scalar(_instant, INSTANT_NOTATION)]
DrawnSpan = Annotated[Span, Scalar(lambda t, _: parse_span(t), SPAN_NOTATION)]
Share = Annotated[Fraction, Scalar(lambda t, _: parse_share(t), "write 0.2, 20% or 1/5")]
Requests = Annotated[
    Mapping[str, int], Shaped(_requests, "a number of nvidia.com/gpu, or {resource: number}")
]
