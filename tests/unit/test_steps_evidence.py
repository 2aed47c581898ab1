"""The steps of evidence: hours to pull, rechecks, and repair of files.

Put here: results of these steps for the command line and Dagster, on a served fleet.
Not here: a single pull (`test_thanos_pull`), a single recheck (`test_thanos_recheck`), Dagster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.decisions import Source
from domain.interval import HOUR, Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import Running, serve
from orchestration import open_hours, steps
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from warehouse.derived_files import DerivedFilesInUse, lock_derived_files
from warehouse.manifest import Outcome

MIDNIGHT = datetime(2026, 10, 5, tzinfo=UTC)
DAY = Interval(MIDNIGHT, MIDNIGHT + 4 * HOUR)
FLEET = """
name: stepped
story: Four hours of one cluster; some samples of its second hour arrive an hour late.
seed: 11
from: 2026-10-05T00:00:00Z
until: 2026-10-05T04:00:00Z
clusters:
  - name: near
    monitoring: {scrape_interval: 30s}
    nodes: [{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 8}]
    workloads: [{name: serve, namespace: chat, replicas: 3, requests: 1}]
faults:
  - {fault: late_arrival, cluster: near, from: +1h10m, until: +1h40m, delay: 1h, share: 0.5}
"""


@contextmanager
def fleet(folder: Path, now: datetime) -> Iterator[tuple[OpenHome, Running]]:
    with serve(read_scenario(FLEET, "stepped.yaml", None), VirtualClock(now)) as running:
        home = make_home(
            folder / "home", running.fleet, running.thanos_url, running.kubernetes_urls
        )
        yield OpenHome(home, running.clock), running


def at(hours: float) -> datetime:
    return MIDNIGHT + timedelta(hours=hours)


def test_only_hours_after_their_last_sample_are_pulled(tmp_path: Path) -> None:
    with fleet(tmp_path, at(2.0)) as (opened, _):
        cluster_id = opened.decisions.clusters[0].cluster_id
        samples = [Source.THANOS]
        # The last sample of the second hour is due at half a minute past two.
        early = replace(opened, clock=StoppedClock(at(2) + timedelta(seconds=29)))
        assert open_hours.windows_to_pull(early, DAY, sources=samples) == [
            (cluster_id, Source.THANOS, Interval(at(0), at(1)))
        ]
        due = replace(opened, clock=StoppedClock(at(2) + timedelta(seconds=30)))
        assert open_hours.windows_to_pull(due, DAY, sources=samples) == [
            (cluster_id, Source.THANOS, Interval(at(0), at(2)))
        ]
        assert open_hours.windows_to_pull(due, DAY, clusters=["another"]) == []


def test_an_hour_without_backfill_is_pulled_only_with_again(tmp_path: Path) -> None:
    with fleet(tmp_path, at(5)) as (opened, _):
        old = replace(opened, clock=StoppedClock(at(0) + timedelta(days=366)))
        samples = [Source.THANOS]
        assert open_hours.windows_to_pull(old, DAY, sources=samples) == []
        assert len(open_hours.windows_to_pull(old, DAY, sources=samples, all_hours=True)) == 1


def test_complete_hours_are_not_pulled_twice(tmp_path: Path) -> None:
    with fleet(tmp_path, at(5)) as (opened, _):
        samples = [Source.THANOS]
        [attempt] = steps.pull(opened, DAY, sources=samples)
        assert attempt.outcome is Outcome.OK
        assert steps.pull(opened, DAY, sources=samples) == []
        assert len(steps.pull(opened, DAY, sources=samples, only_due=False)) == 1


def test_a_recheck_pulls_only_the_differing_hours(tmp_path: Path) -> None:
    with fleet(tmp_path, at(2.1)) as (opened, running):
        [first] = steps.pull(opened, DAY, sources=[Source.THANOS])
        assert [hour.hour for hour in first.hours] == [at(0), at(1)]
        running.advance_to(at(3))
        found = steps.recheck(opened, DAY)
        assert found.unanswered == {}
        assert found.differing_count == 1
        [again] = found.attempts
        assert [hour.hour for hour in again.hours] == [at(1)]
        assert again.hours[0].sample_count > first.hours[1].sample_count
        # Both attempts stay, and now the counts are equal.
        assert len(opened.landing.attempts()) == 2
        assert steps.recheck(opened, DAY).attempts == ()


@pytest.mark.deep
def test_late_data_is_included_before_a_close(tmp_path: Path) -> None:
    period = BillingPeriod("2026-10")
    with fleet(tmp_path, at(2.1)) as (opened, running):
        steps.pull(opened, DAY, sources=[Source.THANOS])
        assert steps.recheck_before_close(opened, period).attempts == ()
        assert not opened.home.warehouse_path.exists()  # no difference, so nothing was rebuilt
        running.advance_to(at(3))
        found = steps.recheck_before_close(opened, period)
        assert found.differing_count == 1
        assert opened.home.warehouse_path.exists()
        assert steps.recheck_before_close(opened, period).attempts == ()


def test_by_default_every_open_month_with_evidence_is_refreshed(tmp_path: Path) -> None:
    october, november = BillingPeriod("2026-10"), BillingPeriod("2026-11")
    with fleet(tmp_path, at(5)) as (opened, _):
        # Without landed evidence it is the latest month that has begun.
        assert steps.periods_to_refresh(opened) == [october]
        decided = opened.home.decisions / "clusters.csv"
        decided.write_text(decided.read_text().replace("2026-10-05T04:00:00Z", ""))
        later = OpenHome(opened.home, StoppedClock(datetime(2026, 11, 2, tzinfo=UTC)))
        assert open_hours.open_periods(later) == [october, november]
        assert steps.periods_to_refresh(later) == [november]
        steps.pull(opened, DAY, sources=[Source.THANOS])
        assert steps.periods_to_refresh(later) == [october]
        early = OpenHome(opened.home, StoppedClock(datetime(2026, 9, 2, tzinfo=UTC)))
        assert steps.periods_to_refresh(early) == []


def test_an_unreachable_server_is_named_and_has_no_differences(tmp_path: Path) -> None:
    with fleet(tmp_path, at(5)) as (opened, running):
        steps.pull(opened, Interval(at(0), at(1)), sources=[Source.THANOS])
        config = opened.home.config_path
        [another] = running.kubernetes_urls.values()
        text = config.read_text(encoding="utf-8").replace(running.thanos_url, another)
        config.write_text(text, encoding="utf-8")
        found = steps.recheck(OpenHome(opened.home, opened.clock), DAY)
        assert found.attempts == ()
        assert {name.split()[1] for name in found.unanswered} >= {"up"}


def test_derived_files_have_one_writer_and_a_crash_leaves_no_lock(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with (
        lock_derived_files(runs),
        pytest.raises(DerivedFilesInUse),
        lock_derived_files(runs, wait_seconds=0.0),
    ):
        raise AssertionError("two were alone")
    with lock_derived_files(runs, wait_seconds=0.0):
        pass
