"""The checks without which no period is billable, by name.

Put here: the list, and on what it depends.
Not here: the checks themselves (`conservation`, `pricing`, `suites`, dbt's data tests).

A check of this list that is absent, skipped, or looked at no row counts as failed: a suite that
lost a test is as green as one that passed it. Tests of a table that is empty for a good reason (a
month without use has no charges) are required only when it has rows; that it is empty for a good
reason is what the other checks say, which look at every cluster of the calendar.
"""

from __future__ import annotations

from collections.abc import Mapping

from quality.conservation import IDENTITIES
from quality.pricing import PRICED_EXACTLY
from quality.suites.runner import CHECK_NAMES as SUITE_NAMES

ONE_VERDICT_PER_HOUR = "every_expected_hour_has_one_status"

ALWAYS = (
    ONE_VERDICT_PER_HOUR,
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
        "dbt_assert_every_pod_hour_of_a_price_has_it_once",
        "dbt_assert_no_allocation_is_counted_twice_at_an_instant",
        "dbt_assert_no_piece_leaves_its_hour",
        "dbt_assert_pods_workloads_and_tenants_come_to_one_total",
        "dbt_assert_tenants_add_up_to_the_cluster",
        "dbt_fct_pod_hours_has_one_row_per_key",
    ),
    "fct_charges": (
        "dbt_assert_a_charge_is_the_sum_of_its_pod_hours",
        "dbt_fct_charges_has_one_row_per_key",
    ),
    "fct_node_hours": (
        "dbt_assert_a_node_is_never_busier_than_its_capacity",
        "dbt_assert_nodes_add_up_to_clusters_and_clusters_to_the_fleet",
    ),
    "fct_node_share_hours": (
        "dbt_assert_shares_add_up_to_the_cards",
        "dbt_assert_what_a_node_gives_is_what_its_pods_have",
    ),
}


def required_checks(row_counts: Mapping[str, int]) -> tuple[str, ...]:
    """What is required of a period whose tables have so many rows."""
    conditional = [
        name for table, names in WITH_ROWS.items() if row_counts[table] for name in names
    ]
    return (*ALWAYS, *conditional)
