"""Every query of every dashboard, on a real Prometheus that scrapes exporters and the portal."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime, timedelta
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
from orchestration.alert_ways import alert_lines
from orchestration.open_home import OpenHome
from portal.metrics import LedgerCollector, registry_of
from tests.dashboard_pictures import Line, legend_name, picture
from tests.dashboards import DASHBOARDS
from tests.portal_by_hand import NOW, RATE, marts_of, merged, write
from tests.servers.process import free_port
from tests.servers.prometheus import programs, prometheus
from tests.servers.queried_fleet import QUIET_SECONDS, queried_fleet
from tests.servers.scraping import scrape_config
from tests.servers.test_fake_exporters_scraped import _served
from warehouse.home import Home
from warehouse.snapshot_reader import Snapshots

pytestmark = pytest.mark.servers

RULES = Path(__file__).parents[2] / "deploy" / "alerts" / "rules.yml"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures" / "dashboards"
WRITES_PICTURES = "GPU_LEDGER_WRITE_GOLDEN" in os.environ
# For pictures, a second is a minute of the simulated cluster.
SPEED = 60 if WRITES_PICTURES else 1
PICTURE_SECONDS = 60


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
    write(home, merged(marts_of(), {"dim_rates": [RATE]}))
    collector = LedgerCollector(Snapshots(home.snapshots), StoppedClock(NOW), {})
    own = free_port()
    server, thread = start_http_server(own, "127.0.0.1", registry=registry_of(collector))
    fleet = queried_fleet()
    [cluster] = fleet.clusters
    history = ObjectHistory(cluster)
    pages = Expositions(cluster, history)
    started_at = epoch(fleet.started_at + QUIET_SECONDS // SPEED)
    clock = running(started_at, SPEED)
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
        if WRITES_PICTURES:
            time.sleep(PICTURE_SECONDS)
            write_pictures(real, started_at)
        # The doctor finds in the same server that the rules are there.
        way = rules_way(tmp_path, str(real.base_url))
    server.shutdown()
    thread.join(10)
    assert isinstance(thread, threading.Thread)
    assert missing == []
    [line] = way
    assert line.endswith("yes: main has the metrics of the portal and the rules")


def without_data(real: httpx.Client) -> list[tuple[str, str]]:
    found = []
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries.values():
                asked = query.replace("$namespace", ".+")
                body = real.get("/api/v1/query", params={"query": asked}).json()
                if body["status"] != "success" or not body["data"]["result"]:
                    found.append((panel.title, body.get("error", "") or asked))
    return found


def rules_way(folder: Path, url: str) -> list[str]:
    thanos = f'[thanos.main]\nurl = "{url}"\n[clusters.c1]\nthanos = "main"\n'
    opened = OpenHome.at(Home.create(folder / "examined", thanos).path)
    found = [f"{one.is_fine} {one.check}: {one.seen}" for one in alert_lines(opened)]
    return [line for line in found if "PrometheusRules" in line]


def write_pictures(real: httpx.Client, started_at: datetime) -> None:
    """Draw each dashboard with the last minute of scrapes."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    now = time.time()
    simulated = started_at.replace(second=0, microsecond=0)
    ends = (f"{simulated:%H:%M}", f"{simulated + timedelta(minutes=PICTURE_SECONDS):%H:%M}")
    for dashboard in DASHBOARDS:
        lines: dict[str, list[Line]] = {}
        for panel in dashboard.panels:
            for legend, query in panel.queries.items():
                window = {"start": now - PICTURE_SECONDS, "end": now, "step": 2}
                asked = {"query": query.replace("$namespace", ".+"), **window}
                body = real.get("/api/v1/query_range", params=asked).json()
                lines.setdefault(panel.title, []).extend(
                    Line(
                        legend_name(legend, series["metric"]),
                        [(float(at), float(value)) for at, value in series["values"]],
                    )
                    for series in body["data"]["result"]
                )
            assert lines[panel.title], panel.title
        svg = picture(dashboard, lines, ends)
        (PICTURES / f"{dashboard.name}.svg").write_text(svg, encoding="utf-8")
