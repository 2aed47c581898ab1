"""Dagster definitions load without sources, without dbt, with any decisions; the whole graph.

Put here: definitions as they are loaded, and the graph as text.
Not here: runs (`test_dagster_hours`, `test_dagster_month`).

To rewrite the graph after an intended change, run GPU_LEDGER_WRITE_GOLDEN=1 pytest on this file and
review the difference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from domain.decisions import DecisionsRefused
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from orchestration.dagster_code.build import build_defs
from orchestration.dagster_code.partitions import hours_since
from orchestration.dagster_code.resources import LedgerHome
from orchestration.demo.demo_home import make_home
from portal.pages import STEP_JOBS
from tests.orchestrated import prepare_models

GRAPH = Path(__file__).parent / "dagster_graph.txt"
NOWHERE = "http://127.0.0.1:9"  # the discard port: no server responds there
NOW = "2026-11-04T00:00:00Z"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of three clusters whose sources cannot be reached."""
    path = tmp_path_factory.mktemp("definitions") / "home"
    fleet = build_fleet(load_scenario("tenant_in_two_clusters"))
    make_home(path, fleet, NOWHERE, {cluster.cluster_id: NOWHERE for cluster in fleet.clusters})
    prepare_models(path)
    return path


@pytest.fixture(scope="module")
def defs(home: Path) -> dg.Definitions:
    return build_defs(LedgerHome(path=str(home), now=NOW))


def with_clusters(home: Path, place: Path, *rows: str) -> dg.Definitions:
    """The definitions with these decisions about clusters."""
    shutil.copytree(home, place / "home")
    table = place / "home" / "decisions" / "clusters.csv"
    head = table.read_text().splitlines()[0]
    table.write_text("\n".join([head, *(f"{row},both,30,30,why,Ann,2026-01-01" for row in rows)]))
    return build_defs(LedgerHome(path=str(place / "home"), now=NOW))


def test_definitions_load_without_sources_or_heavy_libraries(home: Path) -> None:
    code = (
        "import sys, dagster; from orchestration.dagster_code.definitions import defs\n"
        "dagster.Definitions.validate_loadable(defs)\n"
        "heavy = ('dbt.cli', 'great_expectations', 'dagster_dbt')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    environment = {**os.environ, "GPU_LEDGER_HOME": str(home), "PYTHONWARNINGS": "ignore"}
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True
    )
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr


def test_the_graph_equals_the_reviewed_text(defs: dg.Definitions) -> None:
    text = "\n".join(graph_lines(defs)) + "\n"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        GRAPH.write_text(text, encoding="utf-8")
    assert text == GRAPH.read_text(encoding="utf-8")


def graph_lines(defs: dg.Definitions) -> Iterator[str]:
    """The graph as text: assets, checks and jobs, with their dependencies."""
    graph = defs.resolve_asset_graph()
    for key in sorted(graph.get_all_asset_keys()):
        yield from asset_lines(graph.get(key))
    repository = defs.get_repository_def()
    yield "# Jobs"
    for job in sorted(repository.get_all_jobs(), key=lambda job: job.name):
        if not job.name.startswith("__"):
            yield f"{job.name}: {job.description}"
    yield "# Schedules"
    for schedule in sorted(repository.schedule_defs, key=lambda schedule: schedule.name):
        yield f"{schedule.name} [{schedule.cron_schedule}] {schedule.job_name}"
        yield f"    {schedule.description}"
    yield "# Sensors"
    for sensor in sorted(repository.sensor_defs, key=lambda sensor: sensor.name):
        yield f"{sensor.name} [every {sensor.minimum_interval_seconds} s] {sensor.description}"


def asset_lines(node: Any) -> Iterator[str]:
    partitions = type(node.partitions_def).__name__ if node.partitions_def else "no partitions"
    yield f"{node.key.to_user_string()} [{node.group_name}, {partitions}]"
    for parent in sorted(node.parent_keys):
        yield f"    from {parent.to_user_string()}"
    for check in sorted(node.check_keys):
        yield f"    check {check.name}"


def test_every_asset_has_a_description_and_an_owner(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.get_all_asset_keys()]
    silent = [n.key.to_user_string() for n in nodes if not n.description or not n.owners]
    assert (len(nodes) > 30, silent) == (True, [])
    facts = [node for node in nodes if node.key.path[0] == "facts"]
    assert all("dagster/column_schema" in node.metadata for node in facts)
    assert all(node.kinds for node in nodes)


def test_a_column_names_the_columns_that_it_depends_on(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    facts = [key for key in graph.get_all_asset_keys() if key.path[0] == "facts"]
    shown = {key.path[1]: graph.get(key).metadata["dagster/column_lineage"] for key in facts}
    [rate] = shown["dim_rates"].deps_by_column["rate_nanos_per_hour"]
    assert rate.asset_key == dg.AssetKey(["facts", "stg_decisions__rates"])
    assert shown["fct_charges"].deps_by_column["cost_nanos"]
    # Every named column exists.
    columns = {
        key: {column.name for column in graph.get(key).metadata["dagster/column_schema"].columns}
        for key in facts
    }
    for lineage in shown.values():
        for made_of in lineage.deps_by_column.values():
            assert all(one.column_name in columns[one.asset_key] for one in made_of)


def test_a_staging_model_depends_only_on_its_own_source(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()

    def parents(name: str) -> set[str]:
        return {key.to_user_string() for key in graph.get(dg.AssetKey(["facts", name])).parent_keys}

    clusters = ("apart", "collected", "direct")
    assert parents("stg_thanos__series") == {f"{name}/thanos_hours" for name in clusters}
    assert parents("stg_kubernetes__pods") == {f"{name}/kubernetes_hours" for name in clusters}
    assert parents("stg_decisions__rates") == {"decisions"}


def test_checks_that_block_a_close_are_marked(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    check_result = dg.AssetKey(["billing", "check"])
    blocking = {
        spec.name: spec.blocking
        for spec in (graph.get_check_spec(key) for key in graph.get(check_result).check_keys)
    }
    assert blocking["hour_not_measured"]
    assert blocking["suite_coverage"]
    assert blocking["period_may_be_billed"]
    assert not blocking["samples_missing"]


def test_every_job_setting_is_described_and_a_close_is_dry(defs: dg.Definitions) -> None:
    for name, op in (
        ("pull_hours", "pull_configured_hours"),
        ("pull_due_hours", "pull_due"),
        ("close_period", "close_one_period"),
    ):
        schema = defs.resolve_job_def(name).graph.node_named(op).definition.config_schema
        fields = schema.config_type.fields  # type: ignore[union-attr]
        assert [field for field, value in fields.items() if not value.description] == []
        if name == "close_period":
            assert fields["issue"].default_value is False
            assert fields["period"].is_required


def test_the_jobs_that_the_portal_links_to_are_defined(defs: dg.Definitions) -> None:
    jobs = {job.name for job in defs.get_repository_def().get_all_jobs()}
    assert set(STEP_JOBS) - jobs == set()


def test_writers_of_the_warehouse_share_one_pool(defs: dg.Definitions) -> None:
    pools = {
        definition.op.name: definition.op.pool
        for definition in defs.resolve_asset_graph().assets_defs
        if definition.is_executable and definition.keys
    }
    writers = {name for name, pool in pools.items() if pool == "duckdb_writer"}
    assert writers == {"models_of_a_period", "check_and_publish", "billing__invoice_drafts"}
    close = defs.resolve_job_def("close_period").graph.node_named("close_one_period")
    assert close.definition.pool == "duckdb_writer"  # type: ignore[union-attr]


def test_a_cluster_with_two_decisions_has_one_partition_set(home: Path, tmp_path: Path) -> None:
    found = with_clusters(
        home,
        tmp_path,
        "c-1,old name,2026-10-01,2026-10-02",
        "c-1,new name,2026-10-02,2026-10-03T12:30:00Z",
        "c-2,other,2026-10-02T06:00:00Z,",
    ).resolve_asset_graph()
    partitions = found.get(dg.AssetKey(["new_name", "thanos_hours"])).partitions_def
    assert partitions is not None
    names = partitions.get_partition_keys()
    assert (names[0], names[-1], len(names)) == ("2026-10-01T00", "2026-10-03T12", 61)
    other = found.get(dg.AssetKey(["other", "kubernetes_hours"])).partitions_def
    assert other is not None
    assert other.get_partition_keys()[0] == "2026-10-02T06"


def test_clusters_with_similar_names_stay_separate(home: Path, tmp_path: Path) -> None:
    graph = with_clusters(
        home, tmp_path, "aaa-1,gpu-east,2026-10-01,", "bbb-2,gpu_east,2026-10-01,"
    ).resolve_asset_graph()
    raw = {key.path[0] for key in graph.get_all_asset_keys() if key.path[-1] == "thanos_hours"}
    assert raw == {"gpu_east_aaa_1", "gpu_east_bbb_2"}


def test_contradicting_decisions_do_not_load_and_are_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(DecisionsRefused) as refused:
        with_clusters(home, tmp_path, "c-1,east,2026-10-01,", "c-1,east,2026-10-02,")
    assert "clusters.csv" in refused.value.message()


def test_a_partly_measured_hour_is_a_partition() -> None:
    first, last = (
        datetime(2026, 10, 1, 0, 30, tzinfo=UTC),
        datetime(2026, 10, 1, 2, 0, 1, tzinfo=UTC),
    )
    names = hours_since(first, last).get_partition_keys()
    assert names == ["2026-10-01T00", "2026-10-01T01", "2026-10-01T02"]
    whole = hours_since(first, datetime(2026, 10, 1, 2, tzinfo=UTC)).get_partition_keys()
    assert whole == ["2026-10-01T00", "2026-10-01T01"]
