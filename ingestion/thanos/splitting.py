"""Smaller queries that together equal one query: by time, by metric, by pod.

Put here: the two kinds of queries, how each is halved, and the memory of sizes by which a query is
split before a limit is reached.
Not here: sending queries (`ingestion.thanos.query_runner`), or recognising a limit
(`ingestion.thanos.response`).

The pieces are disjoint, and together they have all samples of the query.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from domain.interval import HOUR, Interval
from ingestion.metric_catalogue import MetricQuery
from ingestion.thanos.attempt_client import BODY_BYTES_LIMIT
from ingestion.thanos.telemetry import query_name, range_form, telemetry_query

SAMPLES_LIMIT = 50_000_000
"""`--query.max-samples` of Prometheus by default; more is refused with a 422."""

NEAR_PERCENT = 70
"""A query that is expected to reach this share of a limit is sent as two halves."""

_DIGITS = "0123456789abcdef"
_Sequence = TypeVar("_Sequence", str, tuple[str, ...], tuple[tuple[str, str], ...])


@dataclass(frozen=True, slots=True)
class RawQuery:
    """A raw query for a window; or the part of it whose pods' UIDs begin with certain digits."""

    ask: MetricQuery
    window: Interval
    uid_digits: str = ""
    rest: bool = False  # the series without such a UID

    @property
    def hours(self) -> int:
        return self.window.seconds // 3600

    @property
    def matcher(self) -> str:
        """The matcher that restricts the query to its pods; "" for all."""
        if self.rest:
            return f'uid!~"[{_DIGITS}].*"'
        return f'uid=~"[{self.uid_digits}].*"' if self.uid_digits else ""


@dataclass(frozen=True, slots=True)
class FunctionQuery:
    """A function of metrics, evaluated once per hour of the window."""

    function: str
    selectors: tuple[tuple[str, str], ...]  # of each metric
    window: Interval
    of_union: bool = False  # a piece of one; its series are named as in the others

    @property
    def hours(self) -> int:
        return self.window.seconds // 3600

    @property
    def ask(self) -> MetricQuery:
        metrics = tuple([metric for metric, _ in self.selectors])
        return MetricQuery(query_name(self.function, metrics, self.of_union), metrics, "")

    @property
    def query(self) -> str:
        return telemetry_query(self.function, dict(self.selectors), self.of_union)

    @property
    def form(self) -> dict[str, str]:
        return range_form(self.query, self.window)

    def halves(self) -> list[FunctionQuery]:
        """By metric, as long as there are several: the hours of a series share its labels."""
        if self.selectors[1:]:
            halves = _halves(self.selectors)
            return [replace(self, selectors=half, of_union=True) for half in halves]
        if self.hours == 1:
            return []
        middle = self.window.started_at + self.hours // 2 * HOUR
        return [replace(self, window=part) for part in self.window.split_at([middle])]


def smaller(query: RawQuery) -> list[RawQuery]:
    """The pieces of a query, one size smaller; none when it cannot be made smaller."""
    metrics, digits = query.ask.metrics, query.uid_digits
    if query.hours > 1:
        middle = query.window.started_at + query.hours // 2 * HOUR
        return [replace(query, window=part) for part in query.window.split_at([middle])]
    if metrics[1:]:
        return [replace(query, ask=replace(query.ask, metrics=half)) for half in _halves(metrics)]
    if query.rest or len(digits) == 1:
        return []
    pieces = [replace(query, uid_digits=half) for half in _halves(digits or _DIGITS)]
    return pieces if digits else [*pieces, replace(query, rest=True)]


def _halves(whole: _Sequence) -> tuple[_Sequence, _Sequence]:
    half = len(whole) // 2
    return whole[:half], whole[half:]


@dataclass(slots=True)
class Sizes:
    """The size per hour of the responses to each query; later queries are split by it."""

    bytes_per_hour: dict[str, float] = field(default_factory=dict)
    samples_per_hour: dict[str, float] = field(default_factory=dict)

    def learn(self, query: RawQuery, byte_count: int, sample_count: int) -> None:
        if query.matcher:
            return
        name = _name(query)
        for known, count in (
            (self.bytes_per_hour, byte_count),
            (self.samples_per_hour, sample_count),
        ):
            known[name] = count / query.hours

    def learn_too_large(self, query: RawQuery) -> None:
        """Note that a response was larger than the limit; those of other hours will be, too."""
        self.learn(query, BODY_BYTES_LIMIT, 0)

    def split(self, query: RawQuery) -> list[RawQuery]:
        """The query, or its halves as long as they are expected to come near a limit."""
        name = _name(query)
        near = (
            self.bytes_per_hour.get(name, 0.0) * query.hours * 100 > BODY_BYTES_LIMIT * NEAR_PERCENT
            or self.samples_per_hour.get(name, 0.0) * query.hours * 100
            > SAMPLES_LIMIT * NEAR_PERCENT
        )
        if not near or query.hours <= 1:
            return [query]
        return [piece for half in smaller(query) for piece in self.split(half)]


def _name(query: RawQuery) -> str:
    return f"{query.ask.name} {' '.join(query.ask.metrics)}"
