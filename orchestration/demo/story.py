"""The demo's story: a month passes, the close is refused, a backfill, accepted gaps, invoices.

Put here: the order of what happens, and what came of it.
Not here: the steps themselves (`orchestration.steps`), or how it is shown (`orchestration.cli`).

Six processes share the work: the fleet that is watched, the same one twice that is asked, this
one, and two beside it that ask the sources while the month goes on; the first of them counts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from billing.gate import PeriodNotBillable
from billing.rendering import MODEL_PAGES
from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval, format_instant
from orchestration import steps
from orchestration.demo.asking import Asking, forgotten
from orchestration.demo.beside import Beside, beside, count, get_ready, tidy_up
from orchestration.demo.clockwork import collecting, live_through
from orchestration.demo.divided import Divided
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome
from orchestration.signing import sign_gaps

if TYPE_CHECKING:
    from billing.close import CloseResult
    from domain.findings import Finding
    from fake_gpu.fleet.model import Fleet
    from orchestration.demo.fleet_process import ServedApart
    from warehouse.publish import Published

Bar = Callable[[str], AbstractContextManager[Callable[[int, int, str], None]]]
Say = Callable[[str], None]
Rows = list[dict[str, str]]

# The collectors start before the first hour that is measured, as a real one would.
BEFORE = timedelta(minutes=10)
AFTER = timedelta(days=3)  # the grace time is two
# What a person may sign in the demo, and what is then billed: nothing where nobody saw anything,
# and what the API server said where the samples disagree with it.
TREATMENTS = {
    "hour_not_measured": "bill_nothing",
    "allocation_not_seen": "bill_nothing",
    "sources_disagree": "bill_lifecycle",
}
SIGNER = "Demo Operator"


@dataclass(frozen=True, slots=True)
class Month:
    """A period that was closed: how often it was refused, what was signed, what was issued."""

    period: BillingPeriod
    refusals: tuple[str, ...]
    signed: Rows  # of accepted_gaps.csv
    result: CloseResult


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the story came to: every month that it touches."""

    opened: OpenHome
    months: tuple[Month, ...]
    published: Published
    model_pages: Path
    clock_url: str  # of the fleet, while it is served


@contextmanager
def telling(scenario: str, home_path: Path, bar: Bar, say: Say) -> Iterator[DemoResult]:
    """Run the whole line on a scenario; the fleet answers until the block is left."""
    from fake_gpu.clock import epoch
    from fake_gpu.fleet.build import build_fleet
    from fake_gpu.scenario.load import load_scenario
    from orchestration.demo.fleet_process import lived_through, serving

    with (
        serving(scenario) as watched,
        serving(scenario) as asked,
        serving(scenario) as asked_too,
        beside() as helper,
        beside() as other,
    ):
        # All five begin while this one builds its own fleet.
        fleet = build_fleet(load_scenario(scenario))
        span = Interval(epoch(fleet.started_at), epoch(fleet.ended_at))
        start = span.started_at - BEFORE
        running = lived_through(fleet, start, watched)
        store = Divided.of(fleet, asked(start), asked_too(start))
        home = make_home(home_path, fleet, store.thanos_urls, store.first.kubernetes_urls)
        helper.begin(get_ready, home.path, start)
        opened = OpenHome(home, running.clock)
        helpers = {Source.KUBERNETES: helper, Source.THANOS: other}
        asking = Asking(helpers, home.path, store.clock_urls, span)
        say(_fleet_in_words(fleet))
        _live(opened, running, span, asking, bar)
        # Everything was watched: from here on those that are asked are all there is.
        store.first.take_counts_of(running.served)
        say("Both sources were pulled for every hour but one, which is left out on purpose.")
        _finish(asking, bar)
        periods = _periods(span)
        end = max(periods[-1].ended_at, running.clock.now()) + AFTER
        running.clock.advance_to(end)
        store.advance_to(end)
        told = _bill(opened, periods, helper, asking, bar, say)
        store.unite(home)
        yield replace(told, opened=OpenHome(home, told.opened.clock))


def tell(scenario: str, home_path: Path, bar: Bar, say: Say) -> DemoResult:
    """The same, for whoever does not need the fleet afterwards."""
    with telling(scenario, home_path, bar, say) as told:
        return told


def _periods(span: Interval) -> list[BillingPeriod]:
    periods = [BillingPeriod.containing(span.started_at)]
    while periods[-1].ended_at < span.ended_at:
        periods.append(periods[-1].next())
    return periods


def _bill(
    opened: OpenHome,
    periods: Sequence[BillingPeriod],
    helper: Beside,
    asking: Asking,
    bar: Bar,
    say: Say,
) -> DemoResult:
    left_out = forgotten(asking.span)
    months: list[Month] = []
    for period in periods:
        rows: Rows = []
        refusals: list[str] = []
        if period.interval.contains(left_out):
            _count(opened, period, helper, bar)
            refusal = _refused(opened, period, bar)
            refusals.append(refusal.message())
            say(f"The close is refused:\n{refusal.message()}")
            say(f"Backfill: hour {left_out:%Y-%m-%dT%H} is pulled.")
            # Everything that is not complete yet is asked for, as a pull of a whole period does.
            asking.begin(asking.span, opened.clock.now())
            _finish(asking, bar)
            # What was refused about that hour may be gone; what lies elsewhere has to be signed.
            rows = _signatures(refusal.check_result.blocking, but_for=left_out)
        opened, month = _close_signed(opened, period, rows, helper, bar, say)
        months.append(replace(month, refusals=(*refusals, *month.refusals)))
    published = _publish(opened, bar)
    helper.finish()
    pages = opened.home.published / MODEL_PAGES
    return DemoResult(opened, tuple(months), published, pages, asking.clock_urls[0])


def _close_signed(
    opened: OpenHome, period: BillingPeriod, rows: Rows, helper: Beside, bar: Bar, say: Say
) -> tuple[OpenHome, Month]:
    """Sign, count, close; sign what still stands against it, if a person can sign that."""
    signed: list[dict[str, str]] = []
    refusals: list[str] = []
    while True:
        if rows:
            say(_signed_in_words(rows))
            sign_gaps(opened, rows)
            signed += rows
            opened = OpenHome(opened.home, opened.clock)  # with the decisions as they are now
        _count(opened, period, helper, bar)
        try:
            return opened, Month(period, tuple(refusals), signed, _closed(opened, period, bar))
        except PeriodNotBillable as refusal:
            refusals.append(refusal.message())
            rows = [r for r in _signatures(refusal.check_result.blocking) if r not in signed]
            if not rows:
                raise


def _live(opened: OpenHome, running: ServedApart, span: Interval, asking: Asking, bar: Bar) -> None:
    """A month passes; what is over is asked for meanwhile."""
    lived = Interval(span.started_at - BEFORE, span.ended_at + HOUR)
    with (
        collecting(opened, running, running.kubernetes_urls) as collectors,
        bar("Living through it") as report,
    ):

        def both(done: int, total: int, what: str) -> None:
            asking.go_on(running.clock.now())
            report(done, total, f"{what} {asking.words}")

        live_through(running, collectors, lived, both)
    asking.go_on(lived.ended_at, is_over=True)


def _finish(asking: Asking, bar: Bar) -> None:
    with bar("Asking") as report:
        asking.finish(report)


def _count(opened: OpenHome, period: BillingPeriod, helper: Beside, bar: Bar) -> None:
    with bar("Counting") as report:
        helper.begin(count, opened.home.path, opened.clock.now(), period)
        _prepare(opened)  # meanwhile
        helper.finish(report)
    helper.begin(tidy_up, opened.home.path, opened.clock.now())


def _prepare(opened: OpenHome) -> None:
    """What checking and closing need besides facts takes seconds to load, or to make at first."""
    from orchestration.publishing import model_pages
    from quality.suites.runner import load

    load()
    model_pages(opened)


def _refused(opened: OpenHome, period: BillingPeriod, bar: Bar) -> PeriodNotBillable:
    with bar("Checking") as report:
        report(0, 1, "may this be billed?")
        try:
            steps.close(opened, period, dry_run=False)
        except PeriodNotBillable as refusal:
            report(1, 1, "no")
            return refusal
    raise AssertionError("a close with an hour missing was not refused")


def _closed(opened: OpenHome, period: BillingPeriod, bar: Bar) -> CloseResult:
    with bar("Closing") as report:
        report(0, 1, "checking again, sealing, rendering")
        result = steps.close(opened, period, dry_run=False)
        report(1, 1, "")
    return result


def _publish(opened: OpenHome, bar: Bar) -> Published:
    from orchestration.publishing import publish

    with bar("Publishing") as report:
        report(0, 1, "a copy for readers")
        published = publish(opened)
        report(1, 1, "")
    return published


def _signatures(blocking: Sequence[Finding], but_for: datetime | None = None) -> Rows:
    """What a person signs of what still blocks: one row per cluster, hours and treatment."""
    found = {
        (finding.cluster_id, finding.hour_started_at, finding.hour_ended_at, treatment)
        for finding in blocking
        if (treatment := TREATMENTS.get(finding.name)) is not None
        and not (but_for and _touches(finding, but_for))
    }
    return [
        {
            "cluster_id": cluster_id,
            "source": "kubernetes",
            "started_at": format_instant(started_at),
            "ended_at": format_instant(ended_at),
            "treatment": treatment,
            "reason": "neither can be asked again; agreed with the tenants",
            "decided_by": SIGNER,
        }
        for cluster_id, started_at, ended_at, treatment in sorted(found, key=str)
        if started_at is not None and ended_at is not None
    ]


def _touches(finding: Finding, hour: datetime) -> bool:
    started_at, ended_at = finding.hour_started_at, finding.hour_ended_at
    if started_at is None or ended_at is None:
        return False
    return started_at < hour + HOUR and hour < ended_at


def _signed_in_words(rows: Rows) -> str:
    lines = [
        f"  {row['started_at']} to {row['ended_at']} {row['treatment']}: {row['cluster_id']}"
        for row in rows
    ]
    return f"Gaps that cannot be backfilled, accepted by {SIGNER}:\n" + "\n".join(lines)


def _fleet_in_words(fleet: Fleet) -> str:
    nodes = sum(len(cluster.nodes) for cluster in fleet.clusters)
    pods = sum(len(cluster.pods) for cluster in fleet.clusters)
    names = ", ".join(cluster.name for cluster in fleet.clusters)
    return f"Simulated clusters: {names}; {nodes} nodes, {pods} pods."
