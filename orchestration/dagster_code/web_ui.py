"""The Dagster web UI: its two processes, and links for operators.

Put here: starting and stopping webserver and daemon, sessions, and links to the important pages.
Not here: their configuration (`instance`), or printing (`orchestration.cli.up`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from domain.errors import PortTaken, TemporarilyUnavailable
from ingestion.evidence.hour_ledger import is_ready
from orchestration import open_hours
from orchestration.dagster_code.check_assets import CHECK_RESULT
from orchestration.dagster_code.document_assets import DRAFTS
from orchestration.dagster_code.hour_events import evidence_keys
from orchestration.dagster_code.ui_links import (
    LOCATION,
    asset_link,
    close_link,
    partition_link,
    partitions_link,
)
from orchestration.home_lock import HomeLock, require_down
from orchestration.open_home import OpenHome
from orchestration.open_hours import is_complete
from portal.access import TOKEN, new_key, one_time_token, session_cookie

KEY = "access.key"
"""The file with the key that signs the tokens and sessions of the web server."""

WORKSPACE = f"""\
# Written by gpu-ledger; changes here are lost when it starts again.
load_from:
  - python_module:
      module_name: orchestration.dagster_code.definitions
      location_name: {LOCATION}
"""

START_SECONDS = 300.0
"""Limit for the start, which takes twelve seconds on an idle machine."""

STOP_SECONDS = 30.0
LINKS_LIMIT = 24


class WebUiDidNotStart(TemporarilyUnavailable):
    """Webserver or daemon ended, or did not respond."""

    code = "LOG-001"

    def __init__(self, where: str, seen: str, log: Path) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="without it no job is scheduled or shown; the ledger itself is unchanged",
            remedy=f"read {log}, then start again; another --port if that one is taken",
        )


@dataclass(frozen=True, slots=True)
class WebUi:
    """The running webserver and daemon, and their logs."""

    url: str
    folder: Path
    processes: Mapping[str, subprocess.Popen[bytes]]
    key: str

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def ended(self) -> str | None:
        """The name of the first process that has ended."""
        gone = (name for name, process in self.processes.items() if process.poll() is not None)
        return next(gone, None)

    def wait_until_ready(self) -> None:
        """Return when the webserver responds; raise if it does not."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.require_alive()
            request = urllib.request.Request(
                f"{self.url}/server_info", headers={"Cookie": session_cookie(self.key)}
            )
            try:
                with urllib.request.urlopen(request, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise WebUiDidNotStart(self.url, f"no response in {START_SECONDS:.0f} s", self.folder)

    def wait(self) -> None:
        """Wait until one of the processes ends."""
        while self.ended() is None:
            time.sleep(0.5)
        self.require_alive()

    def require_alive(self) -> None:
        if (name := self.ended()) is not None:
            code = self.processes[name].returncode
            raise WebUiDidNotStart(name, f"it ended with code {code}", self.log(name))


PROCESSES = ("webserver", "daemon")


@contextmanager
def run_web_ui(
    opened: OpenHome,
    host: str,
    port: int,
    environment: Mapping[str, str],
    names: Sequence[str] = PROCESSES,
    lock: HomeLock | None = None,
) -> Iterator[WebUi]:
    """Run webserver and daemon on a home, or one of them, until the block is left.

    They inherit the lock on the home, if it is given.
    """
    require_free(host, port)
    folder = opened.home.dagster
    workspace = write_workspace(folder)
    key = write_key(folder) if "webserver" in names else ""
    daemon = str(Path(sys.executable).with_name("dagster-daemon"))
    webserver = [sys.executable, "-P", "-m", "orchestration.dagster_code.webserver"]
    commands = {
        "webserver": [*webserver, host, str(port), str(folder)],
        "daemon": [daemon, "run", "-w", str(workspace)],
    }
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in names:
            with (folder / f"{name}.log").open("ab") as log:
                processes[name] = subprocess.Popen(
                    commands[name],
                    env={**os.environ, **environment},
                    cwd=folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[lock.descriptor] if lock else [],
                )
        if lock:
            lock.write_holders({name: process.pid for name, process in processes.items()})
        yield WebUi(f"http://{host}:{port}", folder, processes, key)
    finally:
        stop(processes)


def write_workspace(folder: Path) -> Path:
    """Write the file with the code location that webserver and daemon load."""
    workspace = folder / "workspace.yaml"
    workspace.write_text(WORKSPACE, encoding="utf-8")
    return workspace


def write_key(folder: Path) -> str:
    """Write a new key for the next start of the web server; earlier tokens and sessions end."""
    key = new_key()
    path = folder / KEY
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(key)
    return key


def new_session(url: str, folder: Path) -> str:
    """The address that begins a browser session; empty before the web server runs."""
    path = folder / KEY
    key = path.read_text(encoding="utf-8") if path.is_file() else ""
    return f"{url}/?{TOKEN}={one_time_token(key)}" if key else ""


def require_startable(dagster: Path, host: str, port: int) -> None:
    """Refuse a home whose web UI runs, or a port that is in use, before any file is written."""
    require_down(dagster)
    require_free(host, port)


def require_free(host: str, port: int) -> None:
    """Refuse a port that is in use: a user could take its pages for those of this home."""
    with socket.socket() as caller:
        caller.settimeout(1.0)
        if caller.connect_ex((host, port)) == 0:
            raise PortTaken(
                where=f"{host}:{port}",
                seen="another process listens there",
                why="its pages could be mistaken for those of this home",
                remedy=f"stop that process, or use another port: gpu-ledger up --port {port + 1}",
            )


def stop(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Terminate the processes, wait, and kill those that do not end."""
    for process in processes.values():
        process.terminate()
    for process in processes.values():
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def page_links(opened: OpenHome, url: str) -> list[tuple[str, str]]:
    """The pages that an operator needs, with one for each missing hour."""
    keys = evidence_keys(opened.decisions.clusters)
    links = [
        ("all assets", f"{url}/asset-groups"),
        *(
            (f"hours: {key.to_user_string()}", f"{url}{partitions_link(key)}")
            for key in sorted(keys.values())
        ),
        ("check of the month", f"{url}{asset_link(CHECK_RESULT)}"),
        ("invoice drafts", f"{url}{asset_link(DRAFTS)}"),
        *(
            (f"close {period} (a dry run by default)", f"{url}{close_link(period)}")
            for period in open_hours.open_periods(opened)[:1]
        ),
    ]
    now = opened.clock.now()
    gaps = [e for e in open_hours.open_entries(opened) if is_ready(e, now) and not is_complete(e)]
    for entry in gaps[:LINKS_LIMIT]:
        key = keys[entry.cluster_id, entry.source]
        hour = f"missing: {key.to_user_string()} {entry.hour_started_at:%Y-%m-%dT%H}"
        links.append((hour, f"{url}{partition_link(key, entry.hour_started_at)}"))
    if len(gaps) > LINKS_LIMIT:
        links.append((f"and {len(gaps) - LINKS_LIMIT} more missing hours", f"{url}/assets"))
    return links
