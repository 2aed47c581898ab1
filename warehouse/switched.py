"""What was switched into the warehouse, written down outside of it.

Put here: counts and hashes of every switched period, and telling whether the warehouse still has
them.
Not here: the hashing (`warehouse.content`), or who must not go on without it.

A write-ahead log that was cut, or a file copied without it, opens cleanly and lacks committed rows.
What is noticed is healed by rebuilding the period: nothing but a copy was lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domain.errors import CheckFailed
from warehouse.connection import connected
from warehouse.content import mart_names, period_sha256
from warehouse.home import Home

FILE = "switched.json"


class WarehouseLost(CheckFailed):
    """The warehouse does not have what was switched into it."""

    code = "WARE-007"

    def __init__(self, path: Path, period: str, seen: str) -> None:
        super().__init__(
            where=f"{path}, period {period}",
            seen=seen,
            why="the file was cut, copied without its log, or edited: these facts were not counted",
            remedy=f"gpu-ledger refresh --period {period}",
        )


@dataclass(frozen=True, slots=True)
class Switched:
    """What one period had when it was switched in."""

    facts_sha256: str
    row_counts: Mapping[str, int]


def note(home: Home, period: str, switched: Switched) -> None:
    """Write down what a period has now, whole or not at all."""
    everything = _read(home) | {
        period: {"facts_sha256": switched.facts_sha256, "row_counts": dict(switched.row_counts)}
    }
    path = home.build / FILE
    unfinished = path.with_name(f".{FILE}.{os.getpid()}")
    unfinished.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    unfinished.replace(path)


def switched_periods(home: Home) -> dict[str, Switched]:
    return {
        period: Switched(row["facts_sha256"], row["row_counts"])
        for period, row in sorted(_read(home).items())
    }


def require_intact(home: Home, period: str, *, deep: bool = False) -> None:
    """Raise WarehouseLost when rows of a period are missing; `deep` compares their content, too."""
    switched = switched_periods(home).get(period)
    if switched is None:
        return
    if not home.warehouse_path.is_file():
        expected = sum(switched.row_counts.values())
        raise WarehouseLost(home.warehouse_path, period, f"no such file; {expected} rows expected")
    with connected(home.warehouse_path, read_only=True) as connection:
        present = set(mart_names(connection))
        for mart, expected in sorted(switched.row_counts.items()):
            query = f"select count(*) from marts.{mart} where billing_period = $period"
            row = (
                connection.execute(query, {"period": period}).fetchone()
                if mart in present
                else None
            )
            found = int(row[0]) if row else 0
            if found != expected:
                seen = f"{mart} has {found} rows, {expected} were switched in"
                raise WarehouseLost(home.warehouse_path, period, seen)
        if deep and (found_sha256 := period_sha256(connection, period)) != switched.facts_sha256:
            counted = switched.facts_sha256
            seen = f"its facts hash to {found_sha256[:12]}…, {counted[:12]}… were counted"
            raise WarehouseLost(home.warehouse_path, period, seen)


def _read(home: Home) -> dict[str, dict[str, Any]]:
    path = home.build / FILE
    if not path.is_file():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found
