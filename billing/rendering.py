"""The files of one document, each made from its sealed bytes and nothing else.

Put here: which files a document has.
Not here: what is in them (`render_text`, `render_csv`, `render_pdf`, `focus`), or where they are
written (`render`).

A renderer sees the sealed document and its hash: no clock, no settings, no warehouse. So deleting
documents/ loses nothing, and rendering again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from billing.focus import cost_and_usage_csv
from billing.render_csv import lines_csv, pods_csv
from billing.render_pdf import invoice_pdf
from billing.render_text import invoice_text
from billing.sealing import from_bytes

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
