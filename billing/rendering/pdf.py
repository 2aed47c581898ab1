"""A document as PDF: readable, tagged, archival, with the sealed JSON attached; by typst.

Put here: the text of the page; the template (`templates/document.typ`) only places it.
Not here: any number that is not in the sealed document, other than sums of its entries.

The fonts are those inside typst, so the bytes are the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

import typst

from billing.rendering.quantities import (
    day_sums,
    gpu_seconds,
    grouped,
    hours_text,
    money,
    seconds_by_method,
    tax_id_text,
    workload_sums,
)
from billing.sealing import to_bytes
from domain.glyphs import displayable_everywhere
from domain.interval import parse_instant

WORKLOADS_SHOWN = 15
"""Most invoices then fit on two pages; the CSV has all workloads."""

NOUNS = {"invoice": "invoice", "void": "void", "consumption_statement": "statement"}
TITLES = {
    "invoice": "Invoice",
    "void": "Void",
    "consumption_statement": "Consumption statement",
}
METHODS = {
    "confirmed": "confirmed by both sources",
    "lifecycle_only": "known from the lifecycle alone",
    "samples_only": "known from the samples alone",
    "disputed": "disputed, billed as signed",
    "missing": "seen by no source",
}


def invoice_pdf(document: Mapping[str, Any], digest: str) -> bytes:
    """The PDF; the same document gives the same bytes."""
    template = files("billing").joinpath("templates", "document.typ").read_bytes()
    inputs = {
        "view": json.dumps(displayable_everywhere(view(document, digest)), sort_keys=True),
        "sealed": to_bytes(document).decode("ascii"),
    }
    return typst.compile(
        template,
        format="pdf",
        ignore_system_fonts=True,
        # Archival with attachments, and accessible: typst checks both while it writes.
        pdf_standards=["a-3a", "ua-1"],
        sys_inputs=inputs,
        timestamp=int(parse_instant(document["issued_at"]).timestamp()),
    )


def view(document: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """All text of the page."""
    noun, currency = NOUNS[document["document"]], document["currency"]
    issued_at = parse_instant(document["issued_at"])
    return {
        "title": f"{TITLES[document['document']]} {document['number']}",
        "noun": noun,
        "subtitle": _subtitle(document),
        "description": f"GPU use of {document['tenant']} in {document['billing_period']}",
        "issued": {
            part: getattr(issued_at, part)
            for part in ("year", "month", "day", "hour", "minute", "second")
        },
        "issuer": _party(document["issuer"], "gpu-ledger"),
        "customer": _party(document["customer"], document["tenant"]),
        "tenant": document["tenant"],
        "currency": currency,
        "total": grouped(document["total_payable"]) if currency else "",
        "total_label": _total_label(document),
        "sums": _sums(document) if currency else [],
        "payment": _payment(document) if currency else [],
        "purchase_order": document["payment"]["purchase_order"],
        "notice": _notice(document),
        "footer": f"{TITLES[document['document']]} {document['number']}",
        "attachment": f"{document['number']}.json",
        **_lines(document),
        **_days(document),
        **_workloads(document),
        **_measured(document),
        "rules": [
            f"{p['policy'].replace('_', ' ')}: {p['value']} (version {p['version']})"
            for p in document["policies"]
        ],
        "how_to_check": _how_to_check(document),
        "stands_on": [
            [f"SHA-256 of {document['number']}.json", digest],
            *([name.replace("_", " "), value] for name, value in _hashes(document)),
        ],
    }


def _subtitle(document: Mapping[str, Any]) -> str:
    parts = [f"Period {document['billing_period']} (UTC)", f"issued {document['issued_at'][:10]}"]
    if document["payment"]["due_on"]:
        parts.append(f"due {document['payment']['due_on']}")
    return " · ".join([*parts, f"amounts {document['amounts']}"])


def _sums(document: Mapping[str, Any]) -> list[list[str]]:
    """The rows below the lines: net, tax, and the payable total."""
    tax, currency = document["tax"], document["currency"]
    if not tax["percent"]:
        return [[f"Total {currency}", grouped(document["total_billed_cost"])]]
    return [
        [f"Net total {currency}", grouped(document["total_billed_cost"])],
        [f"Tax {tax['percent']} %", grouped(tax["amount"])],
        [f"Total {currency}", grouped(document["total_payable"])],
    ]


def _payment(document: Mapping[str, Any]) -> list[list[str]]:
    """The terms of payment: name, and lines of text."""
    payment, tax = document["payment"], document["tax"]
    tax_note = tax["note"] or ("" if tax["percent"] else "No tax is included in these amounts.")
    entries = [
        ["Tax", tax_note],
        ["Due", payment["due_on"]],
        ["Terms", payment["terms"]],
        *(["" if place else "Pay to", line] for place, line in enumerate(payment["bank_details"])),
    ]
    return [entry for entry in entries if entry[1]]


def _total_label(document: Mapping[str, Any]) -> str:
    return "Total to pay" if document["document"] == "invoice" else "Total"


def _notice(document: Mapping[str, Any]) -> str:
    if document["voids"]:
        return f"Voids {document['voids']} in full. Reason: {document['reason']}"
    return ""


def _lines(document: Mapping[str, Any]) -> dict[str, Any]:
    columns = ["", "GPU class", "Shape", "Cluster", "Device-hours", "Weight", "GPU-hours"]
    if document["currency"]:
        columns += ["Rate", f"Amount {document['currency']}"]
    notes = [
        f"Line {line['line']} is a {line['kind']}: {line['reason']}."
        for line in document["lines"]
        if line["kind"] not in ("usage", "void")
    ]
    hours = "GPU-hours are device-hours × weight."
    amounts = "The rate is the price of a GPU-hour. Amounts are seconds × weight × rate ÷ 3600, "
    amounts += "exact to 10⁻⁹ until the total is rounded once; the lines are rounded so that they "
    amounts += "add up to it."
    return {
        "line_columns": columns,
        "line_widths": [int(name in ("GPU class", "Cluster")) for name in columns],
        "line_numeric_from": columns.index("Device-hours"),
        "lines": [_line(line, document["currency"]) for line in document["lines"]],
        "lines_note": " ".join([hours, *([amounts] if document["currency"] else []), *notes]),
    }


def _line(line: Mapping[str, Any], currency: str) -> list[str]:
    shape = "full GPU" if line["mig_profile"] == "whole" else line["mig_profile"]
    cells = [
        str(line["line"]),
        line["gpu_class"],
        shape,
        line["cluster_name"] or line["cluster_id"],
        hours_text(line["device_seconds"]),
        "1" if line["weight"] == "1/1" else line["weight"],
        hours_text(gpu_seconds(line)),
    ]
    if not currency:
        return cells
    return [*cells, money(line["rate_per_hour"], currency), grouped(line["billed_cost"])]


def _days(document: Mapping[str, Any]) -> dict[str, Any]:
    sums = day_sums(document)
    currency = document["currency"]
    values = [grouped(day.billed_cost) if currency else hours_text(day.gpu_seconds) for day in sums]
    most = max((abs(day.amount) for day in sums), default=0)
    peak = next((v for v, day in zip(values, sums, strict=True) if abs(day.amount) == most), "0")
    caption = f"{'Cost' if currency else 'Use'} per day in {currency or 'GPU-hours'}; the highest "
    caption += f"bar is {peak}"
    named = [f"{day.day}: {value}" for day, value in zip(sums, values, strict=True)]
    return {
        "days": [
            {"label": day.day[-2:], "share": int(100 * abs(day.amount) / most)}
            for day in sums
            if most
        ],
        "days_caption": caption,
        "days_alt": f"{caption}. {'; '.join(named)}",
    }


def _workloads(document: Mapping[str, Any]) -> dict[str, Any]:
    sums = workload_sums(document)
    currency = document["currency"]
    columns = ["Workload", "GPU-hours"]
    columns += [f"Cost {currency}"] if currency else []
    rows = [
        [f"{s.workload_kind} {s.workload_name}".strip(), hours_text(s.gpu_seconds)]
        + ([grouped(s.billed_cost)] if currency else [])
        for s in sums[:WORKLOADS_SHOWN]
    ]
    hidden = len(sums) - WORKLOADS_SHOWN
    note = f"{hidden} more workloads are in {document['number']}-pods.csv." if hidden > 0 else ""
    return {"workload_columns": columns, "workloads": rows, "workloads_note": note}


def _measured(document: Mapping[str, Any]) -> dict[str, Any]:
    entries = document["measured"]
    uncertain = sum(pod["uncertain_device_seconds"] for pod in document["pods"])
    methods = [
        f"{hours_text(seconds)} device-hours {METHODS.get(method, method)}"
        for method, seconds in seconds_by_method(document["pods"]).items()
    ]
    methods.append(f"uncertainty of starts and ends: {uncertain:,} device-seconds in all")
    return {
        "measured": [
            [
                entry["cluster_name"] or entry["cluster_id"],
                *(f"{entry[name]:,}" for name in _MEASURED_COLUMNS),
            ]
            for entry in entries
        ],
        "methods": methods,
        "signed": [line for entry in entries for line in _signed(entry)],
    }


_MEASURED_COLUMNS = (
    "hours_expected",
    "hours_measured",
    "hours_with_one_source_of_two",
    "hours_not_wholly_measured",
)


def _signed(entry: Mapping[str, Any]) -> Iterable[str]:
    for gap in entry["signed"]:
        yield (
            f"{entry['cluster_name'] or entry['cluster_id']}, {gap['started_at']} to "
            f"{gap['ended_at']}, no {gap['source']}: {gap['treatment'].replace('_', ' ')}, "
            f"signed by {gap['decided_by']} on {gap['decided_on']} ({gap['reason']})"
        )


def _how_to_check(document: Mapping[str, Any]) -> list[str]:
    number = document["number"]
    return [
        f"The sealed document is attached to this PDF as {number}.json; its SHA-256 is below, "
        "and sha256sum computes it.",
        f"{number}-pods.csv lists every pod behind every line: its seconds add up to the line's.",
        f"gpu-ledger verify {number}.zip recomputes every line and total, and follows the chain "
        "of the record; it needs nothing but Python.",
        f"The evidence of a line, down to its bytes: gpu-ledger explain {number} --line 1",
    ]


def _hashes(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted(document["stands_on"].items())


def _party(party: Mapping[str, Any], otherwise: str) -> dict[str, Any]:
    lines = [*party["address"], tax_id_text(party), party["email"]]
    return {"name": party["name"] or otherwise, "lines": [line for line in lines if line]}
