"""The health of GPUs: problems of devices and nodes, affected pods, proposed credits.

Put here: the rows of a month, for the command line and the portal.
Not here: the definition of a problem (`dbt/models/marts/fct_gpu_health.sql`).
"""

from __future__ import annotations

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval
from warehouse.reports.opened_facts import Facts, Row
from warehouse.sql_files import statement

PROBLEM_COLUMNS = (
    "cluster_name",
    "node_name",
    "device",
    "problem",
    "observed",
    "first_hour_started_at",
    "hour_count",
    "tenants",
    "pods",
    "meaning",
)
CREDIT_COLUMNS = ("tenant", "cluster_name", "reason", "hour_count", "credit_nanos", "currency")
OUTAGE_COLUMNS = (
    *("cluster_id", "started_at", "ended_at", "treatment"),
    *("reason", "decided_by", "decided_on", "node_name", "pod_uid"),
)
OWNER_COLUMNS = (
    "tenant",
    "workload_kind",
    "workload_name",
    "status",
    "problem_hours",
    "device_seconds",
    "idle_seconds",
    "cost_nanos",
    "idle_nanos",
    "currency",
)
MEANINGS = {
    "xid": "the driver reported an error",
    "row_remap_failed": "broken memory that cannot be replaced: exchange the card",
    "rows_remapped": "broken memory was replaced",
    "ecc_uncorrected": "memory errors that could not be corrected",
    "throttled": "the clock was held down by heat, power or a fault",
    "hot": "90 °C or more",
    "nvlink_errors": "errors on links between cards",
    "operator_not_ready": "a part of the GPU operator was not ready, in per cent of the samples",
    "unhealthy_devices": "devices in the capacity that were not allocatable, in device-seconds",
    "node_not_ready": "the node's condition Ready was not true, in seconds",
    "node_condition": "a condition of the node was true that is false on a healthy one, in seconds",
}
XIDS = {
    13: "exception of the program's kernel",
    31: "memory page fault of the program",
    43: "the program's channel was reset",
    45: "cleanup after an error before",
    48: "double-bit ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "memory row remapping",
    64: "memory row remapping failed",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU system processor timed out",
    120: "the GPU system processor failed",
    140: "unrecovered ECC error",
}


def problems(facts: Facts, period: BillingPeriod, tenant: str = "") -> list[Row]:
    """One row per device or node and problem of a month, with the affected pods.

    Of one tenant: only problems that affected it, and only its own pods.
    """
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    rows = facts.rows(
        statement(__file__, "health_problems"), {"period": period.name, "tenant": tenant}
    )
    return [
        {**row, "meaning": meaning(row["problem"], row["observed"], row["component"])}
        for row in rows
    ]


def meaning(problem: str, observed: int, component: str = "") -> str:
    if problem == "xid" and observed in XIDS:
        return XIDS[observed]
    return f"{component}: {MEANINGS[problem]}" if component else MEANINGS[problem]


def credits_proposed(facts: Facts, period: BillingPeriod) -> list[Row]:
    """The cost of pods in the hours in which the provider's hardware failed them, by tenant.

    Only a proposal: a credit is a decision of people.
    """
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    return facts.rows(statement(__file__, "health_credits"), {"period": period.name})


def outages_proposed(facts: Facts, period: BillingPeriod, tenant: str = "") -> list[Row]:
    """Rows of decisions/outages.csv that would give these credits, without an approver.

    A device's fault is an outage of its pod, a node's fault one of the node. Hours without a pause
    are one row.
    """
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    found = facts.rows(
        statement(__file__, "health_outages"), {"period": period.name, "tenant": tenant}
    )
    rows: list[Row] = []
    reasons: list[str] = []
    scope = ("cluster_id", "node_name", "pod_uid")
    for fault in found:
        at = fault["hour_started_at"]
        text = meaning(fault["problem"], fault["observed"])
        reason = f"{fault['device_uuid']}: {text}" if fault["device_uuid"] else text
        last = rows[-1] if rows else {}
        if all(last.get(name) == fault[name] for name in scope) and at <= last["ended_at"]:
            last["ended_at"] = at + HOUR
            reasons += [reason] if reason not in reasons else []
        else:
            reasons = [reason]
            last = {name: fault[name] for name in scope}
            last |= {"started_at": at, "ended_at": at + HOUR, "treatment": "credit"}
            rows.append(last)
        last["reason"] = "; ".join(reasons)
    return rows


def owners(facts: Facts, period: BillingPeriod, tenant: str = "") -> list[Row]:
    """Status, idle time and cost by the top owner of pods: InferenceService, Notebook, …"""
    facts.require(Interval(period.started_at, period.started_at + HOUR))
    return facts.rows(
        statement(__file__, "health_owners"), {"period": period.name, "tenant": tenant}
    )
