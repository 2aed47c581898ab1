"""Cost and usage of a tenant's month in the FOCUS format, version 1.2.

Put here: the rows of issued documents as they were issued, and estimates of an open month.
Not here: the columns of an invoice line (`billing.rendering.focus`).
"""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from billing.rendering.focus import (
    CONSUMED_UNIT,
    COST_AND_USAGE,
    PRICING_UNIT,
    SERVICE_CATEGORY,
    SERVICE_NAME,
    SERVICE_SUBCATEGORY,
    pricing_quantity,
)
from domain.interval import format_instant, parse_instant
from domain.money import format_nanos
from portal.consumption import Consumption
from warehouse.reports.usage import rounded_costs, usage

GROUPING = "cluster,day,workload,profile"

FocusRow: type[msgspec.Struct] = msgspec.defstruct(
    "FocusRow", [(name, str) for name in COST_AND_USAGE], kw_only=True
)
FocusRow.__doc__ = "One row of cost and usage, with the columns of FOCUS."


def issued_rows(body: bytes) -> list[msgspec.Struct]:
    """The rows of an issued file."""
    return [FocusRow(**row) for row in csv.DictReader(io.StringIO(body.decode("utf-8")))]


def estimated_rows(month: Consumption) -> list[msgspec.Struct]:
    """One row per cluster, day, workload, class and shape. No invoice has them yet."""
    found = usage(month.facts, month.period.interval, GROUPING, tenant=month.tenant)
    ids = _cluster_ids(month)
    return [
        FocusRow(
            **{
                **dict.fromkeys(COST_AND_USAGE, ""),
                **_shared(month),
                **_use(month, dict(row.about), ids),
                "BilledCost": format_nanos(billed),
                "ConsumedQuantity": pricing_quantity(row.device_seconds, "1"),
                "EffectiveCost": format_nanos(row.cost_nanos),
                "ContractedCost": format_nanos(row.cost_nanos),
                "ListCost": format_nanos(row.cost_nanos),
                "BillingCurrency": row.currency,
                "PricingCurrency": row.currency,
                "PricingCurrencyEffectiveCost": format_nanos(row.cost_nanos),
                "PricingQuantity": _hours(row.weighted_device_seconds),
            }
        )
        for row, billed in zip(found, rounded_costs(found), strict=True)
        if row.currency
    ]


def _shared(month: Consumption) -> dict[str, str]:
    return {
        "BillingAccountId": month.tenant,
        "BillingAccountName": month.tenant,
        "BillingAccountType": "Tenant",
        "BillingPeriodStart": format_instant(month.period.started_at),
        "BillingPeriodEnd": format_instant(month.period.ended_at),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ConsumedUnit": CONSUMED_UNIT,
        "InvoiceIssuerName": "gpu-ledger",
        "PricingCategory": "Standard",
        "PricingUnit": PRICING_UNIT,
        "ProviderName": "gpu-ledger",
        "PublisherName": "gpu-ledger",
        "ServiceCategory": SERVICE_CATEGORY,
        "ServiceName": SERVICE_NAME,
        "ServiceSubcategory": SERVICE_SUBCATEGORY,
        "SubAccountType": "Namespace",
        "Tags": "{}",
    }


def _cluster_ids(month: Consumption) -> dict[str, str]:
    """The ID of each cluster by its name, as in issued files; without names that several have."""
    found = month.facts.rows(
        "select cluster_name, min(cluster_id) as cluster_id from dim_clusters "
        "group by cluster_name having count(distinct cluster_id) = 1"
    )
    return {row["cluster_name"]: row["cluster_id"] for row in found}


def _use(month: Consumption, about: dict[str, Any], ids: dict[str, str]) -> dict[str, str]:
    """The workload of a row, its day as far as it was counted, class and shape."""
    day: datetime = parse_instant(f"{about['usage_day']}T00:00:00Z")
    ended_at = min(day + timedelta(days=1), month.status.about.counted_until)
    cluster, kind, name = (
        str(about[key]) for key in ("cluster_name", "workload_kind", "workload_name")
    )
    cluster_id = ids.get(cluster, cluster)
    account = f"{cluster_id}/{month.tenant}"
    sku = f"{about['gpu_class']}/{about['mig_profile']}"
    shape = "full GPU" if about["mig_profile"] == "whole" else about["mig_profile"]
    return {
        "ChargeDescription": f"{about['gpu_class']}, {shape}",
        "ChargePeriodStart": format_instant(day),
        "ChargePeriodEnd": format_instant(ended_at),
        "RegionId": cluster_id,
        "RegionName": cluster,
        "ResourceId": f"{account}/{kind}/{name}" if name else "",
        "ResourceName": name,
        "ResourceType": (kind or "Workload") if name else "",
        "SkuId": sku,
        "SkuMeter": "Time in which a device was held by a running pod",
        "SkuPriceDetails": "{}",
        "SubAccountId": account,
        "SubAccountName": f"{cluster}/{month.tenant}",
    }


def _hours(weighted_seconds: Fraction) -> str:
    return pricing_quantity(weighted_seconds.numerator, f"1/{weighted_seconds.denominator}")
