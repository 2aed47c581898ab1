"""Replicas made one as a querier does it, with the holes that it invents."""

from __future__ import annotations

import itertools
from itertools import pairwise

from fake_gpu.prometheus.deduplicate import deduplicated, without_labels
from fake_gpu.prometheus.series import RawSeries


def _replica(name: str, times: list[int], value: float = 1.0) -> RawSeries:
    return RawSeries.of({"__name__": "m", "replica": name}, dict.fromkeys(times, value))


def _gaps(one: list[int], other: list[int]) -> list[int]:
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    times = united.timestamps_ms
    return [later - before for before, later in itertools.pairwise(times)]


def test_the_querier_takes_the_first_sample_and_then_stays_with_the_other_replica() -> None:
    """By hand: 0 is the first one's; 15 s is nearer than 30 s and beyond the first penalty of 5 s;
    from then on the first one may not come before twice the last distance."""
    one, other = list(range(0, 300_000, 30_000)), list(range(15_000, 300_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms == [0, *other]
    assert dict(united.labels) == {"__name__": "m"}


def test_replicas_that_scrape_almost_together_are_one() -> None:
    one, other = list(range(0, 300_000, 30_000)), list(range(2_000, 300_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms == one


def test_one_lost_scrape_is_a_hole_or_none_by_where_the_window_begins() -> None:
    """As measured with a real querier: 30 s apart, replicas 15 s apart, one loses one scrape."""
    end = 7_213_000
    one = [at for at in range(0, end, 30_000) if at != 6_000_000]
    other = list(range(15_000, end, 30_000))

    def largest(start: int) -> int:
        return max(_gaps([t for t in one if t >= start], [t for t in other if t >= start]))

    # The window begins with a sample of the other one, so the first one is followed: a hole.
    assert largest(3_610_000) == 60_000
    # It begins with a sample of the first one, so the other one is followed: none.
    assert largest(3_600_000) == 30_000
    # And no replica but the first ever lost anything.
    assert max(later - before for before, later in pairwise(other)) == 30_000


def test_a_replica_that_ends_is_followed_by_the_other() -> None:
    one, other = list(range(0, 300_000, 30_000)), list(range(15_000, 150_000, 30_000))
    (united,) = deduplicated([_replica("a", one), _replica("b", other)], ["replica"])
    assert united.timestamps_ms[-1] == one[-1]
    # By hand: after the last 135 s the first one may not come before 195 s, and then has 210 s.
    assert max(_gaps(one, other)) == 75_000


def test_values_of_the_chosen_samples_are_kept() -> None:
    one = RawSeries.of({"r": "a"}, {0: 1.0, 30_000: 2.0})
    other = RawSeries.of({"r": "b"}, {2_000: 9.0, 32_000: 9.0, 120_000: 7.0})
    (united,) = deduplicated([one, other], ["r"])
    assert list(zip(united.timestamps_ms, united.numbers, strict=True)) == [
        (0, 1.0),
        (30_000, 2.0),
        (120_000, 7.0),
    ]


def test_series_that_differ_otherwise_stay_apart() -> None:
    found = [
        RawSeries.of({"pod": "p", "r": "a"}, {0: 1.0}),
        RawSeries.of({"pod": "q", "r": "a"}, {0: 1.0}),
        RawSeries.of({"pod": "p", "r": "b"}, {1000: 1.0}),
    ]
    assert [dict(series.labels)["pod"] for series in deduplicated(found, ["r"])] == ["p", "q"]
    assert len(without_labels(found, ["r"])) == 3
