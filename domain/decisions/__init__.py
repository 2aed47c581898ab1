"""What people decide, dated and signed: the CSV tables of a home, read, checked and asked.

Put here: the tables, their rows, what holds at an instant, and what is wrong with them.
Not here: files on a disk, or what a decision does to a figure.
"""

from domain.decisions.book import Decisions
from domain.decisions.errors import (
    DecisionsContradict,
    DecisionsRefused,
    NoRate,
    TwoRates,
    UnknownReference,
    UnknownTable,
    UnreadableTable,
    WrongCell,
    WrongColumns,
)
from domain.decisions.policies import DEFAULT_POLICIES, BillableState
from domain.decisions.price_changes import (
    PriceChange,
    PriceChangeNeedsSecondName,
    unsigned_since,
)
from domain.decisions.rates import Rates
from domain.decisions.reading import load_decisions, load_sealed_copy, read_decisions
from domain.decisions.references import unknown_to_catalogue
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
from domain.decisions.sealing import (
    ClosedDecisionEdited,
    Difference,
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
    "Difference",
    "GapTreatment",
    "NoRate",
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
    "Source",
    "Sources",
    "TableName",
    "Tenant",
    "TwoRates",
    "UnknownReference",
    "UnknownTable",
    "UnreadableTable",
    "WrongCell",
    "WrongColumns",
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
