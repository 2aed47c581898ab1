"""Running the suites: Great Expectations on data frames, its results as checks and as evidence.

Put here: the one import of Great Expectations, and what of its results is kept.
Not here: what is expected (`expectations`), or the statements of the rows (`sql`).

What is kept of a result is the same for the same facts: no times, no identifiers of a run.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domain.findings import Check
from quality.suites.expectations import SUITES, Expected
from warehouse.sql_files import statement

if TYPE_CHECKING:
    import duckdb

CHECK_NAMES = tuple(f"suite_{name}" for name in SUITES)


def run_suites(connection: duckdb.DuckDBPyConnection, period: str) -> list[Check]:
    """Every suite over the rows of its statement, for one period."""
    return [
        _run_suite(name, expected, _rows(connection, name, period))
        for name, expected in SUITES.items()
    ]


def _rows(connection: duckdb.DuckDBPyConnection, name: str, period: str) -> Any:
    return connection.execute(statement(__file__, name), {"period": period}).df()


def _run_suite(name: str, expected: Sequence[Expected], frame: Any) -> Check:
    results = _validate(name, expected, frame)
    kept = [_kept(result) for result in results]
    failed = sum(not entry["success"] for entry in kept)
    if len(kept) != len(expected):
        # An expectation that vanished has not been met.
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
    """Load the library now: it takes seconds, in which others may count."""
    _great_expectations()


@functools.cache
def _great_expectations() -> tuple[Any, Any]:
    """The library and one context for the whole process, silent and without telemetry."""
    # It reports its use to its makers, which without a network costs seconds per suite.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx
    from great_expectations.data_context.types import base

    # This module of it sets a level of its own.
    logging.getLogger(base.__name__).setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = base.ProgressBarsConfig(globally=False)
    return gx, context


def _kept(result: Mapping[str, Any]) -> dict[str, Any]:
    """What an expectation was, whether it was met, and on how many values it looked."""
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
