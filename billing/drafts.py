"""Drafts: every document of an open period as it stands now, marked as estimated on each page.

Put here: making them and writing them aside.
Not here: issuing (`close`). A draft has no number of a series, and nothing of it is recorded.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from billing.books import Books
from billing.commits import plan_from
from billing.grounds import read_grounds
from billing.invoice import DRAFT
from billing.plan import Draft
from billing.record import Record
from billing.render import Progress, folder_of, render_ahead, write_file
from billing.rendering import is_file_of
from domain.billing_period import BillingPeriod
from domain.clock import Clock
from domain.decisions import Decisions
from domain.errors import WrongUse
from domain.findings import Judgement
from warehouse.home import Home

FOLDER = "drafts"


class DraftOfClosedPeriod(WrongUse):
    """A draft of what is final already."""

    code = "DRAFT-001"

    def __init__(self, period: BillingPeriod) -> None:
        super().__init__(
            where=f"period {period}",
            seen="it is closed",
            why="its documents are final, and an estimate beside them would only confuse",
            remedy=f"gpu-ledger invoice {period}",
        )


def write_drafts(
    home: Home,
    period: BillingPeriod,
    decisions: Decisions,
    judge: Callable[[], Judgement],
    clock: Clock,
    progress: Progress | None = None,
) -> list[Path]:
    """Replace the period's drafts; the paths, in order. What blocks a close blocks no draft."""
    record = Record(home.record_store())
    books = Books(record, record.ledger())
    if period.name in books.ledger.closes():
        raise DraftOfClosedPeriod(period)
    grounds = read_grounds(home, home.warehouse_path, period, decisions, judge())
    plan = plan_from(books, grounds, clock.now().replace(microsecond=0))
    drafts = [_as_draft(draft, place) for place, draft in enumerate(plan.drafts, start=1)]
    rendered = render_ahead([draft.document for draft in drafts], progress)
    folder = home.documents / period.name / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    return sorted(
        write_file(folder, f"{folder_of(draft.tenant)}/{Path(name).name}", content)
        for draft in drafts
        for name, content in rendered.items()
        if is_file_of(draft.number, name)
    )


def _as_draft(draft: Draft, place: int) -> Draft:
    number = f"{DRAFT}{place:06}"
    document = {**draft.document, "number": number, "amounts": "estimated"}
    return replace(draft, number=number, document=document)
