"""All the decision tables, by name.

Put here: the list of tables.
Not here: their columns (`fleet_tables`, `price_tables`, `exception_tables`).
"""

from __future__ import annotations

from domain.decisions.exception_tables import ACCEPTED_GAPS, AMENDMENTS, OUTAGES
from domain.decisions.fleet_tables import CLUSTERS, PARTIES, PRODUCTS, TENANTS
from domain.decisions.price_tables import BUDGETS, POLICIES, RATES
from domain.decisions.table_form import DecisionTable

TABLES: tuple[DecisionTable, ...] = (
    CLUSTERS,
    TENANTS,
    RATES,
    BUDGETS,
    OUTAGES,
    ACCEPTED_GAPS,
    POLICIES,
    PARTIES,
    PRODUCTS,
    AMENDMENTS,
)

TABLE_BY_FILE = {table.file: table for table in TABLES}
TABLE_BY_NAME = {table.name: table for table in TABLES}
