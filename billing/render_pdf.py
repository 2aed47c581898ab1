"""A document as PDF: readable, tagged, archival, with the sealed JSON attached; by typst.

Put here: what stands where on the page, as text; the template (`templates/document.typ`) only
places it.
Not here: any number that is not in the sealed document, other than sums of its entries.

The fonts are those inside typst, so the bytes are the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from billing.glyphs import displayable_everywhere
from billing.quantities import (
    DaySum,
    aligned,
    day_sums,
    grouped,
    hours_text,
    seconds_by_method,
    workload_sums,
)
from billing.sealing import to_bytes
from domain.interval import parse_instant

WORKLOADS_SHOWN = 15
"""So that most invoices fit on two pages; all of them are in the CSV."""

NOUNS = {"invoice": "invoice", "void": "void", "consumption_statement": "statement"}
TITLES = {
    "invoice": "Invoice",
    "void": "Void",
    "consumption_statement": "Consumption statement",
}
METHODS = {
    "confirmed": "confirmed by both witnesses",
    "lifecycle_only": "known from the lifecycle alone",
    "samples_only": "known from the samples alone",
    "disputed": "disputed, billed as signed",
    "missing": "seen by no witness",
}


def invoice_pdf(document: Mapping[str, Any], digest: str) -> bytes:
    """The page; the same document gives the same bytes."""
    import typst

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
    """Everything that the page says, as text."""
    noun, currency = NOUNS[document["document"]], document["currency"]
    issued_at = parse_instant(document["issued_at"])
    return {
        "title": f"{TITLES[document['document']]} {document['number']}",
        "noun": noun,
        "subtitle": f"Period {document['billing_period']} (UTC) · issued "
        f"{document['issued_at'][:10]} · amounts {document['amounts']}",
        "description": f"GPU use of {document['tenant']} in {document['billing_period']}",
        "issued": {
            part: getattr(issued_at, part)
            for part in ("year", "month", "day", "hour", "minute", "second")
        },
        "issuer": _party(document["issuer"], "gpu-ledger"),
        "customer": _party(document["customer"], document["tenant"]),
        "tenant": document["tenant"],
        "currency": currency,
        "total": grouped(document["total_billed_cost"]) if currency else "",
        "total_label": _total_label(document),
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


def _total_label(document: Mapping[str, Any]) -> str:
    if document["amounts"] == "estimated":
        return "Estimated total"
    return "Total to pay" if document["document"] == "invoice" else "Total"


def _notice(document: Mapping[str, Any]) -> str:
    if document["amounts"] == "estimated":
        return "Draft. These amounts are estimated; nothing has been issued."
    if document["voids"]:
        return f"Voids {document['voids']} in full. Reason: {document['reason']}"
    return ""


def _lines(document: Mapping[str, Any]) -> dict[str, Any]:
    columns = ["", "GPU class", "Shape", "Cluster", "Weight", "GPU-hours"]
    if document["currency"]:
        columns += ["Rate per hour", f"Amount {document['currency']}"]
    notes = [
        f"Line {line['line']} is a {line['kind']}: {line['reason']}"
        for line in document["lines"]
        if line["kind"] != "usage"
    ]
    amounts = "Amounts are seconds × weight × rate ÷ 3600, exact to 10⁻⁹ until the total is "
    amounts += "rounded once; the lines are rounded so that they add up to it."
    return {
        "line_columns": columns,
        "line_widths": [int(name == "GPU class") for name in columns],
        "line_numeric_from": columns.index("Weight"),
        "lines": [_line(line, bool(document["currency"])) for line in document["lines"]],
        "lines_note": " ".join([amounts if document["currency"] else "", *notes]).strip(),
    }


def _line(line: Mapping[str, Any], priced: bool) -> list[str]:
    shape = "full GPU" if line["mig_profile"] == "whole" else line["mig_profile"]
    cells = [
        str(line["line"]),
        line["gpu_class"],
        shape,
        line["cluster_name"] or line["cluster_id"],
        "1" if line["weight"] == "1/1" else line["weight"],
        hours_text(line["device_seconds"]),
    ]
    return [*cells, line["rate_per_hour"], grouped(line["billed_cost"])] if priced else cells


def _days(document: Mapping[str, Any]) -> dict[str, Any]:
    sums = day_sums(document)
    priced = bool(document["currency"])
    most = max((_height(day, priced) for day in sums), default=0)
    unit = document["currency"] if priced else "GPU-hours"
    highest = max(sums, key=lambda day: _height(day, priced), default=None)
    peak = (highest.cost if priced else hours_text(highest.device_seconds)) if highest else "0"
    caption = f"{'Cost' if priced else 'Use'} per day in {unit}; the highest bar is {peak}"
    values = [
        f"{day.day}: {grouped(day.cost) if priced else hours_text(day.device_seconds)}"
        for day in sums
    ]
    return {
        "days": [
            {"label": day.day[-2:], "share": 100 * _height(day, priced) // most}
            for day in sums
            if most
        ],
        "days_caption": caption,
        "days_alt": f"{caption}. {'; '.join(values)}",
    }


def _height(day: DaySum, priced: bool) -> int:
    return max(0, day.nanos if priced else day.device_seconds)


def _workloads(document: Mapping[str, Any]) -> dict[str, Any]:
    sums = workload_sums(document["workload_days"])
    priced = bool(document["currency"])
    columns = ["Workload", "GPU-hours"]
    columns += [f"Cost {document['currency']}, before rounding"] if priced else []
    shown = sums[:WORKLOADS_SHOWN]
    costs = aligned(s.cost for s in shown)
    rows = [
        [f"{s.workload_kind} {s.workload_name}".strip(), hours_text(s.device_seconds)]
        + ([cost] if priced else [])
        for s, cost in zip(shown, costs, strict=True)
    ]
    hidden = len(sums) - WORKLOADS_SHOWN
    note = f"{hidden} more workloads are in {document['number']}-pods.csv." if hidden > 0 else ""
    return {"workload_columns": columns, "workloads": rows, "workloads_note": note}


def _measured(document: Mapping[str, Any]) -> dict[str, Any]:
    entries = document["measured"]
    uncertain = sum(pod["uncertain_device_seconds"] for pod in document["pods"])
    methods = [
        f"{hours_text(seconds)} GPU-hours {METHODS.get(method, method)}"
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
    "hours_with_one_witness_of_two",
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
        f"gpu-ledger explain {number} --line 1 walks a line back to the bytes it came from.",
    ]


def _hashes(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted(document["stands_on"].items())


def _party(party: Mapping[str, Any], otherwise: str) -> dict[str, Any]:
    lines = [*party["address"], party["tax_id"], party["email"]]
    return {"name": party["name"] or otherwise, "lines": [line for line in lines if line]}
