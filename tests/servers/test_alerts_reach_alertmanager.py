"""Budget steps through a pair of real Alertmanagers to a webhook that counts notifications.

The scenarios are those of the Alertmanager in memory, and the rules of inhibition those of deploy/.
The pair uses the machine's clock with group times of seconds; the clock of gpu-ledger is moved by
minutes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.alertmanager import Alertmanager
from idle_pruner.actions import post_stop_notice
from idle_pruner.cluster import ObjectName
from tests.alert_scenarios import (
    OCTOBER,
    SCENARIOS,
    TEN_MINUTES,
    Labels,
    Scene,
    a_step_inhibits_a_lower_one_that_was_notified,
)
from tests.servers.process import free_port, missing, running, wait_for

pytestmark = pytest.mark.servers

DEBIAN = Path("/usr/bin/prometheus-alertmanager")
SHIPPED = Path(__file__).parents[2] / "deploy" / "alerts" / "alertmanager.yml"
GROUP_SECONDS = 2
SEPARATE_SECONDS = 10
"""A group interval in which alerts are posted long before the group is notified again."""
ALONE = a_step_inhibits_a_lower_one_that_was_notified
AT_ONCE = 4


def config(url: str, group_seconds: int) -> str:
    """The shipped configuration with short times, and one receiver for everything."""
    whole: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    times = {"group_wait": "1s", "group_interval": f"{group_seconds}s", "repeat_interval": "1h"}
    whole["route"] |= times
    for receiver in whole["receivers"]:
        receiver["webhook_configs"] = [{"url": url, "send_resolved": False}]
    return yaml.safe_dump(whole)


class Peers(Scene):
    """The peers of one cluster, usually two, and the webhooks that they sent."""

    def __init__(
        self, folder: Path, peer_count: int = 2, group_seconds: int = GROUP_SECONDS
    ) -> None:
        super().__init__(folder)
        self.group_seconds = group_seconds
        self.received: list[dict[str, Any]] = []
        self.ports = [(free_port(), free_port()) for _ in range(peer_count)]
        self.later = timedelta(0)
        self._running: dict[int, ExitStack] = {}
        self._start_count = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        received = self.received

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                received.append(json.loads(self.rfile.read(size)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Receiver

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port, _ in self.ports]

    def now(self) -> datetime:
        return datetime.now(UTC).replace(microsecond=0) + self.later

    def peers(self) -> list[Alertmanager]:
        return [Alertmanager(url) for url in self.urls]

    def webhooks(self) -> list[list[Labels]]:
        return [
            sorted(tuple(sorted(one["labels"].items())) for one in webhook["alerts"])
            for webhook in self.received
        ]

    def settle(self, webhook_count: int) -> None:
        wait_for(lambda: len(self.received) >= webhook_count, "the webhooks")
        # Nothing more arrives: only time shows it.
        time.sleep(2 * GROUP_SECONDS)
        assert len(self.received) == webhook_count
        self.later += TEN_MINUTES

    def start(self, number: int, *, is_forgetful: bool = False) -> None:
        self._start_count += 1
        folder = self.folder / f"peer{number}{f'-{self._start_count}' if is_forgetful else ''}"
        folder.mkdir(exist_ok=True)
        file = folder / "alertmanager.yml"
        url = f"http://127.0.0.1:{self._server.server_port}/"
        file.write_text(config(url, self.group_seconds))
        port, cluster = self.ports[number]
        others = [gossip for _, gossip in self.ports if gossip != cluster]
        command = [
            str(DEBIAN),
            f"--config.file={file}",
            f"--storage.path={folder}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--cluster.listen-address=127.0.0.1:{cluster}",
            f"--cluster.advertise-address=127.0.0.1:{cluster}",
            *(f"--cluster.peer=127.0.0.1:{gossip}" for gossip in others),
            "--cluster.settle-timeout=2s",
            "--cluster.peer-timeout=2s",
        ]

        def is_ready() -> bool:
            try:
                return httpx.get(f"{self.urls[number]}/-/ready", timeout=1).status_code == 200
            except httpx.TransportError:
                return False

        stack = ExitStack()
        stack.enter_context(running(command, is_ready, folder / "server.log"))
        self._running[number] = stack

    def stop(self, number: int) -> None:
        self._running.pop(number).close()

    def close(self) -> None:
        for number in list(self._running):
            self.stop(number)
        self._server.shutdown()


@contextmanager
def peers_in(
    folder: Path, peer_count: int = 2, group_seconds: int = GROUP_SECONDS
) -> Iterator[Peers]:
    if not DEBIAN.exists():
        missing("Alertmanager is not here: `apt-get install prometheus-alertmanager`")
    peers = Peers(folder, peer_count, group_seconds)
    try:
        for number in range(peer_count):
            peers.start(number)
        yield peers
    finally:
        peers.close()


Webhooks = list[list[Labels]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Webhooks]]:
    """The webhooks of every scenario, or its error. Several run at once: they mostly wait."""

    def play(scenario: Callable[[Scene], None], folder: Path) -> Webhooks:
        options = (1, SEPARATE_SECONDS) if scenario is ALONE else ()
        with peers_in(folder, *options) as peers:
            scenario(peers)
            return peers.webhooks()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {
            scenario.__name__: pool.submit(play, scenario, tmp_path_factory.mktemp("peers"))
            for scenario in (*SCENARIOS, ALONE)
        }


@pytest.mark.parametrize("name", [one.__name__ for one in SCENARIOS])
def test_a_real_pair_notifies(name: str, played: dict[str, Future[Webhooks]]) -> None:
    assert played[name].result()


def test_a_real_alertmanager_inhibits_a_lower_step_that_was_notified(
    played: dict[str, Future[Webhooks]],
) -> None:
    assert len(played[ALONE.__name__].result()) == 2


def test_an_alert_begins_when_it_was_posted_and_has_a_receiver(tmp_path: Path) -> None:
    with peers_in(tmp_path) as pair:
        pair.spend_and_settle(1, vision=55)
        for url in pair.urls:
            [alert] = httpx.get(f"{url}/api/v2/alerts").json()
            assert alert["startsAt"] < alert["endsAt"]
            assert alert["receivers"] == [{"name": "vision"}]
        pair.send()
        [event] = [one for one in pair.deliveries.events(OCTOBER) if one.event == "delivered"]
        assert event.fingerprint == alert["fingerprint"]


def test_the_notice_of_a_stop_is_notified(tmp_path: Path) -> None:
    name = ObjectName("apps/v1", "Deployment", "team-a", "train")
    with peers_in(tmp_path) as pair:
        for url in pair.urls:
            until = pair.now() + TEN_MINUTES
            assert post_stop_notice(url, name, "idle", pair.now(), until) == []
        wait_for(lambda: len(pair.received) == 1, "the webhook")
        [alert] = pair.received[0]["alerts"]
        assert alert["labels"]["alertname"] == "GpuWorkloadWillBeStopped"
        assert alert["labels"]["namespace"] == "team-a"
