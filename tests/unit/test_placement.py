"""Cards of a node class, second by second: the function that the models call."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from fake_gpu.truth.fewest_cards import cuts_of, fewest_mig_cards
from warehouse.placement import (
    END_OF_TIME,
    EVENT,
    FUNCTION,
    KEY,
    LEVEL,
    SLICE_LIMIT,
    Event,
    Level,
    place_node_class,
    place_slices,
    register,
)

A100 = "a100-40gb"
CUTS = cuts_of(
    [
        {
            "mig_family": A100, "mig_profile": profile, "max_count": most, "placement_size": size,
            "placement_starts": starts, "compute_slots": slots,
        }
        for profile, most, size, starts, slots in (
            ("1g.5gb", 7, 1, "0 1 2 3 4 5 6", 1),
            ("2g.10gb", 3, 2, "0 2 4", 2),
            ("3g.20gb", 2, 4, "0 4", 3),
        )
    ],
    A100,
)  # fmt: skip
OFFERED = {"1g.5gb": 9, "2g.10gb": 1, "3g.20gb": 1}
OF_A_NODE: tuple[Event, ...] = (
    (0, "labelled_cards", "", 1, 2),
    *((0, "offered", profile, 1, count) for profile, count in OFFERED.items()),
)


def cards(levels: Iterable[Level]) -> list[tuple[int, int]]:
    return [(level.started_second, level.running_cards) for level in levels]


def test_each_level_is_the_minimum_over_all_layouts_of_that_second() -> None:
    """Compared with the simulator's own search; three pods in turn start and end in one second."""
    changes = [
        (10, "1g.5gb", 4), (20, "3g.20gb", 1), (30, "1g.5gb", 1), (40, "1g.5gb", -5),
        (40, "2g.10gb", 1), (50, "1g.5gb", 8), (60, "3g.20gb", -1),
    ]  # fmt: skip
    events = [*OF_A_NODE, *((second, "running", p, 1, change) for second, p, change in changes)]
    levels = place_slices(A100, events)
    assert levels[0].started_second == 0
    assert levels[-1].ended_second == END_OF_TIME
    assert all(one.ended_second == next_one.started_second for one, next_one in pairwise(levels))
    running: dict[str, int] = {}
    offered = tuple(sorted(OFFERED.items()))
    for second in range(0, 70, 10):
        for at, profile, change in changes:
            if at == second:
                running[profile] = running.get(profile, 0) + change
        state = tuple(sorted((p, n) for p, n in running.items() if n))
        [level] = [one for one in levels if one.started_second <= second < one.ended_second]
        assert level.running_cards == fewest_mig_cards(CUTS, offered, state, 2, 7), second
        assert (level.offering_cards, level.is_exact) == (2, True)


def test_the_order_of_simultaneous_events_does_not_matter() -> None:
    events = [*OF_A_NODE, (10, "running", "1g.5gb", 1, 8), (20, "running", "1g.5gb", 1, -2)]
    shuffled = random.Random(7).sample(events, len(events))
    assert place_slices(A100, shuffled) == place_slices(A100, events)
    assert cards(place_slices(A100, events)) == [(0, 0), (10, 2), (20, 1)]


def test_replicas_of_a_slice_are_packed_into_slices() -> None:
    """Fifteen replicas at four per slice are four slices 3g, two on each card."""
    events = [(0, "running", "3g.20gb", 4, 15)]
    assert cards(place_slices(A100, events)) == [(0, 2)]


def test_cards_without_mig_are_counted_in_addition() -> None:
    """Three cards by the label, two of them whole, so both 3g have to be on the third."""
    events = [
        (0, "labelled_cards", "", 1, 3), (0, "offered_cards", "", 1, 2),
        (0, "allocatable_cards", "", 1, 1), (0, "offered", "3g.20gb", 1, 2),
        (0, "allocatable", "3g.20gb", 1, 1), (5, "running", "3g.20gb", 1, 2),
        (5, "running_cards", "", 1, 2), (9, "running", "3g.20gb", 1, -2),
    ]  # fmt: skip
    assert place_slices(A100, events) == [
        Level(0, 5, 0, 0, 2, 3, True),
        Level(5, 9, 3, 1, 2, 3, True),
        Level(9, END_OF_TIME, 2, 0, 2, 3, True),
    ]


@pytest.mark.parametrize("count", [SLICE_LIMIT + 1, 2**62])
def test_a_damaged_count_gives_a_bound_marked_as_such(count: int) -> None:
    [level] = place_slices(A100, [(0, "offered", "1g.5gb", 1, count)])
    assert level.offering_cards == -(-SLICE_LIMIT // 7)
    assert not level.is_exact


def test_both_engines_get_the_same_levels() -> None:
    """DuckDB passes columns of many node classes at once, Spark the rows of one."""
    some = [*OF_A_NODE, (10, "running", "1g.5gb", 1, 8)]
    other = [(0, "running_cards", "", 1, 2)]
    connection = duckdb.connect()
    register(connection)
    register(connection)  # like another cursor of dbt
    connection.execute(
        "create table events (node integer, event_second bigint, quantity varchar, "
        "mig_profile varchar, replica_count bigint, change bigint)"
    )
    connection.executemany(
        "insert into events values (?, ?, ?, ?, ?, ?)",
        [*((1, *event) for event in some), *((2, *event) for event in other)],
    )
    found = connection.execute(
        f"select node, {FUNCTION}('{A100}', list(struct_pack(event_second, quantity, mig_profile, "
        "replica_count, change))) from events group by node order by node"
    ).fetchall()
    for (_, levels), events in zip(found, (some, other), strict=True):
        rows = [list(event) for event in events]
        assert [tuple(level.values()) for level in levels] == on_spark(rows)


def on_spark(events: list[list[Any]]) -> list[tuple[Any, ...]]:
    """The levels of node class 7, as Spark hands over its events and gets back its levels."""
    columns = dict(zip(EVENT, zip(*events, strict=True), strict=True))
    keys = {KEY: [7] * len(events), "mig_geometry": [A100] * len(events)}
    levels = place_node_class(pa.table(keys | columns))
    assert levels.column_names == [KEY, *LEVEL]
    assert set(levels.column(KEY).to_pylist()) == {7}
    return [tuple(level.values()) for level in levels.drop_columns(KEY).to_pylist()]
