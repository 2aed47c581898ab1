"""`unhealthy_cards`: the row of outages.csv that `gpu-ledger health` prints, approved and credited.

Put here: the way from a failed card to a credit.
Not here: the definition of a problem (`dbt/models/marts/fct_gpu_health_cases.yml`).
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from domain.billing_period import BillingPeriod
from domain.interval import HOUR, Interval, parse_instant
from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import serve
from orchestration import steps
from orchestration.cli.main import cli
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome
from tests.decisions_by_hand import HEADERS
from warehouse.connection import connected

pytestmark = pytest.mark.deep

PERIOD = BillingPeriod("2026-10")
FAILED = Interval(parse_instant("2026-10-05T06:00:00Z"), parse_instant("2026-10-05T07:00:00Z"))
RATE = ",H100-80GB,whole,USD,4.00,2026-01-01T00:00:00Z,,agreed,Ada,2026-09-15,"
PROPOSED = "cluster_id,started_at,ended_at,treatment,reason,"


def holder(fleet: Fleet) -> tuple[str, int]:
    """The pod of the failed card in its first hour, and the seconds for which it ran then."""
    [cluster] = fleet.clusters
    [failed] = [device.device_id for device in cluster.nodes[0].devices if device.card_index == 0]
    [(uid, seconds)] = [
        (pod.uid, clipped.seconds)
        for pod in cluster.pods
        for hold in pod.holds
        if hold.device_id == failed and pod.started_at is not None and hold.held_until is not None
        if (clipped := Interval(epoch(pod.started_at), epoch(hold.held_until)).clipped_to(FAILED))
    ]
    return uid, seconds


def test_an_approved_proposal_credits_the_pod_of_the_failed_card(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario("unhealthy_cards"))
    clock = driven(epoch(fleet.ended_at) + timedelta(hours=3))
    with serve(fleet, clock) as running:
        home = make_home(tmp_path / "home", fleet, running.thanos_url, running.kubernetes_urls)
        (home.decisions / "rates.csv").write_text(f"{HEADERS['rates']}\n{RATE}\n", encoding="utf-8")
        table = home.decisions / "clusters.csv"
        table.write_text(table.read_text().replace(",both,", ",samples,"), encoding="utf-8")
        opened = OpenHome(home, clock)
        steps.pull(opened, PERIOD.interval)
        clock.advance_to(PERIOD.ended_at + timedelta(days=3))
    steps.refresh(opened, PERIOD)
    health = ["health", PERIOD.name, "--home", str(home.path)]
    printed = CliRunner().invoke(cli, health).stdout
    header, row = printed[printed.index(PROPOSED) :].splitlines()
    uid, seconds = holder(fleet)
    assert row.endswith(f",,,,{uid}")
    approved = row.replace(",,,,", ",Ada,2026-11-02,,")
    (home.decisions / "outages.csv").write_text(f"{header}\n{approved}\n", encoding="utf-8")
    again = OpenHome(home, clock)
    steps.refresh(again, PERIOD)
    with connected(home.warehouse_path, read_only=True) as connection:
        credited = connection.execute(
            "select tenant, outage_pod_uid, credit_nanos from marts.fct_outage_credits"
        ).fetchall()
    exact = Fraction(4 * 10**9 * seconds, HOUR // timedelta(seconds=1))
    [(tenant, pod_uid, nanos)] = credited
    assert (tenant, pod_uid) == ("chat", uid)
    assert abs(-int(nanos) - exact) <= 1
    assert "Proposed credits" not in CliRunner().invoke(cli, health).stdout
