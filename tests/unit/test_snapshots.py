"""Snapshots: the rows of each, when one is written, and the limits of a request on one.

Put here: snapshots of marts of a few rows.
Not here: pages and the API that read them (`test_portal_pages`).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from orchestration.open_home import OpenHome
from orchestration.publishing import snapshot
from tests.marts_in_memory import START, fill
from tests.portal_by_hand import step_of, stop_of
from warehouse.about import AboutPeriod
from warehouse.connection import connected
from warehouse.home import Home
from warehouse.reports.opened_facts import FactsOfAnotherVersion
from warehouse.snapshot_reader import PROVIDER, QueryTimeout, SnapshotMissing, Snapshots
from warehouse.snapshots import (
    IssuedDocument,
    SnapshotsNotWritten,
    WrittenSnapshots,
    write_snapshots,
)

HOUR = timedelta(hours=1)
OCTOBER = AboutPeriod(
    "2026-10", "estimated", START + 2 * HOUR, START + 3 * HOUR, "ab" * 32, None, None
)
OTHER = "neighbour"


def pod(tenant: str, uid: str, cost_nanos: int = 5, cluster_id: str = "c1") -> dict[str, Any]:
    return {
        "tenant": tenant,
        "belongs_to": "tenant",
        "cluster_id": cluster_id,
        "pod_uid": uid,
        "cost_nanos": cost_nanos,
    }


def marts(*pods: Mapping[str, Any], tenants: Sequence[str] = ("vision", OTHER)) -> dict[str, Any]:
    covered = {"cluster_id": "c1", "source": "thanos", "outcome": "ok"}
    rows: dict[str, Any] = {
        "dim_tenants": [{"tenant": name, "belongs_to": "tenant"} for name in tenants],
        "dim_clusters": [{"cluster_id": "c1", "cluster_name": "east"}],
        "fct_coverage": [
            {**covered, "hour_started_at": START + n * HOUR, "seen_count": 7} for n in range(3)
        ],
        "dim_pod_labels": [
            {"label_key": "team", "label_value": one["tenant"]}
            | {key: one[key] for key in ("cluster_id", "pod_uid")}
            for one in pods
        ],
    }
    for mart in ("fct_pod_hours", "fct_charges", "fct_outage_credits"):
        of_pods = {"pod_uid", "cost_nanos"} if "pod" in mart else set()
        names = {"tenant", "belongs_to", "cluster_id"} | of_pods
        rows[mart] = [{key: one[key] for key in names} for one in pods]
    rows["fct_gpu_use"] = [{"tenant": one["tenant"], "pod_uid": one["pod_uid"]} for one in pods]
    for mart in ("fct_quotas", "fct_forecasts"):
        subject = {"subject": "tenant"} if mart == "fct_forecasts" else {}
        rows[mart] = [{"tenant": one["tenant"]} | subject for one in pods]
    return rows


def invoice(tenant: str) -> IssuedDocument:
    files = [(f"INV-{tenant}.pdf", "cd" * 32)]
    number = f"INV-{tenant}"
    return IssuedDocument(
        "2026-10", tenant, number, "invoice", "Issued", "USD", "5.00", START, files
    )


def snapshots_of(
    folder: Path, rows: Mapping[str, Any], issued: Sequence[IssuedDocument] = ()
) -> tuple[Home, WrittenSnapshots]:
    home = Home.create(folder)
    home.warehouse_path.unlink(missing_ok=True)
    with connected(home.warehouse_path) as connection:
        connection.execute("create schema marts")
        fill(connection, "marts", rows)
    steps = [step_of("vision"), step_of(OTHER)]
    stops = [stop_of("vision", None), stop_of(OTHER, None)]
    return home, write_snapshots(home, [OCTOBER], issued, [], steps, stops)


def contents(home: Home, tenant: str) -> dict[str, list[tuple[Any, ...]]]:
    with Snapshots(home.snapshots).opened(tenant) as facts:
        [(database,)] = facts.connection.execute("select current_database()").fetchall()
        tables = facts.rows(
            "select distinct if(schema_name = 'main', '', schema_name || '.') || table_name as name"
            " from duckdb_columns() where database_name = $database and not internal order by name",
            {"database": database},
        )
        return {
            row["name"]: facts.connection.execute(
                f"select * from {row['name']} order by all"
            ).fetchall()
            for row in tables
        }


TWO = marts(pod("vision", "a"), pod(OTHER, "b", 7))


def test_a_tenant_has_exactly_its_own_rows(tmp_path: Path) -> None:
    home, written = snapshots_of(tmp_path, TWO, [invoice("vision"), invoice(OTHER)])
    assert written == WrittenSnapshots(tenant_count=2, written_count=3)
    found = contents(home, "vision")
    assert OTHER not in repr(found)
    with Snapshots(home.snapshots).opened("vision") as facts:
        owned = facts.rows(
            "select distinct table_name from duckdb_columns() "
            "where column_name = 'tenant' and schema_name = 'main' and not internal"
        )
    assert {row["table_name"] for row in owned} >= {"fct_pod_hours", "documents", "dim_pod_labels"}
    assert [name for name in {row["table_name"] for row in owned} if len(found[name]) != 1] == []


def test_the_provider_has_the_rows_of_every_tenant(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO, [invoice(OTHER)])
    found = contents(home, PROVIDER)
    assert len(found["fct_pod_hours"]) == 2
    assert len(found["documents"]) == 1


def test_only_snapshots_with_changed_rows_are_written(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    reader = Snapshots(home.snapshots)
    before = {name: reader.version(name) for name in ("vision", OTHER, PROVIDER)}
    _, same = snapshots_of(tmp_path, TWO)
    assert same.written_count == 0
    _, changed = snapshots_of(tmp_path, marts(pod("vision", "a"), pod(OTHER, "b", 8)))
    assert changed.written_count == 2
    assert reader.version("vision") == before["vision"]
    assert reader.version(OTHER) != before[OTHER]
    assert reader.version(PROVIDER) != before[PROVIDER]


def test_usage_of_another_tenant_does_not_change_a_snapshot(tmp_path: Path) -> None:
    own = (pod("vision", "a"), pod("vision", "c"))  # the other tenant's pod is between them
    alone, _ = snapshots_of(tmp_path / "one", marts(*own, tenants=["vision"]))
    together, _ = snapshots_of(tmp_path / "two", marts(*own, pod(OTHER, "b"), pod(OTHER, "d")))
    versions = [Snapshots(home.snapshots).version("vision") for home in (alone, together)]
    assert versions[0] == versions[1]
    assert contents(alone, "vision") == contents(together, "vision")


def test_a_tenant_sees_only_clusters_with_its_objects(tmp_path: Path) -> None:
    """A pod, a namespace or a quota; a gap of another cluster does not delay complete data."""
    alone = marts(pod("vision", "a"))
    far = {"cluster_id": "c2", "cluster_name": "far"}
    together = marts(pod("vision", "a"), pod(OTHER, "b", cluster_id="c2"))
    together["dim_clusters"].append(far)
    gap = {"cluster_id": "c2", "source": "thanos", "outcome": "empty", "reason": "a secret"}
    together["fct_coverage"].append({**gap, "hour_started_at": START})
    homes = [
        snapshots_of(tmp_path / name, rows)[0] for name, rows in (("one", alone), ("two", together))
    ]
    assert len({Snapshots(home.snapshots).version("vision") for home in homes}) == 1
    found = contents(homes[1], "vision")
    assert "far" not in repr(found)
    assert "secret" not in repr(found)
    for table in ("dim_namespaces", "fct_quotas"):
        name = "namespace" if table == "dim_namespaces" else "tenant"
        rows = [*together.get(table, ()), {name: "vision", "cluster_id": "c2"}]
        home, _ = snapshots_of(tmp_path / table, together | {table: rows})
        assert "far" in repr(contents(home, "vision")["dim_clusters"])


def test_a_request_keeps_the_version_that_it_opened(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    reader = Snapshots(home.snapshots)
    costs = "select sum(cost_nanos) as nanos from fct_pod_hours"
    with reader.opened("vision") as facts:
        snapshots_of(tmp_path, marts(pod("vision", "a", 9), pod(OTHER, "b")))
        snapshots_of(tmp_path, marts(pod("vision", "a", 11), pod(OTHER, "b")))
        assert facts.rows(costs) == [{"nanos": 5}]
    with reader.opened("vision") as facts:
        assert facts.rows(costs) == [{"nanos": 11}]
    # The files of this version and of the one before; those of the first are deleted.
    assert len(list(home.snapshots.glob("*.duckdb"))) == 3 + 2


def test_results_of_all_clusters_are_not_those_of_a_reader_of_some(tmp_path: Path) -> None:
    rows = marts(pod("vision", "a"), pod("vision", "b", 7, cluster_id="c2"))
    rows["dim_clusters"].append({"cluster_id": "c2", "cluster_name": "west"})
    home, _ = snapshots_of(tmp_path, rows)
    reader = Snapshots(home.snapshots)
    found = []
    for clusters in (None, ["c1"], ["c2"], ["c1", "c2"], ["c1"], None):
        with reader.opened("vision", clusters) as facts:
            [row] = facts.rows("select sum(cost_nanos) as nanos from fct_pod_hours")
            found.append(row["nanos"])
    assert found == [12, 5, 7, 12, 5, 12]


@pytest.mark.parametrize(
    "statement",
    [
        "create table more (a int)",
        "select * from read_csv('/etc/passwd')",
        "select * from glob('/*')",
        "attach '/tmp/other.duckdb'",
        "copy dim_tenants to '/tmp/copied.csv'",
        "set memory_limit = '8GB'",
        "set enable_external_access = true",
    ],
)
def test_a_request_can_only_read_its_snapshot(tmp_path: Path, statement: str) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    with Snapshots(home.snapshots).opened("vision") as facts, pytest.raises(duckdb.Error):
        facts.connection.execute(statement)


def test_a_request_reads_in_utc_within_limits(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    with Snapshots(home.snapshots).opened("vision") as facts:
        [row] = facts.rows(
            "select current_setting('TimeZone') as zone, current_setting('memory_limit') as memory"
        )
    assert row == {"zone": "UTC", "memory": "244.1 MiB"}


def test_intermediate_results_are_not_written_beside_snapshots(tmp_path: Path) -> None:
    """The folder of snapshots may be read-only, and /tmp may have other users."""
    home, _ = snapshots_of(tmp_path, TWO)
    reader = Snapshots(home.snapshots)
    with reader.opened("vision") as facts:
        [row] = facts.rows("select current_setting('temp_directory') as folder")
    folder = Path(row["folder"])
    assert not folder.is_relative_to(home.path)
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    del reader, facts
    gc.collect()
    assert not folder.parent.exists()


def test_a_slow_statement_is_interrupted(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    reader = Snapshots(home.snapshots, statement_seconds=0.05)
    with pytest.raises(QueryTimeout), reader.opened("vision") as facts:
        facts.connection.execute("select count(*) from range(1000000000000)").fetchall()


def test_without_a_snapshot_a_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match="no such file"):
        Snapshots(tmp_path / "none").tenants()
    home, _ = snapshots_of(tmp_path / "home", TWO)
    with pytest.raises(SnapshotMissing), Snapshots(home.snapshots).opened("nobody"):
        raise AssertionError("it was opened")
    index = home.snapshots / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 0}))
    with pytest.raises(SnapshotMissing, match="format 0"):
        Snapshots(home.snapshots).tenants()
    for damaged in (b"[", b"[" * 100_000, b'{"format":1,"provider":"\xab"}'):
        index.write_bytes(damaged)
        with pytest.raises(SnapshotMissing, match="cannot be read"):
            Snapshots(home.snapshots).tenants()


def test_a_tenant_without_use_takes_less_than_a_megabyte(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, marts(tenants=["vision"]))
    path = home.snapshots / Snapshots(home.snapshots).version("vision")
    assert path.stat().st_size < 1_000_000


def test_hours_are_grouped_by_status_up_to_the_counted_time(tmp_path: Path) -> None:
    rows = marts(pod("vision", "a"))
    later = {**rows["fct_coverage"][0], "hour_started_at": START + 3 * HOUR}
    rows["fct_coverage"][1] |= {"outcome": "not_asked", "reason": "never queried"}
    rows["fct_coverage"].append(later | {"outcome": "not_asked"})
    home, _ = snapshots_of(tmp_path, rows)
    with Snapshots(home.snapshots).opened("vision") as facts:
        found = facts.rows("select state, reason, started_at, hour_count from coverage order by 3")
    assert [tuple(row.values()) for row in found] == [
        ("complete", "", START, 1),
        ("missing", "never queried", START + HOUR, 1),
        ("complete", "", START + 2 * HOUR, 1),
    ]


def test_facts_of_another_version_keep_the_snapshots(tmp_path: Path) -> None:
    home, _ = snapshots_of(tmp_path, TWO)
    before = sorted(path.name for path in home.snapshots.iterdir())
    with connected(home.warehouse_path) as connection:
        connection.execute("drop table marts.fct_quotas")
    with pytest.raises(FactsOfAnotherVersion):
        write_snapshots(home, [OCTOBER], [], [])
    assert sorted(path.name for path in home.snapshots.iterdir()) == before


def test_if_snapshots_cannot_be_written_the_old_ones_are_removed(tmp_path: Path) -> None:
    """The portal then responds with 503; old snapshots would differ from the ledger's amounts."""
    home, _ = snapshots_of(tmp_path, TWO)
    (home.path / "config.toml").touch()
    with connected(home.warehouse_path) as connection:
        connection.execute("drop table marts.fct_quotas")
    with pytest.raises(SnapshotsNotWritten, match="the step itself is done") as raised:
        snapshot(OpenHome.at(home.path))
    assert "FACTS-001" in raised.value.seen
    assert raised.value.exit_code == 3
    with pytest.raises(SnapshotMissing, match="since the facts last changed"):
        Snapshots(home.snapshots).tenants()
    _, again = snapshots_of(tmp_path, TWO)
    assert again.written_count == 0  # the files were kept
    assert Snapshots(home.snapshots).tenants() == [OTHER, "vision"]


def test_an_empty_ledger_has_no_tenants(tmp_path: Path) -> None:
    home = Home.create(tmp_path)
    with connected(home.warehouse_path) as connection:
        connection.execute("create schema marts")
        fill(connection, "marts", {})
    never = datetime(2026, 10, 1, tzinfo=UTC)
    about = replace(OCTOBER, data_complete_to=never, counted_until=never)
    assert write_snapshots(home, [about], [], []) == WrittenSnapshots(0, 1)
    assert Snapshots(home.snapshots).tenants() == []
