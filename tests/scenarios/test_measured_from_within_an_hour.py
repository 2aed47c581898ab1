"""A cluster measured from the middle of an hour: the hour is pulled, and its part counts.

Put here: the pull of such an hour and its day, the seconds that count in it, a dry run of the close
of the open month, and the doctor on its idle nights.
Not here: the expected hours (`tests/unit/test_decisions_book`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval, parse_instant
from fake_gpu.clock import driven
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from ingestion.thanos.store_probe import probe
from orchestration import steps
from orchestration.cli.billing import close
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.scenarios import against_truth as truth
from warehouse.manifest import Outcome

PERIOD = BillingPeriod("2026-10")
EIGHT = parse_instant("2026-10-02T08:00:00Z")
HALF_PAST = EIGHT + timedelta(minutes=30)


def test_hours_are_pulled_and_counted_from_within_an_hour_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cards are used from 08:00 to 12:00, and measured from 08:30 until 10:00."""
    fleet = build_fleet(load_scenario("idle_nights_and_weekends"))
    clock = driven(EIGHT + 2 * HOUR + timedelta(minutes=15))
    with serve(fleet, clock) as running:
        home = make_home(tmp_path / "home", fleet, running.thanos_url, running.kubernetes_urls)
        table = home.decisions / "clusters.csv"
        rows = table.read_text().replace(",both,", ",samples,")
        assert ",2026-10-02T00:00:00Z," in rows
        table.write_text(rows.replace(",2026-10-02T00:00:00Z,", ",2026-10-02T08:30:00Z,"))
        opened = OpenHome(home, clock)
        attempts = steps.pull(opened, PERIOD.interval)
        assert [(one.draft.window, one.hours[0].outcome) for one in attempts] == [
            (Interval(EIGHT, EIGHT + HOUR), Outcome.OK),
            (Interval(EIGHT + HOUR, EIGHT + 2 * HOUR), Outcome.OK),
        ]
        again = steps.pull(opened, Interval(EIGHT, EIGHT + HOUR), only_due=False)
        assert [one.draft.window for one in again] == [Interval(EIGHT, EIGHT + HOUR)]
        steps.refresh(opened, PERIOD)
        assert [f.code for f in steps.check_period(opened, PERIOD).findings] == []
        monkeypatch.setenv("GPU_LEDGER_NOW", f"{running.control_url}/-/clock")
        closed = CliRunner().invoke(close, [PERIOD.name, "--home", str(home.path)])
    assert closed.exit_code == 0, closed.output
    assert "blocking:" not in closed.output
    assert "2026-10 is not over: it ends at 2026-11-01T00:00:00Z" in closed.output
    assert "The amounts are those until 2026-10-02T10:00:00Z at the latest." in closed.output
    # A sample beyond each edge shows the pods, so they ran until there without uncertainty.
    statement = """
        select
            min(segment_started_at), max(segment_ended_at), sum(running_seconds * device_count),
            sum(uncertainty_seconds)
        from marts.fct_pod_hours
    """
    [(started_at, ended_at, seconds, uncertain)] = truth.ask(home, statement)
    assert (started_at, ended_at) == (HALF_PAST, EIGHT + 2 * HOUR)
    assert int(seconds) == 2 * 90 * 60
    assert int(uncertain) == 0


def test_doctor_reports_no_problem_of_a_cluster_without_gpu_pods(tmp_path: Path) -> None:
    """The last hour before 07:15 has idle GPUs, and its pods request none."""
    fleet = build_fleet(load_scenario("idle_nights_and_weekends"))
    clock = driven(EIGHT - timedelta(minutes=45))
    with serve(fleet, clock) as running:
        home = make_home(tmp_path / "home", fleet, running.thanos_url, running.kubernetes_urls)
        opened = OpenHome(home, clock)
        source = opened.thanos_source(fleet.clusters[0].cluster_id, clock.now())
        assert source is not None
        lines = {line.check: line for line in probe(source, clock)}
    # The simulated store has existed for two days.
    assert {name for name, line in lines.items() if not line.is_fine} <= {"raw samples, 35 days"}
    assert "no pod requests a device" in lines["kube_pod_container_resource_requests"].seen
