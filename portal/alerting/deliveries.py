"""The records of notified budget steps: append-only files in the record, beside its chain.

Put here: one event, reading and appending events, and the last event of each step.
Not here: which event follows (`portal.alerting.plan`).

    alert-deliveries/2026-10/000001.json     the events of one run that had any, as a JSON list

A file is created and never changed. It contains amounts of no tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from domain.billing_period import BillingPeriod
from domain.budgets import BudgetOfMonth, StepKind
from domain.errors import FileDamaged
from warehouse.store import Store

FOLDER = "alert-deliveries"

StepKey = tuple[str, str, str, str, int]
"""Tenant, source and name of the budget, kind and percentage of the step."""

Event = Literal["posted", "delivered", "kept", "rearmed"]
"""posted: given to an Alertmanager. delivered: it was there long enough to be notified. kept: the
budget was changed, the step is still reached, and its notification was delivered before. rearmed:
the budget was changed, and the step is not reached any more."""


class StepEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of one step of a budget."""

    at: str
    event: Event
    tenant: str
    source: str
    budget: str
    kind: str
    step: int
    version: str  # of the budget
    starts_at: str = ""  # of the alert
    measured_until: str = ""
    fingerprint: str = ""  # as Alertmanager has it

    @property
    def key(self) -> StepKey:
        return self.tenant, self.source, self.budget, self.kind, self.step


def step_key(budget: BudgetOfMonth, kind: StepKind, step: int) -> StepKey:
    return budget.tenant, budget.source.value, budget.name, kind.value, step


class Deliveries:
    """The events in a record."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def events(self, period: BillingPeriod) -> list[StepEvent]:
        """Every event of a month, in order; raises FileDamaged."""
        found: list[StepEvent] = []
        for key in self._store.list(f"{FOLDER}/{period.name}/"):
            try:
                found += msgspec.json.decode(self._store.read(key), type=list[StepEvent])
            except ValueError:
                raise FileDamaged(
                    where=f"{self._store.location}/{key}",
                    seen="the file is not a list of delivery events",
                    why="without it, gpu-ledger would send budget alerts again that were sent "
                    "before",
                    remedy="restore the file from a backup of the home",
                ) from None
        return found

    def append(self, period: BillingPeriod, events: Sequence[StepEvent]) -> None:
        """Write events durably, after all others."""
        if not events:
            return
        folder = f"{FOLDER}/{period.name}/"
        number = len(self._store.list(folder)) + 1
        body = msgspec.json.encode(events) + b"\n"
        while not self._store.create(f"{folder}{number:06}.json", body):
            number += 1


def last_events(events: Iterable[StepEvent]) -> dict[StepKey, StepEvent]:
    return {event.key: event for event in events}


def delivered_at(events: Iterable[StepEvent]) -> dict[StepKey, str]:
    """When the notification of each step was delivered; steps that were rearmed are left out."""
    found: dict[StepKey, str] = {}
    for event in events:
        if event.event == "delivered":
            found[event.key] = event.at
        elif event.event == "rearmed":
            found.pop(event.key, None)
    return found
