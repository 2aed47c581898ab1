"""The result of a check as one HTML page: findings, coverage by source, checks.

Put here: the page, from the sealed basis of a close.
Not here: checking (`quality`). The page has no script, no font and no picture from anywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; color: #1b1f24 }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1.6rem }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem }
tr { border-bottom: 1px solid #ccc }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.bad { color: #a00000; font-weight: 600 } .good { color: #0b6b32 } code { font-size: .92em }
"""


def checks_page(basis: Mapping[str, Any], digest: str) -> bytes:
    """The whole page."""
    check_result = basis["check"]
    period = escape(basis["billing_period"])
    coverage_status = "billable" if check_result["is_billable"] else "not billable"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>Check of {period}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>Check of {period}</h1>",
        f"<p>Checked <strong>{coverage_status}</strong>. Sealed as <code>{digest}</code>; facts "
        f"<code>{escape(basis['facts_sha256'])}</code>; code {escape(basis['code_version'])}.</p>",
        "<h2>Findings</h2>",
        _findings(check_result["findings"]),
        "<h2>Hours by source</h2>",
        _coverage_statuses(check_result["coverage_statuses"]),
        "<h2>Checks</h2>",
        _checks(check_result["checks"]),
        *_suites(check_result["checks"]),
        "</main></body></html>",
    ]
    return ("\n".join(parts) + "\n").encode("ascii", "xmlcharrefreplace")


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "<p>None.</p>"
    rows = [
        [
            f"<code>{escape(f['code'])}</code>",
            escape(f["where"]),
            escape(f["seen"]),
            escape(f["why"]),
            '<span class="bad">blocks</span>' if f["blocks"] else escape(f["remedy"]),
        ]
        for f in findings
    ]
    return _table(("Code", "Where", "Found", "Why it matters", "Consequence"), rows)


def _coverage_statuses(coverage_statuses: Sequence[Mapping[str, Any]]) -> str:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for coverage_status in coverage_statuses:
        key = (coverage_status["cluster_id"], coverage_status["source"])
        counts.setdefault(key, Counter())[coverage_status["state"]] += 1
    states = ("complete", "degraded", "missing", "waived", "not_expected")
    rows = [
        [escape(cluster), escape(source), *(_number(found[state]) for state in states)]
        for (cluster, source), found in sorted(counts.items())
    ]
    heads = ("Cluster", "Source", *(state.replace("_", " ").capitalize() for state in states))
    return _table(heads, rows)


def _checks(checks: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            escape(check["name"]),
            _number(check["evaluated_row_count"]),
            _number(check["failed_row_count"]),
            _passed(not check["failed_row_count"] and check["evaluated_row_count"] > 0),
        ]
        for check in checks
    ]
    return _table(("Check", "Rows looked at", "Rows failed", "Result"), rows)


def _suites(checks: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for check in checks:
        if check["result"]:
            result = json.loads(check["result"])
            yield f"<h3>Great Expectations: {escape(result['suite'])}</h3>"
            rows = [
                [
                    f"<code>{escape(entry['expectation'])}</code>",
                    f"<code>{escape(json.dumps(entry['arguments'], sort_keys=True))}</code>",
                    _number(entry.get("unexpected_count", 0)),
                    _passed(entry["success"]),
                ]
                for entry in result["results"]
            ]
            yield _table(("Expectation", "Of", "Unexpected", "Result"), rows)


def _passed(passed: bool) -> str:
    return '<span class="good">passed</span>' if passed else '<span class="bad">failed</span>'


def _number(value: int) -> str:
    return f"{value:,}"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"{_cell(cell)}" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _cell(cell: str) -> str:
    is_number = cell.replace(",", "").isdigit()
    return f'<td class="number">{cell}</td>' if is_number else f"<td>{cell}</td>"
