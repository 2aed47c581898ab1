"""The demo's story: a month passes, the close is refused, it heals, somebody signs, invoices.

Put here: the order of what happens, and what came of it.
Not here: the steps themselves (`orchestration.steps`), or how it is shown (`orchestration.cli`).

Three processes share the work: the estate, this one, and one beside it that takes over journals
while the month goes on, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from billing.gate import PeriodNotBillable
from billing.render import MODEL_PAGES
from domain.billing_period import BillingPeriod
from domain.decisions import Source
from domain.interval import HOUR, Interval, format_instant
from orchestration import steps
from orchestration.demo.beside import Beside, ask_journals, beside, count, get_ready
from orchestration.demo.clockwork import Driven, collecting, live_through
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome
from orchestration.signing import sign_gaps

if TYPE_CHECKING:
    from billing.close import CloseResult
    from domain.findings import Finding
    from fake_gpu.estate.model import Estate
    from warehouse.publish import Published

Bar = Callable[[str], AbstractContextManager[Callable[[int, int, str], None]]]
Say = Callable[[str], None]
Rows = list[dict[str, str]]

# The collectors start before the first hour that is measured, as a real one would.
BEFORE = timedelta(minutes=10)
AFTER = timedelta(days=3)  # the grace time is two
# So much of a journal is taken over at once, when it is a day old.
WEEK = timedelta(days=7)
DAY = timedelta(days=1)
MONTH = timedelta(days=31)
# What a person may sign in the demo, and what is then billed: nothing where nobody saw anything,
# and what the API server said where the samples disagree with it.
TREATMENTS = {
    "hour_not_measured": "bill_nothing",
    "allocation_not_seen": "bill_nothing",
    "witnesses_disagree": "bill_lifecycle",
}
SIGNER = "Demo Operator"


@dataclass(frozen=True, slots=True)
class Told:
    """What the story came to."""

    opened: OpenHome
    period: BillingPeriod
    refusal: str
    signed: Rows  # of accepted_gaps.csv
    result: CloseResult
    published: Published
    model_pages: Path
    clock_url: str  # of the estate, while it is served


@contextmanager
def telling(scenario: str, home_path: Path, bar: Bar, say: Say) -> Iterator[Told]:
    """Run the whole line on a scenario; the estate answers until the block is left."""
    from fake_gpu.clock import epoch
    from fake_gpu.estate.build import build_estate
    from fake_gpu.scenario.load import load_scenario
    from orchestration.demo.estate_process import served_apart

    estate = build_estate(load_scenario(scenario))
    span = Interval(epoch(estate.started_at), epoch(estate.ended_at))
    start = span.started_at - BEFORE
    with served_apart(scenario, estate, start) as running, beside() as helper:
        home = make_home(home_path, estate, running.thanos_url, running.kubernetes_urls)
        helper.begin(get_ready, home.path, start)
        opened = OpenHome(home, running.clock)
        say(_estate_in_words(estate))
        _live(opened, running, span, helper, bar)
        period = BillingPeriod.containing(span.started_at)
        running.advance_to(max(period.ended_at, running.clock.now()) + AFTER)
        yield _bill(opened, span, period, f"{running.control_url}/-/clock", helper, bar, say)


def tell(scenario: str, home_path: Path, bar: Bar, say: Say) -> Told:
    """The same, for whoever does not need the estate afterwards."""
    with telling(scenario, home_path, bar, say) as told:
        return told


def _bill(
    opened: OpenHome,
    span: Interval,
    period: BillingPeriod,
    clock_url: str,
    helper: Beside,
    bar: Bar,
    say: Say,
) -> Told:
    left_out = _hour_left_out(span)
    say(f"Both witnesses are asked for {period}, but for one hour that is forgotten.")
    for part in _around(span, left_out):
        _ask(opened, part, bar, [Source.THANOS])
    _count(opened, period, helper, bar)
    refusal = _refused(opened, period, bar)
    say(f"The close is refused:\n{refusal.message()}")
    say(f"Healing: {left_out:%Y-%m-%dT%H} is asked again.")
    _ask(opened, period.interval, bar)
    # What was refused about that hour may be gone now; what lies elsewhere has to be signed.
    rows = _signatures(refusal.judgement.blocking, but_for=left_out)
    opened, signed, result = _close_signed(opened, period, rows, helper, bar, say)
    published = _publish(opened, bar)
    pages = opened.home.published / MODEL_PAGES
    return Told(opened, period, refusal.message(), signed, result, published, pages, clock_url)


def _close_signed(
    opened: OpenHome, period: BillingPeriod, rows: Rows, helper: Beside, bar: Bar, say: Say
) -> tuple[OpenHome, Rows, CloseResult]:
    """Sign, count, close; sign what still stands against it, if a person can sign that."""
    signed: list[dict[str, str]] = []
    while True:
        if rows:
            say(_signed_in_words(rows))
            sign_gaps(opened, rows)
            signed += rows
            opened = OpenHome(opened.home, opened.clock)  # with the decisions as they are now
        _count(opened, period, helper, bar)
        try:
            return opened, signed, _closed(opened, period, bar)
        except PeriodNotBillable as refusal:
            rows = [r for r in _signatures(refusal.judgement.blocking) if r not in signed]
            if not rows:
                raise


def _live(opened: OpenHome, running: Driven, span: Interval, helper: Beside, bar: Bar) -> None:
    """A month passes; the journals of the weeks that are over are taken over meanwhile."""
    lived = Interval(span.started_at - BEFORE, span.ended_at + HOUR)
    left = _weeks(span, _hour_left_out(span))

    def take_over(now: datetime) -> None:
        while left and (now >= left[0].ended_at + DAY or now >= lived.ended_at):
            week = left.pop(0)
            told_at = min(week.ended_at + DAY, lived.ended_at)
            helper.begin(ask_journals, opened.home.path, told_at, week)

    with collecting(opened, running) as collectors, bar("Living through it") as report:
        live_through(running, collectors, lived, report, take_over)


def _ask(opened: OpenHome, hours: Interval, bar: Bar, sources: Sequence[Source] = ()) -> None:
    with bar("Asking") as report:
        steps.pull(opened, hours, sources=sources, progress=report)


def _count(opened: OpenHome, period: BillingPeriod, helper: Beside, bar: Bar) -> None:
    with bar("Counting") as report:
        helper.begin(count, opened.home.path, opened.clock.now(), period)
        # What judging needs takes seconds to load; meanwhile somebody else counts.
        from quality.suites.runner import load

        load()
        helper.finish(report)


def _refused(opened: OpenHome, period: BillingPeriod, bar: Bar) -> PeriodNotBillable:
    with bar("Judging") as report:
        report(0, 1, "may this be billed?")
        try:
            steps.close(opened, period, dry_run=False)
        except PeriodNotBillable as refusal:
            report(1, 1, "no")
            return refusal
    raise AssertionError("a close with an hour missing was not refused")


def _closed(opened: OpenHome, period: BillingPeriod, bar: Bar) -> CloseResult:
    with bar("Closing") as report:
        report(0, 1, "judging again, sealing, rendering")
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
    return f"What cannot heal, {SIGNER} signs:\n" + "\n".join(lines)


def _hour_left_out(span: Interval) -> datetime:
    hours = list(span.hours())
    return hours[len(hours) // 2]


def _weeks(span: Interval, but_for: datetime) -> list[Interval]:
    """The hours that are asked at first, a week at once."""
    weeks = [span.started_at + number * WEEK for number in range(1, MONTH // WEEK + 1)]
    return [week for part in _around(span, but_for) for week in part.split_at(weeks)]


def _around(span: Interval, hour: datetime) -> list[Interval]:
    parts = [(span.started_at, hour), (hour + HOUR, span.ended_at)]
    return [Interval(a, b) for a, b in parts if a < b]


def _estate_in_words(estate: Estate) -> str:
    nodes = sum(len(cluster.nodes) for cluster in estate.clusters)
    pods = sum(len(cluster.pods) for cluster in estate.clusters)
    names = ", ".join(cluster.name for cluster in estate.clusters)
    return f"A GPU estate that is not there: {names}; {nodes} nodes, {pods} pods."
