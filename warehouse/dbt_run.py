"""Running dbt inside this process, on a project folder that may be read-only.

Put here: the profile, the folders that dbt may write, and the meaning of its results.
Not here: models and tests (`dbt/`), or the steps of a build (`warehouse.build`).

dbt keeps the parsed project in its target folder and parses only changed files again, as long as
the profile stays the same from period to period. That is why every period is built in one working
file, which gets its own name at the end.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from domain.errors import CheckFailed
from warehouse.connection import require_room, settings
from warehouse.project import dbt_project_dir
from warehouse.store import write_whole

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult
    from dbt.contracts.graph.manifest import Manifest

DBT_THREADS = 1
"""Models share the threads and the memory of one database; two at once only compete for both."""

SPARK_THREADS = 4
"""Models that Spark computes at the same time: a small one leaves most of a cluster idle."""

Profile = Mapping[str, Any]
"""A profile of dbt: its targets, and the one that is used."""

LONGEST_MESSAGE = 300
"""Characters of dbt's own text in an error; the log has the whole text."""


LOG_REMEDY = "see build/dbt/logs/dbt.log in the home, and report it with that file"
SPARK_REMEDY = (
    "where memory was not enough, set more spark.driver.memory or spark.executor.memory in "
    "spark-defaults.conf; else see build/dbt-spark/logs/dbt.log in the home"
)


class ModelFailed(CheckFailed):
    """dbt could not build a model: the facts are not there."""

    code = "WARE-001"

    def __init__(self, names: Sequence[str], message: str, remedy: str = LOG_REMEDY) -> None:
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(
            where=f"dbt model {listed}",
            seen=f"{len(names)} of the models failed: {_one_line(message)}",
            why="a partial build would mix old and new facts; the warehouse was not changed",
            remedy=remedy,
        )


def _one_line(message: str) -> str:
    """dbt draws arrows below columns; a message has one line, and the log has the drawing."""
    text = " ".join(message.split())
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


@dataclass(frozen=True, slots=True)
class DbtTest:
    """One data test that dbt ran."""

    name: str
    status: str  # pass, fail, error, skipped
    failed_row_count: int
    evaluated_row_count: int  # rows of the model that the test is about
    model: str

    @property
    def passed(self) -> bool:
        return self.status == "pass"


def profile_of_duckdb(database: Path, target: str) -> Profile:
    """dbt opens a database alone, with the limits of `connection`, and without transactions."""
    output = {
        "type": "duckdb",
        "path": str(database),
        "schema": "main",
        "threads": DBT_THREADS,
        "config_options": settings(),
        "settings": {"TimeZone": "UTC"},
        "disable_transactions": True,
        "plugins": [{"module": "warehouse.dbt_plugin"}],
    }
    return {"target": target, "outputs": {target: output}}


PROFILE_OF_SPARK: Profile = {
    "target": "spark",
    "outputs": {
        "spark": {
            "type": "spark",
            "method": "session",
            "host": "none",  # demanded, and not used with a session
            "schema": "main",
            "threads": SPARK_THREADS,
            # The adapter demands Hive's catalogue unless another one is set.
            "server_side_parameters": {"spark.sql.catalogImplementation": "in-memory"},
        }
    },
}
"""dbt uses the Spark session of this process."""


def write_profile(folder: Path, profile: Profile) -> None:
    """Write the profile if it changed: an unchanged file keeps dbt's parsed project valid."""
    text = json.dumps({"gpu_ledger": profile}, indent=2, sort_keys=True) + "\n"  # JSON is YAML
    path = folder / "profiles.yml"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_whole(path, text.encode())


class DbtProject:
    """The parsed project of one home; dbt writes below `folder`.

    With `loads`, tables are loaded that another engine computed: those of the schema `computed`.
    """

    def __init__(self, folder: Path, database: Path, *, loads: bool = False) -> None:
        self._folder = folder
        self._database = database
        self._profile = profile_of_duckdb(database, "load" if loads else "build")

    def parse(self) -> Manifest:
        """The parsed project; a build need not parse it again."""
        return parse_project(self._folder, self._database)

    def build(self) -> list[NodeResult]:
        """Load the product facts, build every model, and run every data test; raises ModelFailed.

        A failed data test stops no model; `quality` decides about its effect on a close.
        """
        kinds = ("seed", "model", "test")
        results = self._results("build", *(f"--resource-type={kind}" for kind in kinds))
        for result in results:
            if str(result.status) == "error":
                require_room(self._database, _one_line(str(result.message)))
        require_models([result for result in results if _kind(result) != "test"])
        return [result for result in results if _kind(result) == "test"]

    def load_product_facts(self) -> None:
        """Load the seeds only; raises ModelFailed."""
        require_models(self._results("seed"))

    def run_unit_tests(self) -> list[NodeResult]:
        """Run the unit tests of models; they bring their own rows."""
        return self._results("test", "--select", "test_type:unit")

    def _results(self, *command: str) -> list[NodeResult]:
        return list(getattr(self._invoke(*command).result, "results", []))

    def _invoke(self, *command: str) -> Any:
        write_profile(self._folder, self._profile)
        try:
            return _run_dbt(self._database, *command, *places(self._folder))
        finally:
            _close_database()


class SparkProject:
    """The project as dbt-spark runs it in the Spark session of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, *selection: str) -> None:
        """Compute the selected models; raises ModelFailed."""
        write_profile(self._folder, PROFILE_OF_SPARK)
        outcome = _run_dbt(self._folder, "run", *selection, *places(self._folder))
        require_models(list(getattr(outcome.result, "results", [])), SPARK_REMEDY)


def _run_dbt(database: Path, *command: str) -> Any:
    """The outcome of one command of dbt; raises ModelFailed if dbt itself failed."""
    from dbt.cli.main import dbtRunner  # 1.3 s, which commands that only read facts need not wait

    # dbt prints to stdout; its result and its log contain the same.
    with contextlib.redirect_stdout(io.StringIO()), _quiet_log():
        outcome = dbtRunner().invoke([*FLAGS, *command])
    if outcome.exception is not None:
        message = str(outcome.exception)
        require_room(database, _one_line(message))
        raise ModelFailed(["(none ran)"], message) from outcome.exception
    return outcome


def places(folder: Path) -> list[str]:
    """The options of dbt for the folders that it reads and writes."""
    return [
        *("--project-dir", str(dbt_project_dir())),
        *("--profiles-dir", str(folder)),
        *("--target-path", str(folder / "target")),
        *("--log-path", str(folder / "logs")),
    ]


_OF_FAILED_TESTS = ["LogTestResult", "RunResultWarning", "RunResultWarningMessage"]
WARNINGS = json.dumps({"error": "all", "warn": _OF_FAILED_TESTS})
"""Every warning of dbt is an error, except for a failed data test, which is a result."""

FLAGS = (
    "--log-level",
    "none",
    "--no-use-colors",
    "--no-send-anonymous-usage-stats",
    "--no-version-check",
    "--no-use-colors-file",
    "--no-write-json",
    "--no-populate-cache",
    "--warn-error-options",
    WARNINGS,
    "--log-level-file",
    "info",
)


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Suppress Python's traceback for each line that dbt cannot write to its log."""
    before = logging.raiseExceptions
    logging.raiseExceptions = False
    try:
        yield
    finally:
        logging.raiseExceptions = before


def _close_database() -> None:
    """Close the database, which the adapter would keep open until the process ends."""
    from dbt.adapters.duckdb.connections import DuckDBConnectionManager  # as above

    manager: Any = DuckDBConnectionManager
    environment = manager._ENV  # None when dbt gave up before it opened anything
    manager.close_all_connections()
    if environment is not None:
        environment.close()


def parse_project(folder: Path, database: Path) -> Manifest:
    """The parsed project."""
    write_profile(folder, profile_of_duckdb(database, "build"))
    return cast("Manifest", _run_dbt(database, "parse", *places(folder)).result)


def require_models(results: Sequence[NodeResult], remedy: str = LOG_REMEDY) -> None:
    """Raise ModelFailed if a model failed or was skipped."""
    broken = [r for r in results if str(r.status) != "success"]
    if broken:
        failed = [r for r in broken if str(r.status) == "error"] or broken
        raise ModelFailed([r.node.name for r in failed], str(failed[0].message), remedy)


def tests_of(results: Sequence[NodeResult], row_counts: Mapping[str, int]) -> list[DbtTest]:
    """The executed data tests by name, each with the number of rows of its model."""
    found = [_test(r, row_counts) for r in results if _kind(r) == "test"]
    return sorted(found, key=lambda test: test.name)


def tested_models(results: Sequence[NodeResult]) -> frozenset[str]:
    """The models, seeds and sources of the executed data tests."""
    return frozenset(_model_of(result.node) for result in results if _kind(result) == "test")


def _model_of(node: Any) -> str:
    meta = node.config.meta or {}
    attached = getattr(node, "attached_node", None) or ""
    models = [name.split(".")[-1] for name in node.depends_on.nodes]
    return str(meta.get("evaluates") or attached.split(".")[-1] or (models or [""])[0])


def _test(result: NodeResult, row_counts: Mapping[str, int]) -> DbtTest:
    node: Any = result.node
    model = _model_of(node)
    return DbtTest(
        name=node.name,
        status="fail" if str(result.status) == "warn" else str(result.status),
        failed_row_count=int(result.failures or 0),
        evaluated_row_count=row_counts.get(model, 0),
        model=model,
    )


def _kind(result: NodeResult) -> str:
    return str(result.node.resource_type)
