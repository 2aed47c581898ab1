"""The function `place_slices` of the models: the fewest cards for the MIG slices of a node class.

Put here: the function, its registration in DuckDB, and its use on Spark.
Not here: the packing of one state (`domain.mig.packing`), the slices of a node (`dbt/`), or the
registration for dbt (`warehouse.dbt_plugin`).

The evidence has the number of slices of a node, but not the card of each slice. The model
`int_slices_placed` passes all changes of these numbers on one node of one GPU class in a period,
and receives the smallest numbers of cards over all layouts that are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa
from duckdb.func import PythonUDFType

from domain.gpu import Catalogue, parse_catalogue
from domain.mig.geometry import Geometry, family_geometry
from domain.mig.packing import Packing, pack
from domain.mig.placing import gpu_instances
from domain.mig.profile import MigProfile, parse_profile
from warehouse.project import seed_text

FUNCTION = "place_slices"
EVENTS, PLACED = "int_slice_events", "int_slices_placed"
KEY = "node_class_number"
SLICE_LIMIT = 4096
"""Slices of one profile on one node; 16 cards of 7 slices are 112. A larger number is damaged
evidence."""

STATES_KEPT = 65_536
"""The nodes of a fleet have the same few states again and again."""

END_OF_TIME = 32_503_680_000
"""As the macro `end_of_time`: the last level has no end of its own."""

EVENT = {
    "event_second": "BIGINT",
    "quantity": "VARCHAR",
    "mig_profile": "VARCHAR",
    "replica_count": "BIGINT",
    "change": "BIGINT",
}
LEVEL = {
    "started_second": "BIGINT",
    "ended_second": "BIGINT",
    "running_cards": "BIGINT",
    "running_cut_cards": "BIGINT",
    "allocatable_cards": "BIGINT",
    "offering_cards": "BIGINT",
    "is_exact": "BOOLEAN",
}

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Event = tuple[int, str, str, int, int]
Kind = tuple[str, str, int]
"""Quantity, profile and replicas of an event."""

Slices = frozenset[tuple[tuple[str, int], int]]
"""The profile and replicas of slices, and the number of these slices."""

NO_SLICES: Slices = frozenset()


class CardCounts(NamedTuple):
    """Numbers of cards of a node class, with and without slices."""

    running_cards: int
    running_cut_cards: int
    allocatable_cards: int
    offering_cards: int
    is_exact: bool  # False if the search reached its limit: the numbers are then lower bounds


class Level(NamedTuple):
    """The numbers of cards of a node class in an interval."""

    started_second: int
    ended_second: int
    running_cards: int
    running_cut_cards: int
    allocatable_cards: int
    offering_cards: int
    is_exact: bool


def place_slices(mig_geometry: str, events: Iterable[Event]) -> list[Level]:
    """The levels of one node class from second 0 on, in the order of time; the last has no end.

    Slices are `running`, `offered` or `allocatable`; cards that are not cut are `running_cards`,
    `offered_cards` or `allocatable_cards`, and all cards together are `labelled_cards`.
    """
    in_order = sorted(events, key=itemgetter(0))
    amounts = dict.fromkeys(sorted({event[1:4] for event in in_order}), 0)
    # A node has few states, and each of them many times.
    counted: dict[tuple[int, ...], CardCounts] = {}
    states = [(0, CardCounts(0, 0, 0, 0, is_exact=True))]
    for second, changes in groupby(in_order, key=itemgetter(0)):
        for _, quantity, profile, replicas, change in changes:
            amounts[quantity, profile, replicas] += change
        state = tuple(amounts.values())
        if state not in counted:
            counted[state] = _count_cards(mig_geometry, amounts)
        if states[-1][1] != counted[state]:
            states.append((second, counted[state]))
    ends = [*(second for second, _ in states[1:]), END_OF_TIME]
    levels = (Level(at, end, *counts) for (at, counts), end in zip(states, ends, strict=True))
    return [level for level in levels if level.started_second < level.ended_second]


def _count_cards(mig_geometry: str, amounts: Mapping[Kind, int]) -> CardCounts:
    cards = {quantity: amount for (quantity, profile, _), amount in amounts.items() if not profile}
    running, offered, allocatable = (
        frozenset(
            ((profile, replicas), amount)
            for (quantity, profile, replicas), amount in amounts.items()
            if quantity == wanted and profile and amount > 0
        )
        for wanted in ("running", "offered", "allocatable")
    )
    # The label counts all cards of the node, also those without slices.
    labelled, whole = cards.get("labelled_cards", 0), cards.get("offered_cards", 0)
    cut = labelled - whole if labelled > 0 and labelled >= whole else None
    found = (
        _pack(mig_geometry, running, offered, cut),
        _pack(mig_geometry, allocatable, offered, cut),
        _pack(mig_geometry, offered, NO_SLICES, None),
    )
    return CardCounts(
        cards.get("running_cards", 0) + found[0].card_count,
        found[0].card_count,
        cards.get("allocatable_cards", 0) + found[1].card_count,
        whole + found[2].card_count,
        is_exact=all(packing.is_exact for packing in found),
    )


@lru_cache(maxsize=STATES_KEPT)
def _pack(mig_geometry: str, wanted: Slices, offered: Slices, cards: int | None) -> Packing:
    if not wanted:
        return Packing(0, is_exact=True)
    geometry = _geometry(mig_geometry)
    return pack(geometry, _instances(geometry, wanted), _instances(geometry, offered), cards)


def _instances(geometry: Geometry, slices: Slices) -> dict[MigProfile, int]:
    """The GPU instances of slices: n replicas are one instance."""
    counts: dict[MigProfile, int] = {}
    for (profile, replicas), count in sorted(slices):
        name = parse_profile(profile)
        counts[name] = counts.get(name, 0) + -(-min(count, SLICE_LIMIT) // replicas)
    return dict(gpu_instances(geometry, counts))


@lru_cache(maxsize=256)
def _geometry(name: str) -> Geometry:
    geometry = _shipped().geometries.get(name) or family_geometry(name)
    assert geometry is not None, f"the catalogue accepted the geometry {name}"
    return geometry


@lru_cache(maxsize=1)
def _shipped() -> Catalogue:
    return parse_catalogue(seed_text("gpu_products"), seed_text("mig_profiles"), "")


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the function in an open DuckDB database, once."""

    known = connection.execute(
        "select 1 from duckdb_functions() where function_name = ?", [FUNCTION]
    ).fetchall()
    if not known:
        connection.create_function(
            FUNCTION,
            _place_many,
            [duckdb.type("VARCHAR"), duckdb.type(_list_type(EVENT))],
            duckdb.type(_list_type(LEVEL)),
            type=PythonUDFType.ARROW,
        )


def _list_type(columns: Mapping[str, str]) -> str:
    return f"STRUCT({', '.join(f'{name} {kind}' for name, kind in columns.items())})[]"


def _place_many(geometries: Any, lists: Any) -> Any:
    """Place the node classes of one batch of DuckDB. Columns need a tenth of the memory of rows."""

    columns: list[list[Any]] = [[] for _ in LEVEL]
    offsets = [0]
    for geometry, events in zip(geometries.to_pylist(), _each_list(lists), strict=True):
        levels = place_slices(geometry, events)
        for column, values in zip(columns, zip(*levels, strict=True), strict=True):
            column.extend(values)
        offsets.append(len(columns[0]))
    types = [pa.bool_() if kind == "BOOLEAN" else pa.int64() for kind in LEVEL.values()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(arrays, names=list(LEVEL))
    )


def _each_list(lists: Any) -> Iterator[Iterable[Event]]:
    for chunk in lists.chunks:
        offsets = chunk.offsets.to_pylist()
        for start, end in pairwise(offsets):
            rows = chunk.values.slice(start, end - start).flatten()
            yield zip(*(column.to_pylist() for column in rows), strict=True)


def place_on_spark(session: SparkSession) -> None:
    """Build the model `int_slices_placed` on Spark, which distributes the node classes."""
    types = ", ".join(f"{name} {kind}" for name, kind in {KEY: "BIGINT", **LEVEL}.items())
    # Packing takes long for few bytes, of which adaptive execution would make a single task.
    tasks = session.sparkContext.defaultParallelism
    events = session.table(f"intermediate.{EVENTS}").repartition(tasks, KEY)
    groups = events.groupBy(KEY, "mig_geometry")
    groups.applyInArrow(place_node_class, types).write.saveAsTable(f"intermediate.{PLACED}")


def place_node_class(events: pa.Table) -> pa.Table:
    """The levels of one node class, from its rows of `int_slice_events`."""
    [number] = events.column(KEY).unique().to_pylist()
    [geometry] = events.column("mig_geometry").unique().to_pylist()
    rows = zip(*(events.column(name).to_pylist() for name in EVENT), strict=True)
    levels = place_slices(geometry, rows)
    columns = zip(*((number, *level) for level in levels), strict=True)
    return pa.table(dict(zip((KEY, *LEVEL), columns, strict=True)), schema=_LEVELS)


_LEVELS = pa.schema(
    {KEY: pa.int64()}
    | {name: pa.bool_() if kind == "BOOLEAN" else pa.int64() for name, kind in LEVEL.items()}
)
