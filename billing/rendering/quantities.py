"""Quantities and amounts as text for people.

Put here: hours from seconds, thousands separators, sums by workload.
Not here: the amounts themselves, which a document already has as text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from domain.billing_period import BillingPeriod
from domain.money import (
    divide_rounding_half_even,
    format_nanos,
    minor_unit_digits,
    parse_nanos,
    round_lines_to_minor_units,
)


def hours_text(seconds: int | Fraction, decimals: int = 2) -> str:
    """Seconds as hours, rounded for readers. JSON and CSV have the exact seconds."""
    scale = 10**decimals
    exact = Fraction(seconds) * scale
    scaled = divide_rounding_half_even(exact.numerator, exact.denominator * 3600)
    sign = "-" if scaled < 0 else ""
    whole, part = divmod(abs(scaled), scale)
    return f"{sign}{whole:,}.{part:0{decimals}}"


def grouped(amount: str) -> str:
    """`4390.93` as `4,390.93`."""
    sign, digits = ("-", amount[1:]) if amount.startswith("-") else ("", amount)
    whole, point, decimals = digits.partition(".")
    return f"{sign}{int(whole):,}{point}{decimals}"


def money(amount: str, currency: str) -> str:
    """`1234.5` as `1,234.50`: all decimals of the amount, at least those of the currency."""
    return grouped(format_nanos(parse_nanos(amount), minor_unit_digits(currency)))


@dataclass(frozen=True, slots=True, order=True)
class WorkloadSum:
    """A workload's part of a document, over all lines and days."""

    workload_kind: str
    workload_name: str
    device_seconds: int
    gpu_seconds: Fraction  # weighted
    billed_cost: str  # rounded; all workloads add up to their rounded sum; '' without a price


def workload_sums(document: Mapping[str, Any]) -> list[WorkloadSum]:
    """The workloads of a document; the largest amount first."""
    weights = {line["line"]: Fraction(line["weight"]) for line in document["lines"]}
    seconds: defaultdict[tuple[str, str], int] = defaultdict(int)
    gpu_seconds: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    nanos: defaultdict[tuple[str, str], int] = defaultdict(int)
    for day in document["workload_days"]:
        key = (day["workload_kind"], day["workload_name"])
        seconds[key] += day["device_seconds"]
        gpu_seconds[key] += day["device_seconds"] * weights[day["line"]]
        nanos[key] += parse_nanos(day["cost"])
    ordered = sorted(seconds, key=lambda key: (-abs(nanos[key]), -abs(seconds[key]), key))
    costs = _round_amounts([nanos[key] for key in ordered], document["currency"])
    return [
        WorkloadSum(*key, seconds[key], gpu_seconds[key], cost)
        for key, cost in zip(ordered, costs, strict=True)
    ]


def _round_amounts(nanos: Sequence[int], currency: str) -> list[str]:
    """Amounts rounded to minor units; they add up to the exact sum, rounded once."""
    if not currency:
        return [""] * len(nanos)
    keys = [f"{place:09}" for place in range(len(nanos))]
    rounded = round_lines_to_minor_units(dict(zip(keys, nanos, strict=True)), currency)
    return [format_nanos(rounded.lines[key], minor_unit_digits(currency)) for key in keys]


def tax_id_text(party: Mapping[str, Any]) -> str:
    """`VAT ID DE123456789`; '' without an ID."""
    return f"{party['tax_id_label'] or 'Tax ID'} {party['tax_id']}" if party["tax_id"] else ""


def gpu_seconds(line: Mapping[str, Any]) -> Fraction:
    """Weighted device seconds of a line, which are multiplied by its rate."""
    return Fraction(line["weight"]) * int(line["device_seconds"])


def seconds_by_method(pods: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Device seconds by method."""
    seconds: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        seconds[pod["method"]] += pod["device_seconds"]
    return dict(sorted(seconds.items()))


@dataclass(frozen=True, slots=True, order=True)
class DaySum:
    """A day's part of a document, over all lines and workloads."""

    day: str
    gpu_seconds: Fraction  # weighted
    billed_cost: str  # rounded; all days add up to their rounded sum; '' without a price

    @property
    def amount(self) -> Fraction:
        """The cost of the day; without a price its GPU-seconds."""
        return Fraction(self.billed_cost or self.gpu_seconds)


def day_sums(document: Mapping[str, Any]) -> list[DaySum]:
    """Every day of the months that have use; days without use are included."""
    weights = {line["line"]: Fraction(line["weight"]) for line in document["lines"]}
    seconds: defaultdict[str, Fraction] = defaultdict(Fraction)
    nanos: defaultdict[str, int] = defaultdict(int)
    for entry in document["workload_days"]:
        seconds[entry["day"]] += entry["device_seconds"] * weights[entry["line"]]
        nanos[entry["day"]] += parse_nanos(entry["cost"])
    months = sorted({day[:7] for day in seconds})
    days = [day.date().isoformat() for month in months for day in _days_of(month)]
    costs = _round_amounts([nanos[day] for day in days], document["currency"])
    return [DaySum(day, seconds[day], cost) for day, cost in zip(days, costs, strict=True)]


def _days_of(month: str) -> list[datetime]:
    return [hour for hour in BillingPeriod(month).hours() if hour.hour == 0]
