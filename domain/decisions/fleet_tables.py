"""Tables about the fleet: clusters, owners of namespaces, parties, products.

Put here: their columns, meanings, examples, and the checks of whole rows.
Not here: prices (`price_tables`), or exceptions to counting (`exception_tables`).
"""

from __future__ import annotations

from collections.abc import Iterable

from domain.decisions import cells
from domain.decisions.columns import (
    CLUSTER_ID,
    SIGNED,
    VALID_FROM,
    VALID_UNTIL,
    accept_any,
    dated,
)
from domain.decisions.rows import (
    Cluster,
    ClusterRole,
    Party,
    PartyRole,
    Product,
    Sources,
    TableName,
    Tenant,
)
from domain.decisions.table_form import DecisionColumn, DecisionTable, Objection
from domain.gpu.catalogue import Vendor
from domain.gpu.product_tables import MOST_SLOTS
from domain.tenant import BelongsTo

LONGEST_INTERVAL_SECONDS = 3_600
"""Facts are hourly, so each hour needs a sample."""

MOST_PAYMENT_DAYS = 3_650
"""Ten years; a longer term is a typing error."""

LARGEST_MEMORY_MIB = 10_000_000
"""Ten terabytes on one card: a hundred times the largest one sold."""


def _check_cluster(row: Cluster) -> Iterable[Objection]:
    yield from dated(row)
    if row.sample_interval_seconds < row.scrape_interval_seconds:
        yield Objection(
            "sample_interval_seconds",
            f"samples every {row.sample_interval_seconds} s of scrapes every "
            f"{row.scrape_interval_seconds} s",
            "a store cannot have more samples than were scraped: swap the two, or correct one",
        )


def _check_party(row: Party) -> Iterable[Objection]:
    yield from dated(row)
    if (row.role is PartyRole.CUSTOMER) != bool(row.tenant):
        seen = f"{row.tenant!r} for an {row.role.value}" if row.tenant else "nothing"
        yield Objection("tenant", seen, "name the tenant of a customer, and none of an issuer")


CLUSTERS = DecisionTable(
    TableName.CLUSTERS,
    "The measured clusters, with dates and sources.",
    Cluster,
    (
        CLUSTER_ID,
        DecisionColumn("cluster_name", cells.text(), "a name for display", "prod-eu"),
        VALID_FROM,
        VALID_UNTIL,
        DecisionColumn(
            "sources",
            cells.one_of(Sources),
            "both, samples (Thanos only) or lifecycle (collector only)",
            "both",
        ),
        DecisionColumn(
            "sample_interval_seconds",
            cells.whole_number(1, LONGEST_INTERVAL_SECONDS),
            "interval of the samples in the queried store",
            "300",
        ),
        DecisionColumn(
            "scrape_interval_seconds",
            cells.whole_number(1, LONGEST_INTERVAL_SECONDS),
            "interval of the scrapes in the cluster",
            "30",
        ),
        *SIGNED,
        DecisionColumn(
            "role",
            cells.optional(cells.one_of(ClusterRole)),
            "hub: where GpuBudgets of two clusters differ, those of this cluster count",
            "",
            may_be_absent=True,
        ),
    ),
    _check_cluster,
)

TENANTS = DecisionTable(
    TableName.TENANTS,
    "Exceptions to: each namespace is a tenant except `openshift-*`, `kube-*` and a few others.",
    Tenant,
    (
        DecisionColumn(
            "namespace", cells.namespace(), "the namespace, in all clusters", "shared-tools"
        ),
        DecisionColumn("belongs_to", cells.one_of(BelongsTo), "tenant or provider", "provider"),
        VALID_FROM,
        VALID_UNTIL,
        *SIGNED,
    ),
    dated,
)


PARTIES = DecisionTable(
    TableName.PARTIES,
    "The issuer of the invoices (one), and the customers of tenants.",
    Party,
    (
        DecisionColumn("role", cells.one_of(PartyRole), "issuer or customer", "customer"),
        DecisionColumn(
            "tenant",
            cells.optional(cells.namespace(), ""),
            "a customer's tenant; empty for the issuer",
            "team-a",
        ),
        DecisionColumn("name", cells.printed_text(), "the legal name", "Example Research Ltd"),
        DecisionColumn(
            "address",
            cells.optional(cells.printed_text(), ""),
            "on one line, its lines separated by ;",
            "1 Example Street; 12345 Exampletown; DE",
        ),
        DecisionColumn(
            "tax_id",
            cells.optional(cells.printed_text(), ""),
            "the VAT number or equivalent",
            "DE123456789",
        ),
        DecisionColumn(
            "email",
            cells.optional(cells.printed_text(), ""),
            "the contact for questions",
            "billing@example.org",
        ),
        VALID_FROM,
        VALID_UNTIL,
        *SIGNED,
        DecisionColumn(
            "tax_id_label",
            cells.optional(cells.printed_text(), ""),
            "the label of the tax ID; default: `Tax ID`",
            "VAT ID",
            may_be_absent=True,
        ),
        DecisionColumn(
            "tax_percent",
            cells.optional(cells.percent(), ""),
            "tax in percent of the net amount; the customer's, else the issuer's; "
            "empty in both: the invoice says that no tax is included",
            "19",
            may_be_absent=True,
        ),
        DecisionColumn(
            "tax_note",
            cells.optional(cells.printed_text(), ""),
            "a sentence about tax, such as a reverse charge; the customer's, else the issuer's",
            "",
            may_be_absent=True,
        ),
        DecisionColumn(
            "payment_days",
            cells.optional(cells.whole_number(0, MOST_PAYMENT_DAYS)),
            "days from the issue to the due date; the customer's, else the issuer's; "
            "empty in both: no due date",
            "30",
            may_be_absent=True,
        ),
        DecisionColumn(
            "payment_terms",
            cells.optional(cells.printed_text(), ""),
            "a sentence about payment; the customer's, else the issuer's",
            "30 days net",
            may_be_absent=True,
        ),
        DecisionColumn(
            "bank_details",
            cells.optional(cells.printed_text(), ""),
            "bank account, its lines separated by ;; the customer's (an account of the issuer for "
            "this customer), else the issuer's",
            "Example Bank; IBAN IE29 AIBK 9311 5212 3456 78; BIC AIBKIE2D",
            may_be_absent=True,
        ),
        DecisionColumn(
            "purchase_order",
            cells.optional(cells.printed_text(), ""),
            "a customer's number for the order, printed on its invoices",
            "PO-4711",
            may_be_absent=True,
        ),
    ),
    _check_party,
)

PRODUCTS = DecisionTable(
    TableName.PRODUCTS,
    "GPUs that the shipped product table does not have yet; one row per product string.",
    Product,
    (
        DecisionColumn(
            "product",
            cells.product(),
            "the value of the node label nvidia.com/gpu.product",
            "NVIDIA-X200",
        ),
        DecisionColumn("vendor", cells.one_of(Vendor), f"one of: {', '.join(Vendor)}", "nvidia"),
        DecisionColumn("gpu_class", cells.product(), "the class for prices", "X200"),
        DecisionColumn(
            "memory_mib",
            cells.optional(cells.whole_number(1, LARGEST_MEMORY_MIB)),
            "memory of a card",
            "196608",
        ),
        DecisionColumn(
            "compute_slots", cells.whole_number(1, MOST_SLOTS), "compute slots of a card", "7"
        ),
        DecisionColumn(
            "memory_slots", cells.whole_number(1, MOST_SLOTS), "memory slots of a card", "8"
        ),
        DecisionColumn(
            "mig_geometry",
            cells.optional(cells.text(), ""),
            "its geometry in the table of MIG profiles; empty: no MIG",
            "",
        ),
        *SIGNED,
    ),
    accept_any,
)
