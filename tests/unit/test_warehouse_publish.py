"""Readers have their own copy: described, versioned, and with the same integers in Parquet."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from subprocess import PIPE

import pyarrow.parquet as pq
import pytest

from billing.record_tables import mirror_record
from quality.check_tables import create_tables
from tests.decisions_by_hand import decided, table
from tests.evidence_by_hand import PERIOD, START, Cluster, Pod, clusters_table, write
from warehouse.about import About, read_about
from warehouse.build import BuildResult, build_period
from warehouse.connection import connected, transaction, writing
from warehouse.home import Home
from warehouse.publish import VERSIONS_KEPT, publish
from warehouse.switched import WarehouseLost, require_intact, switched_periods

ABOUT = About(
    published_at=datetime(2026, 11, 1, 3, tzinfo=UTC),
    data_complete_to=datetime(2026, 10, 1, 2, tzinfo=UTC),
    code_version="0.1.0",
    rates_version="rates-1",
    decisions_sha256="ab" * 32,
    open_finding_count=3,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, BuildResult]:
    home = Home.create(tmp_path_factory.mktemp("home"))
    cluster = Cluster(pods=[Pod("p", 100, 5000)])
    write(home, cluster)
    # 9,007,199,254,740,993 nanos an hour: one more than the exact integers of a 64-bit float.
    rate = table("rates", ",A100-40GB,whole,EUR,9007199.254740993,2026-01-01,,|,")
    decisions = decided(clusters_table(cluster), rate)
    return home, build_period(home, PERIOD, decisions, closed_periods=frozenset())


def test_every_table_and_column_has_a_description(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    published = publish(home, ABOUT)
    with connected(published.path, read_only=True) as connection:
        undescribed = connection.execute(
            "select table_name, column_name from duckdb_columns() "
            "where not internal and coalesce(comment, '') = '' "
            "union all select table_name, '' from duckdb_tables() where coalesce(comment, '') = ''"
        ).fetchall()
        grain = connection.execute(
            "select comment from duckdb_tables() where table_name = 'fct_charges'"
        ).fetchone()
        schemas = connection.execute(
            "select distinct schema_name from duckdb_tables() order by 1"
        ).fetchall()
    assert undescribed == []
    assert grain is not None
    assert grain[0].startswith("One row per tenant, cluster, class")
    assert schemas == [("main",)]


def test_readable_views_have_hours_and_currency_units_with_cluster_names(
    built: tuple[Home, BuildResult],
) -> None:
    """900 seconds a quarter of an hour: the pod runs for 4900 s at 9007199.254740993 an hour."""
    home, _ = built
    mirror_record(home)
    with writing(home) as connection:
        create_tables(connection)
    path = publish(home, ABOUT).path
    # Attached under another name, as an analyst may do.
    with connected(":memory:") as connection:
        connection.execute(f"attach '{path}' as copy (read_only)")
        [row] = connection.execute(
            "select cluster_name, device_hours, cost from copy.readable.fct_charges"
        ).fetchall()
        views = connection.execute(
            "select view_name from duckdb_views() where schema_name = 'readable'"
        ).fetchall()
        tables = connection.execute(
            "select table_name from duckdb_tables() where database_name = 'copy'"
        ).fetchall()
        columns = connection.execute(
            "select column_name from duckdb_columns() where schema_name = 'readable'"
            " and (column_name like '%nanos%' or column_name like '%_seconds')"
        ).fetchall()
        undescribed = connection.execute(
            "select table_name, column_name from duckdb_columns()"
            " where database_name = 'copy' and coalesce(comment, '') = ''"
        ).fetchall()
    assert row == (Cluster().cluster_id, Decimal("1.361111"), Decimal("12259798.985619685"))
    assert sorted(views) == sorted(tables)
    assert {("documents",), ("document_lines",), ("corrections",), ("findings",)} <= {*tables}
    assert columns == []
    assert undescribed == []


def test_about_shows_the_last_time_of_the_data(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    published = publish(home, replace(ABOUT, code_version="it's 0.2"))
    with connected(published.latest_path, read_only=True) as connection:
        row = connection.execute(
            "select data_complete_to, code_version, open_finding_count from about"
        ).fetchone()
    assert row == (ABOUT.data_complete_to, "it's 0.2", 3)


def test_a_reader_of_an_older_duckdb_can_open_it(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    header = publish(home, ABOUT).path.read_bytes()[:20]
    # Bytes 8 to 12 are the magic bytes, and the storage version follows: 64 is that of 1.0.
    assert header[8:12] == b"DUCK"
    assert int.from_bytes(header[12:20], "little") == 64


def test_versions_stay_while_they_are_read(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    first = publish(home, ABOUT)
    with connected(first.path, read_only=True) as reader:
        others = [publish(home, ABOUT) for _ in range(VERSIONS_KEPT + 1)]
        assert reader.execute("select count(*) from fct_charges").fetchone() == (1,)
    kept = sorted(home.published.glob("gpu-ledger-*.duckdb"))
    assert kept == [other.path for other in others[-VERSIONS_KEPT:]]
    assert others[-1].latest_path.samefile(others[-1].path)
    assert not list(home.published.rglob("*.unfinished"))


ANALYST = """
import sys, duckdb
copy = duckdb.connect(sys.argv[1], read_only=True)
for _ in sys.stdin:
    print(copy.sql("select count(*) from fct_charges").fetchone()[0], flush=True)
"""


def test_another_process_reads_its_copy_while_the_pipeline_writes(
    built: tuple[Home, BuildResult],
) -> None:
    """It opens the latest version and queries it while the warehouse is locked for writing."""
    home, _ = built
    latest = publish(home, ABOUT).latest_path
    command = [sys.executable, "-c", ANALYST, str(latest)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as analyst:
        said, asked = analyst.stdout, analyst.stdin
        assert said
        assert asked
        print("before", file=asked, flush=True)
        assert said.readline() == "1\n"
        with connected(home.warehouse_path) as writer, transaction(writer):
            writer.execute("create table main.scratch as select 1 as one")
            print("while it is written", file=asked, flush=True)
            assert said.readline() == "1\n"
            writer.execute("drop table main.scratch")
        publish(home, ABOUT)
        print("after the next copy took its name", file=asked, flush=True)
        assert said.readline() == "1\n"


def test_parquet_has_the_same_integers_for_another_client(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    published = publish(home, ABOUT)
    rows = pq.read_table(published.parquet_folder / "fct_charges" / "2026-10.parquet").to_pylist()
    assert [row["rate_nanos_per_hour"] for row in rows] == [Decimal(9_007_199_254_740_993)]
    # 4900 seconds of it: 9007199254740993 × 4900 / 3600 = 12259798985619684.916…
    assert [row["cost_nanos"] for row in rows] == [Decimal(12_259_798_985_619_685)]
    for path in published.parquet_folder.rglob("*.parquet"):
        kinds = {str(field.type) for field in pq.read_schema(path)}
        assert not kinds & {"double", "float"}, path


def test_a_switch_is_noted_outside_the_warehouse(
    built: tuple[Home, BuildResult], tmp_path: Path
) -> None:
    home, result = built
    assert switched_periods(home)["2026-10"].facts_sha256 == result.facts_sha256
    require_intact(home, "2026-10", deep=True)
    with connected(home.warehouse_path) as connection:
        kept = connection.execute("select * from marts.dim_rates").fetchall()
        connection.execute("update marts.dim_rates set currency = 'USD'")
    require_intact(home, "2026-10")
    with pytest.raises(WarehouseLost):
        require_intact(home, "2026-10", deep=True)
    with connected(home.warehouse_path) as connection:
        connection.execute("delete from marts.dim_rates")
    with pytest.raises(WarehouseLost):
        require_intact(home, "2026-10")
    with connected(home.warehouse_path) as connection:
        places = ", ".join("?" * len(kept[0]))
        connection.executemany(f"insert into marts.dim_rates values ({places})", kept)
    require_intact(home, "2026-10", deep=True)


def description_of(home: Home, closed: frozenset[str] = frozenset()) -> About:
    about = read_about(home, closed, ABOUT.published_at, "0.1.0", "ab" * 32)
    assert about is not None
    return about


def test_data_is_complete_up_to_the_first_missing_hour(
    built: tuple[Home, BuildResult],
) -> None:
    """Two hours were landed; the second one fails, and then a close counts it as accepted."""
    home, result = built
    assert description_of(home).data_complete_to == START + timedelta(hours=2)
    with connected(home.warehouse_path) as connection:
        connection.execute(
            "update marts.fct_coverage set outcome = 'failed' "
            "where hour_started_at = $second and source = 'thanos'",
            {"second": START + timedelta(hours=1)},
        )
    [period] = description_of(home).periods
    assert period.data_complete_to == START + timedelta(hours=1)
    assert period.counted_until == START + timedelta(hours=2)
    assert (period.amounts, period.finding_count) == ("estimated", None)
    assert period.facts_sha256 == result.facts_sha256
    [closed] = description_of(home, frozenset({"2026-10"})).periods
    assert (closed.amounts, closed.data_complete_to) == ("final", START + timedelta(hours=2))
    with connected(home.warehouse_path) as connection:
        connection.execute("update marts.fct_coverage set outcome = 'ok'")


def test_another_price_is_another_version_of_the_rates(built: tuple[Home, BuildResult]) -> None:
    home, _ = built
    before = description_of(home).rates_version
    change = "update marts.dim_rates set rate_nanos_per_hour = rate_nanos_per_hour "
    with connected(home.warehouse_path) as connection:
        connection.execute(change + "+ 1")
    assert description_of(home).rates_version != before
    with connected(home.warehouse_path) as connection:
        connection.execute(change + "- 1")
    assert description_of(home).rates_version == before


def test_a_home_without_facts_publishes_nothing(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    assert read_about(home, (), ABOUT.published_at, "0.1.0", "") is None
