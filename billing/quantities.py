"""Quantities and amounts as people read them, exact or visibly rounded.

Put here: hours from seconds, thousands separators, sums by workload.
Not here: the amounts themselves, which a document already has as text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from domain.billing_period import BillingPeriod
from domain.money import divide_rounding_half_even, format_nanos, parse_nanos


def hours_text(seconds: int, decimals: int = 2) -> str:
    """Seconds as hours, for reading; the exact seconds stand in the JSON and the CSV."""
    scale = 10**decimals
    scaled = divide_rounding_half_even(seconds * scale, 3600)
    sign = "-" if scaled < 0 else ""
    whole, part = divmod(abs(scaled), scale)
    return f"{sign}{whole:,}.{part:0{decimals}}"


def grouped(amount: str) -> str:
    """`4390.93` as `4,390.93`."""
    sign, digits = ("-", amount[1:]) if amount.startswith("-") else ("", amount)
    whole, point, decimals = digits.partition(".")
    return f"{sign}{int(whole):,}{point}{decimals}"


def aligned(amounts: Iterable[str]) -> list[str]:
    """Amounts that stand below each other: exact, with as many decimals as the longest has."""
    texts = list(amounts)
    decimals = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [_padded(grouped(text), decimals) for text in texts]


def _padded(text: str, decimals: int) -> str:
    whole, _, part = text.partition(".")
    return f"{whole}.{part:0<{decimals}}" if decimals else whole


@dataclass(frozen=True, slots=True, order=True)
class WorkloadSum:
    """A workload's part of a document, over all lines and days."""

    workload_kind: str
    workload_name: str
    device_seconds: int
    cost: str


def workload_sums(days: Iterable[Mapping[str, Any]]) -> list[WorkloadSum]:
    """The workloads of a document, the dearest first."""
    seconds: defaultdict[tuple[str, str], int] = defaultdict(int)
    nanos: defaultdict[tuple[str, str], int] = defaultdict(int)
    for day in days:
        key = (day["workload_kind"], day["workload_name"])
        seconds[key] += day["device_seconds"]
        nanos[key] += parse_nanos(day["cost"])
    ordered = sorted(seconds, key=lambda key: (-nanos[key], -seconds[key], key))
    return [WorkloadSum(*key, seconds[key], format_nanos(nanos[key])) for key in ordered]


def seconds_by_method(pods: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Device seconds by what vouches for them."""
    seconds: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        seconds[pod["method"]] += pod["device_seconds"]
    return dict(sorted(seconds.items()))


@dataclass(frozen=True, slots=True, order=True)
class DaySum:
    """A day's part of a document, over all lines and workloads."""

    day: str
    device_seconds: int
    nanos: int

    @property
    def cost(self) -> str:
        return format_nanos(self.nanos)


def day_sums(document: Mapping[str, Any]) -> list[DaySum]:
    """Every day of the period, those without use as well; none when nothing was used at all."""
    if not document["workload_days"]:
        return []
    seconds: defaultdict[str, int] = defaultdict(int)
    nanos: defaultdict[str, int] = defaultdict(int)
    for entry in document["workload_days"]:
        seconds[entry["day"]] += entry["device_seconds"]
        nanos[entry["day"]] += parse_nanos(entry["cost"])
    days = sorted({*_days_of(document), *seconds})
    return [DaySum(day, seconds[day], nanos[day]) for day in days]


def _days_of(document: Mapping[str, Any]) -> list[str]:
    period = BillingPeriod(document["billing_period"])
    return sorted({hour.date().isoformat() for hour in period.hours()})
