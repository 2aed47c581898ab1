"""How long cards were withdrawn: intervals in which a node offered fewer cards than it has.

Put here: the durations of earlier changes of MIG layouts, for plans of new ones.
Not here: how withdrawn time is counted (`dbt/`).
"""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.reports.opened_facts import Facts
from warehouse.sql_files import statement


@dataclass(frozen=True, slots=True)
class Withdrawals:
    """The recorded withdrawals of one cluster."""

    count: int
    median_seconds: int = 0
    longest_seconds: int = 0


def withdrawals(facts: Facts, cluster_id: str) -> Withdrawals:
    """How often, and for how many seconds, nodes of a cluster had all of their cards withdrawn.

    Consecutive hours with withdrawn time count as one withdrawal. If only some cards of a node are
    withdrawn, their seconds count in proportion.
    """
    rows = facts.rows(statement(__file__, "withdrawals"), {"cluster_id": cluster_id})
    seconds = sorted(int(row["withdrawn_seconds"]) for row in rows)
    if not seconds:
        return Withdrawals(0)
    return Withdrawals(len(seconds), seconds[len(seconds) // 2], seconds[-1])
