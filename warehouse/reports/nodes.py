"""Node-hours for a programme owner: active nodes, their numbers of cards, and their pods.

Put here: the rows of one hour, and of every hour of a month.
Not here: how cards are counted (`dbt/`).
"""

from __future__ import annotations

from datetime import datetime

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from warehouse.reports.opened_facts import Facts, Row
from warehouse.sql_files import statement

CLUSTER_COLUMNS = (
    "cluster_name",
    "hour_started_at",
    "measurement",
    "active_worker_nodes",
    "active_worker_nodes_max",
    "sum_of_node_max",
    "sum_of_node_max_bound",
    "simultaneous_max",
    "how_known",
    "is_lower_bound",
    "gpu_capacity",
)
NODE_COLUMNS = (
    "cluster_name",
    "node_name",
    "gpu_count_max",
    "gpu_count_max_bound",
    "gpu_capacity",
    "how_known",
    "is_lower_bound",
    "pods",
)
MONTH_COLUMNS = (
    "cluster_name",
    "hour_started_at",
    "measurement",
    "node_name",
    "gpu_count_max",
    "gpu_count_max_bound",
    "how_known",
    "active_worker_nodes",
    "active_worker_nodes_max",
    "cluster_gpu_count_max",
    "cluster_gpu_count_max_bound",
    "cluster_how_known",
    "is_lower_bound",
)


def cluster_hour(facts: Facts, at: datetime) -> list[Row]:
    """One row per cluster that was expected in the hour; no numbers in hours that were not
    measured."""
    facts.require(Interval(at, at + HOUR))
    return facts.rows(statement(__file__, "cluster_hour"), {"at": at})


def node_hour(facts: Facts, at: datetime) -> list[Row]:
    """One row per node of the hour, with the pods that ran when most of it was in use."""
    facts.require(Interval(at, at + HOUR))
    return facts.rows(statement(__file__, "node_hour"), {"at": at})


def node_month(facts: Facts, period: BillingPeriod) -> list[Row]:
    """Every expected hour of a month; one that was not measured is marked and has no number."""
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    return facts.rows(statement(__file__, "node_month"), {"period": period.name})
