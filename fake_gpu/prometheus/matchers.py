"""Label matchers: `=`, `!=`, `=~`, `!~`, with patterns anchored as Prometheus anchors them.

Put here: the meaning of one matcher, and the translation of its pattern.
Not here: how matchers are written in a query (`language`), or their use.

Patterns are those of RE2. Constructs that Python's `re` reads in another way are translated, and
those beyond RE2 (look-around, back references) are refused, so that no query works here only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Operator = Literal["=", "!=", "=~", "!~"]
# Cached values of a pattern: most labels have a few, and queries are repeated.
LARGEST_TEST_CACHE = 1 << 12
# Only groups of these kinds exist in RE2 and mean the same in Python.
_GROUP = re.compile(r"\(\?(?:P<[A-Za-z_]\w*>|[ims]*(?:-[ims]+)?[:)])")


class BadPattern(ValueError):
    """A regular expression that a real server would refuse, or that is not spoken here."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label; an absent label has the value ''."""

    name: str
    operator: Operator
    value: str
    test: Callable[[str], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "test", _test_of(self.operator, self.value))

    def matches(self, value: str) -> bool:
        return self.test(value)

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.name}{self.operator}"{escaped}"'


def all_match(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether a series with these labels is selected."""
    return all(matcher.test(labels.get(matcher.name, "")) for matcher in matchers)


@lru_cache(maxsize=4096)
def _test_of(operator: Operator, value: str) -> Callable[[str], bool]:
    if operator == "=":
        return value.__eq__
    if operator == "!=":
        return value.__ne__
    alternatives = _literal_alternatives(value)
    if alternatives is not None:
        inside = alternatives.__contains__
        return inside if operator == "=~" else lambda text: not inside(text)
    match = compile_pattern(value).fullmatch
    return lru_cache(maxsize=LARGEST_TEST_CACHE)(
        (lambda text: match(text) is not None)
        if operator == "=~"
        else (lambda text: match(text) is None)
    )


def _literal_alternatives(pattern: str) -> frozenset[str] | None:
    """The words of `a|b|c`: a set answers faster than a regular expression."""
    if re.fullmatch(r"[\w:/ -]*(?:\|[\w:/ -]*)*", pattern, re.ASCII):
        return frozenset(pattern.split("|"))
    return None


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for `fullmatch`; raises BadPattern for constructs that RE2 lacks."""
    try:
        return re.compile(_translated(pattern), re.ASCII | re.DOTALL)
    except (re.error, OverflowError) as error:
        raise BadPattern(f"error parsing regexp: {error}: `{pattern}`") from None


def _translated(pattern: str) -> str:
    out: list[str] = []
    at = 0
    in_class = False
    while at < len(pattern):
        token, written = _part(pattern, at, in_class)
        if token == "[" and not in_class:
            in_class = True
            # A bracket right after the opening (or its ^) is a literal one.
            head = re.match(r"\[\^?\]?", pattern[at:])
            token = written = head.group(0) if head else token
        elif token == "]" and in_class:
            in_class = False
        out.append(written)
        at += len(token)
    return "".join(out)


def _part(pattern: str, at: int, in_class: bool) -> tuple[str, str]:
    """The next part as it stands, and as Python has to read it."""
    char = pattern[at]
    if char == "\\":
        return _escape(pattern, at)
    if in_class:
        if pattern.startswith("[:", at):
            raise BadPattern(f"the simulated fleet does not support [[:class:]]: `{pattern}`")
        return char, "\\[" if char == "[" else char
    if char == "$":
        # Python's $ also matches before a last line break; RE2's does not.
        return char, r"\Z"
    if char == "(" and pattern.startswith("(?", at):
        group = _GROUP.match(pattern, at)
        if group is None:
            shown = pattern[at : at + 3]
            raise BadPattern(f"error parsing regexp: invalid or unsupported Perl syntax: `{shown}`")
        return group.group(0), group.group(0)
    if char in "*+?}" and pattern[at + 1 : at + 2] == "+":
        raise BadPattern(
            f"error parsing regexp: invalid nested repetition operator: `{pattern[at : at + 2]}`"
        )
    return char, char


def _escape(pattern: str, at: int) -> tuple[str, str]:
    token = pattern[at : at + 2]
    if len(token) == 1:
        raise BadPattern("error parsing regexp: trailing backslash at end of expression: ``")
    if token[1] == "z":
        return token, r"\Z"
    if token[1].isdigit() or token[1] in "ZGkgNuUpPCQE":
        raise BadPattern(f"error parsing regexp: invalid escape sequence: `{token}`")
    return token, token
