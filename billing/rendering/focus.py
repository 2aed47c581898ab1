"""Documents in FOCUS: cost and usage in version 1.2, periods and invoice details in version 1.4.

Put here: the columns, one row per invoice line and workload-day.
Not here: any amount that is not on the sealed document, other than its share of a line.

`BilledCost` of a line's rows is the line's payable amount, shared out in nanos, so that the rows
of an invoice add up to its total with `==`. `EffectiveCost` is the same before cents.
`ListCost` and `ContractedCost` are unit price × `PricingQuantity`, as the specification requires;
a quantity has nine decimals. The columns of periods and invoice details are those of the
specification's text; no validator knows them yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from domain.csv_text import csv_bytes
from domain.interval import format_instant, parse_instant
from domain.money import (
    NANOS_PER_UNIT,
    SECONDS_PER_HOUR,
    apportion,
    divide_rounding_half_even,
    format_nanos,
    parse_nanos,
)

PRICING_UNIT = "GPU-Hours"
CONSUMED_UNIT = "Device-Hours"
SERVICE_NAME = "GPU Cloud"
SERVICE_CATEGORY = "AI and Machine Learning"
SERVICE_SUBCATEGORY = "AI Platforms"
_NO_ISSUER = "gpu-ledger"  # without an issuer in parties.csv

Row = dict[str, str]

COST_AND_USAGE = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_InvoiceLine",
    "x_RefersTo",
)

INVOICE_DETAIL = (
    "BilledCost",
    "BillingAccountId",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "InvoiceDetailCreated",
    "InvoiceDetailDescription",
    "InvoiceDetailGrain",
    "InvoiceDetailId",
    "InvoiceDetailLastUpdated",
    "InvoiceId",
    "InvoiceIssueDate",
    "InvoiceIssueStatus",
    "InvoiceIssuerName",
    "PaymentDueDate",
    "PaymentTerms",
    "ReferenceInvoiceId",
    "x_PricingQuantity",
)

BILLING_PERIOD = (
    "BillingPeriodCreated",
    "BillingPeriodEnd",
    "BillingPeriodLastUpdated",
    "BillingPeriodStart",
    "BillingPeriodStatus",
    "InvoiceIssuerName",
)


def cost_and_usage_csv(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """The rows of these documents; consumption statements have no cost and so no rows."""
    rows = [row for document in documents for row in cost_and_usage(document)]
    return csv_bytes(COST_AND_USAGE, ([row[name] for name in COST_AND_USAGE] for row in rows))


def invoice_detail_csv(documents: Iterable[Mapping[str, Any]]) -> bytes:
    rows = [row for document in documents for row in _invoice_details(document)]
    return csv_bytes(INVOICE_DETAIL, ([row[name] for name in INVOICE_DETAIL] for row in rows))


def billing_period_csv(statement: Mapping[str, Any]) -> bytes:
    """The one row of a closed period: it was created when it began, and updated when it closed."""
    row = {
        "BillingPeriodCreated": statement["period_started_at"],
        "BillingPeriodEnd": statement["period_ended_at"],
        "BillingPeriodLastUpdated": statement["issued_at"],
        "BillingPeriodStart": statement["period_started_at"],
        "BillingPeriodStatus": "Closed",
        "InvoiceIssuerName": statement["issuer"]["name"] or _NO_ISSUER,
    }
    return csv_bytes(BILLING_PERIOD, [[row[name] for name in BILLING_PERIOD]])


def cost_and_usage(document: Mapping[str, Any]) -> Iterator[Row]:
    """One row per line and workload-day; a line without workload-days is a row of its own."""
    if not document["currency"]:
        return
    by_line: dict[int, list[Mapping[str, Any]]] = {}
    for entry in document["workload_days"]:
        by_line.setdefault(entry["line"], []).append(entry)
    for line in document["lines"]:
        uses = by_line.get(line["line"], [])
        shares = _shares(parse_nanos(line["billed_cost"]), uses)
        for use, billed in zip(uses, shares, strict=True):
            yield _row(document, line, use, billed)
        if not uses:
            yield _row(document, line, _whole_line(line), parse_nanos(line["billed_cost"]))
    if _has_tax(document):
        yield _tax_row(document)


def _has_tax(document: Mapping[str, Any]) -> bool:
    return bool(parse_nanos(document["tax"]["amount"]))


def _tax_row(document: Mapping[str, Any]) -> Row:
    """The tax of an invoice as a row of its own: no use, no price, no resource."""
    amount = document["tax"]["amount"]
    return {
        **dict.fromkeys(COST_AND_USAGE, ""),
        **_shared(document),
        "BilledCost": amount,
        "ChargeCategory": "Tax",
        "ChargeClass": "Correction" if document["voids"] else "",
        "ChargeDescription": _tax_description(document),
        "ChargeFrequency": "Recurring",
        "ChargePeriodStart": document["period_started_at"],
        "ChargePeriodEnd": document["period_ended_at"],
        "ContractedCost": amount,
        "EffectiveCost": amount,
        "ListCost": amount,
        "PricingCurrency": document["currency"],
        "PricingCurrencyEffectiveCost": amount,
        "Tags": "{}",
        "x_RefersTo": document["voids"],
    }


def _tax_description(document: Mapping[str, Any]) -> str:
    tax = document["tax"]
    return f"Tax {tax['percent']} %" + (f", {tax['note']}" if tax["note"] else "")


def _shares(nanos: int, uses: list[Mapping[str, Any]]) -> list[int]:
    """A line's payable amount, by device seconds; ties go to the earlier day and name."""
    keys = [f"{index:09}" for index in range(len(uses))]
    weights = {key: abs(use["device_seconds"]) for key, use in zip(keys, uses, strict=True)}
    shares = apportion(nanos, weights) if uses else {}
    return [shares[key] for key in keys]


def _whole_line(line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "day": "",
        "workload_kind": "",
        "workload_name": "",
        "device_seconds": line["device_seconds"],
        "cost": line["cost"],
    }


def _row(
    document: Mapping[str, Any], line: Mapping[str, Any], use: Mapping[str, Any], billed: int
) -> Row:
    started_at, ended_at = _charge_period(line, use["day"])
    quantity = pricing_quantity(use["device_seconds"], line["weight"])
    is_credit = _category(line) == "Credit"
    consumed = "" if is_credit else _hours(use["device_seconds"], Fraction(1))
    list_cost = _product(parse_nanos(line["rate_per_hour"]), parse_nanos(quantity))
    return {
        **_shared(document),
        **_sku(line),
        **_resource(document, line, use),
        "BilledCost": format_nanos(billed),
        "EffectiveCost": use["cost"],
        "ChargeCategory": _category(line),
        "ChargeClass": "Correction" if line["kind"] in ("correction", "void") else "",
        "ChargeDescription": _description(line),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": started_at,
        "ChargePeriodEnd": ended_at,
        "ConsumedQuantity": consumed,
        "ConsumedUnit": "" if is_credit else CONSUMED_UNIT,
        "ContractedCost": list_cost,
        "ContractedUnitPrice": line["rate_per_hour"],
        "ListCost": list_cost,
        "ListUnitPrice": line["rate_per_hour"],
        "PricingCategory": "Standard",
        "PricingCurrency": document["currency"],
        "PricingCurrencyContractedUnitPrice": line["rate_per_hour"],
        "PricingCurrencyEffectiveCost": use["cost"],
        "PricingCurrencyListUnitPrice": line["rate_per_hour"],
        "PricingQuantity": quantity,
        "PricingUnit": PRICING_UNIT,
        "RegionId": line["cluster_id"],
        "RegionName": line["cluster_name"] or line["cluster_id"],
        "x_InvoiceLine": str(line["line"]),
        "x_RefersTo": line["refers_to"],
    }


def _shared(document: Mapping[str, Any]) -> Row:
    issuer = document["issuer"]["name"] or _NO_ISSUER
    return {
        "BillingAccountId": document["tenant"],
        "BillingAccountName": document["customer"]["name"] or document["tenant"],
        "BillingAccountType": "Tenant",
        "BillingCurrency": document["currency"],
        "BillingPeriodStart": document["period_started_at"],
        "BillingPeriodEnd": document["period_ended_at"],
        "InvoiceId": document["number"],
        "InvoiceIssuerName": issuer,
        "ProviderName": issuer,
        "PublisherName": issuer,
        "ServiceCategory": SERVICE_CATEGORY,
        "ServiceName": SERVICE_NAME,
        "ServiceSubcategory": SERVICE_SUBCATEGORY,
    }


def _sku(line: Mapping[str, Any]) -> Row:
    sku = f"{line['gpu_class']}/{line['mig_profile']}"
    details = {"x_Weight": line["weight"], "x_WeightPolicy": line["weight_policy"]}
    return {
        "SkuId": sku,
        "SkuMeter": "Time in which a device was held by a running pod",
        "SkuPriceId": f"{line['rate_id']}/{sku}/{line['weight']}",
        "SkuPriceDetails": json.dumps(details, sort_keys=True),
    }


def _resource(document: Mapping[str, Any], line: Mapping[str, Any], use: Mapping[str, Any]) -> Row:
    """The workload; it lives in the tenant's namespace of one cluster, which is the sub-account."""
    account = f"{line['cluster_id']}/{document['tenant']}"
    kind, name = use["workload_kind"], use["workload_name"]
    labels = _labels(document, line["cluster_id"], kind, name)
    return {
        "ResourceId": f"{account}/{kind}/{name}" if name else "",
        "ResourceName": name,
        "ResourceType": (kind or "Workload") if name else "",
        "SubAccountId": account,
        "SubAccountName": f"{line['cluster_name'] or line['cluster_id']}/{document['tenant']}",
        "SubAccountType": "Namespace",
        "Tags": json.dumps(labels, sort_keys=True),
    }


def _labels(document: Mapping[str, Any], cluster: str, kind: str, name: str) -> dict[str, str]:
    workload = (cluster, kind, name)
    for entry in document["workload_labels"]:
        if (entry["cluster_id"], entry["workload_kind"], entry["workload_name"]) == workload:
            return dict(entry["labels"])
    return {}


def pricing_quantity(device_seconds: int, weight: str) -> str:
    """Weighted hours with nine decimals."""
    return _hours(device_seconds, Fraction(weight))


def _hours(device_seconds: int, weight: Fraction) -> str:
    numerator = device_seconds * weight.numerator * NANOS_PER_UNIT
    nanos = divide_rounding_half_even(numerator, weight.denominator * SECONDS_PER_HOUR)
    return format_nanos(nanos)


def _product(left_nanos: int, right_nanos: int) -> str:
    """The exact product of two numbers of nine decimals, as text of up to eighteen."""
    value = left_nanos * right_nanos
    whole, part = divmod(abs(value), NANOS_PER_UNIT**2)
    decimals = f"{part:018}".rstrip("0")
    return f"{'-' if value < 0 else ''}{whole}{'.' + decimals if decimals else ''}"


def _charge_period(line: Mapping[str, Any], day: str) -> tuple[str, str]:
    """The day, as far as the line's price held on it; the line's whole time without a day."""
    if not day:
        return line["started_at"], line["ended_at"]
    midnight = datetime.combine(date.fromisoformat(day), datetime.min.time()).isoformat() + "Z"
    started_at = parse_instant(midnight)
    return (
        format_instant(max(started_at, parse_instant(line["started_at"]))),
        format_instant(min(started_at + timedelta(days=1), parse_instant(line["ended_at"]))),
    )


def _category(line: Mapping[str, Any]) -> str:
    return "Credit" if line["kind"] == "credit" else "Usage"


def _description(line: Mapping[str, Any]) -> str:
    shape = "full GPU" if line["mig_profile"] == "whole" else line["mig_profile"]
    text = f"{line['gpu_class']}, {shape}, weight {line['weight']}"
    return f"{line['kind']}: {text}, {line['reason']}" if line["reason"] else text


def _invoice_details(document: Mapping[str, Any]) -> Iterator[Row]:
    """One row per invoice line, those of 0 as well; of a void also its invoice's, as Voided."""
    if not document["currency"]:
        return
    details = [*_line_details(document), *_tax_details(document)]
    yield from details
    if document["voids"]:
        for detail in details:
            yield _voided(detail, document)


def _voided(detail: Row, void: Mapping[str, Any]) -> Row:
    """The detail of the voided invoice that a detail of its void negates, in its last state."""
    voided = void["voided"]
    amounts = {name: _negated(detail[name]) for name in ("BilledCost", "x_PricingQuantity")}
    return {
        **detail,
        **amounts,
        "BillingPeriodStart": voided["period_started_at"],
        "BillingPeriodEnd": voided["period_ended_at"],
        "InvoiceDetailCreated": voided["issued_at"],
        "InvoiceDetailId": detail["InvoiceDetailId"].replace(void["number"], void["voids"], 1),
        "InvoiceDetailLastUpdated": void["issued_at"],
        "InvoiceId": void["voids"],
        "InvoiceIssueDate": voided["issued_at"],
        "InvoiceIssueStatus": "Voided",
        "ReferenceInvoiceId": void["number"],
    }


def _negated(amount: str) -> str:
    return format_nanos(-parse_nanos(amount), len(amount.partition(".")[2])) if amount else ""


def _tax_details(document: Mapping[str, Any]) -> Iterator[Row]:
    if _has_tax(document):
        grain = {"ServiceName": SERVICE_NAME, "x_TaxPercent": document["tax"]["percent"]}
        yield {
            **_detail(document, "tax", grain),
            "BilledCost": document["tax"]["amount"],
            "ChargeCategory": "Tax",
            "InvoiceDetailDescription": _tax_description(document),
            "ReferenceInvoiceId": document["voids"] or document["number"],
            "x_PricingQuantity": "",
        }


def _detail(document: Mapping[str, Any], name: str, grain: Mapping[str, str]) -> Row:
    return {
        **_shared(document),
        "InvoiceDetailCreated": document["issued_at"],
        "InvoiceDetailGrain": json.dumps(grain, sort_keys=True),
        "InvoiceDetailId": f"{document['number']}/{name}",
        "InvoiceDetailLastUpdated": document["issued_at"],
        "InvoiceIssueDate": document["issued_at"],
        "InvoiceIssueStatus": "Issued",
        "PaymentDueDate": document["payment"]["due_on"],
        "PaymentTerms": document["payment"]["terms"],
    }


def _line_details(document: Mapping[str, Any]) -> Iterator[Row]:
    for line in document["lines"]:
        grain = {
            "ServiceName": SERVICE_NAME,
            "SkuId": _sku(line)["SkuId"],
            "SkuPriceId": _sku(line)["SkuPriceId"],
            "SubAccountId": f"{line['cluster_id']}/{document['tenant']}",
            "x_ChargePeriod": line["charge_period"],
        }
        yield {
            **_detail(document, str(line["line"]), grain),
            "BilledCost": line["billed_cost"],
            "ChargeCategory": _category(line),
            "InvoiceDetailDescription": _description(line),
            "ReferenceInvoiceId": line["refers_to"] or document["number"],
            "x_PricingQuantity": pricing_quantity(line["device_seconds"], line["weight"]),
        }
