"""The expectations of the suites, evaluated without Great Expectations.

Put here: one case for each kind of expectation in a suite.
Not here: the choice of tests (`tests/conftest.py`), or the expectations (`quality.suites`).

Great Expectations takes four seconds to load and half a second for each checked month.
`tests/unit/test_quality_suites.py` compares both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from quality.suites import Expected


def validate(name: str, expected: Sequence[Expected], frame: Any) -> list[Mapping[str, Any]]:
    """The fields of Great Expectations' result that the ledger stores."""
    del name
    return [_result(each, frame) for each in expected]


def _result(expected: Expected, frame: Any) -> Mapping[str, Any]:
    arguments: Mapping[str, Any] = expected.arguments
    found: dict[str, int]
    if expected.kind == "ExpectTableRowCountToBeBetween":
        found = {"observed_value": len(frame)}
        success = len(frame) >= arguments["min_value"]
    else:
        unexpected = int(_unexpected(expected.kind, arguments, frame).sum())
        found = {"element_count": len(frame), "unexpected_count": unexpected}
        success = unexpected == 0
    return {
        "success": success,
        "expectation_config": {
            "type": re.sub(r"(?<!^)(?=[A-Z])", "_", expected.kind).lower(),
            "kwargs": arguments,
        },
        "result": found,
        "exception_info": {},
    }


def _unexpected(kind: str, arguments: Mapping[str, Any], frame: Any) -> Any:
    """For each row, whether it is unexpected; null values are not compared."""
    if kind == "ExpectColumnPairValuesToBeEqual":
        left, right = frame[arguments["column_A"]], frame[arguments["column_B"]]
        return (left != right) & ~(left.isna() & right.isna())
    if kind == "ExpectCompoundColumnsToBeUnique":
        columns = arguments["column_list"]
        return frame.duplicated(columns, keep=False) & ~frame[columns].isna().all(axis=1)
    column = frame[arguments["column"]]
    if kind == "ExpectColumnValuesToNotBeNull":
        return column.isna()
    if kind == "ExpectColumnValuesToBeInSet":
        return ~column.isin(arguments["value_set"]) & ~column.isna()
    if kind == "ExpectColumnValuesToBeBetween":
        return (column < arguments["min_value"]) & ~column.isna()
    raise ValueError(f"no rule for the expectation {kind}; add it here")
