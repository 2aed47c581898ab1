"""What happens to the other periods when a build has other columns than the warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from domain.billing_period import BillingPeriod
from warehouse.connection import connected
from warehouse.switch import switch_in

SEPTEMBER, OCTOBER = BillingPeriod("2026-09"), BillingPeriod("2026-10")


def build_of(folder: Path, period: BillingPeriod, columns: str) -> Path:
    path = folder / f"{period}.duckdb"
    path.unlink(missing_ok=True)
    with connected(path) as connection:
        connection.execute("create schema marts")
        connection.execute(
            f"create table marts.fct_a as select '{period}' as billing_period, {columns}"
        )
    return path


def rows(warehouse: Path) -> list[tuple[Any, ...]]:
    with connected(warehouse, read_only=True) as connection:
        return connection.execute("select * from marts.fct_a order by billing_period").fetchall()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    path = tmp_path / "warehouse.duckdb"
    switch_in(path, build_of(tmp_path, SEPTEMBER, "'n1' as node_name, 7 as seconds"), SEPTEMBER)
    return path


def test_a_period_replaces_itself_and_no_other(warehouse: Path, tmp_path: Path) -> None:
    for seconds in (8, 9):
        columns = f"'n1' as node_name, {seconds} as seconds"
        switch_in(warehouse, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(warehouse) == [("2026-09", "n1", 7), ("2026-10", "n1", 9)]


def test_a_new_column_leaves_the_rows_of_other_periods_there(
    warehouse: Path, tmp_path: Path
) -> None:
    columns = "'n1' as node_name, 'h100' as gpu_class, 9 as seconds"
    switch_in(warehouse, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(warehouse) == [("2026-09", "n1", None, 7), ("2026-10", "n1", "h100", 9)]


def test_columns_in_another_order_keep_their_values(warehouse: Path, tmp_path: Path) -> None:
    columns = "9 as seconds, 'n1' as node_name"
    switch_in(warehouse, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(warehouse) == [("2026-09", 7, "n1"), ("2026-10", 9, "n1")]


def test_a_wider_type_keeps_every_value(warehouse: Path, tmp_path: Path) -> None:
    columns = "'n1' as node_name, cast(9 as decimal(38, 0)) as seconds"
    switch_in(warehouse, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert [int(row[2]) for row in rows(warehouse)] == [7, 9]


def test_a_value_that_fits_no_more_stops_the_switch_and_changes_nothing(
    warehouse: Path, tmp_path: Path
) -> None:
    path = build_of(tmp_path, OCTOBER, "1 as node_name, 9 as seconds")
    with pytest.raises(duckdb.ConversionException):
        switch_in(warehouse, path, OCTOBER)
    assert rows(warehouse) == [("2026-09", "n1", 7)]
