"""Runs calculated by hand: gaps, hours, replicas, boundaries.

Put here: one situation each, with its expected runs.
Not here: the decoder compared with a simple one on random input (`tests/properties`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.interval import Interval
from fake_gpu.clock import epoch
from ingestion.thanos.decode import (
    DecodeWindow,
    Runs,
    SeriesDictionary,
    decode_runs,
)
from ingestion.thanos.response import read_matrix_body
from ingestion.thanos.sample_columns import MalformedSeries

TEN = 1_790_848_800  # 2026-10-01T10:00:00Z
HOUR = 3600
LOOK = DecodeWindow.at(Interval(epoch(TEN), epoch(TEN + 2 * HOUR)), 30)
Row = tuple[str, float, float, int, str]


def body(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> bytes:
    result = [{"metric": labels, "values": values} for labels, values in series]
    value = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(value, separators=(",", ":")).encode()


def decoded(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> Runs:
    raw = read_matrix_body(body(*series)).series
    return decode_runs(raw, SeriesDictionary(["replica"]), LOOK)


def rows(runs: Runs) -> list[Row]:
    """(pod, first, last, count, value); times in seconds after 10:00."""
    return sorted(
        (
            runs.series[runs.series_index[at]].labels.get("pod", ""),
            (int(runs.first_ms[at]) - TEN * 1000) / 1000,
            (int(runs.last_ms[at]) - TEN * 1000) / 1000,
            int(runs.sample_count[at]),
            runs.values[runs.value_index[at]],
        )
        for at in range(len(runs))
    )


def samples(*seconds: float, value: str = "1") -> list[tuple[float, str]]:
    return [(TEN + second, value) for second in seconds]


A = {"__name__": "requests", "pod": "a"}


def test_equal_neighbours_are_one_run() -> None:
    assert rows(decoded((A, samples(0, 30, 60, 90)))) == [("a", 0, 90, 4, "1")]


def test_a_missed_scrape_ends_a_run_and_jitter_does_not() -> None:
    jittered = samples(0, 30, 75)  # 45 s apart: exactly 1.5 intervals is no gap
    assert rows(decoded((A, jittered))) == [("a", 0, 75, 3, "1")]
    missed = samples(0, 30, 75.001)
    assert rows(decoded((A, missed))) == [("a", 0, 30, 2, "1"), ("a", 75.001, 75.001, 1, "1")]


def test_another_value_is_another_run() -> None:
    changed = samples(0, 30) + samples(60, 90, value="2")
    assert rows(decoded((A, changed))) == [("a", 0, 30, 2, "1"), ("a", 60, 90, 2, "2")]


def test_values_keep_the_text_of_the_server() -> None:
    texts = ["1", "1.0", "1e0", "NaN", "+Inf", "0.1"]
    pairs = [(TEN + 30.0 * at, text) for at, text in enumerate(texts)]
    assert [row[4] for row in rows(decoded((A, pairs)))] == texts


def test_runs_are_cut_at_the_hour_which_belongs_to_the_later_hour() -> None:
    across = samples(3570, 3600, 3630)
    assert rows(decoded((A, across))) == [("a", 3570, 3570, 1, "1"), ("a", 3600, 3630, 2, "1")]
    runs = decoded((A, across))
    assert [int(hour) // 1000 - TEN for hour in runs.hour_ms] == [0, 3600]


def test_samples_of_the_overlap_extend_runs_and_are_not_counted() -> None:
    overlap = samples(-30, 0, 7170, 7199.999, 7200, 7230)
    assert rows(decoded((A, overlap))) == [("a", 0, 0, 1, "1"), ("a", 7170, 7199.999, 2, "1")]
    assert reaches(decoded((A, overlap))) == [(-30, 0), (7170, 7200)]
    assert "samples_outside_the_question" not in _positive(decoded((A, overlap)))


def test_a_neighbour_with_another_value_does_not_extend_a_run() -> None:
    other = samples(-30, value="2") + samples(0, 7190) + samples(7220, value="2")
    assert reaches(decoded((A, other))) == [(0, 0), (7190, 7190)]
    assert rows(decoded((A, samples(-30, 7200, 7230)))) == []


def reaches(runs: Runs) -> list[tuple[float, float]]:
    """Start and end of the time that each run covers, in seconds after 10:00."""
    both = zip(runs.reaches_from_ms.tolist(), runs.reaches_until_ms.tolist(), strict=True)
    return sorted((first / 1000 - TEN, last / 1000 - TEN) for first, last in both)


def test_samples_outside_the_query_are_counted() -> None:
    milliseconds_for_seconds = (TEN * 1000.0, "1")
    nonsense = [*samples(-31, 0, 30, 7231), milliseconds_for_seconds]
    assert _positive(decoded((A, nonsense)))["samples_outside_the_question"] == 3


def _positive(runs: Runs) -> dict[str, int]:
    return {name: count for name, count in runs.facts.items() if count}


def test_replicas_are_united_and_a_gap_is_missing_in_all() -> None:
    """Two replicas 15 s apart; each lost one scrape, at different times."""
    left = samples(0, 30, 90, 120)
    right = samples(15, 45, 75, 135)
    both = decoded((A | {"replica": "0"}, left), (A | {"replica": "1"}, right))
    assert rows(both) == [("a", 0, 135, 8, "1")]
    assert _positive(both) == {"replica_series": 1}


def test_the_same_sample_of_two_replicas_counts_once() -> None:
    same = samples(0, 30, 60)
    both = decoded((A | {"replica": "0"}, same), (A | {"replica": "1"}, same))
    assert rows(both) == [("a", 0, 60, 3, "1")]


def test_samples_shared_by_replicas_count_once() -> None:
    """As after a restart with another offset: two of three samples are equal."""
    left, right = samples(0, 30, 60), samples(0, 30, 75)
    both = decoded((A | {"replica": "0"}, left), (A | {"replica": "1"}, right))
    assert rows(both) == [("a", 0, 75, 4, "1")]


def test_contradicting_replicas_are_both_kept_and_counted() -> None:
    left, right = samples(0, 30, value="1"), samples(0, 30, value="2")
    both = decoded((A | {"replica": "0"}, left), (A | {"replica": "1"}, right))
    assert sum(row[3] for row in rows(both)) == 4
    assert _positive(both)["contradicting_samples"] == 2


def test_series_with_equal_texts_stay_separate() -> None:
    series = [({"__name__": "requests", "pod": f"p{n}"}, samples(0, 30, 60)) for n in range(50)]
    found = rows(decoded(*series))
    assert found == sorted((f"p{n}", 0.0, 60.0, 3, "1") for n in range(50))


def test_labels_in_another_order_are_the_same_series() -> None:
    one = decoded(({"__name__": "requests", "pod": "a", "node": "n"}, samples(0)))
    other = decoded(({"node": "n", "pod": "a", "__name__": "requests"}, samples(0)))
    assert one.series == other.series


def test_the_metric_is_part_of_a_series_name() -> None:
    ids = {
        decoded(({"__name__": metric, "pod": "a"}, samples(0))).series[0].series_id
        for metric in ("requests", "limits")
    }
    assert len(ids) == 2


def test_milliseconds_are_kept() -> None:
    assert rows(decoded((A, samples(0.001, 0.999)))) == [("a", 0.001, 0.999, 2, "1")]
    runs = decoded((A, [(TEN + 0.123, "1")]))
    assert int(runs.first_ms[0]) == TEN * 1000 + 123


def test_a_response_without_series_has_no_runs() -> None:
    assert len(decoded()) == 0
    assert len(decoded((A, []))) == 0


@pytest.mark.parametrize(
    "series",
    [
        {"metric": {"pod": 3}, "values": []},
        {"metric": [], "values": []},
        {"metric": {}, "values": [[1]]},
        {"metric": {}, "values": [[1, 2]]},
        {"metric": {}, "values": [["1", "1"]]},
        {"metric": {}, "values": [[]]},
        {"metric": {}, "values": [[1, "1", "1"]]},
        {"metric": {}, "values": {"1": "1"}},
        {"metric": {}, "values": "1"},
    ],
)
def test_series_with_an_invalid_format_are_refused(series: Any) -> None:
    value = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
    raw = read_matrix_body(json.dumps(value, separators=(",", ":")).encode()).series
    with pytest.raises(MalformedSeries):
        decode_runs(raw, SeriesDictionary([]), LOOK)


def test_native_histograms_are_counted_and_not_decoded() -> None:
    histogram = {"metric": A, "histograms": [[TEN, {"count": "1", "sum": "1"}]]}
    value = {"status": "success", "data": {"resultType": "matrix", "result": [histogram]}}
    raw = read_matrix_body(json.dumps(value).encode()).series
    runs = decode_runs(raw, SeriesDictionary([]), LOOK)
    assert (len(runs), runs.facts["histogram_series"]) == (0, 1)
