"""Quantities and amounts as people read them, exact or visibly rounded.

Put here: hours from seconds, thousands separators, sums by workload.
Not here: the amounts themselves, which a document already has as text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
