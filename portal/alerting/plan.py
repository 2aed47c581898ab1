"""Which budget steps are notified now: from their states, their records and the present alerts.

Put here: the rules by which every step is notified once per month and version of its budget.
Not here: the alert itself (`portal.alerting.alerts`), or requests (`portal.alerting.sending`).

A step is posted when it was reached, and again while Alertmanager has lost it. It is delivered when
an Alertmanager still has it, with a receiver, after the time in which a group is notified; from
then on it is never posted again. A change of the budget rearms steps that are no longer reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from domain.budgets import StepKind
from domain.interval import format_instant, parse_instant
from portal.alerting.deliveries import Event, StepEvent, StepKey, last_events, step_key
from warehouse.reports.budgets import BudgetState

SEND_EVERY = timedelta(minutes=10)
DELIVERED_AFTER = timedelta(minutes=6)
"""Alertmanager's default group_interval, in which it notifies a new alert of a known group, and
one minute more. An Alertmanager that was restarted in between has lost the alert."""


@dataclass(frozen=True, slots=True)
class StepToPost:
    """A step that is posted now."""

    state: BudgetState
    kind: StepKind
    step: int
    starts_at: datetime
    event: StepEvent  # to be recorded once an Alertmanager has accepted the alert


@dataclass(frozen=True, slots=True)
class AlertPlan:
    """The posts and records of one run for one month."""

    to_post: list[StepToPost] = field(default_factory=list)
    to_record: list[StepEvent] = field(default_factory=list)  # before anything is posted


def plan_steps(
    states: Iterable[BudgetState],
    events: Iterable[StepEvent],
    present: Mapping[StepKey, str],
    now: datetime,
) -> AlertPlan:
    """`present` has the fingerprints of the steps that an Alertmanager has, with a receiver."""
    plan = AlertPlan()
    last = last_events(events)
    for state in states:
        for kind, step, reached_at in state.steps:
            key = step_key(state.budget, kind, step)
            before = last.get(key)
            is_changed = before is not None and before.version != state.budget.version
            if before is None or before.event == "rearmed":
                if reached_at is not None:
                    posted = _event("posted", state, key, now, format_instant(now))
                    plan.to_post.append(StepToPost(state, kind, step, now, posted))
            elif is_changed and reached_at is None:
                plan.to_record.append(_event("rearmed", state, key, now))
            elif before.event in ("delivered", "kept"):
                if is_changed:
                    plan.to_record.append(_event("kept", state, key, now))
            elif key not in present:
                posted = _event("posted", state, key, now, before.starts_at)
                starts_at = parse_instant(before.starts_at)
                plan.to_post.append(StepToPost(state, kind, step, starts_at, posted))
            elif now - parse_instant(before.at) >= DELIVERED_AFTER:
                delivered = _event("delivered", state, key, now, before.starts_at, present[key])
                plan.to_record.append(delivered)
    return plan


def _event(
    name: Event,
    state: BudgetState,
    key: StepKey,
    now: datetime,
    starts_at: str = "",
    fingerprint: str = "",
) -> StepEvent:
    tenant, source, budget, kind, step = key
    return StepEvent(
        at=format_instant(now),
        event=name,
        tenant=tenant,
        source=source,
        budget=budget,
        kind=kind,
        step=step,
        version=state.budget.version,
        starts_at=starts_at,
        measured_until=format_instant(state.costs.counted_until),
        fingerprint=fingerprint,
    )
