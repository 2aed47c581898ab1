"""Durations and times as the query language and the API's parameters write them.

Put here: `1h30m`, `offset 1ms`, `time=1760000000.5`, `step=300`.
Not here: their use. All results are whole milliseconds.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import isfinite

_UNITS_MS = {
    "y": 365 * 24 * 3600 * 1000,
    "w": 7 * 24 * 3600 * 1000,
    "d": 24 * 3600 * 1000,
    "h": 3600 * 1000,
    "m": 60 * 1000,
    "s": 1000,
    "ms": 1,
}
_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?"
)
# Go's int64 milliseconds; a duration beyond it is refused instead of wrapped.
_LARGEST_MS = (1 << 63) // 1_000_000


class NotADuration(ValueError):
    """The text is no duration, or no time."""


def parse_duration(text: str) -> int:
    """Milliseconds of `1h30m`; `0` is a duration, a bare number otherwise is not."""
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise NotADuration(f'not a valid duration string: "{text}"')
    amounts = zip(_UNITS_MS.values(), match.groups(), strict=True)
    milliseconds = sum(unit * int(amount) for unit, amount in amounts if amount)
    if milliseconds > _LARGEST_MS:
        raise NotADuration("duration out of range")
    return milliseconds


def parse_duration_parameter(text: str) -> int:
    """Milliseconds of an API parameter: a number of seconds, or a duration."""
    seconds = _number(text)
    if seconds is not None:
        if not isfinite(seconds) or abs(seconds * 1000) > _LARGEST_MS:
            raise NotADuration(f'cannot parse "{text}" to a valid duration. It overflows int64')
        return int(seconds * 1000)
    try:
        return parse_duration(text)
    except NotADuration:
        raise NotADuration(f'cannot parse "{text}" to a valid duration') from None


def parse_time_parameter(text: str) -> int:
    """Milliseconds since the epoch of an API parameter: a number of seconds, or RFC 3339."""
    seconds = _number(text)
    if seconds is not None and isfinite(seconds):
        whole = int(seconds)
        return whole * 1000 + round((seconds - whole) * 1000)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None or "T" not in text:
        raise NotADuration(f'cannot parse "{text}" to a valid timestamp')
    return round(instant.timestamp() * 1000)


def _number(text: str) -> float | None:
    # Python allows blanks and underscores in a number, Go does not.
    if text != text.strip() or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
