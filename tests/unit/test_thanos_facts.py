"""Suspicious facts are counted: series that end before their pod, mass endings, values, absences.

Put here: each fact, with a situation that has it and one that does not.
Not here: consequences of facts (`quality`).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ingestion.evidence.hour_ledger import MASS_ENDINGS
from ingestion.thanos.decode import DecodeWindow, Runs, SeriesDictionary, decode_runs
from ingestion.thanos.hour_facts import (
    MASS_COUNT,
    MASS_SHARE_PERCENT,
    attempt_facts,
    hourly_facts,
    mass_absence,
)
from ingestion.thanos.response import read_matrix_body

ROOT = Path(__file__).parents[2]
TEN = 1_790_848_800  # 2026-10-01T10:00:00Z
HOURS = [datetime(2026, 10, 1, 10, tzinfo=UTC), datetime(2026, 10, 1, 11, tzinfo=UTC)]
LOOK = DecodeWindow(TEN * 1000, (TEN + 7200) * 1000, 90_000, (TEN - 60) * 1000, (TEN + 7260) * 1000)
REQUESTS, PHASE = "kube_pod_container_resource_requests", "kube_pod_status_phase"
Described = tuple[str, str, int, int, str]  # metric, uid, from minute, until minute, value


def runs(*described: Described, **labels: str) -> Runs:
    result = [
        {
            "metric": {"__name__": metric, "uid": uid, **labels},
            "values": [[TEN + 60 * minute, value] for minute in range(start, end)],
        }
        for metric, uid, start, end, value in described
    ]
    value = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    raw = read_matrix_body(json.dumps(value, separators=(",", ":")).encode()).series
    return decode_runs(raw, SeriesDictionary([]), LOOK)


def facts(*parts: Runs) -> list[dict[str, int]]:
    found = hourly_facts(parts, HOURS, 60)
    return [found[hour] for hour in HOURS]


def test_a_quiet_cluster_has_no_facts() -> None:
    assert facts(runs((REQUESTS, "a", 0, 120, "1"), (PHASE, "a", 0, 120, "1"))) == [{}, {}]


def test_a_series_that_ends_before_its_pod_is_counted_in_later_hours() -> None:
    requests = runs((REQUESTS, "a", 0, 30, "1"))
    phase = runs((PHASE, "a", 0, 120, "1"))
    name = "series_ending_before_their_pod"
    assert facts(requests, phase) == [{name: 1}, {name: 1}]


def test_the_end_of_a_pod_is_no_gap() -> None:
    """A difference of one interval between two metrics is a partial round and not a gap."""
    ended = facts(runs((REQUESTS, "a", 0, 30, "1"), (PHASE, "a", 0, 31, "1")))
    assert ended == [{}, {}]


def test_another_running_pod_proves_nothing_about_this_one() -> None:
    assert facts(runs((REQUESTS, "a", 0, 30, "1"), (PHASE, "b", 0, 120, "1"))) == [{}, {}]


def test_many_series_that_end_at_one_scrape_are_a_mass_ending() -> None:
    gone = [(REQUESTS, f"g{n}", 0, 30, "1") for n in range(3)]
    stay = [(REQUESTS, f"s{n}", 0, 120, "1") for n in range(12)]
    assert facts(runs(*gone, *stay))[0] == {MASS_ENDINGS: 3}
    assert facts(runs(*gone, *stay, (REQUESTS, "s12", 0, 120, "1")))[0] == {}  # below a fifth
    assert facts(runs(*gone[1:], *stay[:4]))[0] == {}  # fewer than three


def test_models_and_pulls_use_the_same_rule_for_mass_endings() -> None:
    """An ending that the models treat as a gap is queried again, and no other ending is."""
    text = (ROOT / "dbt" / "macros" / "agreement.sql").read_text(encoding="utf-8")
    values = dict(re.findall(r"macro (\w*mass_ending\w*)\(\) -%}\s+(\d+)\s", text))
    assert values == {
        "least_mass_ending": str(MASS_COUNT),
        "mass_ending_divisor": str(100 // MASS_SHARE_PERCENT),
    }


def test_many_endings_at_different_times_are_no_mass_ending() -> None:
    gone = [(REQUESTS, f"g{n}", 0, 20 + n, "1") for n in range(12)]
    assert facts(runs(*gone)) == [{}, {}]


def test_the_end_of_the_window_is_no_ending() -> None:
    late = runs(*((REQUESTS, f"g{n}", 0, 119, "1") for n in range(20)))
    assert hourly_facts([late], HOURS, 60)[HOURS[1]] == {MASS_ENDINGS: 20}
    # At two minutes the window ended before the next sample was due.
    assert hourly_facts([late], HOURS, 120)[HOURS[1]] == {}


def test_a_pod_without_a_metric_that_all_others_have_lost_it() -> None:
    """Another receiver had all samples of the series, so no ending is visible."""
    phases = [(PHASE, uid, 0, 120, "1") for uid in ("a", "b", "c")]
    owners = [("kube_pod_owner", uid, 0, 120, "1") for uid in ("a", "b")]
    assert facts(runs(*phases, *owners)) == [{"pods_lacking_a_metric": 1}] * 2
    assert facts(runs(*phases)) == [{}, {}]  # no pod has an owner here: it is not collected
    assert facts(runs(*phases, *owners, ("kube_pod_owner", "c", 0, 120, "1"))) == [{}, {}]


def test_a_pod_with_few_samples_of_one_metric_is_a_partial_round() -> None:
    brief = runs((PHASE, "a", 0, 120, "1"), (PHASE, "b", 30, 31, "1"))
    owner = runs(("kube_pod_owner", "a", 0, 120, "1"))
    assert facts(brief, owner) == [{}, {}]


def test_invalid_device_counts_are_counted_by_their_samples() -> None:
    for value in ("NaN", "+Inf", "-1", "0.5", "1e-3"):
        assert facts(runs((REQUESTS, "a", 0, 120, value)))[0] == {"unusable_samples": 60}
    for value in ("0", "1", "8.0", "1e+06"):
        assert facts(runs((REQUESTS, "a", 0, 120, value)))[0] == {}


@pytest.mark.parametrize("value", ["0", "NaN", "0.5"])
def test_failed_scrapes_are_counted_by_up(value: str) -> None:
    assert facts(runs(("up", "", 0, 60, "1"), ("up", "", 60, 90, value))) == [
        {},
        {"failed_scrapes": 30},
    ]
    assert facts(runs((PHASE, "a", 0, 120, "0"))) == [{}, {}]


def test_a_window_queried_in_two_parts_has_one_lifetime() -> None:
    first = runs((REQUESTS, "a", 0, 60, "1"), (PHASE, "a", 0, 60, "1"))
    second = runs((REQUESTS, "a", 60, 120, "1"), (PHASE, "a", 60, 120, "1"))
    assert facts(first, second) == [{}, {}]


def test_series_of_two_clusters_in_one_response_are_a_fact() -> None:
    mine = runs(("up", "", 0, 60, "1"), clusterID="c1")
    other = runs(("up", "", 0, 60, "1"), clusterID="c2")
    assert attempt_facts([mine, mine]) == {}
    assert attempt_facts([mine, other]) == {"clusters_in_the_answer": 2}


def test_long_series_gone_since_the_hour_before_are_a_mass_ending() -> None:
    assert mass_absence({REQUESTS: (100, 6000)}, {REQUESTS: (64, 3840)}) == 36
    assert mass_absence({REQUESTS: (100, 6000)}, {}) == 100
    assert mass_absence({REQUESTS: (100, 6000)}, {REQUESTS: (81, 4860)}) == 0
    assert mass_absence({REQUESTS: (3, 180)}, {REQUESTS: (1, 60)}) == 0
    assert mass_absence({"kube_pod_start_time": (100, 6000)}, {}) == 0  # these may end
    assert mass_absence({}, {REQUESTS: (5, 300)}) == 0


def test_hours_are_named_by_their_start() -> None:
    found = hourly_facts([], HOURS, 60)
    assert list(found) == HOURS
    assert HOURS[1] - HOURS[0] == timedelta(hours=1)
