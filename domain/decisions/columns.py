"""The columns and checks that many decision tables share.

Put here: reason, names, validity and cluster; and their checks.
Not here: whole tables (`fleet_tables`, `price_tables`, `exception_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable

from domain.decisions import cells
from domain.decisions.rows import AcceptedGap, Amendment, DatedRow, Outage, Rate, Row
from domain.decisions.table_form import DecisionColumn, Objection
from domain.errors import BadInput

SIGNED = (
    DecisionColumn(
        "reason",
        cells.text(),
        "the reason, as text; printed with each use of the row",
        "agreed for 2026",
    ),
    DecisionColumn("decided_by", cells.text(), "the person who decided", "Ada Example"),
    DecisionColumn("decided_on", cells.day(), "the day of the decision", "2026-09-15"),
)
VALID_FROM = DecisionColumn(
    "valid_from", cells.instant(), "start (inclusive), UTC; a date means midnight", "2026-10-01"
)
VALID_UNTIL = DecisionColumn(
    "valid_until",
    cells.optional(cells.instant()),
    "end (exclusive), UTC; empty: no end",
    "",
)
CLUSTER_ID = DecisionColumn(
    "cluster_id",
    cells.identifier(),
    "the UID of the cluster's kube-system namespace (clusterID in Thanos)",
    "6f0b8e7c-2f1d-4a53-9a55-0d8f6c1e2b3a",
)
ANY_CLUSTER_ID = DecisionColumn(
    "cluster_id", cells.optional(cells.identifier(), ""), "the cluster; empty: all clusters", ""
)


def second_name(needed_for: str, *, always: bool) -> DecisionColumn:
    cell = cells.text() if always else cells.optional(cells.text(), "")
    meaning = f"a second person who agrees; required {needed_for}"
    return DecisionColumn("second_name", cell, meaning, "Grace Example", may_be_absent=not always)


def accept_any(_: Row) -> Iterable[Objection]:
    return ()


def dated(row: DatedRow | Outage | AcceptedGap) -> Iterable[Objection]:
    try:
        row.validity  # noqa: B018 - reading it checks the row
    except BadInput as error:
        until = "valid_until" if isinstance(row, DatedRow) else "ended_at"
        yield Objection(until, error.seen, error.remedy)


def two_people(row: Rate | Amendment) -> Iterable[Objection]:
    if row.second_name.casefold() == row.decided_by.casefold():
        seen = f"{row.second_name!r} signed twice"
        yield Objection("second_name", seen, "let another person agree, and enter that name")
