"""Decision tables with one line per row, for tests that do not concern their columns.

Put here: the headers as in users' homes, written out, and a signature.
Not here: the meaning of the tables.
"""

from __future__ import annotations

from domain.decisions import Decisions, load_decisions

SIGNED = "agreed,Ada,2026-09-15"

HEADERS = {
    "clusters": "cluster_id,cluster_name,valid_from,valid_until,sources,"
    "sample_interval_seconds,scrape_interval_seconds,reason,decided_by,decided_on,role",
    "tenants": "namespace,belongs_to,valid_from,valid_until,reason,decided_by,decided_on",
    "rates": "cluster_id,gpu_class,mig_profile,currency,rate_per_hour,valid_from,valid_until,"
    "reason,decided_by,decided_on,second_name",
    "budgets": "tenant,billing_period,currency,amount,reason,decided_by,decided_on,workload,label,"
    "actual_steps,forecast_steps",
    "outages": "cluster_id,started_at,ended_at,treatment,reason,decided_by,decided_on,node_name,"
    "pod_uid",
    "accepted_gaps": "cluster_id,source,started_at,ended_at,treatment,reason,decided_by,"
    "decided_on,pod_uid",
    "policies": "policy,version,value,valid_from,valid_until,reason,decided_by,decided_on",
    "parties": "role,tenant,name,address,tax_id,email,valid_from,valid_until,reason,decided_by,"
    "decided_on,tax_id_label,tax_percent,tax_note,payment_days,payment_terms,bank_details,"
    "purchase_order",
    "products": "product,vendor,gpu_class,memory_mib,compute_slots,memory_slots,mig_geometry,"
    "reason,decided_by,decided_on",
    "amendments": "billing_period,amended_table,reason,decided_by,decided_on,second_name",
}
"""The columns in users' homes; a change here changes the files of all users."""

SIGNED_LAST = {"clusters", "tenants", "budgets", "outages", "policies", "parties", "products"}

EMPTY_LAST = {"clusters": 1, "budgets": 4, "outages": 2, "parties": 7}
"""Columns after the signature, which the rows of tests leave empty."""


def table(name: str, *rows: str) -> dict[str, str]:
    """One file. A signature at the end of a row may be omitted; `|` stands for it elsewhere."""
    lines = [HEADERS[name]]
    for row in rows:
        full = f"{row},|" if name in SIGNED_LAST and "|" not in row else row
        lines.append(full.replace("|", SIGNED) + "," * EMPTY_LAST.get(name, 0))
    return {f"{name}.csv": "\n".join(lines) + "\n"}


def decided(*tables: dict[str, str]) -> Decisions:
    files: dict[str, str] = {}
    for one in tables:
        files |= one
    return load_decisions(files)
