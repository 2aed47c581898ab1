"""A document as plain text, for terminals and for tests that a person checks with a pencil.

Put here: the page.
Not here: any number that is not in the sealed document, other than sums of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from billing.quantities import grouped, hours_text, seconds_by_method, workload_sums

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
    parts = (_head, _lines, _workloads, _measured, _rules)
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
    if document["amounts"] == "estimated":
        yield "Draft. These amounts are estimated; nothing has been issued."
    if document["voids"]:
        yield f"Voids {document['voids']}: {document['reason']}"
    yield ""


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    currency = document["currency"]
    head = f"{'':>3} {'GPU class':<24} {'Shape':<12} {'Weight':>7} {'Hours':>12}"
    yield f"{head} {'Rate':>10} {'Amount ' + currency:>18}" if currency else head
    yield "-" * _WIDTH
    for line in document["lines"]:
        row = (
            f"{line['line']:>3} {line['gpu_class']:<24} {line['mig_profile']:<12} "
            f"{line['weight']:>7} {hours_text(line['device_seconds']):>12}"
        )
        money = f" {line['rate_per_hour']:>10} {grouped(line['billed_cost']):>18}"
        yield row + money if currency else row
        yield _line_detail(line)
    yield "-" * _WIDTH
    if currency:
        yield f"{'Total ' + currency:<72}{grouped(document['total_billed_cost']):>22}"
    yield ""


def _line_detail(line: Mapping[str, Any]) -> str:
    detail = f"    {line['kind']} of {line['charge_period']} in "
    detail += f"{line['cluster_name'] or line['cluster_id']}, "
    detail += f"{line['started_at']} to {line['ended_at']}"
    if line["kind"] == "correction":
        detail += f", {hours_text(line['device_seconds_before'])} hours before"
    return detail + (f": {line['reason']}" if line["reason"] else "")


def _workloads(document: Mapping[str, Any]) -> Iterator[str]:
    sums = workload_sums(document["workload_days"])
    if not sums:
        return
    yield "By workload"
    for entry in sums[:_WORKLOADS_SHOWN]:
        name = f"{entry.workload_kind} {entry.workload_name}".strip()
        cost = f" {grouped(entry.cost):>24}" if document["currency"] else ""
        yield f"    {name:<48} {hours_text(entry.device_seconds):>12} h{cost}"
    if len(sums) > _WORKLOADS_SHOWN:
        yield f"    and {len(sums) - _WORKLOADS_SHOWN} more, in the CSV"
    yield ""


def _measured(document: Mapping[str, Any]) -> Iterator[str]:
    yield "What was measured"
    for entry in document["measured"]:
        yield (
            f"    {entry['cluster_name'] or entry['cluster_id']}: {entry['hours_measured']} of "
            f"{entry['hours_expected']} hours, {entry['hours_with_one_witness_of_two']} of them "
            f"by one witness of two, {entry['hours_not_wholly_measured']} by none wholly"
        )
        for gap in entry["signed"]:
            yield (
                f"        {gap['started_at']} to {gap['ended_at']} without {gap['source']}: "
                f"{gap['treatment']}, signed by {gap['decided_by']} on {gap['decided_on']} "
                f"({gap['reason']})"
            )
    for method, seconds in seconds_by_method(document["pods"]).items():
        yield f"    {hours_text(seconds):>12} device hours {method}"
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
    yield f"    walk a line back to the evidence: gpu-ledger explain {number} --line 1"
