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
from domain.decisions.table_form import Column, Table

OUTAGES = Table(
    TableName.OUTAGES,
    "Times in which the provider could not serve; what was used in them is credited.",
    Outage,
    (
        ANY_CLUSTER_ID,
        Column("started_at", cells.instant(), "its first instant, UTC", "2026-10-14T12:00:00Z"),
        Column(
            "ended_at",
            cells.optional(cells.instant()),
            "the first instant after it; empty while it lasts",
            "2026-10-14T21:00:00Z",
        ),
        Column("treatment", cells.one_of(OutageTreatment), "credit", "credit"),
        *SIGNED,
    ),
    dated,
)

ACCEPTED_GAPS = Table(
    TableName.ACCEPTED_GAPS,
    "Time without complete evidence, and the accepted treatment.",
    AcceptedGap,
    (
        CLUSTER_ID,
        Column("source", cells.one_of(Source), "whose evidence is missing", "thanos"),
        Column("started_at", cells.instant(), "its first instant, UTC", "2026-10-09T14:00:00Z"),
        Column("ended_at", cells.instant(), "the first instant after it", "2026-10-09T16:00:00Z"),
        Column(
            "treatment",
            cells.one_of(GapTreatment),
            "bill_lifecycle, bill_samples, bill_nothing or waive",
            "bill_lifecycle",
        ),
        *SIGNED,
        Column(
            "pod_uid",
            cells.optional(cells.identifier(), ""),
            "one pod only; empty is every pod of the cluster",
            "",
            may_be_absent=True,
        ),
    ),
    dated,
)


AMENDMENTS = Table(
    TableName.AMENDMENTS,
    "Leave to recount a closed period with a table as it stands now, instead of its sealed copy.",
    Amendment,
    (
        Column("billing_period", cells.billing_period(), "the closed month", "2026-09"),
        Column(
            "amended_table",
            cells.one_of(TableName),
            "the table whose present rows are used",
            "tenants",
        ),
        *SIGNED,
        second_name("always", always=True),
    ),
    two_people,
)
