"""A period is built from landed evidence and decisions, and replaces the old rows as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quality.checks import required_checks
from tests.decisions_by_hand import SIGNED, decided, table
from tests.evidence_by_hand import GPU, PERIOD, Cluster, Pod, clusters_table, write
from tests.replayed_models import ReplayedProject
from warehouse import build, dbt_run, project
from warehouse.build import (
    WORKING_NAME,
    BuildResult,
    PeriodIsClosed,
    build_period,
    project_of,
)
from warehouse.connection import connected
from warehouse.dbt_run import ModelFailed
from warehouse.home import Home
from warehouse.project import dbt_project_dir, read_yaml
from warehouse.raw_schema import create_table

if TYPE_CHECKING:
    import duckdb

RATE = table("rates", ",A100-40GB,whole,EUR,2.50,2026-01-01,,|,")
RATE_ENDS = RATE["rates.csv"].replace("2026-01-01,,", "2026-01-01,2027-03-01,")


def counted(home: Home) -> BuildResult:
    cluster = Cluster(
        pods=[
            Pod("long", 100, 5000),
            Pod("short", 3600, 4000, requests={GPU: 2}),
            Pod("alive", 6000, None, bound=5940),
        ]
    )
    write(home, cluster)
    decisions = decided(clusters_table(cluster), RATE)
    # Another period is closed, which does not prevent a build of this one.
    return build_period(home, PERIOD, decisions, closed_periods=frozenset({"2026-09"}))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, BuildResult]:
    home = Home.create(tmp_path_factory.mktemp("home"))
    return home, counted(home)


@pytest.mark.deep
@pytest.mark.engines
def test_replayed_statements_build_the_tables_of_dbt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through_dbt = counted(Home.create(tmp_path / "dbt"))
    monkeypatch.setattr(build, "DbtProject", ReplayedProject)
    replayed = counted(Home.create(tmp_path / "replayed"))
    assert replayed.facts_sha256 == through_dbt.facts_sha256
    assert replayed.row_counts == through_dbt.row_counts
    assert replayed.dbt_results == through_dbt.dbt_results


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with connected(home.warehouse_path, read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_pod_hours_are_split_at_the_hour(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    rows = query(
        home,
        "select pod_name, hour(hour_started_at), state, method, running_seconds, held_seconds "
        "from marts.fct_pod_hours order by 1, 2, 3",
    )
    assert rows == [
        ("alive", 1, "held", "lifecycle_only", 0, 60),
        ("alive", 1, "running", "confirmed", 1200, 0),
        ("long", 0, "running", "confirmed", 3500, 0),
        ("long", 1, "running", "confirmed", 1400, 0),
        ("short", 1, "running", "confirmed", 400, 0),
    ]


def test_a_charge_is_priced_once_and_its_parts_add_up(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    # (4900 + 2 × 400 + 1200) seconds at 2.50 an hour: 6900 / 3600 × 2.5 = 4.791666…
    assert query(home, "select device_seconds, cost_nanos from marts.fct_charges") == [
        (6900, 4_791_666_667)
    ]
    assert query(home, "select sum(cost_nanos) from marts.fct_pod_hours") == [(4_791_666_667,)]


def test_the_node_hour_is_the_maximum_at_an_instant(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    # From 01:00:00 `long` and `short` overlap: 1 + 2; `alive` starts after both have ended.
    assert query(
        home,
        "select hour(hour_started_at), gpu_capacity, gpu_count_max, gpu_seconds "
        "from marts.fct_node_hours order by 1",
    ) == [(0, 8, 1, 3500), (1, 8, 3, 1400 + 2 * 400 + 1200)]


def test_nothing_is_counted_beyond_the_last_pulled_hour(
    built: tuple[Home, BuildResult],
) -> None:
    """Two hours were pulled, so the further cost of the running pod `alive` is unknown."""
    home, _ = built
    assert query(
        home,
        "select max(epoch(segment_ended_at)) - epoch(timestamptz '2026-10-01') "
        "from marts.fct_pod_hours",
    ) == [(7200.0,)]


def test_every_hour_of_both_sources_is_complete(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    assert query(
        home,
        "select source, expected_count, missing_count, outcome from marts.fct_coverage "
        "order by all",
    ) == [
        ("kubernetes", 3600, 0, "ok"),
        ("kubernetes", 3600, 0, "ok"),
        ("thanos", 120, 0, "ok"),
        ("thanos", 120, 0, "ok"),
    ]


def test_the_tests_of_dbt_ran_by_name_on_rows(built: tuple[Home, BuildResult]) -> None:
    _, result = built
    assert not result.failed_tests
    named = result.dbt_results["assert_every_segment_is_within_its_hour"]
    assert (named.model, named.evaluated_row_count, named.status) == ("fct_pod_hours", 5, "pass")
    every_check = required_checks(result.row_counts)
    required = [name.removeprefix("dbt_") for name in every_check if name.startswith("dbt_")]
    assert [n for n in required if not result.dbt_results[n].evaluated_row_count] == []


def test_a_closed_period_is_refused(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    with pytest.raises(PeriodIsClosed):
        build_period(home, PERIOD, decided(RATE), closed_periods=frozenset({"2026-10"}))


@pytest.mark.deep
@pytest.mark.engines
def test_the_models_refuse_a_closed_period_before_any_build(tmp_path: Path) -> None:
    """Also if dbt itself is run on such a file: the run ends before its first model."""
    home = Home.create(tmp_path)
    home.build.mkdir()
    working = home.build / WORKING_NAME
    with connected(working) as connection:
        connection.execute("create schema raw")
        create_raw_decisions_of(connection, closed_periods={"2026-09", "2026-10"})
    with pytest.raises(ModelFailed) as refused:
        project_of(home).build()
    assert "period 2026-10 is closed" in refused.value.seen
    with connected(working, read_only=True) as connection:
        schemas = connection.execute(
            "select distinct schema_name from duckdb_tables() union "
            "select distinct schema_name from duckdb_views() where not internal"
        ).fetchall()
    assert schemas == [("raw",)]


@pytest.mark.deep
@pytest.mark.engines
def test_a_failed_data_test_is_a_result_and_stops_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "project"
    shutil.copytree(dbt_project_dir(), copy)
    name = "assert_every_segment_is_within_its_hour"
    (copy / "data_tests" / f"{name}.sql").write_text("select 1 as failed\n", encoding="utf-8")
    for module in (dbt_run, project):
        monkeypatch.setattr(module, "dbt_project_dir", lambda: copy)
    home = Home.create(tmp_path / "home")
    result = build_period(home, PERIOD, decided(), closed_periods=frozenset())
    assert [(test.name, test.status) for test in result.failed_tests] == [(name, "fail")]


def create_raw_decisions_of(
    connection: duckdb.DuckDBPyConnection, closed_periods: set[str]
) -> None:
    period = {
        "billing_period": PERIOD.name,
        "period_started_at": PERIOD.started_at,
        "period_ended_at": PERIOD.ended_at,
        "decisions_sha256": "",
        "currency": "",
    }
    create_table(connection, "parameters", [period])
    closed = [{"billing_period": name} for name in sorted(closed_periods)]
    create_table(connection, "closed_periods", closed)


def test_later_decisions_do_not_change_the_facts_of_a_period(
    built: tuple[Home, BuildResult],
) -> None:
    """A price ends next year, another begins, a namespace becomes the provider's: the same facts.

    A close seals only the decisions of its period, so they must suffice to count it again.
    """
    home, result = built
    later = RATE_ENDS + ",A100-40GB,whole,EUR,9.90,2027-03-01,,|,\n".replace("|", SIGNED)
    decisions = decided(
        clusters_table(Cluster()),
        {"rates.csv": later},
        table("tenants", "team-a,provider,2027-01-01,"),
        table("outages", "c1,2026-12-01T00:00:00Z,,credit"),
    )
    again = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert again.facts_sha256 == result.facts_sha256


def test_building_again_gives_the_same_content(built: tuple[Home, BuildResult]) -> None:
    home, result = built
    decisions = decided(clusters_table(Cluster()), RATE)
    again = build_period(home, PERIOD, decisions, closed_periods=frozenset())
    assert again.facts_sha256 == result.facts_sha256


def test_a_home_without_evidence_has_empty_facts(tmp_path: Path) -> None:
    home = Home.create(tmp_path)
    result = build_period(home, PERIOD, decided(), closed_periods=frozenset())
    assert result.row_counts["fct_pod_hours"] == 0
    assert result.row_counts["fct_charges"] == 0
    assert result.row_counts["dim_hours"] == 744


def test_not_null_columns_of_contracts_are_not_null_in_the_build(
    built: tuple[Home, BuildResult],
) -> None:
    """A materialization of this project creates the tables, so it must apply the contract."""
    promised = {
        (model["name"], column["name"])
        for path in (dbt_project_dir() / "models" / "marts").glob("*.yml")
        for model in read_yaml(path).get("models", [])
        for column in model["columns"]
        if any(rule["type"] == "not_null" for rule in column.get("constraints", []))
    }
    with connected(built[1].build_path, read_only=True) as connection:
        kept = connection.execute(
            "select table_name, column_name from duckdb_columns() "
            "where schema_name = 'marts' and not is_nullable"
        ).fetchall()
    assert promised <= set(kept)
    assert len(promised) > 100
