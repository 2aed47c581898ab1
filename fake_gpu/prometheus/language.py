"""The supported part of the query language, from text to syntax tree.

    metric{label="…", label!="…", label=~"…", label!~"…"} [range] offset 5m
    avg_over_time( … [range] offset …)     also max_, min_, count_
    label_replace( …, "label", "text", "", "")
    … or … or …                            of any of these that are instant vectors
    time()

Put here: the grammar and its refusals.
Not here: tokens (`tokens`), values (`evaluate`, `unions`).

The rest of PromQL is refused as bad data with an error that names it, and never returns an empty
result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Literal

from fake_gpu.prometheus.durations import NotADuration, parse_duration
from fake_gpu.prometheus.matchers import BadPattern, Matcher, Operator
from fake_gpu.prometheus.refusals import ParseError
from fake_gpu.prometheus.tokens import PromqlToken, tokens_of

Function = Literal["avg_over_time", "max_over_time", "min_over_time", "count_over_time"]
FUNCTIONS: dict[str, Function] = {
    "avg_over_time": "avg_over_time",
    "max_over_time": "max_over_time",
    "min_over_time": "min_over_time",
    "count_over_time": "count_over_time",
}
_OPERATORS: dict[str, Operator] = {"=": "=", "!=": "!=", "=~": "=~", "!~": "!~"}
_UNSPOKEN_OPERATORS = frozenset(["+", "-", "*", "/", "%", "^", "==", "!=", "<=", ">=", "<", ">"])
METRIC_NAME = "__name__"
SPOKEN = (
    "the simulated fleet supports selectors, with or without a range, "
    "avg_, max_, min_ and count_over_time of one of them with a range, "
    "label_replace of these with a fixed text and an empty source and pattern, and `or` of all"
)
LABEL_REPLACE = "label_replace"


@dataclass(frozen=True, slots=True)
class Selector:
    """Which series, at an instant or over a range before it."""

    matchers: tuple[Matcher, ...]
    range_ms: int | None = None
    offset_ms: int = 0

    @property
    def value_type(self) -> str:
        return "vector" if self.range_ms is None else "matrix"


@dataclass(frozen=True, slots=True)
class Call:
    """A function over the range of one selector."""

    function: Function
    selector: Selector

    @property
    def value_type(self) -> str:
        return "vector"


@dataclass(frozen=True, slots=True)
class LabelledVector:
    """A vector whose series all get one label with one text; "" takes the label away."""

    vector: Selector | Call
    label: str
    text: str

    @property
    def value_type(self) -> str:
        return "vector"


Part = Selector | Call | LabelledVector


@dataclass(frozen=True, slots=True)
class Union:
    """Vectors one after another: of those with equal labels the first one counts."""

    parts: tuple[Part, ...]

    @property
    def value_type(self) -> str:
        return "vector"


Expression = Part | Union
_TIME = re.compile(r"\s*time\s*\(\s*\)\s*")


def is_time_call(query: str) -> bool:
    """`time()`, with which a client measures the offset of its own clock."""
    return _TIME.fullmatch(query) is not None


@lru_cache(maxsize=1024)
def parse_query(query: str) -> Expression:
    """The syntax tree of a query; raises ParseError."""
    parser = _Parser(query)
    expression = parser.expression()
    parser.finish()
    return expression


@lru_cache(maxsize=1024)
def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The matchers of a `match[]` parameter; raises ParseError."""
    parser = _Parser(text)
    selector = parser.instant_selector(of_query=False)
    parser.finish()
    return selector.matchers


class _Parser:
    def __init__(self, query: str) -> None:
        self.query = query
        self.tokens = tokens_of(query)
        self.at = 0

    # -- moving over tokens

    def peek(self, ahead: int = 0) -> PromqlToken:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> PromqlToken:
        token = self.peek()
        self.at += 1
        return token

    def takes(self, text: str) -> bool:
        if self.peek().kind == "operator" and self.peek().text == text:
            self.at += 1
            return True
        return False

    def takes_word(self, word: str) -> bool:
        if self.peek().kind == "name" and self.peek().text.lower() == word:
            self.at += 1
            return True
        return False

    def expect(self, text: str, where: str) -> None:
        if not self.takes(text):
            raise self.unexpected(where, f'"{text}"')

    def unexpected(self, where: str, expected: str = "") -> ParseError:
        token = self.peek()
        hoped = f", expected {expected}" if expected else ""
        return self.error(token, f"unexpected {token.described()} in {where}{hoped}")

    def error(self, token: PromqlToken, message: str) -> ParseError:
        return ParseError(self.query, token.position, message)

    def finish(self) -> None:
        token = self.peek()
        if token.kind == "end":
            return
        if token.kind == "operator" and token.text in _UNSPOKEN_OPERATORS:
            raise self.error(token, f"{SPOKEN}; not the operator {token.text!r}")
        raise self.error(token, f"unexpected {token.described()}; {SPOKEN}")

    # -- the grammar

    def expression(self) -> Expression:
        """One vector, or several with `or` between: however they are nested, it is the same."""
        first = self.peek()
        parts = [self.operand()]
        while self.takes_word("or"):
            parts.append(self.operand())
        if len(parts) == 1:
            return parts[0]
        if any(part.value_type == "matrix" for part in parts):
            raise self.error(first, 'set operator "or" not allowed in binary range expression')
        flat = [p.parts if isinstance(p, Union) else (p,) for p in parts]
        return Union(tuple(chain.from_iterable(flat)))

    def operand(self) -> Expression:
        token, following = self.peek(), self.peek(1)
        if token.kind == "end":
            raise self.error(token, "no expression found in input")
        if self.takes("("):
            inner = self.expression()
            self.expect(")", "paren expression")
            return inner
        if token.kind == "name" and (following.text == "(" or following.kind == "name"):
            if token.text in FUNCTIONS and following.text == "(":
                return self.call(FUNCTIONS[token.text])
            if token.text == LABEL_REPLACE and following.text == "(":
                return self.labelled()
            if following.text.lower() not in ("offset", "or"):
                raise self.error(token, f"{SPOKEN}; not {token.text!r}")
        if token.kind == "name" or (token.kind == "operator" and token.text == "{"):
            return self.with_range_and_offset(self.instant_selector())
        raise self.error(token, f"unexpected {token.described()}; {SPOKEN}")

    def call(self, function: Function) -> Call:
        name = self.next()
        self.expect("(", "function call")
        if self.takes(")"):
            raise self.error(name, f'expected 1 argument(s) in call to "{function}", got 0')
        argument = self.expression()
        if self.peek().text == ",":
            raise self.error(name, f'expected 1 argument(s) in call to "{function}", got 2')
        self.expect(")", "function call")
        if not isinstance(argument, Selector) or argument.range_ms is None:
            raise self.error(
                name,
                f'expected type range vector in call to function "{function}", got instant vector',
            )
        return Call(function, argument)

    def labelled(self) -> LabelledVector:
        name = self.next()
        self.expect("(", "function call")
        vector = self.expression()
        texts = []
        while self.takes(","):
            if self.peek().kind != "text":
                raise self.error(name, f"{SPOKEN}; not {self.peek().described()} as an argument")
            texts.append(self.next().text)
        self.expect(")", "function call")
        if len(texts) != 4:
            got = f'expected 5 argument(s) in call to "{LABEL_REPLACE}", got {1 + len(texts)}'
            raise self.error(name, got)
        label, text, source, pattern = texts
        if vector.value_type == "matrix":
            wrong = f'expected type instant vector in call to function "{LABEL_REPLACE}"'
            raise self.error(name, f"{wrong}, got range vector")
        if source or pattern or "$" in text or not isinstance(vector, Selector | Call):
            raise self.error(name, SPOKEN)
        return LabelledVector(vector, label, text)

    def instant_selector(self, *, of_query: bool = True) -> Selector:
        start = self.peek()
        matchers: list[Matcher] = []
        name = ""
        if start.kind == "name":
            name = self.next().text
        elif start.text != "{" or start.kind != "operator":
            raise self.unexpected("vector selector")
        if self.takes("{"):
            matchers.extend(self.label_matchers())
        if name:
            self._refuse_a_second_name(start, name, matchers)
            matchers.append(Matcher(METRIC_NAME, "=", name))
        elif all(matcher.matches("") for matcher in matchers):
            what = "vector selector" if of_query else "match[]"
            raise self.error(start, f"{what} must contain at least one non-empty matcher")
        return Selector(tuple(matchers))

    def _refuse_a_second_name(self, start: PromqlToken, name: str, matchers: list[Matcher]) -> None:
        for matcher in matchers:
            if matcher.name == METRIC_NAME:
                both = f'"{name}" or "{matcher.value}"'
                raise self.error(start, f"metric name must not be set twice: {both}")

    def label_matchers(self) -> list[Matcher]:
        matchers: list[Matcher] = []
        while not self.takes("}"):
            if matchers:
                self.expect(",", "label matching")
                if self.takes("}"):
                    break
            matchers.append(self.label_matcher())
        return matchers

    def label_matcher(self) -> Matcher:
        label = self.next()
        if label.kind != "name" or ":" in label.text:
            self.at -= 1
            raise self.unexpected("label matching", 'identifier or "}"')
        operator = self.next()
        if operator.kind != "operator" or operator.text not in _OPERATORS:
            self.at -= 1
            raise self.unexpected("label matching", "label matching operator")
        value = self.next()
        if value.kind != "text":
            self.at -= 1
            raise self.unexpected("label matching", "string")
        try:
            return Matcher(label.text, _OPERATORS[operator.text], value.text)
        except BadPattern as error:
            raise self.error(label, str(error)) from None

    def with_range_and_offset(self, selector: Selector) -> Selector:
        if self.takes("["):
            selector = replace(selector, range_ms=self.duration("range selection"))
            if self.peek().text.startswith(":"):
                raise self.error(self.peek(), f"{SPOKEN}; not subqueries")
            self.expect("]", "matrix selector")
        if self.takes_word("offset"):
            sign = -1 if self.takes("-") else 1
            selector = replace(selector, offset_ms=sign * self.duration("offset"))
            if self.peek().text == "[":
                raise self.error(self.peek(), "no offset modifiers allowed before range")
            if self.takes_word("offset"):
                raise self.error(self.peek(), "offset may not be set multiple times")
        if self.peek().text == "@":
            raise self.error(self.peek(), f"{SPOKEN}; not the @ modifier")
        return selector

    def duration(self, where: str) -> int:
        token = self.next()
        if token.kind != "number":
            self.at -= 1
            raise self.unexpected(where, "duration")
        try:
            milliseconds = parse_duration(token.text)
        except NotADuration as error:
            raise self.error(token, str(error)) from None
        if milliseconds == 0:
            raise self.error(token, "duration must be greater than 0")
        return milliseconds
