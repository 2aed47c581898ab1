"""`gpu-ledger prune` on the command line: the money of a stop, tokens, wrong use."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from idle_pruner.records import PruneRecord, Records, WorkloadStop, instant_text
from orchestration.cli.main import cli
from orchestration.idle_savings import saved_money, weekly_report
from tests.idle_workloads import NOW
from tests.json_output import differences


def record(event: str, hours: float, pods: list[str]) -> PruneRecord:
    at = instant_text(NOW + timedelta(hours=hours))
    return PruneRecord(
        at=at,
        event=event,
        kind="Deployment",
        namespace="team-a",
        name="model",
        api_version="apps/v1",
        uid="u",
        pods=pods,
        device_count=len(pods),
        previous_state={"replicas": len(pods)},
    )


def test_a_stop_saves_the_hourly_cost_of_its_pods_until_the_restore() -> None:
    """Two pods at 3.60 and 1.80 an hour, for two and a half hours: 13.50."""
    stop = WorkloadStop(record("stopped", 0, ["p", "q"]), record("restored", 2.5, []))
    costs = {"p": (Decimal("3.6"), "USD"), "q": (Decimal("1.8"), "USD")}
    later = NOW + timedelta(days=1)
    assert saved_money(stop, costs, later) == (Decimal("13.50"), "USD")
    assert saved_money(stop, {"p": costs["p"]}, later) is None
    open_stop = WorkloadStop(stop.stopped, None)
    saved = saved_money(open_stop, costs, NOW + timedelta(hours=1))
    assert saved == (Decimal("5.40"), "USD")


def test_a_week_counts_only_its_own_hours() -> None:
    """Two pods at 5.40 an hour, stopped two days before the week, restored two days into it."""
    stopped, restored = record("stopped", -48, ["p", "q"]), record("restored", 48, [])
    history = [stopped, restored, record("not_stopped", 50, [])]
    costs = {"p": (Decimal("3.6"), "USD"), "q": (Decimal("1.8"), "USD")}
    week = NOW + timedelta(days=7)
    [row] = weekly_report(history, [WorkloadStop(stopped, restored)], costs, week)
    assert (row["stops"], row["restores"], row["refusals"]) == (0, 1, 1)
    assert (row["device_hours"], row["saved"]) == ("96.00", "259.20")
    [unpriced] = weekly_report(history, [WorkloadStop(stopped, restored)], {}, week)
    assert (unpriced["saved"], unpriced["unpriced_stops"]) == ("", 1)
    assert (
        weekly_report(history, [WorkloadStop(stopped, restored)], costs, NOW + 3 * (week - NOW))
        == []
    )


def test_stops_are_listed_as_json_of_the_schema(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    records.append(record("stopped", 0, ["p"]))
    command = ["prune", "list", "--records", str(records.path), "-o", "json"]
    printed = CliRunner().invoke(cli, command).stdout
    assert differences("prune list", printed) == []
    assert json.loads(printed)[0]["previous_state"] == {"replicas": 1}


def test_the_weekly_report_is_json_of_the_schema(tmp_path: Path) -> None:
    records = Records(tmp_path / "records.jsonl")
    records.append(record("stopped", 0, ["p"]))
    until = (NOW + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    command = ["prune", "report", "--records", str(records.path), "--until", until, "-o", "json"]
    printed = CliRunner().invoke(cli, command).stdout
    assert differences("prune report", printed) == []
    assert json.loads(printed)[0]["device_hours"] == "48.00"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--prometheus-url is missing"),
        (("-n", "[", "--prometheus-url", "http://localhost"), "is not a regular expression"),
        (("restore", "Job", "team-a/train"), "'Job' is none of Deployment"),
        (("restore", "Deployment", "model"), "'model' is not NAMESPACE/NAME"),
    ],
)
def test_wrong_use_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(cli, ["prune", *arguments])
    assert result.exit_code == 2
    assert message in result.output
