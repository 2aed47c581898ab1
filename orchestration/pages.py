"""Dagster's web pages: their two processes, and the links that matter.

Put here: starting and stopping webserver and daemon, and where in the pages things are.
Not here: their configuration (`orchestration.dagster_home`), or printing (`orchestration.cli.up`).
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

from domain.errors import CouldNotLook, WrongUse
from orchestration.home_lock import Hold, require_down
from orchestration.links import LOCATION
from orchestration.open_home import OpenHome
from portal.access import TOKEN, new_key, one_time_token, session_cookie

KEY = "access.key"
"""Signs the tokens and sessions of the web server that runs on a folder."""

WORKSPACE = f"""\
# Written by gpu-ledger; changes here are lost when it starts again.
load_from:
  - python_module:
      module_name: orchestration.definitions
      location_name: {LOCATION}
"""

START_SECONDS = 300.0
"""Twelve on an idle machine; a machine that cannot do it in five minutes is in trouble."""

STOP_SECONDS = 30.0
LINKS_LIMIT = 24


class PagesDidNotStart(CouldNotLook):
    """Webserver or daemon ended, or did not answer."""

    code = "UP-001"

    def __init__(self, what: str, seen: str, log: Path) -> None:
        super().__init__(
            where=what,
            seen=seen,
            why="without it nothing is scheduled or shown; the ledger itself is untouched",
            remedy=f"read {log}, then start again; another --port if that one is taken",
        )


class PortTaken(WrongUse):
    """Something else answers where the pages are to be."""

    code = "UP-002"

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            where=f"{host}:{port}",
            seen="something answers there already",
            why="its pages would be taken for the ones of this home",
            remedy="it is not this home's: stop it, or show this home beside it: "
            f"gpu-ledger up --port {port + 1}",
        )


@dataclass(frozen=True, slots=True)
class Pages:
    """Two processes that belong to each other, and where they write what they do."""

    url: str
    folder: Path
    processes: Mapping[str, subprocess.Popen[bytes]]
    key: str

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def ended(self) -> str | None:
        """The name of the first process that is gone."""
        gone = (name for name, process in self.processes.items() if process.poll() is not None)
        return next(gone, None)

    def wait_until_shown(self) -> None:
        """Return when the webserver answers; raise when it never will."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.require_alive()
            look = urllib.request.Request(
                f"{self.url}/server_info", headers={"Cookie": session_cookie(self.key)}
            )
            try:
                with urllib.request.urlopen(look, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise PagesDidNotStart(self.url, f"no answer for {START_SECONDS:.0f} s", self.folder)

    def wait(self) -> None:
        """Stay until one of them ends."""
        while self.ended() is None:
            time.sleep(0.5)
        self.require_alive()

    def require_alive(self) -> None:
        if (name := self.ended()) is not None:
            code = self.processes[name].returncode
            raise PagesDidNotStart(name, f"it ended with code {code}", self.log(name))


BOTH = ("webserver", "daemon")


@contextmanager
def pages(
    opened: OpenHome,
    host: str,
    port: int,
    environment: Mapping[str, str],
    names: Sequence[str] = BOTH,
    hold: Hold | None = None,
) -> Iterator[Pages]:
    """Webserver and daemon on a home, or one of them, until the block is left.

    They share the lock on the home, where there is one.
    """
    require_free(host, port)
    folder = opened.home.dagster
    workspace = write_workspace(folder)
    key = write_key(folder) if "webserver" in names else ""
    daemon = str(Path(sys.executable).with_name("dagster-daemon"))
    webserver = [sys.executable, "-P", "-m", "orchestration.webserver"]
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
                    pass_fds=[hold.descriptor] if hold else [],
                )
        if hold:
            hold.name({name: process.pid for name, process in processes.items()})
        yield Pages(f"http://{host}:{port}", folder, processes, key)
    finally:
        stop(processes)


def write_workspace(folder: Path) -> Path:
    """The file that tells webserver and daemon what to load."""
    workspace = folder / "workspace.yaml"
    workspace.write_text(WORKSPACE, encoding="utf-8")
    return workspace


def write_key(folder: Path) -> str:
    """A new key for the next start of the web server; earlier tokens and sessions end."""
    key = new_key()
    path = folder / KEY
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(key)
    return key


def new_session(url: str, folder: Path) -> str:
    """The address that begins a session of the server on this folder; empty before it runs."""
    path = folder / KEY
    key = path.read_text(encoding="utf-8") if path.is_file() else ""
    return f"{url}/?{TOKEN}={one_time_token(key)}" if key else ""


def require_startable(dagster: Path, host: str, port: int) -> None:
    """Refuse a home that is up, or else a port that is taken, before anything is made."""
    require_down(dagster)
    require_free(host, port)


def require_free(host: str, port: int) -> None:
    """Refuse a port that answers already: its pages would be taken for ours."""
    with socket.socket() as caller:
        caller.settimeout(1.0)
        if caller.connect_ex((host, port)) == 0:
            raise PortTaken(host, port)


def stop(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Ask all of them to end, then wait; end those that do not."""
    for process in processes.values():
        process.terminate()
    for process in processes.values():
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def links(opened: OpenHome, url: str) -> list[tuple[str, str]]:
    """What an operator looks for, and where it is; every gap with its partition."""
    from ingestion.evidence.hour_ledger import ready
    from orchestration import ledger
    from orchestration.assets.checked import CHECK_RESULT
    from orchestration.assets.documents import DRAFTS
    from orchestration.assets.hour_events import evidence_keys
    from orchestration.checks import is_whole, open_entries
    from orchestration.links import asset_link, close_link, partition_link, strip_link

    keys = evidence_keys(opened.decisions.clusters)
    found = [
        ("the whole graph", f"{url}/asset-groups"),
        *(
            (f"hours: {key.to_user_string()}", f"{url}{strip_link(key)}")
            for key in sorted(keys.values())
        ),
        ("may the month be billed", f"{url}{asset_link(CHECK_RESULT)}"),
        ("drafts of its invoices", f"{url}{asset_link(DRAFTS)}"),
        *(
            (f"close {period} (dry by default)", f"{url}{close_link(period)}")
            for period in ledger.open_periods(opened)[:1]
        ),
    ]
    gaps = [e for e in open_entries(opened) if ready(e, opened.clock.now()) and not is_whole(e)]
    for entry in gaps[:LINKS_LIMIT]:
        key = keys[entry.cluster_id, entry.source]
        what = f"missing: {key.to_user_string()} {entry.hour_started_at:%Y-%m-%dT%H}"
        found.append((what, f"{url}{partition_link(key, entry.hour_started_at)}"))
    if len(gaps) > LINKS_LIMIT:
        found.append((f"and {len(gaps) - LINKS_LIMIT} more missing hours", f"{url}/assets"))
    return found
