"""`demo --keep-running` as a process: its pages, its fleet, and an end without remaining processes.

Put here: checks while the process runs, and after its end.
Not here: the output of the demo (`test_demo_results`), or Dagster's pages (`tests/servers`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.servers.dagster_processes import in_session
from tests.servers.process import free_port

pytestmark = [pytest.mark.deep, pytest.mark.engines]

PATIENCE_SECONDS = 400.0  # a demo and a start of Dagster, on a machine under load
ENDS_SECONDS = 60.0  # Dagster's webserver closes the connections of its pages first
HERE = "http://127.0.0.1:"


def until(true: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.2)


@contextmanager
def kept_running(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process, after it has printed how to stop it, and its output so far."""
    program = Path(sys.executable).with_name("gpu-ledger")
    options = ["--scenario", "thin_line", "--home", "kept", "--keep-running", "--port", str(port)]
    log = folder / "demo.log"
    with log.open("wb") as sink:
        demo = subprocess.Popen(
            [program, "demo", *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(
            lambda: b"invoice drafts" in log.read_bytes() or demo.poll() is not None,
            PATIENCE_SECONDS,
            log.read_text,
        )
        assert demo.poll() is None, log.read_text()
        yield demo, log
    finally:
        for process in left_behind(demo.pid, folder):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        demo.wait()


def left_behind(session: int, folder: Path) -> list[int]:
    """The processes that still run in its session or on its home."""
    found = []
    home = f"DAGSTER_HOME={(folder / 'kept' / 'dagster').resolve()}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            state, _, _, its_session = (
                (place / "stat").read_text().rpartition(")")[2].split()[n] for n in range(4)
            )
            is_ours = int(its_session) == session or home in (place / "environ").read_bytes()
            if is_ours and state != "Z":
                found.append(int(place.name))
    return found


def test_a_demo_kept_running_serves_its_pages_until_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    pages = f"{HERE}{port}"
    with kept_running(tmp_path, port) as (demo, log):
        said = log.read_text()
        assert "2026-10 is closed" in said
        begins, *links = re.findall(rf"{pages}/\S+", said)
        assert len(links) > 2
        for link in links:
            assert httpx.get(link, timeout=60).status_code == 401, link
        with closing(in_session(begins)) as operator:
            for link in links:
                assert operator.get(link).status_code == 200, link
            assert operator.get("/server_info").json()["dagster_webserver_version"]
        fleet = fleet_of(tmp_path / "kept")
        assert fleet
        for server in fleet:
            asked = httpx.get(f"{server}/api/v1/query", params={"query": "up"}, timeout=60)
            assert asked.json()["status"] == "success"

        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to all its processes
        assert demo.wait(ENDS_SECONDS) == 0, log.read_text()
        assert "Traceback" not in log.read_text()
        assert log.read_text().endswith("Stopped.\n")
        until(
            lambda: left_behind(demo.pid, tmp_path) == [],
            ENDS_SECONDS,
            lambda: f"still there: {left_behind(demo.pid, tmp_path)}",
        )
        for url in (pages, *fleet):
            with pytest.raises(httpx.ConnectError):
                httpx.get(url, timeout=5)


def fleet_of(home: Path) -> list[str]:
    """The addresses of the sample stores of its clusters, from the settings of the demo."""
    settings = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    return [str(one["url"]) for one in settings["thanos"].values()]
