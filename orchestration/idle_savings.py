"""The cost that stops of idle workloads saved, from the pruner's records and the bill's prices.

Put here: the records of a home, the hourly cost of a stop, and sums of a week.
Not here: stopping (`idle_pruner`), options and printing (`orchestration.cli.prune`).

A stop saves the hourly cost of its pods, as billed in the month of the stop, until the restore.
Where the bill does not know a pod, the saving is unknown, and never an estimate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from domain.billing_period import BillingPeriod
from domain.interval import format_instant, parse_instant
from idle_pruner.records import PruneRecord, Records, WorkloadStop
from warehouse.home import Home

HourlyCosts = dict[str, tuple[Decimal, str]]  # by pod UID: amount and currency
RECORDS = "idle-pruner.jsonl"
WEEK = timedelta(days=7)


def records_of(home: Home) -> Records:
    return Records(home.record / RECORDS)


def hourly_costs(home: Home, stops: Iterable[WorkloadStop]) -> HourlyCosts:
    """The hourly cost of the stopped pods, from the facts of the months of their stops."""
    periods = sorted({BillingPeriod.containing(parse_instant(s.stopped.at)).name for s in stops})
    costs: HourlyCosts = {}
    if not periods or not home.warehouse_path.is_file():
        return costs
    # The image of the pruner has no DuckDB, and no home to read costs from.
    from warehouse.reports.named_queries import ask, question
    from warehouse.reports.opened_facts import open_facts

    with open_facts(home) as facts:
        for period in (name for name in periods if name in facts.periods):
            answer = ask(facts, question("hourly-cost-of-pods"), {"period": period})
            for row in answer.rows:
                costs[row["pod_uid"]] = Decimal(row["hourly_cost"]), row["currency"]
    return costs


def hourly_cost(stop: WorkloadStop, costs: HourlyCosts) -> tuple[Decimal, str] | None:
    """The cost of an hour of all pods of a stop; None if the price of one is unknown."""
    found = [costs.get(pod) for pod in stop.stopped.pods]
    known = [cost for cost in found if cost is not None]
    currencies = {currency for _, currency in known}
    if not found or len(known) < len(found) or len(currencies) != 1:
        return None
    return sum((amount for amount, _ in known), Decimal(0)), currencies.pop()


def stopped_seconds(stop: WorkloadStop, started_at: datetime, ended_at: datetime) -> int:
    """The seconds for which a workload was stopped within `[started_at, ended_at)`."""
    first = max(parse_instant(stop.stopped.at), started_at)
    last = min(parse_instant(stop.restored.at), ended_at) if stop.restored else ended_at
    return max(int((last - first).total_seconds()), 0)


def saved_money(
    stop: WorkloadStop, costs: HourlyCosts, now: datetime, since: datetime | None = None
) -> tuple[Decimal, str] | None:
    """The cost that a stop avoided until its restore or now; None if a price is unknown."""
    hourly = hourly_cost(stop, costs)
    if hourly is None:
        return None
    seconds = stopped_seconds(stop, since or parse_instant(stop.stopped.at), now)
    cents = (hourly[0] * seconds / 3600).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
    return cents, hourly[1]


@dataclass
class _Week:
    stops: int = 0
    restores: int = 0
    refusals: int = 0
    device_seconds: int = 0
    saved: Decimal = Decimal(0)
    currency: str = ""
    unpriced: int = 0


def weekly_report(
    history: Sequence[PruneRecord],
    stops: Sequence[WorkloadStop],
    costs: HourlyCosts,
    ended_at: datetime,
) -> list[dict[str, Any]]:
    """One row per namespace: stops, device-hours and saved cost of the week before `ended_at`."""
    started_at = ended_at - WEEK
    weeks: defaultdict[str, _Week] = defaultdict(_Week)
    for record in history:
        if not format_instant(started_at) <= record.at < format_instant(ended_at):
            continue
        week = weeks[record.namespace]
        week.stops += record.event == "stopped"
        week.restores += record.event == "restored"
        week.refusals += record.event in ("not_stopped", "not_gone", "not_restored")
    for stop in stops:
        seconds = stopped_seconds(stop, started_at, ended_at)
        if not seconds:
            continue
        week = weeks[stop.stopped.namespace]
        week.device_seconds += seconds * stop.stopped.device_count
        saved = saved_money(stop, costs, ended_at, started_at)
        if saved is None or week.currency not in ("", saved[1]):
            week.unpriced += 1
        else:
            week.saved, week.currency = week.saved + saved[0], saved[1]
    return [
        {
            "namespace": namespace,
            "week_started_at": format_instant(started_at),
            "week_ended_at": format_instant(ended_at),
            "stops": week.stops,
            "restores": week.restores,
            "refusals": week.refusals,
            "device_hours": str(
                (Decimal(week.device_seconds) / 3600).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
            ),
            "saved": str(week.saved) if week.currency else "",
            "currency": week.currency,
            "unpriced_stops": week.unpriced,
        }
        for namespace, week in sorted(weeks.items())
        if week.stops or week.restores or week.refusals or week.device_seconds
    ]
