"""Smaller questions that together are the same question: by time, by metric, by pod.

Put here: the two kinds of questions, how each is halved, and the memory of sizes that halves one
before a limit bites.
Not here: asking (`ingestion.thanos.query_runner`), or recognising a limit
(`ingestion.thanos.response`).

Nothing is ever sampled or left out: the pieces are disjoint, and together they are the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from domain.interval import HOUR, Interval
from ingestion.metric_catalogue import Ask
from ingestion.thanos.telemetry import ask_name, range_form, telemetry_query
from ingestion.thanos.thanos_client import ANSWER_BYTES_LIMIT

SAMPLES_LIMIT = 50_000_000
"""`--query.max-samples` of Prometheus by default; more is refused with a 422."""

NEAR_PERCENT = 70
"""A question expected to reach this share of a limit is asked in halves at once."""

_DIGITS = "0123456789abcdef"
_Sequence = TypeVar("_Sequence", str, tuple[str, ...], tuple[tuple[str, str], ...])


@dataclass(frozen=True, slots=True)
class Question:
    """An ask for a window; or the part of it whose pods' UIDs begin with certain digits."""

    ask: Ask
    window: Interval
    uid_digits: str = ""
    rest: bool = False  # the series without such a UID

    @property
    def hours(self) -> int:
        return self.window.seconds // 3600

    @property
    def matcher(self) -> str:
        """What the question adds to the matchers of its ask."""
        if self.rest:
            return f'uid!~"[{_DIGITS}].*"'
        return f'uid=~"[{self.uid_digits}].*"' if self.uid_digits else ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A function of metrics, evaluated once per hour of the window."""

    function: str
    selectors: tuple[tuple[str, str], ...]  # of each metric
    window: Interval
    of_union: bool = False  # a piece of one; its series are named as in the others

    @property
    def hours(self) -> int:
        return self.window.seconds // 3600

    @property
    def ask(self) -> Ask:
        metrics = tuple([metric for metric, _ in self.selectors])
        return Ask(ask_name(self.function, metrics, self.of_union), metrics, "")

    @property
    def query(self) -> str:
        return telemetry_query(self.function, dict(self.selectors), self.of_union)

    @property
    def form(self) -> dict[str, str]:
        return range_form(self.query, self.window)

    def halves(self) -> list[Evaluated]:
        """By metric, as long as there are several: the hours of a series share its labels."""
        if self.selectors[1:]:
            halves = _halves(self.selectors)
            return [replace(self, selectors=half, of_union=True) for half in halves]
        if self.hours == 1:
            return []
        middle = self.window.started_at + self.hours // 2 * HOUR
        return [replace(self, window=part) for part in self.window.split_at([middle])]


def smaller(question: Question) -> list[Question]:
    """The pieces of a question, one size smaller; none when it cannot be made smaller."""
    metrics, digits = question.ask.metrics, question.uid_digits
    if question.hours > 1:
        middle = question.window.started_at + question.hours // 2 * HOUR
        return [replace(question, window=part) for part in question.window.split_at([middle])]
    if metrics[1:]:
        return [
            replace(question, ask=replace(question.ask, metrics=half)) for half in _halves(metrics)
        ]
    if question.rest or len(digits) == 1:
        return []
    pieces = [replace(question, uid_digits=half) for half in _halves(digits or _DIGITS)]
    return pieces if digits else [*pieces, replace(question, rest=True)]


def _halves(whole: _Sequence) -> tuple[_Sequence, _Sequence]:
    half = len(whole) // 2
    return whole[:half], whole[half:]


@dataclass(slots=True)
class Sizes:
    """How large the answers to each ask were, per hour: the pieces of later questions."""

    bytes_per_hour: dict[str, float] = field(default_factory=dict)
    samples_per_hour: dict[str, float] = field(default_factory=dict)

    def learn(self, question: Question, byte_count: int, sample_count: int) -> None:
        if question.matcher:
            return
        name = _name(question)
        for known, count in (
            (self.bytes_per_hour, byte_count),
            (self.samples_per_hour, sample_count),
        ):
            known[name] = count / question.hours

    def learn_too_large(self, question: Question) -> None:
        """The answer had more bytes than are read: its neighbours will have, too."""
        self.learn(question, ANSWER_BYTES_LIMIT, 0)

    def split(self, question: Question) -> list[Question]:
        """The question, or its halves as long as they are expected to come near a limit."""
        name = _name(question)
        near = (
            self.bytes_per_hour.get(name, 0.0) * question.hours * 100
            > ANSWER_BYTES_LIMIT * NEAR_PERCENT
            or self.samples_per_hour.get(name, 0.0) * question.hours * 100
            > SAMPLES_LIMIT * NEAR_PERCENT
        )
        if not near or question.hours <= 1:
            return [question]
        return [piece for half in smaller(question) for piece in self.split(half)]


def _name(question: Question) -> str:
    return f"{question.ask.name} {' '.join(question.ask.metrics)}"
