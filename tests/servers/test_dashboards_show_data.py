"""Every query of every dashboard, on a real Prometheus that scrapes exporters and the portal."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import start_http_server

from domain.clock import StoppedClock
from fake_gpu.clock import epoch, running
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.expositions import Expositions, make_metrics_app
from portal.dashboards import DASHBOARDS
from portal.metrics import LedgerCollector, registry_of
from tests.portal_by_hand import NOW, marts_of, write
from tests.servers.asked_fleet import QUIET_SECONDS, asked_fleet
from tests.servers.process import free_port
from tests.servers.prometheus import programs, prometheus
from tests.servers.scraping import scrape_config
from tests.servers.test_fake_exporters_scraped import _served
from warehouse.home import Home
from warehouse.snapshot_reader import Snapshots

pytestmark = pytest.mark.servers

RULES = Path(__file__).parents[2] / "deploy" / "alerts" / "rules.yml"
ABSENT = {
    "Unsold money by class",  # the marts by hand have no price of free cards
}


def with_portal(config: str, port: int) -> str:
    """The configuration with the portal as an additional target, and the recording rules."""
    whole: dict[str, Any] = yaml.safe_load(config)
    target = {"targets": [f"127.0.0.1:{port}"]}
    whole["scrape_configs"].append({"job_name": "gpu-ledger", "static_configs": [target]})
    whole["rule_files"] = [str(RULES)]
    whole["global"]["evaluation_interval"] = "1s"
    return yaml.safe_dump(whole)


def test_every_panel_of_every_dashboard_has_data(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home")
    write(home, marts_of())
    collector = LedgerCollector(Snapshots(home.snapshots), StoppedClock(NOW), {})
    own = free_port()
    server, thread = start_http_server(own, "127.0.0.1", registry=registry_of(collector))
    fleet = asked_fleet()
    [cluster] = fleet.clusters
    history = ObjectHistory(cluster)
    pages = Expositions(cluster, history)
    clock = running(epoch(fleet.started_at + QUIET_SECONDS))
    with (
        _served(make_metrics_app(cluster, history, clock)) as port,
        prometheus(
            programs(2), tmp_path / "p", with_portal(scrape_config(pages, port), own)
        ) as real,
    ):
        missing = [("not asked", "")]
        deadline = time.monotonic() + 120
        while missing and time.monotonic() < deadline:
            time.sleep(1)
            missing = without_data(real)
    server.shutdown()
    thread.join(10)
    assert isinstance(thread, threading.Thread)
    assert [one for one in missing if one[0] not in ABSENT] == []


def without_data(real: httpx.Client) -> list[tuple[str, str]]:
    found = []
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries.values():
                asked = query.replace("$namespace", ".+")
                body = real.get("/api/v1/query", params={"query": asked}).json()
                if body["status"] != "success" or not body["data"]["result"]:
                    found.append((panel.title, body.get("error", "") or asked))
    return [one for one in found if one[0] not in ABSENT]
