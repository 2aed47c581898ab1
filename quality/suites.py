"""Great Expectations suites as code, over aggregates with one row per cluster or tenant.

Put here: the expectations of each suite, running them, and the stored part of a result.
Not here: the statements of the rows (`sql/suites`), or row-level rules, which are dbt tests.

A stored result is the same for the same facts: it has no times and no identifiers of a run.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from domain.findings import Check
from warehouse.sql_files import statement

if TYPE_CHECKING:
    import duckdb


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


# Running ------------------------------------------------------------------------------------------

CHECK_NAMES = tuple(f"suite_{name}" for name in SUITES)


def run_suites(connection: duckdb.DuckDBPyConnection, period: str) -> list[Check]:
    """Every suite over the rows of its statement, for one period."""
    return [
        _run_suite(name, expected, _rows(connection, name, period))
        for name, expected in SUITES.items()
    ]


def _rows(connection: duckdb.DuckDBPyConnection, name: str, period: str) -> Any:
    return connection.execute(statement(__file__, f"suites/{name}"), {"period": period}).df()


def _run_suite(name: str, expected: Sequence[Expected], frame: Any) -> Check:
    results = _validate(name, expected, frame)
    kept = [_result_entry(result) for result in results]
    failed = sum(not entry["success"] for entry in kept)
    if len(kept) != len(expected):
        # A missing result counts as failed.
        failed += abs(len(expected) - len(kept))
    text = json.dumps({"suite": name, "results": kept}, sort_keys=True)
    return Check(f"suite_{name}", len(frame) * len(kept), failed, text)


def _validate(name: str, expected: Sequence[Expected], frame: Any) -> list[Mapping[str, Any]]:
    gx, context = _great_expectations()
    suite = gx.ExpectationSuite(
        name=name,
        expectations=[getattr(gx.expectations, e.kind)(**e.arguments) for e in expected],
    )
    asset = context.data_sources.add_or_update_pandas("facts").add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    outcome: Any = batch.validate(suite)
    results: list[Mapping[str, Any]] = outcome.to_json_dict()["results"]
    return results


def load() -> None:
    """Import the library now, which takes seconds."""
    _great_expectations()


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Make a module impossible to import for a while."""
    before = sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
        if before is not None:
            sys.modules[module] = before


@functools.cache
def _great_expectations() -> tuple[Any, Any]:
    """The library and one context for the whole process, silent and without telemetry."""
    # Its telemetry costs seconds per suite without a network.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    # Without pyspark: the library would load its client, which ends a process without a main file.
    with _hidden("pyspark"):
        import great_expectations as gx
        from great_expectations.data_context.types import base

    # This module of it sets a level of its own.
    logging.getLogger(base.__name__).setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = base.ProgressBarsConfig(globally=False)
    return gx, context


def _result_entry(result: Mapping[str, Any]) -> dict[str, Any]:
    """An expectation, its result, and the number of evaluated values."""
    config, found = result["expectation_config"], result["result"]
    arguments = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    entry: dict[str, Any] = {
        "expectation": config["type"],
        "arguments": arguments,
        "success": bool(result["success"]),
        "exception": bool(result["exception_info"].get("raised_exception")),
    }
    for key in ("element_count", "unexpected_count", "observed_value"):
        if isinstance(found.get(key), int):
            entry[key] = found[key]
    return entry
