"""The same facts under the rules of other tools: what would they have billed?

Put here: the rules, each with whose habit it is, and the difference per tenant.
Not here: our own rule, which is `fct_charges`, or reading the facts (`compare_reader`).

The rules are written from what those tools publish about themselves. Each takes what samples could
show of a pod, because that is what those tools look at; none of them has a second witness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from domain.interval import Interval
from domain.money import divide_rounding_half_even

STEP_SECONDS = 900
"""A query step of 15 minutes, the coarsest that published scripts use by default."""


@dataclass(frozen=True, slots=True)
class PodLife:
    """One pod on one kind of device at one price, as the facts have it."""

    tenant: str
    pod_uid: str
    device_count: int
    weight: Fraction
    rate_nanos_per_hour: int
    billed_seconds: int
    sampled: tuple[Interval, ...]  # the time that samples vouch for; a hole parts it
    engine_active: Fraction | None = None  # of the sampled time; None without telemetry


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to count, and what it counts as."""

    name: str
    title: str
    says: str
    seconds: Callable[[PodLife], Fraction]
    weight: Callable[[PodLife], Fraction]


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """What a rule would have billed a tenant, beside what the ledger did."""

    tenant: str
    rule: str
    ledger_nanos: int
    rule_nanos: int

    @property
    def nanos(self) -> int:
        return self.rule_nanos - self.ledger_nanos


def whole_hours_of_steps(life: PodLife) -> Fraction:
    """N × step for each unbroken row of steps, rounded up to whole hours."""
    total = 0
    for stretch in life.sampled:
        steps = _steps_in(stretch)
        if steps:
            total += -(-steps * STEP_SECONDS // 3600) * 3600
    return Fraction(total)


def first_to_last(life: PodLife) -> Fraction:
    """From the first sample to the last, over every hole between them."""
    if not life.sampled:
        return Fraction(0)
    started_at = min(stretch.started_at for stretch in life.sampled)
    ended_at = max(stretch.ended_at for stretch in life.sampled)
    return Fraction(Interval(started_at, ended_at).seconds)


def engine_active_time(life: PodLife) -> Fraction:
    """The time in which the engine was busy; without telemetry nothing at all."""
    sampled = sum(stretch.seconds for stretch in life.sampled)
    return sampled * (life.engine_active or Fraction(0))


def _as_billed(life: PodLife) -> Fraction:
    return Fraction(life.billed_seconds)


def _own_weight(life: PodLife) -> Fraction:
    return life.weight


def _whole_card(life: PodLife) -> Fraction:
    return Fraction(1)


RULES: tuple[Rule, ...] = (
    Rule(
        "whole_hours_of_steps",
        "Steps, rounded up to whole hours",
        "Counts evaluation steps of 15 minutes in which the pod was there, takes a gap for a stop, "
        "and rounds each piece up to whole hours.",
        whole_hours_of_steps,
        _own_weight,
    ),
    Rule(
        "first_to_last",
        "First to last stamp",
        "Bills from the first sample to the last one; what lies between is never asked.",
        first_to_last,
        _own_weight,
    ),
    Rule(
        "engine_active_time",
        "Engine-active time",
        "Bills the time in which the engine was busy; a pod that holds a card idle is free.",
        engine_active_time,
        _own_weight,
    ),
    Rule(
        "whole_card_for_a_slice",
        "Whole card for a slice",
        "Counts each device that a pod asks for as one GPU, a MIG slice as much as a card.",
        _as_billed,
        _whole_card,
    ),
)


def compare(lives: Iterable[PodLife], billed: Mapping[str, int]) -> list[Difference]:
    """Per tenant and rule, against the exact cost of the ledger; rounded once per tenant."""
    by_tenant: defaultdict[str, list[PodLife]] = defaultdict(list)
    for life in lives:
        by_tenant[life.tenant].append(life)
    return [
        Difference(tenant, rule.name, billed.get(tenant, 0), _cost(by_tenant[tenant], rule))
        for tenant in sorted({*by_tenant, *billed})
        for rule in RULES
    ]


def _cost(lives: Sequence[PodLife], rule: Rule) -> int:
    exact = sum(
        (
            rule.seconds(life) * rule.weight(life) * life.device_count * life.rate_nanos_per_hour
            for life in lives
        ),
        Fraction(0),
    )
    exact /= 3600
    return divide_rounding_half_even(exact.numerator, exact.denominator)


def _steps_in(stretch: Interval) -> int:
    """Instants on the step's grid that lie in `[started_at, ended_at)`."""
    first = int(stretch.started_at.timestamp())
    last = int(stretch.ended_at.timestamp())
    return -(-last // STEP_SECONDS) - -(-first // STEP_SECONDS)
