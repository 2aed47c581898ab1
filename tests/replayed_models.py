"""The statements by which dbt builds the models, recorded once and run again without dbt.

Put here: recording the statements of one build, and a project that runs them.
Not here: the choice of tests (`tests/conftest.py`), or the models.

No statement of a model or of a data test depends on data, so the statements of one build of an
empty home are those of every build. dbt takes four of the five seconds of a small build.
`tests/unit/test_warehouse_build.py` compares a build through dbt with one of these statements.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import tempfile
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import duckdb

from domain.billing_period import BillingPeriod
from tests.decisions_by_hand import decided
from warehouse.build import PROJECT_FOLDER, WORKING_NAME
from warehouse.connection import connected
from warehouse.dbt_run import DbtProject, ModelFailed, tests_of
from warehouse.device_tables import create_device_kinds
from warehouse.home import Home
from warehouse.page_cache import find_cache_folder, write_to_cache
from warehouse.placement import register
from warehouse.project import dbt_project_dir, project_sha256
from warehouse.raw_decisions import create_raw_decisions
from warehouse.raw_evidence import create_raw_evidence

RECORDED = ("dbt-core", "dbt-duckdb")
PERIOD = BillingPeriod("2026-10")
COMMENT = re.compile(r"^\s*/\*.*?\*/\s*", re.DOTALL)  # dbt writes the node before each statement
MAKING = ("create", "COPY")
SHORTENED = "..."  # dbt's log has it after a statement that loads a seed


class ReplayedProject(DbtProject):
    """A project whose models are built by the statements that dbt would run."""

    def build(self) -> list[Any]:
        statements = recorded(project_sha256())
        with connected(self._database) as connection:
            register(connection)
            for node, statement in statements["models"]:
                try:
                    connection.execute(statement)
                except duckdb.Error as error:
                    raise ModelFailed([node], str(error)) from error
            return [
                _result(test, connection.execute(test["statement"]).fetchall())
                for test in statements["tests"]
            ]


def _result(test: dict[str, str], found: list[tuple[Any, ...]]) -> Any:
    """The fields of dbt's result of a data test that the ledger reads."""
    [(failures, _, is_error)] = found
    node = SimpleNamespace(
        name=test["name"],
        resource_type="test",
        config=SimpleNamespace(meta={"evaluates": test["model"]}),
        depends_on=SimpleNamespace(nodes=[]),
    )
    return SimpleNamespace(node=node, status="fail" if is_error else "pass", failures=failures)


@cache
def recorded(sha256: str) -> dict[str, Any]:
    """The statements of the project with this hash; other processes wait for the first of them."""
    known_by = [sha256, str(dbt_project_dir()), Path(__file__).read_text(encoding="utf-8")]
    known_by += [version(name) for name in RECORDED]
    folder = find_cache_folder(Path(tempfile.gettempdir()))
    path = folder / f"{hashlib.sha256(json.dumps(known_by).encode()).hexdigest()[:32]}.statements"
    with Path(tempfile.gettempdir(), f"{path.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            write_to_cache(path, json.dumps(_record()).encode())
    statements: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return statements


def _record() -> dict[str, Any]:
    """The statements of dbt that build an empty home."""
    from dbt.cli.main import dbtRunner

    ran: list[tuple[str, str]] = []

    def listen(event: Any) -> None:
        if event.info.name == "SQLQuery":
            statement = COMMENT.sub("", event.data.sql).strip().removesuffix(SHORTENED)
            ran.append((event.data.node_info.unique_id, statement))

    decisions = decided()
    with tempfile.TemporaryDirectory() as folder:
        home = Home.create(Path(folder) / "home")
        home.build.mkdir()
        with connected(home.build / WORKING_NAME) as connection:
            create_raw_evidence(connection, home, PERIOD, None)
            create_device_kinds(connection, decisions, PERIOD.interval)
            create_raw_decisions(connection, PERIOD, decisions, frozenset())
        project = DbtProject(home.build / PROJECT_FOLDER, home.build / WORKING_NAME)
        with mock.patch("dbt.cli.main.dbtRunner", partial(dbtRunner, callbacks=[listen])):
            results = project.build()
    last = dict(ran)
    return {
        "models": [each for each in ran if each[1].startswith(MAKING)],
        "tests": [
            {"name": test.name, "model": test.model, "statement": last[result.node.unique_id]}
            for result in results
            for test in tests_of([result], {})
        ],
    }
