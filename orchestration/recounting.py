"""A recount from end to end: built beside, checked where it lies, compared with what was billed.

Put here: which stage is called with what, and in which order.
Not here: the differences and recording them (`billing.recount`), options (`orchestration.cli`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from domain.billing_period import BillingPeriod
from domain.decisions import Decisions
from orchestration.open_home import OpenHome, holder
from orchestration.steps import have_derived_files

if TYPE_CHECKING:
    from billing.recount import RecountResult
    from domain.clock import Clock
    from domain.findings import CheckResult
    from warehouse.build import BuildResult

Progress = Callable[[int, int, str], None]


def recount(
    opened: OpenHome,
    period: BillingPeriod,
    *,
    dry_run: bool = True,
    progress: Progress | None = None,
) -> RecountResult:
    """Count a closed period again beside its facts, with the decisions sealed at its close."""
    from billing.recount import recount_decisions, recount_period
    from warehouse.build import build_period

    have_derived_files(opened, period, progress)
    counted_with = recount_decisions(opened.home, period, opened.decisions)
    build = build_period(
        opened.home,
        period,
        counted_with.decisions,
        closed_periods=opened.record.closed_periods(),
        destination=opened.home.build / f"{period.name}.recount.duckdb",
        progress=progress,
    )
    return recount_period(
        opened.home,
        period,
        counted_with,
        build.build_path,
        lambda: _check_beside(build, counted_with.decisions, opened.clock),
        opened.clock,
        dry_run=dry_run,
        holder=holder(),
    )


def _check_beside(build: BuildResult, decisions: Decisions, clock: Clock) -> CheckResult:
    """Check a build where it lies; what was checked of the warehouse stays as it is."""
    from quality.dbt_checks import record_dbt_tests
    from quality.run import check_facts
    from warehouse.connection import connected

    with connected(build.build_path) as connection:
        record_dbt_tests(connection, build)
        return check_facts(connection, build.period, decisions, clock)
