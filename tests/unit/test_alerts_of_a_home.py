"""Budgets and alerts of a home by the commands: decisions, facts and records together."""

from __future__ import annotations

import html
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner
from prometheus_client.core import GaugeMetricFamily

from clients.alertmanager import Alert, Alertmanager
from domain.budgets import HourlyCosts
from domain.errors import InvalidSetting
from domain.interval import format_instant
from orchestration import alerting
from orchestration.cli import doctor
from orchestration.cli.main import cli
from orchestration.dagster_code.jobs import send_alerts
from orchestration.dagster_code.resources import LedgerHome
from orchestration.open_home import CLOCK_VARIABLE, OpenHome
from portal.alerting.rules import provider_alerts
from portal.tokens import FILE
from tests.alert_scenarios import BUDGET, OCTOBER
from tests.fake_alertmanager import FakeAlertmanager
from tests.json_output import differences
from tests.portal_by_hand import NOW, OTHER, OWN, about, marts_of, merged, portal_of, write
from warehouse.home import Home
from warehouse.reports.budgets import BudgetState
from warehouse.snapshot_reader import Snapshots
from warehouse.snapshots import write_snapshots

SENDING = '[alerts]\nsend = true\nalertmanagers = ["http://127.0.0.1:9093"]\n'


@pytest.fixture(scope="module")
def written_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """`vision` has two jobs of 2 USD an hour each, for three hours."""
    home = Home.create(tmp_path_factory.mktemp("written") / "home", SENDING)
    usual = {"tenant": "vision", "source": "decisions", "state": "counted", "currency": "USD"}
    usual |= {"actual_steps": "50 75 90 100", "forecast_steps": "100"}
    nanos, job = 10**9, {"workload_kind": "Job", "workload_name": "train-a"}
    team = {"label_key": "team", "label_value": "t-b", "actual_steps": "50 99"}
    budgets = [
        usual | {"budget_name": "month", "budget_nanos": 20 * nanos},
        usual | {"budget_name": "Job/train-a", "budget_nanos": 5 * nanos, **job},
        usual
        | {"budget_name": "team=t-b", "budget_nanos": 9 * nanos, **team, "forecast_steps": "none"},
        # Not counted: another cluster has one of the same name.
        usual | {"budget_name": "own", "source": "cluster", "state": "differs"},
    ]
    write(home, merged(marts_of(), {"dim_budgets": budgets}))
    return home


@pytest.fixture
def home(written_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv(CLOCK_VARIABLE, format_instant(NOW))
    shutil.copytree(written_home.path, tmp_path / "home")
    return Home.open(tmp_path / "home")


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> FakeAlertmanager:
    peer = FakeAlertmanager(NOW)

    def alertmanagers(opened: OpenHome) -> list[Alertmanager]:
        [url] = opened.settings.alerts.alertmanagers
        return [Alertmanager(url, transport=peer.transport)]

    monkeypatch.setattr(alerting, "alertmanagers", alertmanagers)
    return peer


def run(home: Home, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--home", str(home.path)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def names(peer: FakeAlertmanager) -> set[str]:
    listed = Alertmanager("http://127.0.0.1:9093", transport=peer.transport).present(())
    return {alert.labels["alertname"] for alert in listed}


def steps(home: Home) -> dict[str, str]:
    document = json.loads(run(home, "budgets", "--json"))
    assert differences("budgets", json.dumps(document)) == []
    return {
        f"{one['budget']} {one['kind']} {one['step_pct']}": " ".join(
            [one["state"], (one["reached_at"] or "")[11:16]]
        ).strip()
        for one in document["steps"]
    }


def test_budgets_of_tenant_workload_and_label_reach_their_steps(home: Home) -> None:
    assert steps(home) == {
        "month actual 50": "reached 03:00",  # 4, 8, 12 of 20
        "month actual 75": "not reached",
        "month actual 90": "not reached",
        "month actual 100": "not reached",
        "month forecast 100": "not reached",  # three hours are too few
        "team=t-b actual 50": "reached 03:00",  # 2, 4, 6 of 9
        "team=t-b actual 99": "not reached",
        "Job/train-a actual 50": "reached 02:00",  # 2, 4, 6 of 5
        "Job/train-a actual 75": "reached 02:00",
        "Job/train-a actual 90": "reached 03:00",
        "Job/train-a actual 100": "reached 03:00",
        "Job/train-a forecast 100": "not reached",
    }


def test_a_table_of_budgets_names_a_missing_budget(home: Home) -> None:
    assert "12" in run(home, "budgets")
    assert "No budget of nobody is decided for 2026-10." in run(
        home, "budgets", "--tenant", "nobody"
    )
    assert run(home, "budgets", "--csv").count("\n") == 13


def test_reached_steps_are_posted_once_and_shown_as_delivered(
    home: Home, peer: FakeAlertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = json.loads(run(home, "alerts", "send", "--json"))
    assert differences("alerts send", json.dumps(done)) == []
    assert (done["posted"], done["delivered"]) == (6, 0)
    for minutes, posted, delivered in ((10, 0, 6), (20, 0, 0)):
        later = NOW + timedelta(minutes=minutes)
        peer.advance(later)
        monkeypatch.setenv(CLOCK_VARIABLE, format_instant(later))
        monkeypatch.setattr("orchestration.cli.alerts.snapshot", lambda _: None)
        done = json.loads(run(home, "alerts", "send", "--json"))
        assert (done["posted"], done["delivered"]) == (posted, delivered)
    [webhook] = [one for one in peer.notifications if any("step" in dict(s) for s in one.steps)]
    told = {f"{dict(one)['budget']} {dict(one)['step']}" for one in webhook.steps}
    assert told == {"month 50", "Job/train-a 100", "team=t-b 50"}
    assert steps(home)["month actual 50"] == "delivered 03:00"


def test_command_portal_and_api_show_the_same_state_of_each_step(
    home: Home, peer: FakeAlertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a post, and when the steps that were reached are delivered."""

    def shown() -> list[tuple[object, ...]]:
        columns = ("budget", "kind", "step_pct", "state", "reached_at", "delivered_at")
        told = json.loads(run(home, "budgets", "--json"))["steps"]
        command = [tuple(one[name] for name in columns) for one in told]
        found = alerting.all_budget_steps(OpenHome.at(home.path))
        write_snapshots(home, [about()], [], [], found, [])
        portal = portal_of(home, tmp / FILE, (OWN, OTHER))
        rows = portal.get(f"/api/v1/tenants/{OWN}/budgets").json()["rows"]
        api = [tuple(one[name] for name in columns) for one in rows]
        assert sorted(api, key=str) == sorted(command, key=str)
        page = html.unescape(portal.get(f"/tenants/{OWN}").text)
        for _, kind, step, state, reached_at, delivered_at in command:
            label = re.escape(f"{kind} {step} %")
            times = [str(at)[11:16] for at in (reached_at, delivered_at) if at]
            text = ".*".join([label, *(times or [str(state)])])
            assert re.search(rf"<li>[^\n]*?{text}[^\n]*?</li>", page), text
        return command

    tmp = home.path.parent / "tokens"
    tmp.mkdir()
    assert {one[3] for one in shown()} == {"not reached", "reached"}
    monkeypatch.setattr("orchestration.cli.alerts.snapshot", lambda _: None)
    run(home, "alerts", "send")
    later = NOW + timedelta(minutes=10)
    peer.advance(later)
    monkeypatch.setenv(CLOCK_VARIABLE, format_instant(later))
    run(home, "alerts", "send")
    assert {(one[3], one[5]) for one in shown()} == {
        ("not reached", None),
        ("delivered", format_instant(later)),
    }


def test_missing_data_raises_an_alert_and_resolves_none(
    home: Home, peer: FakeAlertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot of `vision` is complete until 02:00; it has three budgets."""
    before = {"GpuLedgerCloseBlocked", "GpuLedgerCollectorSilent", "GpuLedgerSamplesSilent"}
    monkeypatch.setenv(CLOCK_VARIABLE, "2026-10-01T08:00:00Z")
    assert json.loads(run(home, "alerts", "send", "--json"))["other_alerts"] == 3
    assert {one for one in names(peer) if "Ledger" in one} == before
    assert "GpuBudgetNotKnown" not in names(peer)
    monkeypatch.setenv(CLOCK_VARIABLE, "2026-10-01T08:00:01Z")
    assert json.loads(run(home, "alerts", "send", "--json"))["other_alerts"] == 6
    assert "GpuBudgetNotKnown" in names(peer)


def test_a_month_that_was_complete_at_its_end_is_known(home: Home) -> None:
    """Also where its last hour is missing, the budget is not known."""
    opened, later = OpenHome.at(home.path), OCTOBER.ended_at + timedelta(days=5)

    def alerts_of(hour_count: int) -> list[Alert]:
        costs = HourlyCosts(OCTOBER, [1] * hour_count)
        state = BudgetState(replace(BUDGET, tenant="not-in-the-snapshots"), costs, [])
        return alerting.not_known_alerts(opened, {OCTOBER: [state]}, later)

    assert alerts_of(744) == []
    [alert] = alerts_of(743)
    assert alert.annotations["measured_until"] == "2026-10-31T23:00:00Z"


def test_an_alert_about_a_missing_hour_names_the_end_of_its_backfill() -> None:
    labels = {"cluster": "east", "source": "thanos", "period": "2026-10"}
    families = []
    for name, value in (("oldest_due_hour", 0.0), ("backfill_until", 2_592_000.0)):
        family = GaugeMetricFamily(f"gpu_ledger_{name}_timestamp_seconds", "", labels=labels)
        family.add_metric(list(labels.values()), value)
        families.append(family)
    now = datetime(1970, 1, 1, 8, tzinfo=UTC)
    [alert] = provider_alerts(families, now)
    assert alert.labels["alertname"] == "GpuLedgerHourMissing"
    assert alert.annotations["backfill_until"] == "1970-01-31T00:00:00Z"
    [alert] = provider_alerts(families[:1], now)
    assert alert.annotations["backfill_until"] == "not known"


def test_nothing_is_sent_without_alert_settings(home: Home) -> None:
    home.config_path.write_text("")
    with pytest.raises(InvalidSetting, match="send is not true"):
        run(home, "alerts", "send")


def sent_by_dagster(home: Home, now: datetime) -> dg.ExecuteInProcessResult:
    resources = {"ledger_home": LedgerHome(path=str(home.path), now=format_instant(now))}
    return send_alerts.execute_in_process(resources=resources, raise_on_error=False)


def test_dagster_sends_the_alerts_of_a_home(home: Home, peer: FakeAlertmanager) -> None:
    """Six steps were posted ten minutes before: they are delivered, and the portal shows it."""
    run(home, "alerts", "send")
    later = NOW + timedelta(minutes=10)
    peer.advance(later)
    assert sent_by_dagster(home, later).success
    assert "GpuLedgerCloseBlocked" in names(peer)
    with Snapshots(home.snapshots).opened(OWN) as facts:
        rows = facts.rows("select count(*) as n from budget_steps where state = 'delivered'", {})
    assert rows == [{"n": 6}]


def test_dagster_sends_nothing_unless_the_home_says_so(home: Home, peer: FakeAlertmanager) -> None:
    home.config_path.write_text(SENDING.replace("true", "false"))
    ran = sent_by_dagster(home, NOW)
    [failure] = [event for event in ran.all_events if event.is_step_failure]
    assert "send is not true" in str(failure.step_failure_data.error)
    assert names(peer) == set()


def test_doctor_names_an_alertmanager_that_does_not_respond(
    home: Home, peer: FakeAlertmanager
) -> None:
    opened = OpenHome.at(home.path)
    [line] = doctor.check_alerts(opened)
    assert (line["fine"], line["seen"]) == (True, "http://127.0.0.1:9093: 0 alerts")
    peer.is_down = True
    [line] = doctor.check_alerts(opened)
    assert not line["fine"]
    assert "http://127.0.0.1:9093" in str(line["seen"])
