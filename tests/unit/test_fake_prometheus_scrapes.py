"""Times of scrapes, and conflicts of exposed labels."""

from __future__ import annotations

import itertools

from fake_gpu.prometheus.scrapes import LATEST_MS, Federation, Grid, Schedule
from fake_gpu.prometheus.series import TimeBlock
from fake_gpu.prometheus.targets import Target, targets_of
from tests.small_fleets import MIDNIGHT, quiet_cluster

START = MIDNIGHT * 1000
DAY = 86_400_000


def test_scrapes_are_one_interval_apart_but_for_some_milliseconds() -> None:
    times = Schedule("a target", 30_000).times(START, START + DAY)
    assert len(times) in (2879, 2880, 2881)
    distances = [later - before for before, later in itertools.pairwise(times)]
    assert all(30_000 - LATEST_MS <= distance <= 30_000 + LATEST_MS for distance in distances)
    late = [at for at in times if (at - Schedule("a target", 30_000).offset_ms) % 30_000]
    assert 20 < len(late) < 150  # about one in forty


def test_a_day_has_the_same_scrapes_in_any_division() -> None:
    schedule = Schedule("a target", 30_000)
    whole = schedule.times(START, START + DAY)
    parts: list[int] = []
    for edge in range(0, DAY, 1_234_567):
        parts += schedule.times(START + edge, min(START + edge + 1_234_567, START + DAY))
    assert parts == whole


def test_every_target_and_replica_has_its_own_offset() -> None:
    offsets = {Schedule(f"target-{number}", 30_000).offset_ms for number in range(20)}
    assert len(offsets) == 20


def test_a_collector_takes_the_newest_sample_of_each_round_once() -> None:
    times = list(range(7_000, 7_200_000, 60_000))

    def scraped(from_ms: int, until_ms: int) -> list[int]:
        return [at for at in times if from_ms <= at < until_ms]

    collected = Federation("rounds", 300_000).collect(scraped, 0, 3_600_000)
    assert len(collected) in (11, 12)
    assert all(b - a == 300_000 for a, b in itertools.pairwise(collected))
    assert set(collected) <= set(times)
    # Rounds do not depend on the window of the query.
    halves = [
        at
        for low, high in ((0, 1_234_567), (1_234_567, 3_600_000))
        for at in Federation("rounds", 300_000).collect(scraped, low, high)
    ]
    assert halves == collected
    # A target with rarer scrapes than collections is not collected twice.
    rare = [at for at in times if at % 600_000 == 7_000 and at < 3_600_000]

    def scraped_rarely(from_ms: int, until_ms: int) -> list[int]:
        return [at for at in rare if from_ms <= at < until_ms]

    seldom = Federation("rounds", 120_000).collect(scraped_rarely, 0, 3_600_000)
    assert len(seldom) == len(set(seldom)) == len(rare)


def test_a_sample_older_than_five_minutes_is_not_collected() -> None:
    def scraped(from_ms: int, until_ms: int) -> list[int]:
        return [at for at in (10_000,) if from_ms <= at < until_ms]

    assert Federation("rounds", 60_000).collect(scraped, 0, 3_600_000) == [10_000]


def test_blocks_are_whole_hours_and_cached() -> None:
    made: list[tuple[int, int]] = []

    def block(from_ms: int, until_ms: int) -> TimeBlock:
        made.append((from_ms, until_ms))
        return TimeBlock(range(from_ms, until_ms, 600_000))

    grid = Grid(block)
    first = list(grid.blocks(START + 1, START + 3_600_001))
    assert [len(each.times) for each in first] == [6, 6]
    assert list(grid.blocks(START, START)) == first[:1]
    assert len(made) == 2
    assert grid.first_time(START + 1, START + 3_600_000) == START + 600_000


def _target(honor_labels: bool) -> Target:
    return Target(
        name="t",
        job="dcgm-exporter",
        interval_ms=30_000,
        honor_labels=honor_labels,
        labels=(("instance", "10.0.0.1:9400"), ("namespace", "nvidia"), ("pod", "dcgm-abc")),
        dropped=(),
        present=((0, None),),
        reachable=((0, None),),
    )


def test_without_honor_labels_exposed_ones_are_renamed() -> None:
    exposed = [("pod", "train"), ("namespace", ""), ("gpu", "0"), ("exported_pod", "odd")]
    assert dict(_target(honor_labels=False).labelled("m", exposed)) == {
        "__name__": "m",
        "instance": "10.0.0.1:9400",
        "namespace": "nvidia",
        "pod": "dcgm-abc",
        "exported_pod": "odd",
        "exported_exported_pod": "train",
        "gpu": "0",
    }


def test_with_honor_labels_an_empty_label_removes_the_targets() -> None:
    exposed = [("pod", "train"), ("namespace", ""), ("gpu", "0")]
    assert dict(_target(honor_labels=True).labelled("m", exposed)) == {
        "__name__": "m",
        "instance": "10.0.0.1:9400",
        "pod": "train",
        "gpu": "0",
    }


def test_kube_state_metrics_describes_other_pods_and_drops_its_own() -> None:
    target = next(t for t in targets_of(quiet_cluster()) if t.job == "kube-state-metrics")
    labels = dict(target.labelled("kube_pod_info", [("pod", "train"), ("namespace", "team-a")]))
    assert labels["pod"] == "train"
    assert labels["namespace"] == "team-a"
    assert "instance" not in labels
    node = dict(target.labelled("kube_node_info", [("node", "n")]))
    assert "pod" not in node
    assert node["namespace"] == "openshift-monitoring"
    up = dict(target.labelled_up("up"))
    assert up["instance"].endswith(":8443")
    assert "pod" not in up
