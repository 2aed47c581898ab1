"""One billing period, rebuilt whole: evidence and decisions in, facts out, switched in at once.

Put here: the order of the steps, and the refusal to rebuild a closed period.
Not here: any single step (`warehouse.raw`, `classify`, `raw_decisions`, `dbt_run`, `switch`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from domain.errors import WrongUse
from warehouse.cards import answer_card_questions
from warehouse.classify import catalogue_of, create_device_kinds
from warehouse.connection import connected
from warehouse.content import mart_names, period_sha256
from warehouse.dbt_run import DbtProject, DbtTest, tested_models, tests_of
from warehouse.derived import alone_with
from warehouse.home import Home
from warehouse.raw import create_raw_evidence
from warehouse.raw_decisions import create_raw_decisions
from warehouse.switch import switch_in
from warehouse.switched import Switched, note

if TYPE_CHECKING:
    import duckdb

Progress = Callable[[int, int, str], None]

WORKING_NAME = "facts.duckdb"
PROJECT_FOLDER = "dbt"
STEP_COUNT = 5


class PeriodIsClosed(WrongUse):
    """A closed period was to be rebuilt in place."""

    code = "WARE-006"

    def __init__(self, period: BillingPeriod) -> None:
        super().__init__(
            where=f"period {period}",
            seen="it is closed, and its facts were sealed with its invoices",
            why="an issued invoice never changes; what is found later becomes a correction",
            remedy=f"count it beside the sealed one: gpu-ledger recount {period}",
        )


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build came to."""

    period: BillingPeriod
    build_path: Path
    facts_sha256: str
    row_counts: Mapping[str, int]
    dbt_results: Mapping[str, DbtTest]

    @property
    def failed_tests(self) -> list[DbtTest]:
        return [test for test in self.dbt_results.values() if not test.passed]


def project_of(home: Home) -> DbtProject:
    """The dbt project, as every build of this home runs it."""
    return DbtProject(home.build / PROJECT_FOLDER, home.build / WORKING_NAME)


def build_period(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    *,
    closed_periods: frozenset[str],
    destination: Path | None = None,
    progress: Progress | None = None,
) -> BuildResult:
    """Build a period and switch it in; with a `destination`, leave the build there instead.

    A closed period may only be built beside (`recount`), with the decisions sealed at its close.
    """
    if destination is None and period.name in closed_periods:
        raise PeriodIsClosed(period)
    with alone_with(home.runs):
        return _build(home, period, decisions, closed_periods, destination, progress or _silent)


def _build(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    closed_periods: frozenset[str],
    destination: Path | None,
    report: Progress,
) -> BuildResult:
    working = home.build / WORKING_NAME
    _discard(working)
    home.build.mkdir(parents=True, exist_ok=True)
    # Built beside a closed period, the models must not refuse it.
    refused = closed_periods if destination is None else closed_periods - {period.name}
    report(0, STEP_COUNT, "collecting evidence and decisions")
    _create_raw(working, home, period, decisions, refused)
    report(1, STEP_COUNT, "counting")
    project = project_of(home)
    project.parse()
    project.run_models(lambda: _answer(working, decisions))
    report(2, STEP_COUNT, "testing")
    results = project.run_tests()
    report(3, STEP_COUNT, "hashing")
    row_counts, facts_sha256 = _content(working, period)
    looked_at = _rows_looked_at(working, tested_models(results))
    build_path = destination or home.build / f"{period.name}.duckdb"
    _discard(build_path)
    working.replace(build_path)
    report(4, STEP_COUNT, "switching in")
    if destination is None:
        switch_in(home.warehouse_path, build_path, period)
        note(home, period.name, Switched(facts_sha256, row_counts))
    tests = {test.name: test for test in tests_of(results, looked_at)}
    report(STEP_COUNT, STEP_COUNT, "done")
    return BuildResult(period, build_path, facts_sha256, row_counts, tests)


def _create_raw(
    path: Path,
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    closed_periods: frozenset[str],
) -> None:
    with connected(path) as connection:
        create_raw_evidence(connection, home, period)
        create_device_kinds(connection, decisions, period.interval)
        create_raw_decisions(connection, period, decisions, closed_periods)


def _answer(path: Path, decisions: Decisions) -> None:
    with connected(path) as connection:
        answer_card_questions(connection, catalogue_of(decisions))


def _content(path: Path, period: BillingPeriod) -> tuple[dict[str, int], str]:
    with connected(path, read_only=True) as connection:
        counts = _row_counts(connection, mart_names(connection))
        return counts, period_sha256(connection, period.name)


def _rows_looked_at(path: Path, names: Collection[str]) -> dict[str, int]:
    """Rows of whatever data tests are about; most are facts, some are what facts are made of."""
    with connected(path, read_only=True) as connection:
        return _row_counts(connection, names)


def _row_counts(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> dict[str, int]:
    found = connection.execute(
        "select table_name, table_schema from information_schema.tables "
        "where table_catalog = current_database() and table_schema not in ('raw', 'main') "
        "order by all"
    ).fetchall()
    counts = {}
    for name, schema in found:
        if name in names:
            row = connection.execute(f"select count(*) from {schema}.{name}").fetchone()
            counts[name] = int(row[0]) if row else 0
    return counts


def _discard(path: Path) -> None:
    for leftover in (path, path.with_name(path.name + ".wal")):
        leftover.unlink(missing_ok=True)


def _silent(done: int, total: int, what: str) -> None:
    del done, total, what
