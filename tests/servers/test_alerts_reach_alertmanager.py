"""Budget steps through a pair of real Alertmanagers to a webhook that counts notifications.

The script is that of the Alertmanager in memory: groups by tenant, inhibition, restart, a lost
notification log. The pair uses the machine's clock with group times of seconds; the clock of
gpu-ledger is moved by minutes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.alertmanager import Alertmanager
from domain.budgets import HourlyCosts, reached_steps
from portal.alerting.deliveries import Deliveries, delivered_at
from portal.alerting.sending import SendResult, send_alerts
from tests.servers.process import free_port, missing, running
from tests.unit.test_alert_sending import BUDGET, OCTOBER
from warehouse.reports.budgets import BudgetState
from warehouse.store import FolderStore

pytestmark = pytest.mark.servers

DEBIAN = Path("/usr/bin/prometheus-alertmanager")
CONFIG = """
route:
  receiver: team
  group_by: [namespace]
  group_wait: 1s
  group_interval: 2s
  repeat_interval: 1h
inhibit_rules:
  - source_matchers: [step="90"]
    target_matchers: [step=~"50|75"]
    equal: [namespace, budget, source, period, kind]
receivers:
  - name: team
    webhook_configs: [{{url: "{url}", send_resolved: false}}]
"""


class Pair:
    """Two peers of one cluster, and the webhooks that they sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.webhooks: list[dict[str, Any]] = []
        self.ports = [(free_port(), free_port()) for _ in range(2)]
        self._running: list[ExitStack] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhooks = self.webhooks

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                webhooks.append(json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Receiver

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port, _ in self.ports]

    def start(self, number: int, *, forgetful: bool = False) -> None:
        folder = self.folder / f"peer{number}{'-new' if forgetful else ''}"
        folder.mkdir(exist_ok=True)
        config = folder / "alertmanager.yml"
        config.write_text(CONFIG.format(url=f"http://127.0.0.1:{self._server.server_port}/"))
        port, cluster = self.ports[number]
        other = self.ports[1 - number][1]
        command = [
            str(DEBIAN),
            f"--config.file={config}",
            f"--storage.path={folder}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--cluster.listen-address=127.0.0.1:{cluster}",
            f"--cluster.advertise-address=127.0.0.1:{cluster}",
            f"--cluster.peer=127.0.0.1:{other}",
            "--cluster.settle-timeout=2s",
            "--cluster.peer-timeout=2s",
        ]

        def answers() -> bool:
            try:
                return httpx.get(f"{self.urls[number]}/-/ready", timeout=1).status_code == 200
            except httpx.TransportError:
                return False

        stack = ExitStack()
        stack.enter_context(running(command, answers, folder / "server.log"))
        self._running.append(stack)

    def stop(self, number: int) -> None:
        self._running.pop(number).close()

    def close(self) -> None:
        for stack in self._running:
            stack.close()
        self._server.shutdown()

    def steps(self) -> list[list[str]]:
        """The steps of each webhook, in order of arrival."""
        return [sorted(one["labels"]["step"] for one in hook["alerts"]) for hook in self.webhooks]


@contextmanager
def pair_in(folder: Path) -> Iterator[Pair]:
    if not DEBIAN.exists():
        missing("Alertmanager is not here: `apt-get install prometheus-alertmanager`")
    pair = Pair(folder)
    try:
        pair.start(0)
        pair.start(1)
        yield pair
    finally:
        pair.close()


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing came in time"
        time.sleep(0.1)


def send(pair: Pair, deliveries: Deliveries, cost: int, after: timedelta) -> SendResult:
    costs = HourlyCosts(OCTOBER, [cost * 10**9])
    state = BudgetState(BUDGET, costs, reached_steps(BUDGET, costs))
    peers = [Alertmanager(url) for url in pair.urls]
    now = datetime.now(UTC).replace(microsecond=0) + after
    return send_alerts(peers, deliveries, {OCTOBER: [state]}, (), now)


def test_a_pair_notifies_each_step_once_and_nothing_after_a_restart(tmp_path: Path) -> None:
    deliveries = Deliveries(FolderStore(tmp_path / "record"))
    minutes = timedelta(minutes=1)
    with pair_in(tmp_path) as pair:
        assert len(send(pair, deliveries, 55, 0 * minutes).posted) == 1
        wait_for(lambda: pair.steps() == [["50"]])
        assert len(send(pair, deliveries, 55, 10 * minutes).delivered) == 1
        [event] = [one for one in deliveries.events(OCTOBER) if one.event == "delivered"]
        listed = httpx.get(f"{pair.urls[0]}/api/v2/alerts").json()
        assert event.fingerprint == listed[0]["fingerprint"]

        assert len(send(pair, deliveries, 95, 20 * minutes).posted) == 2  # 75 and 90
        wait_for(lambda: len(pair.webhooks) == 2)
        assert pair.steps()[1] == ["90"]  # 50 and 75 are inhibited
        assert len(send(pair, deliveries, 95, 30 * minutes).delivered) == 2
        assert len(delivered_at(deliveries.events(OCTOBER))) == 3

        pair.stop(0)
        pair.stop(0)
        pair.start(0, forgetful=True)
        pair.start(1, forgetful=True)
        result = send(pair, deliveries, 95, 40 * minutes)
        assert (result.posted, result.delivered) == ((), ())
        time.sleep(4)  # two group intervals, in which a repeated alert would cause a notification
        assert len(pair.webhooks) == 2


def test_a_crash_before_the_record_notifies_the_same_fingerprint(tmp_path: Path) -> None:
    minutes = timedelta(minutes=1)
    with pair_in(tmp_path) as pair:
        send(pair, Deliveries(FolderStore(tmp_path / "lost")), 55, 0 * minutes)
        wait_for(lambda: pair.steps() == [["50"]])
        pair.stop(0)
        pair.stop(0)
        pair.start(0, forgetful=True)
        pair.start(1, forgetful=True)
        send(pair, Deliveries(FolderStore(tmp_path / "record")), 55, 10 * minutes)
        wait_for(lambda: pair.steps() == [["50"], ["50"]])
        first, second = (hook["alerts"][0]["fingerprint"] for hook in pair.webhooks)
        assert first == second


def test_startsat_is_kept_by_the_real_server(tmp_path: Path) -> None:
    with pair_in(tmp_path) as pair:
        send(pair, Deliveries(FolderStore(tmp_path / "record")), 55, timedelta(0))
        [alert] = httpx.get(f"{pair.urls[1]}/api/v2/alerts").json()
        assert alert["startsAt"] < alert["endsAt"]
        assert alert["receivers"] == [{"name": "team"}]
