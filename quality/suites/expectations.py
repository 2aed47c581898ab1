"""What is expected of each suite's rows, as data: the type of an expectation and its arguments.

Put here: the suites.
Not here: Great Expectations itself, which is only imported when a suite is run (`runner`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Expected:
    """One expectation, by the name that Great Expectations gives it."""

    kind: str
    arguments: Mapping[str, object] = field(default_factory=dict)


def _never_empty() -> Expected:
    return Expected("ExpectTableRowCountToBeBetween", {"min_value": 1})


def _present(column: str) -> Expected:
    return Expected("ExpectColumnValuesToNotBeNull", {"column": column})


def _equal(left: str, right: str) -> Expected:
    return Expected("ExpectColumnPairValuesToBeEqual", {"column_A": left, "column_B": right})


def _one_of(column: str, *values: object) -> Expected:
    return Expected("ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)})


def _at_least(column: str, smallest: int) -> Expected:
    return Expected("ExpectColumnValuesToBeBetween", {"column": column, "min_value": smallest})


def _unique(*columns: str) -> Expected:
    return Expected("ExpectCompoundColumnsToBeUnique", {"column_list": list(columns)})


SUITES: Mapping[str, tuple[Expected, ...]] = MappingProxyType(
    {
        "coverage": (
            _never_empty(),
            _present("cluster_id"),
            _one_of("source", "thanos", "kubernetes"),
            _unique("cluster_id", "source"),
            _equal("hour_count", "distinct_hour_count"),
            _equal("expected_count", "accounted_count"),
            _at_least("smallest_expected_count", 1),
            _at_least("smallest_count", 0),
        ),
        "tenants": (
            _never_empty(),
            _present("tenant"),
            _one_of("belongs_to", "tenant", "provider"),
            _unique("tenant", "belongs_to"),
            _equal("counted_seconds", "charged_seconds"),
            _equal("counted_nanos", "charged_nanos"),
        ),
        "values": (
            _never_empty(),
            _present("cluster_id"),
            _one_of("negative_count", 0),
            _one_of("negative_cost_count", 0),
            _one_of("deviceless_count", 0),
            _one_of("nameless_count", 0),
            _one_of("impossible_weight_count", 0),
            _one_of("overlong_count", 0),
        ),
    }
)
