"""Reconciling: asking for what the hour ledger owes, in its order. Nothing here needs Dagster.

Put here: paying debts in this process.
Not here: what is owed (`orchestration.ledger`), or asking Dagster to pay (`orchestration.sensors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ingestion.hours import Debt
from orchestration import steps
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from ingestion.manifest import Attempt


def pay(
    opened: OpenHome, todo: Sequence[Debt], progress: steps.Progress | None = None
) -> list[Attempt]:
    """Ask for every debt, in order."""
    attempts = []
    for number, debt in enumerate(todo):
        if progress:
            progress(number, len(todo), f"{debt.cluster_id} {debt.source.value} {debt.why.value}")
        attempt = steps.ask(opened, debt.cluster_id, debt.source, debt.window)
        if attempt is not None:
            attempts.append(attempt)
    if progress:
        progress(len(todo), len(todo), "")
    return attempts
