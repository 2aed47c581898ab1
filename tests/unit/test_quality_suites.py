"""The suites as Great Expectations runs them, and as most tests evaluate them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from domain.findings import Check
from quality import suites
from quality.suites import SUITES
from tests import plain_expectations

GOOD: dict[str, dict[str, list[Any]]] = {
    "coverage": {
        "cluster_id": ["a", "a", "b"],
        "source": ["thanos", "kubernetes", "thanos"],
        "hour_count": [744, 744, 744],
        "distinct_hour_count": [744, 744, 744],
        "expected_count": ["120", "3600", "120"],
        "accounted_count": ["120", "3600", "120"],
        "smallest_expected_count": [1, 1, 1],
        "smallest_count": [0, 0, 0],
    },
    "tenants": {
        "tenant": ["x", "x", "y"],
        "belongs_to": ["tenant", "provider", "tenant"],
        "counted_seconds": ["5", "6", "7"],
        "charged_seconds": ["5", "6", "7"],
        "counted_nanos": ["1", "2", "3"],
        "charged_nanos": ["1", "2", "3"],
    },
    "values": {
        "cluster_id": ["a", "b", "c"],
        "negative_count": [0, 0, 0],
        "negative_cost_count": [0, 0, 0],
        "deviceless_count": [0, 0, 0],
        "nameless_count": [0, 0, 0],
        "impossible_weight_count": [0, 0, 0],
        "overlong_count": [0, 0, 0],
    },
}


def frames(name: str) -> dict[str, Any]:
    """Rows as expected, no rows, and for each column a row with a wrong value."""
    good = pd.DataFrame(GOOD[name])
    found = {"good": good, "empty": good.iloc[:0], "twice": pd.concat([good, good])}
    for column in good.columns:
        for value in (None, -1 if column.endswith("count") else "other"):
            wrong = good.copy()
            wrong[column] = [value, *wrong[column][1:]]
            found[f"{column} {value}"] = wrong
    return found


def checked(name: str, frame: Any) -> tuple[Check, list[dict[str, Any]]]:
    check = suites._run_suite(name, SUITES[name], frame)
    results = json.loads(check.result)["results"]
    return check, sorted(results, key=lambda one: (one["expectation"], str(one["arguments"])))


@pytest.mark.engines
@pytest.mark.parametrize("name", SUITES)
def test_plain_expectations_agree_with_great_expectations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = {what: checked(name, frame) for what, frame in frames(name).items()}
    monkeypatch.setattr(suites, "_validate", plain_expectations.validate)
    for what, frame in frames(name).items():
        check, results = checked(name, frame)
        whole, expected = through[what]
        counts = (check.evaluated_row_count, check.failed_row_count)
        assert counts == (whole.evaluated_row_count, whole.failed_row_count), what
        assert results == expected, what
    assert through["good"][0].failed_row_count == 0
    assert all(check.failed_row_count for what, (check, _) in through.items() if "-1" in what)
