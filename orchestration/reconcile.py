"""Reconciling: asking for what the hour ledger owes, in its order. Nothing here needs Dagster.

Put here: paying debts in this process.
Not here: what is owed (`orchestration.ledger`), or asking Dagster to pay (`orchestration.sensors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from domain.errors import LedgerError
from ingestion.hours import Debt
from orchestration.asking import Progress, Wanted, ask_all
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from ingestion.manifest import Attempt


def pay(
    opened: OpenHome,
    todo: Sequence[Debt],
    progress: Progress | None = None,
    errors: list[LedgerError] | None = None,
) -> list[Attempt]:
    """Ask for every debt, in order, of two clusters at a time; errors as in `ask_all`."""
    wanted = [
        Wanted(
            debt.cluster_id,
            debt.source,
            debt.window,
            f"{debt.cluster_id} {debt.source.value} {debt.why.value}",
        )
        for debt in todo
    ]
    return ask_all(opened, wanted, progress, errors)
