"""The named checks of a period: identities, prices, dbt's data tests, and the list of required
ones.

Put here: a check's name and result, and the checks without which no period is billable.
Not here: the statements (`sql/identities`), the suites (`suites`), or running a check (`run`).

An identity compares two sums that are equal by definition. A statement returns a place and both
sums of each of its identities, with a row for every cluster of the calendar, so that a month
without use is checked too. A required check that is absent, skipped, or evaluated no row counts as
failed. Tests of a table that can be empty (a month without use has no charges) are required only if
it has rows.

Results of dbt tests carry the hash of the facts. After another build they no longer count, so a
test of other facts is a missing check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from domain.findings import Check, Finding
from domain.money import price_nanos
from quality.finding_catalogue import CATALOGUE
from quality.suites import CHECK_NAMES as SUITE_NAMES
from warehouse.dbt_run import DbtTest
from warehouse.raw_schema import insert_rows

if TYPE_CHECKING:
    import duckdb

    from warehouse.build import BuildResult

# Identities ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class Comparison:
    """Two sums that must be equal."""

    place: str
    left_sum: int
    right_sum: int

    @property
    def is_equal(self) -> bool:
        return self.left_sum == self.right_sum


FINDING_OF: Mapping[str, str] = MappingProxyType(
    {
        "shares_add_up_to_capacity": "capacity_not_conserved",
        "no_node_gives_more_than_it_has": "more_allocated_than_capacity",
    }
)
"""The finding of a broken identity, if it is not `sums_differ`."""

IDENTITIES_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "node_shares": ("shares_add_up_to_capacity", "no_node_gives_more_than_it_has"),
        "charges": ("pod_seconds_add_up_to_charges", "pod_costs_add_up_to_charges"),
        "segments": ("no_pod_holds_a_device_twice", "no_pod_hour_leaves_its_hour"),
    }
)
"""A statement in `sql/identities`, and its identities in the order of its pairs of columns."""

IDENTITIES = tuple(name for names in IDENTITIES_OF.values() for name in names)


def check_of(name: str, comparisons: Sequence[Comparison]) -> Check:
    """The result of a named check."""
    return Check(name, len(comparisons), sum(not c.is_equal for c in comparisons))


def sum_findings(name: str, comparisons: Iterable[Comparison]) -> list[Finding]:
    """One finding per broken place."""
    kind = CATALOGUE[FINDING_OF.get(name, "sums_differ")]
    return [
        kind.finding(
            where=f"{name}: {broken.place}",
            seen=f"{broken.left_sum} and {broken.right_sum}, "
            f"a difference of {broken.left_sum - broken.right_sum}",
        )
        for broken in sorted(comparisons)
        if not broken.is_equal
    ]


# Prices, calculated again in Python ---------------------------------------------------------------

PRICED_EXACTLY = "charges_are_priced_exactly"


@dataclass(frozen=True, slots=True, order=True)
class PricedCharge:
    """A charge as the marts have it."""

    cluster_id: str
    rate_id: str
    device_seconds: int
    weight: Fraction
    rate_nanos_per_hour: int
    cost_nanos: int

    @property
    def is_exact(self) -> bool:
        """Without a rate the cost is 0; with one it is seconds × weight × rate, rounded once."""
        if not self.rate_id:
            return self.cost_nanos == 0
        expected = price_nanos(self.device_seconds, self.weight, self.rate_nanos_per_hour)
        return self.cost_nanos == expected


def check_prices(charges_by_cluster: Mapping[str, Sequence[PricedCharge]]) -> Check:
    """One row per cluster of the calendar and one per charge, so that an idle month counts too."""
    charges = [charge for found in charges_by_cluster.values() for charge in found]
    wrong = [charge for charge in charges if not charge.is_exact]
    clusters = {charge.cluster_id for charge in wrong}
    return Check(PRICED_EXACTLY, len(charges_by_cluster) + len(charges), len(wrong) + len(clusters))


# dbt's data tests ---------------------------------------------------------------------------------

DBT_COLUMNS = {
    "billing_period": "VARCHAR",
    "facts_sha256": "VARCHAR",
    "name": "VARCHAR",
    "model": "VARCHAR",
    "status": "VARCHAR",
    "evaluated_row_count": "BIGINT",
    "failed_row_count": "BIGINT",
}


def record_dbt_tests(connection: duckdb.DuckDBPyConnection, build: BuildResult) -> None:
    """Store the test results of a build, in the transaction of its facts."""
    write_dbt_tests(connection, build.period.name, build.facts_sha256, build.dbt_results.values())


def write_dbt_tests(
    connection: duckdb.DuckDBPyConnection,
    period: str,
    facts_sha256: str,
    tests: Iterable[DbtTest],
) -> None:
    """Replace the results of a period; the caller controls the transaction."""
    rows = [
        {
            "billing_period": period,
            "facts_sha256": facts_sha256,
            "name": test.name,
            "model": test.model,
            "status": test.status,
            "evaluated_row_count": test.evaluated_row_count,
            "failed_row_count": test.failed_row_count,
        }
        for test in sorted(tests, key=lambda test: test.name)
    ]
    spelled = ", ".join(f"{name} {kind}" for name, kind in DBT_COLUMNS.items())
    connection.execute("create schema if not exists quality")
    connection.execute(f"create table if not exists quality.dbt_tests ({spelled})")
    connection.execute("delete from quality.dbt_tests where billing_period = ?", [period])
    insert_rows(connection, "quality.dbt_tests", DBT_COLUMNS, rows)


def read_dbt_checks(
    connection: duckdb.DuckDBPyConnection, period: str, facts_sha256: str
) -> list[Check]:
    """The tests of exactly these facts; a test that did not pass has a failed row."""
    exists = connection.execute(
        "select count(*) from information_schema.tables "
        "where table_schema = 'quality' and table_name = 'dbt_tests'"
    ).fetchall()[0][0]
    if not exists:
        return []
    rows = connection.execute(
        "select name, status, evaluated_row_count, failed_row_count from quality.dbt_tests "
        "where billing_period = ? and facts_sha256 = ? order by name",
        [period, facts_sha256],
    ).fetchall()
    return [
        Check(f"dbt_{name}", evaluated, failed if status == "pass" else max(failed, 1))
        for name, status, evaluated, failed in rows
        if status != "skipped"
    ]


# Required checks ----------------------------------------------------------------------------------

ONE_STATUS_PER_HOUR = "every_expected_hour_has_one_status"

ALWAYS = (
    ONE_STATUS_PER_HOUR,
    PRICED_EXACTLY,
    *IDENTITIES,
    *SUITE_NAMES,
    "dbt_assert_every_expected_hour_has_coverage",
    "dbt_assert_no_closed_period_is_counted_again",
    "dbt_fct_coverage_has_one_row_per_key",
)

WITH_ROWS: Mapping[str, tuple[str, ...]] = {
    "fct_pod_hours": (
        "dbt_assert_a_pod_is_in_one_namespace_and_on_one_node",
        "dbt_assert_every_priced_pod_hour_has_one_price",
        "dbt_assert_no_allocation_is_counted_twice_at_an_instant",
        "dbt_assert_every_segment_is_within_its_hour",
        "dbt_assert_pods_workloads_and_tenants_have_equal_totals",
        "dbt_assert_tenants_add_up_to_the_cluster",
        "dbt_fct_pod_hours_has_one_row_per_key",
    ),
    "fct_charges": (
        "dbt_assert_a_charge_is_the_sum_of_its_pod_hours",
        "dbt_fct_charges_has_one_row_per_key",
    ),
    "fct_node_hours": (
        "dbt_assert_no_node_exceeds_its_capacity",
        "dbt_assert_nodes_add_up_to_clusters_and_clusters_to_the_fleet",
    ),
    "fct_node_share_hours": (
        "dbt_assert_shares_add_up_to_the_cards",
        "dbt_assert_node_shares_equal_the_shares_of_their_pods",
    ),
}


def required_checks(row_counts: Mapping[str, int]) -> tuple[str, ...]:
    """The required checks of a period whose tables have so many rows."""
    conditional = [
        name for table, names in WITH_ROWS.items() if row_counts[table] for name in names
    ]
    return (*ALWAYS, *conditional)
