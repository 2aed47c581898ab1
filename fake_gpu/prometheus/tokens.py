"""A query as a list of tokens.

Put here: where a token begins and ends, and Go's quoting of text.
Not here: the grammar (`language`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fake_gpu.prometheus.refusals import ParseError

Kind = Literal["name", "text", "number", "operator", "end"]
_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
# A duration is a number with units: `5m`, `1h30m`.
_NUMBER = re.compile(
    r"(?:\d+(?:ms|[ywdhms]))+(?![A-Za-z0-9_])|[0-9.][0-9A-Za-z_.]*(?:(?<=[eE])[+-]\d+)?"
)
_OPERATOR = re.compile(r"=~|!~|==|!=|<=|>=|[-+*/%^=<>(){}\[\],:@]")
_OPENING_QUOTE = "\"'`"


@dataclass(frozen=True, slots=True)
class PromqlToken:
    kind: Kind
    text: str  # of a quoted text: without quotes and escapes
    position: int

    def described(self) -> str:
        if self.kind == "end":
            return "end of input"
        names = {"name": "identifier ", "text": "string ", "number": "number "}
        quoted = f'"{self.text}"'
        return names.get(self.kind, "") + quoted


def tokens_of(query: str) -> list[PromqlToken]:
    """All tokens, the last one being `end`."""
    return list(_tokens(query))


def _tokens(query: str) -> Iterator[PromqlToken]:
    at = 0
    while True:
        at = _skip(query, at)
        if at == len(query):
            yield PromqlToken("end", "", at)
            return
        token, at = _token(query, at)
        yield token


def _skip(query: str, at: int) -> int:
    match = _SKIPPED.match(query, at)
    return match.end() if match else at


def _token(query: str, at: int) -> tuple[PromqlToken, int]:
    if query[at] in _OPENING_QUOTE:
        return _text(query, at)
    for kind, pattern in (("number", _NUMBER), ("name", _NAME), ("operator", _OPERATOR)):
        match = pattern.match(query, at)
        if match is None or (kind == "number" and not re.search(r"\d", match.group(0))):
            continue
        if kind == "number":
            return PromqlToken("number", match.group(0), at), match.end()
        if kind == "name":
            return PromqlToken("name", match.group(0), at), match.end()
        return PromqlToken("operator", match.group(0), at), match.end()
    raise ParseError(query, at, f"unexpected character: {query[at]!r}")


def _text(query: str, at: int) -> tuple[PromqlToken, int]:
    quote = query[at]
    out: list[str] = []
    here = at + 1
    while here < len(query):
        char = query[here]
        if char == quote:
            return PromqlToken("text", "".join(out), at), here + 1
        if char == "\n" and quote != "`":
            break
        if char == "\\" and quote != "`":
            written, here = _escaped(query, here, quote)
            out.append(written)
            continue
        out.append(char)
        here += 1
    name = "raw string" if quote == "`" else "quoted string"
    raise ParseError(query, at, f"unterminated {name}")


_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
}  # fmt: skip
_ESCAPE_DIGITS = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}


def _escaped(query: str, at: int, quote: str) -> tuple[str, int]:
    """One escape sequence as Go reads it, and where the text continues."""
    char = query[at + 1 : at + 2]
    if char in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[char], at + 2
    if char and char == quote:
        return quote, at + 2
    length, base = _ESCAPE_DIGITS.get(char, (3, 8))
    start = at + 2 if char in _ESCAPE_DIGITS else at + 1
    digits = query[start : start + length]
    try:
        if len(digits) != length or not digits.isalnum():
            raise ValueError
        return chr(int(digits, base)), start + length
    except (ValueError, OverflowError):
        raise ParseError(query, at, f"unknown escape sequence {char!r}") from None
