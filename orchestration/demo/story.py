"""The demo's story: time passes, an hour is missing, the close refuses, it heals, invoices.

Put here: the order of what is shown.
Not here: the steps themselves (`orchestration.steps`), or how it is printed (`screen`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.billing_period import BillingPeriod
from domain.errors import NotBillable
from domain.interval import HOUR, Interval
from orchestration import steps
from orchestration.demo.clockwork import collecting, live_through
from orchestration.demo.home import make_home
from orchestration.open_home import OpenHome

if TYPE_CHECKING:
    from billing.close import CloseResult
    from fake_gpu.estate.model import Estate
    from fake_gpu.serve import Running

Bar = Callable[[str], AbstractContextManager[Callable[[int, int, str], None]]]
Say = Callable[[str], None]

# The collectors start before the first hour that is measured, as a real one would.
BEFORE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Told:
    """What the story came to."""

    opened: OpenHome
    period: BillingPeriod
    refusal: str
    result: CloseResult
    truth: list[dict[str, Any]]  # tenant periods, as they really were


def tell(scenario: str, home_path: Path, bar: Bar, say: Say) -> Told:
    """Run the whole line on a scenario; the estate is gone when this returns."""
    from fake_gpu.clock import driven, epoch
    from fake_gpu.estate.build import build_estate
    from fake_gpu.estate.export import plain_rows
    from fake_gpu.scenario.load import load_scenario
    from fake_gpu.serve import serve
    from fake_gpu.truth.ledger import ledger

    estate = build_estate(load_scenario(scenario))
    span = Interval(epoch(estate.started_at), epoch(estate.ended_at))
    clock = driven(span.started_at - BEFORE)
    with serve(estate, clock) as running:
        home = make_home(home_path, estate, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, clock)
        say(_estate_in_words(estate))
        _live(opened, running, span, bar)
        period = BillingPeriod.containing(span.started_at)
        say(f"Asking both witnesses for {period}, but for one hour that we leave out.")
        left_out = _hour_left_out(span)
        for part in _around(span, left_out):
            with bar("Asking") as report:
                steps.pull(opened, part, progress=report)
        clock.advance_to(period.ended_at + timedelta(days=3))
        refusal = _refused(opened, period, bar)
        say(f"The close is refused:\n{refusal}")
        say(f"Healing: {left_out:%Y-%m-%dT%H} is asked again.")
        with bar("Asking") as report:
            steps.pull(opened, period.interval, progress=report)
    with bar("Counting") as report:
        steps.refresh(opened, period, report)
    result = steps.close(opened, period, dry_run=False)
    truth = ledger(plain_rows(estate), "tenant-periods")
    return Told(opened, period, refusal, result, truth)


def _live(opened: OpenHome, running: Running, span: Interval, bar: Bar) -> None:
    lived = Interval(span.started_at - BEFORE, span.ended_at + HOUR)
    with collecting(opened, running) as collectors, bar("Living through it") as report:
        live_through(running, collectors, lived, report)


def _refused(opened: OpenHome, period: BillingPeriod, bar: Bar) -> str:
    with bar("Counting") as report:
        steps.refresh(opened, period, report)
    try:
        steps.close(opened, period, dry_run=False)
    except NotBillable as refusal:
        return refusal.message()
    raise AssertionError("a close with an hour missing was not refused")


def _hour_left_out(span: Interval) -> Any:
    hours = list(span.hours())
    return hours[len(hours) // 2]


def _around(span: Interval, hour: Any) -> list[Interval]:
    parts = [(span.started_at, hour), (hour + HOUR, span.ended_at)]
    return [Interval(a, b) for a, b in parts if a < b]


def _estate_in_words(estate: Estate) -> str:
    nodes = sum(len(cluster.nodes) for cluster in estate.clusters)
    pods = sum(len(cluster.pods) for cluster in estate.clusters)
    names = ", ".join(cluster.name for cluster in estate.clusters)
    return f"A GPU estate that is not there: {names}; {nodes} nodes, {pods} pods."
