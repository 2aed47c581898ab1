"""The doctor says which way of alerts is possible, and the missing parts of the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from orchestration.alert_ways import alert_lines
from orchestration.open_home import OpenHome
from tests.portal_by_hand import marts_of, write
from warehouse.home import Home

SCRAPED = {"gpu_ledger_snapshot_readable": [{}], "gpu_ledger_tenant_cost": [{}]}
OWN = {"gpu_ledger:tenant_cost": [{"tenant_namespace": "vision", "namespace": "vision"}]}
ENFORCED = {"gpu_ledger:tenant_cost": [{"tenant_namespace": "vision", "namespace": "gpu-ledger"}]}
FIRING = {'ALERTS{alertname="GpuBudgetStepReached"}': [{"alertname": "GpuBudgetStepReached"}]}


class Store:
    """A server with some series and rules; an Alertmanager without alerts."""

    def __init__(self) -> None:
        self.series: dict[str, list[dict[str, str]]] = {}
        self.rules: list[str] | None = None
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                there = urlsplit(self.path)
                body = store.response(there.path, parse_qs(there.query))
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"" if body is None else json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def response(self, path: str, given: dict[str, list[str]]) -> object:
        if path == "/api/v2/alerts":
            return []
        if path == "/api/v1/query":
            found = [{"metric": labels} for labels in self.series.get(given["query"][0], [])]
            return {"status": "success", "data": {"resultType": "vector", "result": found}}
        if self.rules is None:
            return None
        return {"data": {"groups": [{"rules": [{"name": name} for name in self.rules]}]}}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.server.shutdown()


def lines(folder: Path, store: Store, alerts: str = "", *, budgets: bool = True) -> list[str]:
    thanos = f'[thanos.main]\nurl = "{store.url}"\n[clusters.c1]\nthanos = "main"\n'
    home = Home.create(folder / "home", thanos + alerts)
    if budgets:
        write(home, marts_of())
    found = alert_lines(OpenHome.at(home.path))
    return [f"{one.is_fine} {one.check}: {one.seen} | {one.remedy}" for one in found]


def test_both_ways_lack_something(store: Store, tmp_path: Path) -> None:
    sent, ruled = lines(tmp_path, store)
    assert sent.startswith("False gpu-ledger can send alerts: no: [alerts] of config.toml names no")
    assert "write alertmanagers and send = true" in sent
    assert ruled.startswith("False PrometheusRules can raise alerts: no: no store of config.toml")
    assert "deploy/portal/components/monitoring" in ruled


def test_without_budgets_no_way_is_needed(store: Store, tmp_path: Path) -> None:
    assert all(line.startswith("True ") for line in lines(tmp_path, store, budgets=False))


@pytest.mark.parametrize(
    ("series", "rules", "expected"),
    [
        (SCRAPED, None, "no: main has no series gpu_ledger:tenant_cost"),
        (SCRAPED | ENFORCED, None, "by 'gpu-ledger', so that no tenant's route matches"),
        (SCRAPED | ENFORCED, None, "add gpu-ledger to namespacesWithoutLabelEnforcement"),
        (SCRAPED | OWN, ["Watchdog"], "no: main has no rule GpuBudgetStepReached"),
    ],
)
def test_rules_lack_something(
    series: dict[str, list[dict[str, str]]],
    rules: list[str] | None,
    expected: str,
    store: Store,
    tmp_path: Path,
) -> None:
    store.series, store.rules = series, rules
    sent, ruled = lines(tmp_path, store)
    assert sent.startswith("False ")
    assert ruled.startswith("False ")
    assert expected in ruled


@pytest.mark.parametrize("rules", [None, ["GpuBudgetStepReached"]])
def test_one_open_way_is_enough(rules: list[str] | None, store: Store, tmp_path: Path) -> None:
    store.series, store.rules = SCRAPED | OWN, rules
    sent, ruled = lines(tmp_path, store)
    assert sent.startswith("True gpu-ledger can send alerts: no: ")
    assert ruled.startswith("True PrometheusRules can raise alerts: yes")


def test_alertmanagers_without_send_are_a_possible_way(store: Store, tmp_path: Path) -> None:
    sent, _ = lines(tmp_path, store, f'[alerts]\nalertmanagers = ["{store.url}"]\n')
    assert sent.startswith("True gpu-ledger can send alerts: yes: ")
    nowhere = Store()
    nowhere.server.shutdown()
    nowhere.server.server_close()
    gone = f'[alerts]\nalertmanagers = ["{nowhere.url}"]\n'
    sent, _ = lines(tmp_path / "gone", store, gone)
    assert sent.startswith(f"False gpu-ledger can send alerts: no: Alertmanager {nowhere.url}")


@pytest.mark.parametrize("twice", ["rules", "firing", ""])
def test_rules_beside_sending_notify_twice(twice: str, store: Store, tmp_path: Path) -> None:
    store.rules = ["GpuBudgetStepReached"] if twice == "rules" else []
    store.series = FIRING if twice == "firing" else {}
    alerts = f'[alerts]\nsend = true\nalertmanagers = ["{store.url}"]\n'
    reached, *others = lines(tmp_path, store, alerts)
    assert reached.startswith(f"True Alertmanager can be reached: {store.url}: 0 alerts")
    assert [one.partition(":")[0] for one in others] == ["False alerts are sent once"] * bool(twice)
