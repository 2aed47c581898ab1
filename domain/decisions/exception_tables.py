"""Tables of exceptions to billing: outages, accepted gaps, amendments.

Put here: their columns, meanings and examples.
Not here: when a gap blocks a close (`quality`), or how a correction is made (`billing`).
"""

from __future__ import annotations

from domain.decisions import cells
from domain.decisions.columns import (
    ANY_CLUSTER_ID,
    CLUSTER_ID,
    SIGNED,
    dated,
    second_name,
    two_people,
)
from domain.decisions.rows import (
    AcceptedGap,
    Amendment,
    GapTreatment,
    Outage,
    OutageTreatment,
    Source,
    TableName,
)
from domain.decisions.table_form import DecisionColumn, DecisionTable

OUTAGES = DecisionTable(
    TableName.OUTAGES,
    "Times of failed service; usage in them is credited. `gpu-ledger health` proposes rows.",
    Outage,
    (
        ANY_CLUSTER_ID,
        DecisionColumn(
            "started_at", cells.instant(), "its first instant, UTC", "2026-10-14T12:00:00Z"
        ),
        DecisionColumn(
            "ended_at",
            cells.optional(cells.instant()),
            "its end (exclusive), UTC; empty while it lasts",
            "2026-10-14T21:00:00Z",
        ),
        DecisionColumn("treatment", cells.one_of(OutageTreatment), "credit", "credit"),
        *SIGNED,
        DecisionColumn(
            "node_name",
            cells.optional(cells.identifier(), ""),
            "one node only; empty: all nodes",
            "",
            may_be_absent=True,
        ),
        DecisionColumn(
            "pod_uid",
            cells.optional(cells.identifier(), ""),
            "one pod only; empty: all pods",
            "",
            may_be_absent=True,
        ),
    ),
    dated,
)

ACCEPTED_GAPS = DecisionTable(
    TableName.ACCEPTED_GAPS,
    "Time without complete evidence, and the accepted treatment.",
    AcceptedGap,
    (
        CLUSTER_ID,
        DecisionColumn("source", cells.one_of(Source), "the source without evidence", "thanos"),
        DecisionColumn(
            "started_at", cells.instant(), "its first instant, UTC", "2026-10-09T14:00:00Z"
        ),
        DecisionColumn(
            "ended_at", cells.instant(), "its end (exclusive), UTC", "2026-10-09T16:00:00Z"
        ),
        DecisionColumn(
            "treatment",
            cells.one_of(GapTreatment),
            "bill_lifecycle, bill_samples, bill_nothing or waive",
            "bill_lifecycle",
        ),
        *SIGNED,
        DecisionColumn(
            "pod_uid",
            cells.optional(cells.identifier(), ""),
            "one pod only; empty: all pods of the cluster",
            "",
            may_be_absent=True,
        ),
    ),
    dated,
)


AMENDMENTS = DecisionTable(
    TableName.AMENDMENTS,
    "Permission to recount a closed period with a table's present rows instead of the sealed ones.",
    Amendment,
    (
        DecisionColumn("billing_period", cells.billing_period(), "the closed month", "2026-09"),
        DecisionColumn(
            "amended_table",
            cells.one_of(TableName),
            "the table to use in its present version",
            "tenants",
        ),
        *SIGNED,
        second_name("always", always=True),
    ),
    two_people,
)
