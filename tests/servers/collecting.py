"""A collector as a process of its own, which a test can kill.

Put here: starting it with a clock that a test can move forward, and reading its journal.
Not here: the collector (`ingestion.kubernetes`), or the expected journal.

Its clock is the machine's clock plus the seconds in a file, so that a test can end an hour.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import yaml

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from ingestion.kubernetes.collector import Collector, CollectorSettings
from ingestion.kubernetes.collector_manifests import CollectorPlace, collector_manifests
from ingestion.kubernetes.journal import parse_lines, segments
from ingestion.kubernetes.journal_lines import Line
from ingestion.kubernetes.watcher import Retry
from tests.servers.process import PATIENCE_SECONDS, wait_for
from warehouse.store import Store, open_store

ROOT = Path(__file__).parents[2]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True)
class PushedClock:
    """The machine's clock plus the seconds in a file."""

    file: Path

    def now(self) -> datetime:
        ahead = int(self.file.read_text()) if self.file.exists() else 0
        return datetime.now(UTC) + timedelta(seconds=ahead)

    def wait_until(self, instant: datetime) -> None:
        while self.now() < instant:
            time.sleep(0.2)

    def push(self, seconds: int) -> None:
        ahead = int(self.file.read_text()) if self.file.exists() else 0
        aside = self.file.with_suffix(".new")
        aside.write_text(str(ahead + seconds))
        aside.rename(self.file)


@dataclass
class CollectorProcess:
    """The files and settings of one collector, and its process if it runs."""

    folder: Path
    url: str
    token_file: Path
    ca_file: Path
    cluster_id: str
    spool_location: str
    clock: PushedClock
    flush_seconds: int = 1
    process: subprocess.Popen[bytes] | None = None

    @property
    def spool(self) -> Store:
        return open_store(self.spool_location)

    def start(self) -> None:
        settings = {
            "url": self.url,
            "token_file": str(self.token_file),
            "ca_file": str(self.ca_file),
            "cluster_id": self.cluster_id,
            "spool": self.spool_location,
            "clock": str(self.clock.file),
            "flush_seconds": self.flush_seconds,
        }
        command = [sys.executable, "-m", "tests.servers.collecting", json.dumps(settings)]
        with (self.folder / "collector.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def kill(self) -> None:
        """Kill the process; it writes no more lines."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it like Kubernetes: it writes the events that it has received."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE_SECONDS)
        self.process = None

    def lines(self) -> list[Line]:
        found = []
        for segment in segments(self.spool, self.cluster_id):
            found += list(parse_lines(segment.key, self.spool.read(segment.key)))
        return found

    def wait_for(self, line: str, **parts: Any) -> None:
        """Wait until the journal has such a line."""
        wanted = {"line": line} | parts
        self._wait_for(lambda x: all(x.get(k) == v for k, v in wanted.items()), str(wanted))

    def wait_for_pod(self, name: str, phase: str = "") -> None:
        self._wait_for(lambda x: _is_pod(x, name, phase), f"pod {name} {phase}")

    def _wait_for(self, is_it: Callable[[Line], bool], what: str) -> None:
        def has_it() -> bool:
            assert self.process is not None, "nobody collects"
            assert self.process.poll() is None, f"the collector ended:\n{self.log()}"
            return any(map(is_it, self.lines()))

        wait_for(has_it, f"{what} in the journal", every_seconds=0.2)

    def log(self) -> str:
        return (self.folder / "collector.log").read_text(errors="replace")[-2000:]


def manifests() -> list[dict[str, Any]]:
    place = CollectorPlace("0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d")
    return [d for d in yaml.safe_load_all(collector_manifests(place)) if d]


def may_read(admin: httpx.Client) -> None:
    """Give the user `collector` exactly the rights of the manifests."""
    [role] = [d for d in manifests() if d["kind"] == "ClusterRole"]
    [binding] = [d for d in manifests() if d["kind"] == "ClusterRoleBinding"]
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "collector"}
    made = admin.post(f"{RBAC}/clusterroles", json=role)
    bound = admin.post(f"{RBAC}/clusterrolebindings", json=binding | {"subjects": [user]})
    assert (made.status_code, bound.status_code) == (201, 201), made.text + bound.text


def _is_pod(line: Line, name: str, phase: str) -> bool:
    is_pod = line["line"] == "object" and line["resource"] == "pods"
    if not is_pod or line["object"]["metadata"]["name"] != name:
        return False
    return phase in ("", line["object"]["status"].get("phase"))


def main(text: str) -> None:
    settings = json.loads(text)
    api = ServerAccess(
        settings["url"], token_file=Path(settings["token_file"]), ca_file=Path(settings["ca_file"])
    )
    wanted = CollectorSettings(
        cluster_id=settings["cluster_id"],
        flush_seconds=settings["flush_seconds"],
        retry=Retry(first_seconds=0.1, last_seconds=0.5),
    )
    clock = PushedClock(Path(settings["clock"]))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Collector(KubernetesClient(api), open_store(settings["spool"]), clock, wanted).run(stop)


if __name__ == "__main__":
    main(sys.argv[1])
