"""The rules by which two sources decide a segment of an allocation, as the models join them.

Put here: reading the table `reconciliation_rules`, and finding the row that decided a segment.
Not here: the kind of a segment (`int_allocation_segments`), or its check
(`quality.reconciliation`).
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache

from warehouse.project import seed_text


@dataclass(frozen=True, slots=True)
class ReconciliationRule:
    """One row of the table; each field is the cell of the column of its name."""

    segment_kind: str
    allocation_state: str
    samples: str
    lifecycle: str
    method: str
    method_reason: str
    billed: str
    in_lifecycle: str
    in_samples: str
    limit_name: str
    blocks_close: str
    finding: str
    finding_text: str


@cache
def reconciliation_rules() -> tuple[ReconciliationRule, ...]:
    text = seed_text("reconciliation_rules")
    return tuple(ReconciliationRule(**row) for row in csv.DictReader(io.StringIO(text)))


@cache
def rules_for(method: str, method_reason: str) -> tuple[ReconciliationRule, ...]:
    """The rows that lead to this method for this reason: more than one where they bill the same."""
    return tuple(
        rule
        for rule in reconciliation_rules()
        if (rule.method, rule.method_reason) == (method, method_reason)
    )
