"""The demo: a simulated month is measured, refused, backfilled, waived, closed and published.

Put here: the order of the steps, and the results that the demo prints.
Not here: the steps themselves (`orchestration.steps`), or printing (`orchestration.cli.demo`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from billing.close import CloseResult
from billing.gate import PeriodNotBillable
from domain.billing_period import BillingPeriod
from domain.findings import Finding
from domain.interval import HOUR, Interval, format_instant, subtract
from fake_gpu.clock import epoch
from fake_gpu.fleet.model import Fleet
from orchestration import steps
from orchestration.demo.clock_driver import DrivenFleet, drive_clock, run_collectors
from orchestration.demo.demo_home import make_home
from orchestration.demo.fleet_process import serve_in_own_process
from orchestration.open_home import OpenHome
from orchestration.publishing import publish, publish_model_pages
from warehouse.publish import PublishedCopy

Bar = Callable[[str], AbstractContextManager[Callable[[int, int, str], None]]]
PrintText = Callable[[str], None]
Rows = list[dict[str, str]]

AFTER = timedelta(days=3)
"""The clock's time after the month; the grace time is two days."""

TREATMENTS = {
    "hour_not_measured": "bill_nothing",
    "allocation_not_seen": "bill_nothing",
    "sources_disagree": "bill_lifecycle",
}
"""The gaps that the demo's operator accepts, by finding: unmeasured time is not billed, and where
the samples disagree with the API server, the API server's times are billed."""

OPERATOR = "Demo Operator"


@dataclass(frozen=True, slots=True)
class ClosedMonth:
    """A closed period: the refused closes, the accepted gaps, the issued documents."""

    period: BillingPeriod
    refusals: tuple[str, ...]
    accepted_gaps: Rows  # of accepted_gaps.csv
    result: CloseResult


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Every month of the demo, and the places of its files."""

    opened: OpenHome
    months: tuple[ClosedMonth, ...]
    published: PublishedCopy
    model_pages: Path
    clock_url: str  # of the simulated fleet, while it is served


@contextmanager
def run_demo(
    scenario: str, home_path: Path, bar: Bar, print_text: PrintText
) -> Iterator[DemoResult]:
    """Run the whole pipeline on a scenario; the fleet is served until the block is left."""
    with serve_in_own_process(scenario) as running:
        fleet = running.fleet
        span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
        home = make_home(home_path, fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, running.clock)
        print_text(_describe_fleet(fleet))
        watch(opened, running, Interval(running.clock.now(), span.ended_at + HOUR), bar)
        periods = _periods(span)
        running.advance_to(max(periods[-1].ended_at, running.clock.now()) + AFTER)
        left_out = middle_hour(span)
        for part in subtract([span], [Interval(left_out, left_out + HOUR)]):
            _pull(opened, part, bar)
        print_text("Both sources were pulled for every hour but one, which is left out on purpose.")
        months = []
        for period in periods:
            opened, month = _bill(opened, period, left_out, bar, print_text)
            months.append(month)
        with bar("Publishing") as report:
            report(0, 1, "a copy for readers")
            published = publish(opened)
            pages = publish_model_pages(opened)
            report(1, 1, "")
        yield DemoResult(opened, tuple(months), published, pages, running.clock_url)


def watch(opened: OpenHome, running: DrivenFleet, span: Interval, bar: Bar) -> None:
    """Let the simulated time pass, with a collector for each cluster."""
    with run_collectors(opened, running) as collectors, bar("Simulating the month") as report:
        drive_clock(running, collectors, span, report)


def middle_hour(span: Interval) -> datetime:
    """The hour that is not pulled at first."""
    hours = list(span.hours())
    return hours[len(hours) // 2]


def _periods(span: Interval) -> list[BillingPeriod]:
    periods = [BillingPeriod.containing(span.started_at)]
    while periods[-1].ended_at < span.ended_at:
        periods.append(periods[-1].next())
    return periods


def _bill(
    opened: OpenHome, period: BillingPeriod, left_out: datetime, bar: Bar, print_text: PrintText
) -> tuple[OpenHome, ClosedMonth]:
    """Close a period: backfill after the first refusal, then accept the gaps that remain."""
    refusals: list[str] = []
    accepted: Rows = []
    backfilled = not period.interval.contains(left_out)
    while True:
        with bar("Building facts") as report:
            steps.refresh(opened, period, report)
        try:
            with bar("Closing") as report:
                report(0, 1, "checking, sealing, rendering")
                result = steps.close(opened, period, dry_run=False)
                report(1, 1, "")
            return opened, ClosedMonth(period, tuple(refusals), accepted, result)
        except PeriodNotBillable as refusal:
            refusals.append(refusal.message())
            found = _gaps_to_accept(refusal.check_result.blocking, None if backfilled else left_out)
            rows = [row for row in found if row not in accepted]
            if backfilled and not rows:
                raise
        if not backfilled:
            print_text(f"The close is refused:\n{refusals[-1]}")
            print_text(f"Backfill: hour {left_out:%Y-%m-%dT%H} is pulled.")
            _pull(opened, period.interval, bar)
            backfilled = True
        if rows:
            print_text(_describe_accepted(opened, rows))
            steps.accept_gaps(opened, rows)
            accepted += rows
            opened = OpenHome(opened.home, opened.clock)  # with the decisions as they are now


def _pull(opened: OpenHome, hours: Interval, bar: Bar) -> None:
    with bar("Pulling") as report:
        steps.pull(opened, hours, progress=report)


def _gaps_to_accept(blocking: Sequence[Finding], not_yet_pulled: datetime | None) -> Rows:
    """A row per cluster, gap and treatment, for the gaps that a backfill cannot fill."""
    found = {
        (finding.cluster_id, finding.hour_started_at, finding.hour_ended_at, treatment)
        for finding in blocking
        if (treatment := TREATMENTS.get(finding.name)) is not None
        and not (not_yet_pulled and _concerns(finding, not_yet_pulled))
    }
    return [
        {
            "cluster_id": cluster_id,
            "source": "kubernetes",
            "started_at": format_instant(started_at),
            "ended_at": format_instant(ended_at),
            "treatment": treatment,
            "reason": "neither source can be backfilled; agreed with the tenants",
            "decided_by": OPERATOR,
        }
        for cluster_id, started_at, ended_at, treatment in sorted(found, key=str)
        if started_at is not None and ended_at is not None
    ]


def _concerns(finding: Finding, hour: datetime) -> bool:
    started_at, ended_at = finding.hour_started_at, finding.hour_ended_at
    if started_at is None or ended_at is None:
        return False
    return started_at < hour + HOUR and hour < ended_at


def _describe_accepted(opened: OpenHome, rows: Rows) -> str:
    names = {cluster.cluster_id: cluster.cluster_name for cluster in opened.decisions.clusters}
    lines = [
        f"  cluster {names[row['cluster_id']]}, {row['started_at']} to {row['ended_at']}: "
        f"{row['treatment']}"
        for row in rows
    ]
    return f"Gaps that cannot be backfilled, accepted by {OPERATOR}:\n" + "\n".join(lines)


def _describe_fleet(fleet: Fleet) -> str:
    nodes = sum(len(cluster.nodes) for cluster in fleet.clusters)
    pods = sum(len(cluster.pods) for cluster in fleet.clusters)
    names = ", ".join(cluster.name for cluster in fleet.clusters)
    return f"Simulated clusters: {names}; {nodes} nodes, {pods} pods."
