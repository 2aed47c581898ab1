"""The files of one document and of one month, each rendered from sealed bytes and nothing else.

Put here: the list of files, their names in a bundle, and the CSV of lines and pods.
Not here: the other formats (`text`, `pdf`, `focus`, `checks_page`), or where files are written
(`billing.documents_folder`).

A renderer gets the sealed document and its hash: no clock, no settings, no warehouse. So rendering
it again gives the same bytes, and the event that issues a document can name the hash of every file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files as package_files
from typing import Any

from billing.ccsp import hours_csv, nodes_csv
from billing.rendering.checks_page import checks_page
from billing.rendering.focus import billing_period_csv, cost_and_usage_csv, invoice_detail_csv
from billing.rendering.pdf import invoice_pdf
from billing.rendering.text import invoice_text
from billing.sealing import from_bytes, sha256, to_bytes
from billing.statement import capacity_csv, own_use_csv
from billing.verifier import VERIFIER
from domain.csv_text import csv_bytes

Renderer = Callable[[Mapping[str, Any], str], bytes]

RENDERERS: Mapping[str, Renderer] = {
    ".pdf": invoice_pdf,
    ".csv": lambda document, _: lines_csv(document),
    "-pods.csv": lambda document, _: pods_csv(document),
    "-focus.csv": lambda document, _: cost_and_usage_csv([document]),
    ".txt": lambda document, digest: invoice_text(document, digest).encode(),
}


def rendered_files(number: str, digest: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """The sealed bytes themselves as JSON, and the files rendered from them."""
    document = from_bytes(body)
    yield f"{number}.json", body
    for suffix, render in RENDERERS.items():
        yield f"{number}{suffix}", render(document, digest)


MODEL_PAGES = "models.html"
"""The documentation of the models at the close of a month."""

ENCLOSED = (VERIFIER, MODEL_PAGES)
"""Issued files that are part of the code, or made from it: the record stores their text."""


def document_files(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Name in a bundle → content, of one document."""
    body = to_bytes(document)
    rendered = rendered_files(document["number"], sha256(body), body)
    return {f"documents/{name}": content for name, content in rendered}


def is_file_of(number: str, name: str) -> bool:
    """Whether a name in a bundle is that of a file of this document."""
    return name.startswith((f"documents/{number}.", f"documents/{number}-"))


def verifier_file() -> dict[str, bytes]:
    return {VERIFIER: package_files("billing").joinpath(VERIFIER).read_bytes()}


def month_files(
    documents: Iterable[Mapping[str, Any]], statement: Mapping[str, Any], basis: Mapping[str, Any]
) -> dict[str, bytes]:
    """Name → content of the files of a closed month that do not belong to one document.

    `documents`: all in the books of the month; a void can be older than the close.
    """
    issued = list(documents)
    return {
        "focus/cost-and-usage.csv": cost_and_usage_csv(issued),
        "focus/invoice-detail.csv": invoice_detail_csv(issued),
        "focus/billing-period.csv": billing_period_csv(statement),
        "provider/checks.html": checks_page(basis, sha256(to_bytes(basis))),
        "provider/statement.json": to_bytes(statement),
        "provider/capacity.csv": capacity_csv(statement),
        "provider/own-use.csv": own_use_csv(statement),
        "provider/ccsp-hours.csv": hours_csv(statement),
        "provider/ccsp-nodes.csv": nodes_csv(statement),
    }


# CSV of lines and pods ----------------------------------------------------------------------------

LINE_COLUMNS = (
    "invoice",
    "tenant",
    "line",
    "kind",
    "charge_period",
    "cluster_id",
    "cluster_name",
    "gpu_class",
    "mig_profile",
    "started_at",
    "ended_at",
    "device_seconds",
    "weight",
    "weight_policy",
    "rate_id",
    "rate_per_hour",
    "currency",
    "cost",
    "billed_cost",
    "reason",
)

POD_COLUMNS = (
    "invoice",
    "line",
    "cluster_id",
    "pod_uid",
    "pod_name",
    "node_name",
    "resource",
    "workload_kind",
    "workload_name",
    "method",
    "device_count",
    "started_at",
    "ended_at",
    "device_seconds",
    "uncertain_device_seconds",
    "currency",
    "cost",
)


def lines_csv(document: Mapping[str, Any]) -> bytes:
    """One row per line; `billed_cost` adds up to the total."""
    return csv_bytes(LINE_COLUMNS, _rows(document, "lines", LINE_COLUMNS))


def pods_csv(document: Mapping[str, Any]) -> bytes:
    """One row per pod, line and method; `cost` adds up to the exact total of the usage lines."""
    return csv_bytes(POD_COLUMNS, _rows(document, "pods", POD_COLUMNS))


def _rows(document: Mapping[str, Any], part: str, columns: tuple[str, ...]) -> list[list[object]]:
    clusters = {line["line"]: line["cluster_id"] for line in document["lines"]}
    shared = {"invoice": document["number"], "tenant": document["tenant"]}
    shared["currency"] = document["currency"]
    return [
        [{"cluster_id": clusters[entry["line"]], **shared, **entry}[name] for name in columns]
        for entry in document[part]
    ]
