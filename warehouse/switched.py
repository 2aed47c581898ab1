"""Notes about the periods that were switched into the warehouse, in a file outside of it.

Put here: counts and hashes of every switched period, and comparing them with the warehouse or a
copy of it.
Not here: the hashing (`warehouse.content_hash`).

A database with a truncated write-ahead log, or copied without it, opens cleanly and lacks committed
rows. A refresh of the period repairs that: the warehouse is only a copy. The file itself lists its
periods; the notes only show whether they are complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from domain.errors import CheckFailed
from warehouse.connection import connected
from warehouse.content_hash import mart_names, period_sha256, row_counts
from warehouse.home import Home
from warehouse.store import reading, write_whole

FILE = "switched.json"


class WarehouseLost(CheckFailed):
    """The warehouse lacks facts that were switched into it."""

    code = "WARE-002"

    def __init__(self, path: Path, period: str, seen: str) -> None:
        self.period = period
        super().__init__(
            where=f"{path}, period {period}",
            seen=seen,
            why="the file was truncated, copied without its log, or edited",
            remedy=f"gpu-ledger refresh --period {period}",
        )


@dataclass(frozen=True, slots=True)
class SwitchedPeriod:
    """The hash and the row counts of one period when it was switched in."""

    facts_sha256: str
    row_counts: Mapping[str, int]
    reshaped_sha256s: tuple[str, ...] = ()
    """Hashes of the same facts after a later version of the code added columns to their tables."""

    def require_counts(self, path: Path, period: str, found: Mapping[str, int]) -> None:
        """Raise WarehouseLost when a mart has another number of rows than was switched in."""
        for mart, expected in sorted(self.row_counts.items()):
            if (present := found.get(mart, 0)) != expected:
                seen = f"{mart} has {present} rows, {expected} were switched in"
                raise WarehouseLost(path, period, seen)

    def require_content(
        self, connection: duckdb.DuckDBPyConnection, path: Path, period: str, schema: str = "marts"
    ) -> str:
        """The hash of the tables; raises WarehouseLost if it is not that of the switched facts."""
        found = self.present_sha256(connection, period, schema)
        if found not in (self.facts_sha256, *self.reshaped_sha256s):
            counted = self.facts_sha256
            seen = f"its facts hash to {found[:12]}…, {counted[:12]}… were counted"
            raise WarehouseLost(path, period, seen)
        return found

    def present_sha256(
        self, connection: duckdb.DuckDBPyConnection, period: str, schema: str = "marts"
    ) -> str:
        """The present hash of the marts that existed then."""
        return period_sha256(connection, period, schema, self.row_counts or None)


def note(home: Home, period: str, switched: SwitchedPeriod) -> None:
    """Note the present facts of a period."""
    everything = {**switched_periods(home), period: switched}
    value = {
        name: {
            "facts_sha256": one.facts_sha256,
            "row_counts": dict(one.row_counts),
            **({"reshaped_sha256s": one.reshaped_sha256s} if one.reshaped_sha256s else {}),
        }
        for name, one in everything.items()
    }
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    write_whole(home.build / FILE, text.encode())


def switched_periods(home: Home) -> dict[str, SwitchedPeriod]:
    path = home.build / FILE
    if not path.is_file():
        return {}
    with reading(str(path), "delete it, then run `gpu-ledger refresh`: it is written again"):
        found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return {
            period: SwitchedPeriod(
                str(row["facts_sha256"]),
                {str(mart): int(count) for mart, count in row["row_counts"].items()},
                tuple(row.get("reshaped_sha256s", ())),
            )
            for period, row in sorted(found.items())
        }


def require_intact(home: Home, period: str, *, deep: bool = False) -> None:
    """Raise WarehouseLost when rows of a period are missing; `deep` compares their content, too."""
    noted, path = switched_periods(home).get(period), home.warehouse_path
    if noted is None:
        return
    if not path.is_file():
        expected = sum(noted.row_counts.values())
        raise WarehouseLost(path, period, f"no such file; {expected} rows expected")
    with connected(path, read_only=True) as connection:
        noted.require_counts(path, period, row_counts(connection).get(period, {}))
        if deep:
            noted.require_content(connection, path, period)


def intact_sha256(connection: duckdb.DuckDBPyConnection, home: Home, period: str) -> str:
    """The hash of all facts of a period; raises WarehouseLost when they are not as switched in."""
    noted = switched_periods(home).get(period)
    if noted is None:
        return period_sha256(connection, period)
    found = noted.require_content(connection, home.warehouse_path, period)
    has_other_marts = noted.row_counts and set(noted.row_counts) != set(mart_names(connection))
    return period_sha256(connection, period) if has_other_marts else found


def restore_note(home: Home, period: str, facts_sha256: str) -> bool:
    """Whether the warehouse has these facts; writes their note again if it is lost."""
    noted, path = switched_periods(home).get(period), home.warehouse_path
    if not path.is_file():
        return False
    with connected(path, read_only=True) as connection:
        counts = row_counts(connection).get(period, {})
        if noted is None or noted.facts_sha256 != facts_sha256:
            everything = {mart: counts.get(mart, 0) for mart in mart_names(connection)}
            noted = SwitchedPeriod(facts_sha256, everything)
        try:
            noted.require_counts(path, period, counts)
            noted.require_content(connection, path, period)
        except WarehouseLost:
            return False
    if noted != switched_periods(home).get(period):
        note(home, period, noted)
    return True


def counted_sha256(connection: duckdb.DuckDBPyConnection, home: Home, period: str) -> str:
    """The hash under which the present facts were counted; else their own hash."""
    noted = switched_periods(home).get(period, SwitchedPeriod("", {}))
    found = noted.present_sha256(connection, period)
    return noted.facts_sha256 if found in noted.reshaped_sha256s else found


def periods_in(home: Home) -> dict[str, dict[str, int]]:
    """The periods with rows in the warehouse, in order, with the number of rows of each mart."""
    if not home.warehouse_path.is_file():
        return {}
    with connected(home.warehouse_path, read_only=True) as connection:
        return row_counts(connection)


def intact_periods(
    connection: duckdb.DuckDBPyConnection, home: Home, but: str
) -> dict[str, SwitchedPeriod]:
    """The other periods with all their facts; called before their tables get other columns."""
    counts = row_counts(connection)
    found = {}
    for period, noted in switched_periods(home).items():
        try:
            noted.require_counts(home.warehouse_path, period, counts.get(period, {}))
            noted.require_content(connection, home.warehouse_path, period)
        except WarehouseLost:
            continue
        if period != but:
            found[period] = noted
    return found


def note_shape(
    connection: duckdb.DuckDBPyConnection, home: Home, intact: Mapping[str, SwitchedPeriod]
) -> None:
    """Note the present hashes of these periods beside the earlier ones.

    Called before the change is committed, so that the tables match one of the two hashes with and
    without the commit.
    """
    for period, noted in intact.items():
        shapes = {*noted.reshaped_sha256s, noted.present_sha256(connection, period)}
        also = tuple(sorted(shapes - {noted.facts_sha256}))
        note(home, period, replace(noted, reshaped_sha256s=also))
