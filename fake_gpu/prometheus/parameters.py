"""The parameters of a request, from the URL and from a posted form.

Put here: reading and checking them, with the errors of the real servers.
Not here: their use.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from fake_gpu.prometheus.durations import (
    NotADuration,
    parse_duration_parameter,
    parse_time_parameter,
)
from fake_gpu.prometheus.language import Expression, parse_query, parse_selector
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.refusals import ParseError, QueryRefused, bad_parameter

# As in the real servers: enough for a week by the minute or a year by the hour.
LARGEST_STEP_COUNT = 11_000
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class FormParameters:
    """All values of all names; the form's come before the URL's, as Go reads them."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, query_string: str, form: str = "") -> FormParameters:
        both = [*parse_qsl(form, True), *parse_qsl(query_string, True)]
        return cls(tuple(both))

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def first(self, name: str) -> str:
        return next((value for key, value in self.pairs if key == name), "")

    def time(self, name: str, default_ms: int) -> int:
        return self.required_time(name) if self.first(name) else default_ms

    def required_time(self, name: str) -> int:
        try:
            return parse_time_parameter(self.first(name))
        except NotADuration as error:
            raise bad_parameter(name, str(error)) from None

    def duration(self, name: str, default_ms: int) -> int:
        text = self.first(name)
        if not text:
            return default_ms
        try:
            return parse_duration_parameter(text)
        except NotADuration as error:
            raise bad_parameter(name, str(error)) from None

    def flag(self, name: str, default: bool) -> bool:
        text = self.first(name)
        if not text:
            return default
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise QueryRefused(
            "bad_data", f"'{name}' parameter: strconv.ParseBool: parsing {text!r}: invalid syntax"
        )

    def expression(self) -> Expression:
        try:
            return parse_query(self.first("query"))
        except ParseError as error:
            raise bad_parameter("query", str(error)) from None

    def selectors(self, *, required: bool = False) -> list[tuple[Matcher, ...]]:
        texts = self.all("match[]")
        if required and not texts:
            raise QueryRefused("bad_data", "no match[] parameter provided")
        try:
            return [parse_selector(text) for text in texts]
        except ParseError as error:
            raise bad_parameter("match[]", str(error)) from None

    def steps(self, default_step_ms: int | None) -> list[int]:
        """The instants of a range query."""
        start, end = self.required_time("start"), self.required_time("end")
        if end < start:
            raise bad_parameter("end", "end timestamp must not be before start time")
        step = self.duration("step", default_step_ms or 0)
        if not self.first("step") and default_step_ms is None:
            raise bad_parameter("step", 'cannot parse "" to a valid duration')
        if step <= 0:
            raise bad_parameter(
                "step",
                "zero or negative query resolution step widths are not accepted. "
                "Try a positive integer",
            )
        if (end - start) // step > LARGEST_STEP_COUNT:
            raise QueryRefused(
                "bad_data",
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)",
            )
        return list(range(start, end + 1, step))
