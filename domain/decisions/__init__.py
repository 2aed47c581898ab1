"""The decisions of people, dated and with names: the CSV tables of a home.

Put here: the tables, their rows, the rows that hold at an instant, and their problems.
Not here: files on a disk, or the effect of a decision on a number.
"""

from domain.decisions.book import Decisions
from domain.decisions.consistency import unknown_to_catalogue
from domain.decisions.policies import DEFAULT_POLICIES, BillableState
from domain.decisions.problems import DecisionsContradict, DecisionsRefused, InvalidDecision
from domain.decisions.rates import (
    PriceChange,
    PriceChangeNeedsSecondName,
    Rates,
    unsigned_since,
)
from domain.decisions.reading import load_decisions, load_sealed_copy, read_decisions
from domain.decisions.rows import (
    WHOLE,
    AcceptedGap,
    Amendment,
    Budget,
    Cluster,
    GapTreatment,
    Outage,
    OutageTreatment,
    Party,
    PartyRole,
    Policy,
    PolicyName,
    Product,
    Rate,
    Row,
    Source,
    Sources,
    TableName,
    Tenant,
)
from domain.decisions.sealed_copies import (
    ClosedDecisionEdited,
    RowDifference,
    canonical_files,
    canonical_rows,
    differences,
    edited_since,
)
from domain.decisions.templates import template_files

__all__ = [
    "DEFAULT_POLICIES",
    "WHOLE",
    "AcceptedGap",
    "Amendment",
    "BillableState",
    "Budget",
    "ClosedDecisionEdited",
    "Cluster",
    "Decisions",
    "DecisionsContradict",
    "DecisionsRefused",
    "GapTreatment",
    "InvalidDecision",
    "Outage",
    "OutageTreatment",
    "Party",
    "PartyRole",
    "Policy",
    "PolicyName",
    "PriceChange",
    "PriceChangeNeedsSecondName",
    "Product",
    "Rate",
    "Rates",
    "Row",
    "RowDifference",
    "Source",
    "Sources",
    "TableName",
    "Tenant",
    "canonical_files",
    "canonical_rows",
    "differences",
    "edited_since",
    "load_decisions",
    "load_sealed_copy",
    "read_decisions",
    "template_files",
    "unknown_to_catalogue",
    "unsigned_since",
]
