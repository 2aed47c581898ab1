"""One billing period, rebuilt whole: evidence and decisions in, facts out, switched in at once.

Put here: the order of the steps, and the refusal to count a closed period again.
Not here: any single step (`warehouse.raw_evidence`, `device_tables`, `raw_decisions`, `dbt_run`,
`switch`), or the content of a close (`billing`).

A period is counted with the decisions that are valid in it; its close seals copies of the same. A
decision for a later time is no part of its facts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from domain.errors import OtherVersionNeeded, WrongUse
from warehouse.connection import connected
from warehouse.content_hash import mart_names, period_sha256
from warehouse.dbt_run import DbtProject, DbtTest, tested_models, tests_of
from warehouse.derived_files import lock_derived_files
from warehouse.device_tables import create_device_kinds
from warehouse.engine import DUCKDB, ON_DUCKDB, Engine
from warehouse.home import Home
from warehouse.raw_decisions import create_raw_decisions
from warehouse.raw_evidence import HourPredicate, create_raw_evidence
from warehouse.spark_build import computed_on_spark
from warehouse.store import StoreUnusable
from warehouse.switch import switch_in
from warehouse.switched import SwitchedPeriod

if TYPE_CHECKING:
    from dbt.artifacts.schemas.results import NodeResult

Progress = Callable[[int, int, str], None]

WORKING_NAME = "facts.duckdb"
PROJECT_FOLDER = "dbt"
SPARK_PROJECT_FOLDER = "dbt-spark"
STEP_COUNT = 4


class PeriodIsClosed(WrongUse):
    """A closed period was to be rebuilt in place."""

    code = "CLOSE-004"

    def __init__(self, period: BillingPeriod) -> None:
        super().__init__(
            where=f"period {period}",
            seen="it is closed, and its facts were sealed with its invoices",
            why="an issued invoice never changes; a later difference becomes a correction",
            remedy=f"count it beside the sealed one: gpu-ledger recount {period}",
        )


class SealedFactsDiffer(OtherVersionNeeded):
    """A closed period, counted again from its sealed evidence, has other facts than were sealed."""

    def __init__(self, period: BillingPeriod, sealed: SealedFacts, found: str) -> None:
        other = "; ".join(sealed.other_versions) or "the same versions, so other models"
        super().__init__(
            where=f"period {period}",
            seen=f"its facts were sealed with the hash {sealed.facts_sha256[:12]}…, and the "
            f"sealed evidence now gives {found[:12]}… ({other})",
            why="final amounts must not change; the warehouse was not changed",
            remedy=f"run `gpu-ledger refresh --period {period}` once with gpu-ledger "
            f"{sealed.code_version} as it was at the close; its result stays; "
            f"`gpu-ledger recount {period}` shows the difference",
        )


@dataclass(frozen=True, slots=True)
class SealedFacts:
    """The sealed evidence of a closed period, and the hash that its facts must have."""

    facts_sha256: str
    is_in_basis: HourPredicate
    code_version: str
    other_versions: tuple[str, ...]  # components with another version than at the close, as text


@dataclass(frozen=True, slots=True)
class BuildResult:
    """The result of a build."""

    period: BillingPeriod
    build_path: Path
    facts_sha256: str
    row_counts: Mapping[str, int]
    dbt_results: Mapping[str, DbtTest]

    @property
    def failed_tests(self) -> list[DbtTest]:
        return [test for test in self.dbt_results.values() if not test.passed]


Also = Callable[["duckdb.DuckDBPyConnection", BuildResult], None]


def project_of(home: Home, engine: Engine = ON_DUCKDB) -> DbtProject:
    """The dbt project, as every build of this home runs it."""
    loads = engine.kind != DUCKDB
    return DbtProject(home.build / PROJECT_FOLDER, home.build / WORKING_NAME, loads=loads)


def build_models(home: Home, engine: Engine) -> list[NodeResult]:
    """Compute every model into the working file, and run every data test there."""
    project, working = project_of(home, engine), home.build / WORKING_NAME
    if engine.kind == DUCKDB:
        return project.build()
    project.load_product_facts()
    with computed_on_spark(home, engine, working, home.build / SPARK_PROJECT_FOLDER):
        return project.build()


def build_period(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    *,
    closed_periods: frozenset[str],
    destination: Path | None = None,
    sealed: SealedFacts | None = None,
    engine: Engine = ON_DUCKDB,
    also: Also | None = None,
    progress: Progress | None = None,
) -> BuildResult:
    """Build a period and switch it in; with a `destination`, leave the build there instead.

    A closed period may only be built beside (`recount`), or as it was `sealed`: with exactly the
    sealed facts, or not at all. In the transaction of the switch `also` writes further tables about
    these facts.
    """
    if destination is None and sealed is None and period.name in closed_periods:
        raise PeriodIsClosed(period)
    # Built beside a closed period, or as it was sealed, the models must not refuse it.
    asked = _Asked(
        period,
        decisions.valid_in(period.interval),
        closed_periods - {period.name} if destination or sealed else closed_periods,
        destination,
        sealed,
        engine,
        also,
    )
    with lock_derived_files(home.runs):
        try:
            return _build(home, asked, progress or _silent)
        except StoreUnusable:
            _discard(home.build / WORKING_NAME)  # it would keep the disk full
            raise


@dataclass(frozen=True, slots=True)
class _Asked:
    """The period, its inputs, and the destination of the build."""

    period: BillingPeriod
    decisions: Decisions
    refused: frozenset[str]
    destination: Path | None
    sealed: SealedFacts | None
    engine: Engine
    also: Also | None


def _build(home: Home, asked: _Asked, report: Progress) -> BuildResult:
    period, working = asked.period, home.build / WORKING_NAME
    _discard(working)
    home.build.mkdir(parents=True, exist_ok=True)
    report(0, STEP_COUNT, "collecting evidence and decisions")
    _create_raw(working, home, asked)
    report(1, STEP_COUNT, "counting and testing")
    results = build_models(home, asked.engine)
    report(2, STEP_COUNT, "hashing")
    row_counts, facts_sha256 = _content(working, period)
    if asked.sealed is not None and facts_sha256 != asked.sealed.facts_sha256:
        raise SealedFactsDiffer(period, asked.sealed, facts_sha256)
    looked_at = _tested_row_counts(working, tested_models(results))
    tests = {test.name: test for test in tests_of(results, looked_at)}
    _checkpoint(working)
    build_path = asked.destination or home.build / f"{period.name}.duckdb"
    _discard(build_path)
    working.replace(build_path)
    build = BuildResult(period, build_path, facts_sha256, row_counts, tests)
    report(3, STEP_COUNT, "switching in")
    if asked.destination is None:
        _switch_in(home, build, asked.also)
    report(STEP_COUNT, STEP_COUNT, "done")
    return build


def _checkpoint(path: Path) -> None:
    """Write everything into the file, which is renamed without its log.

    When a commit or a close cannot write the file, DuckDB leaves the rest in the log and says
    nothing; here it raises.
    """
    with connected(path) as connection:
        connection.execute("force checkpoint")


def _switch_in(home: Home, build: BuildResult, also: Also | None) -> None:
    switched = SwitchedPeriod(build.facts_sha256, build.row_counts)
    beside = (lambda connection: also(connection, build)) if also else None
    switch_in(home, build.build_path, build.period, switched, beside)


def _create_raw(path: Path, home: Home, asked: _Asked) -> None:
    period, decisions = asked.period, asked.decisions
    with connected(path) as connection:
        create_raw_evidence(
            connection, home, period, asked.sealed.is_in_basis if asked.sealed else None
        )
        create_device_kinds(connection, decisions, period.interval)
        create_raw_decisions(connection, period, decisions, asked.refused)


def _content(path: Path, period: BillingPeriod) -> tuple[dict[str, int], str]:
    with connected(path, read_only=True) as connection:
        counts = _row_counts(connection, mart_names(connection))
        return counts, period_sha256(connection, period.name)


def _tested_row_counts(path: Path, names: Collection[str]) -> dict[str, int]:
    """Rows of the models that data tests check."""
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
