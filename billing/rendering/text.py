"""A document as plain text, for terminals and tests.

Put here: the page.
Not here: any number that is not in the sealed document, other than sums of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from billing.rendering.quantities import (
    gpu_seconds,
    grouped,
    hours_text,
    money,
    seconds_by_method,
    tax_id_text,
    workload_sums,
)

TITLES = {
    "invoice": "Invoice",
    "void": "Void",
    "consumption_statement": "Consumption statement",
}
_WIDTH = 96
_WORKLOADS_SHOWN = 20
"""A page of workloads; all of them are in the CSV."""


def invoice_text(document: Mapping[str, Any], sha256: str) -> str:
    """The whole document as text."""
    parts = (_head, _lines, _payment, _workloads, _measured, _rules)
    lines = [line for part in parts for line in part(document)]
    return "\n".join(line.rstrip() for line in [*lines, *_check(document, sha256)]) + "\n"


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    title = f"{TITLES[document['document']]} {document['number']}"
    yield f"{title:<60}{document['issuer']['name']:>36}"
    yield (
        f"Period {document['billing_period']} (UTC), issued {document['issued_at']}, "
        f"amounts {document['amounts']}"
    )
    customer = document["customer"]["name"]
    yield f"Bill to: {customer or document['tenant']} (tenant {document['tenant']})"
    for name in ("issuer", "customer"):
        if tax_id := tax_id_text(document[name]):
            yield f"{tax_id} ({name})"
    if document["voids"]:
        yield f"Voids {document['voids']}: {document['reason']}"
    yield ""


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    currency = document["currency"]
    head = f"{'':>3} {'GPU class':<20} {'Shape':<10} {'Device-hours':>13} {'Weight':>7} "
    head += f"{'GPU-hours':>12}"
    yield f"{head} {'Rate':>10} {'Amount ' + currency:>14}" if currency else head
    yield "-" * _WIDTH
    for line in document["lines"]:
        row = (
            f"{line['line']:>3} {line['gpu_class']:<20} {line['mig_profile']:<10} "
            f"{hours_text(line['device_seconds']):>13} {line['weight']:>7} "
            f"{hours_text(gpu_seconds(line)):>12}"
        )
        if currency:
            row += f" {money(line['rate_per_hour'], currency):>10}"
            row += f" {grouped(line['billed_cost']):>14}"
        yield row
        yield _line_detail(line)
    yield "-" * _WIDTH
    if currency:
        tax = document["tax"]
        if tax["percent"]:
            yield f"{'Net total ' + currency:<74}{grouped(document['total_billed_cost']):>22}"
            yield f"{'Tax ' + tax['percent'] + ' %':<74}{grouped(tax['amount']):>22}"
        yield f"{'Total ' + currency:<74}{grouped(document['total_payable']):>22}"
    yield ""


def _payment(document: Mapping[str, Any]) -> Iterator[str]:
    payment, tax = document["payment"], document["tax"]
    if not document["currency"]:
        return
    if tax["note"] or not tax["percent"]:
        yield tax["note"] or "No tax is included in these amounts."
    for name, text in (
        ("Due", payment["due_on"]),
        ("Terms", payment["terms"]),
        ("Pay to", ", ".join(payment["bank_details"])),
        ("Purchase order", payment["purchase_order"]),
    ):
        if text:
            yield f"{name}: {text}"
    yield ""


def _line_detail(line: Mapping[str, Any]) -> str:
    detail = f"    {line['kind']} of {line['charge_period']} in "
    detail += f"{line['cluster_name'] or line['cluster_id']}, "
    detail += f"{line['started_at']} to {line['ended_at']}"
    if line["kind"] == "correction":
        detail += f", {hours_text(line['device_seconds_before'])} hours before"
    return detail + (f": {line['reason']}" if line["reason"] else "")


def _workloads(document: Mapping[str, Any]) -> Iterator[str]:
    sums = workload_sums(document)
    if not sums:
        return
    yield "By workload"
    for entry in sums[:_WORKLOADS_SHOWN]:
        name = f"{entry.workload_kind} {entry.workload_name}".strip()
        cost = f" {grouped(entry.billed_cost):>18}" if document["currency"] else ""
        yield f"    {name:<48} {hours_text(entry.gpu_seconds):>12} GPU-hours{cost}"
    if len(sums) > _WORKLOADS_SHOWN:
        yield f"    and {len(sums) - _WORKLOADS_SHOWN} more, in the CSV"
    yield ""


def _measured(document: Mapping[str, Any]) -> Iterator[str]:
    yield "Measured hours"
    for entry in document["measured"]:
        yield (
            f"    {entry['cluster_name'] or entry['cluster_id']}: {entry['hours_measured']} of "
            f"{entry['hours_expected']} hours, {entry['hours_with_one_source_of_two']} of them "
            f"by one source of two, {entry['hours_not_wholly_measured']} by none wholly"
        )
        for gap in entry["signed"]:
            yield (
                f"        {gap['started_at']} to {gap['ended_at']} without {gap['source']}: "
                f"{gap['treatment']}, signed by {gap['decided_by']} on {gap['decided_on']} "
                f"({gap['reason']})"
            )
    for method, seconds in seconds_by_method(document["pods"]).items():
        yield f"    {hours_text(seconds):>12} device-hours {method}"
    uncertain = sum(pod["uncertain_device_seconds"] for pod in document["pods"])
    yield f"    uncertainty of starts and ends: {uncertain} device seconds"
    yield ""


def _rules(document: Mapping[str, Any]) -> Iterator[str]:
    yield "Rules that apply"
    for policy in document["policies"]:
        yield f"    {policy['policy']} = {policy['value']} (version {policy['version']})"
    yield ""


def _check(document: Mapping[str, Any], sha256: str) -> Iterator[str]:
    number = document["number"]
    yield "How to check this document"
    yield f"    SHA-256 of {number}.json: {sha256}"
    for name, value in sorted(document["stands_on"].items()):
        yield f"    {name}: {value}"
    yield f"    recompute it: gpu-ledger verify {number}.zip"
    yield f"    show the evidence of a line: gpu-ledger explain {number} --line 1"
