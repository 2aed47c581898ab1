"""Deduplication of replicas as in a querier, with the gaps that it adds."""

from __future__ import annotations

import itertools
from itertools import pairwise

from fake_gpu.prometheus.deduplicate import deduplicated, without_labels
from fake_gpu.prometheus.series import WindowSeries


def _replica(name: str, times: list[int], value: float = 1.0) -> WindowSeries:
    return WindowSeries.of({"__name__": "m", "replica": name}, dict.fromkeys(times, value))


def _gaps(one: list[int], other: list[int]) -> list[int]:
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    times = united.timestamps_ms
    return [later - before for before, later in itertools.pairwise(times)]


def test_deduplication_takes_the_first_sample_then_the_other_replica() -> None:
    """By hand: 0 is of the first replica; 15 s is nearer than 30 s and beyond the first penalty of
    5 s; then the first replica may not follow before twice the last distance.
    """
    one, other = list(range(0, 300_000, 30_000)), list(range(15_000, 300_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms == [0, *other]
    assert dict(united.labels) == {"__name__": "m"}


def test_replicas_that_scrape_almost_at_once_are_one() -> None:
    one, other = list(range(0, 300_000, 30_000)), list(range(2_000, 300_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms == one


def test_one_lost_scrape_is_a_gap_depending_on_the_window() -> None:
    """As measured with a real querier: 30 s apart, replicas 15 s apart, one loses one scrape."""
    end = 7_213_000
    one = [at for at in range(0, end, 30_000) if at != 6_000_000]
    other = list(range(15_000, end, 30_000))

    def largest(start: int) -> int:
        return max(_gaps([t for t in one if t >= start], [t for t in other if t >= start]))

    # The window starts with a sample of the second replica, so the first is used: a gap.
    assert largest(3_610_000) == 60_000
    # It starts with a sample of the first replica, so the second is used: no gap.
    assert largest(3_600_000) == 30_000
    # The second replica lost no sample.
    assert max(later - before for before, later in pairwise(other)) == 30_000


def test_a_replica_that_ends_is_replaced_by_the_other() -> None:
    one, other = list(range(0, 300_000, 30_000)), list(range(15_000, 150_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms[-1] == one[-1]
    # By hand: after 135 s the first replica may not follow before 195 s; its next sample is at 210
    # s.
    assert max(_gaps(one, other)) == 75_000


def test_values_of_the_chosen_samples_are_kept() -> None:
    one = WindowSeries.of({"r": "a"}, {0: 1.0, 30_000: 2.0})
    other = WindowSeries.of({"r": "b"}, {2_000: 9.0, 32_000: 9.0, 120_000: 7.0})
    (united,) = deduplicated([one, other], ["r"])
    assert list(zip(united.timestamps_ms, united.numbers, strict=True)) == [
        (0, 1.0),
        (30_000, 2.0),
        (120_000, 7.0),
    ]


def test_series_with_other_different_labels_stay_separate() -> None:
    found = [
        WindowSeries.of({"pod": "p", "r": "a"}, {0: 1.0}),
        WindowSeries.of({"pod": "q", "r": "a"}, {0: 1.0}),
        WindowSeries.of({"pod": "p", "r": "b"}, {1000: 1.0}),
    ]
    assert [dict(series.labels)["pod"] for series in deduplicated(found, ["r"])] == ["p", "q"]
    assert len(without_labels(found, ["r"])) == 3
