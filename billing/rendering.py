"""The files of one document and of one month, each made from sealed bytes and nothing else.

Put here: which files a document and a month have, and their names in a bundle.
Not here: what is in them (`render_text`, `render_csv`, `render_pdf`, `focus`), or where they are
written (`render`).

A renderer sees the sealed document and its hash: no clock, no settings, no warehouse. So rendering
again gives the same bytes, and the event that issues a document can name the hash of every file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files as package_files
from typing import Any

from billing.ccsp import hours_csv, nodes_csv
from billing.focus import billing_period_csv, cost_and_usage_csv, invoice_detail_csv
from billing.render_checks import checks_page
from billing.render_csv import lines_csv, pods_csv
from billing.render_pdf import invoice_pdf
from billing.render_text import invoice_text
from billing.sealing import from_bytes, sha256, to_bytes
from billing.statement import capacity_csv, own_use_csv
from billing.verifier import VERIFIER

Renderer = Callable[[Mapping[str, Any], str], bytes]

RENDERERS: Mapping[str, Renderer] = {
    ".pdf": invoice_pdf,
    ".csv": lambda document, _: lines_csv(document),
    "-pods.csv": lambda document, _: pods_csv(document),
    "-focus.csv": lambda document, _: cost_and_usage_csv([document]),
    ".txt": lambda document, digest: invoice_text(document, digest).encode(),
}


def rendered_files(number: str, digest: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    """The sealed bytes themselves as JSON, and what is made of them."""
    document = from_bytes(body)
    yield f"{number}.json", body
    for suffix, render in RENDERERS.items():
        yield f"{number}{suffix}", render(document, digest)


MODEL_PAGES = "models.html"
"""The documentation of the models as they are at the close of a month."""

ENCLOSED = (VERIFIER, MODEL_PAGES)
"""Issued files that are part of the code, or made from it: the record keeps their text."""


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
    """Name → content of the files of a closed month that belong to no document.

    `documents`: all in the month's books; a void may have come before the close.
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
