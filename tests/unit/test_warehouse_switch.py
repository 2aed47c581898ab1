"""Rows of other periods stay valid when a build has other columns than the warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from domain.billing_period import BillingPeriod
from warehouse.connection import connected
from warehouse.content_hash import period_sha256, row_counts
from warehouse.home import Home
from warehouse.switch import switch_in
from warehouse.switched import SwitchedPeriod, WarehouseLost, note, require_intact

SEPTEMBER, OCTOBER = BillingPeriod("2026-09"), BillingPeriod("2026-10")


def build_of(folder: Path, period: BillingPeriod, columns: str) -> Path:
    """A build with the same row in a mart that is stored as a table, and in one stored in two."""
    path = folder / f"{period}.duckdb"
    path.unlink(missing_ok=True)
    with connected(path) as connection:
        connection.execute("create schema marts")
        for mart in ("fct_a", "fct_pod_hours"):
            connection.execute(
                f"create table marts.{mart} as select '{period}' as billing_period, {columns}"
            )
    return path


def rows(home: Home) -> list[tuple[Any, ...]]:
    with connected(home.warehouse_path, read_only=True) as connection:
        found, other = (
            connection.execute(f"select * from marts.{mart} order by billing_period").fetchall()
            for mart in ("fct_a", "fct_pod_hours")
        )
    assert found == other
    return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.create(tmp_path / "home")
    switch_in(home, build_of(tmp_path, SEPTEMBER, "'n1' as node_name, 7 as seconds"), SEPTEMBER)
    return home


def test_a_period_replaces_only_itself(home: Home, tmp_path: Path) -> None:
    for seconds in (8, 9):
        columns = f"'n1' as node_name, {seconds} as seconds"
        switch_in(home, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(home) == [("2026-09", "n1", 7), ("2026-10", "n1", 9)]


def test_a_new_column_leaves_the_rows_of_other_periods_there(home: Home, tmp_path: Path) -> None:
    columns = "'n1' as node_name, 'h100' as gpu_class, 9 as seconds"
    switch_in(home, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(home) == [("2026-09", "n1", None, 7), ("2026-10", "n1", "h100", 9)]


def test_columns_in_another_order_keep_their_values(home: Home, tmp_path: Path) -> None:
    columns = "9 as seconds, 'n1' as node_name"
    switch_in(home, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert rows(home) == [("2026-09", 7, "n1"), ("2026-10", 9, "n1")]


def test_a_wider_type_keeps_every_value(home: Home, tmp_path: Path) -> None:
    columns = "'n1' as node_name, cast(9 as decimal(38, 0)) as seconds"
    switch_in(home, build_of(tmp_path, OCTOBER, columns), OCTOBER)
    assert [int(row[2]) for row in rows(home)] == [7, 9]


def test_a_value_that_does_not_fit_stops_the_switch(home: Home, tmp_path: Path) -> None:
    path = build_of(tmp_path, OCTOBER, "1 as node_name, 9 as seconds")
    with pytest.raises(duckdb.ConversionException):
        switch_in(home, path, OCTOBER)
    assert rows(home) == [("2026-09", "n1", 7)]


def noted(home: Home, period: BillingPeriod) -> None:
    """Note the content of a period, as a refresh does after its switch."""
    with connected(home.warehouse_path, read_only=True) as connection:
        counts = row_counts(connection)[period.name]
        note(home, period.name, SwitchedPeriod(period_sha256(connection, period.name), counts))


NEW_SHAPE = "'h100' as gpu_class, 9 as seconds, 'n1' as node_name"


def test_counted_content_is_recognised_after_a_change_of_columns(
    home: Home, tmp_path: Path
) -> None:
    noted(home, SEPTEMBER)
    for number in (1, 2):
        columns = f"{NEW_SHAPE}, {number} as added_{number}"
        switch_in(home, build_of(tmp_path, OCTOBER, columns), OCTOBER)
        require_intact(home, SEPTEMBER.name, deep=True)
    with connected(home.warehouse_path) as connection:
        connection.execute("update marts.fct_a set seconds = 8 where billing_period = '2026-09'")
    with pytest.raises(WarehouseLost):
        require_intact(home, SEPTEMBER.name, deep=True)


def test_an_edit_before_a_change_of_columns_is_still_found(home: Home, tmp_path: Path) -> None:
    noted(home, SEPTEMBER)
    with connected(home.warehouse_path) as connection:
        connection.execute("update marts.fct_a set seconds = 8")
    switch_in(home, build_of(tmp_path, OCTOBER, NEW_SHAPE), OCTOBER)
    with pytest.raises(WarehouseLost):
        require_intact(home, SEPTEMBER.name, deep=True)


def test_an_edited_row_of_a_mart_in_two_tables_is_found(home: Home) -> None:
    noted(home, SEPTEMBER)
    with connected(home.warehouse_path) as connection:
        connection.execute("update stored.fct_pod_hours_texts set node_name = 'n2'")
    with pytest.raises(WarehouseLost):
        require_intact(home, SEPTEMBER.name, deep=True)


def test_a_mart_in_two_tables_has_each_row_and_each_text_once(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    build = build_of(tmp_path, OCTOBER, "cast(null as varchar) as node_name, 1 as seconds")
    with connected(build) as connection:
        for row in ("null, 1", "'n1', 1", "'n1', 2", "'n2', 2"):
            connection.execute(f"insert into marts.fct_pod_hours values ('2026-10', {row})")
    switch_in(home, build, OCTOBER)
    with connected(home.warehouse_path) as connection:
        connection.execute("delete from stored.fct_pod_hours_texts where node_name = 'n1'")
    switch_in(home, build, OCTOBER)
    with connected(home.warehouse_path, read_only=True) as connection:
        found = connection.execute("select * from marts.fct_pod_hours order by all").fetchall()
        texts = connection.execute("select node_name from stored.fct_pod_hours_texts order by all")
        assert texts.fetchall() == [("n1",), ("n2",), (None,)]
    null = ("2026-10", None, 1)
    assert found == [("2026-10", "n1", 1), ("2026-10", "n1", 2), ("2026-10", "n2", 2), null, null]


def test_a_mart_that_was_one_table_is_stored_in_two(home: Home, tmp_path: Path) -> None:
    noted(home, SEPTEMBER)
    with connected(home.warehouse_path) as connection:
        connection.execute("create table marts.before as from marts.fct_pod_hours")
        connection.execute("drop view marts.fct_pod_hours")
        connection.execute("alter table marts.before rename to fct_pod_hours")
        connection.execute("drop schema stored cascade")
    switch_in(home, build_of(tmp_path, OCTOBER, "'n1' as node_name, 9 as seconds"), OCTOBER)
    assert rows(home) == [("2026-09", "n1", 7), ("2026-10", "n1", 9)]
    require_intact(home, SEPTEMBER.name, deep=True)
    with connected(home.warehouse_path, read_only=True) as connection:
        assert len(connection.execute("from stored.fct_pod_hours_rest").fetchall()) == 2


def test_a_new_table_is_no_part_of_earlier_content(home: Home, tmp_path: Path) -> None:
    noted(home, SEPTEMBER)
    build = build_of(tmp_path, OCTOBER, "'n1' as node_name, 9 as seconds")
    with connected(build) as connection:
        connection.execute("create table marts.fct_b as select '2026-10' as billing_period")
    switch_in(home, build, OCTOBER)
    require_intact(home, SEPTEMBER.name, deep=True)
    assert rows(home) == [("2026-09", "n1", 7), ("2026-10", "n1", 9)]


def test_facts_and_their_notes_are_switched_together_or_not_at_all(
    home: Home, tmp_path: Path
) -> None:
    def dies(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("create table main.said_of_them as select 1 as one")
        raise KeyboardInterrupt

    build = build_of(tmp_path, OCTOBER, "'n1' as node_name, 9 as seconds")
    with pytest.raises(KeyboardInterrupt):
        switch_in(home, build, OCTOBER, also=dies)
    assert rows(home) == [("2026-09", "n1", 7)]
    with connected(home.warehouse_path, read_only=True) as connection:
        said = connection.execute("from duckdb_tables() where table_name = 'said_of_them'")
        assert said.fetchall() == []
