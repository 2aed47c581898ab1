"""Starting a real server for a test: a free port, a temporary folder, a check of its response.

Put here: functions for all servers.
Not here: options of one server (one module each in this folder).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.servers import build

START_SECONDS = 120.0  # the slowest, a cold kube-apiserver, took 20 s on two busy cores
STOP_SECONDS = 10.0
PATIENCE_SECONDS = 90.0  # for any action of a real server, on a machine under load


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def required(name: str, *places: str) -> Path:
    """The path of a program. If it is missing, CI fails; a laptop shows the install command."""
    found = build.program(name) or _on_path(name, places)
    if found is None:
        missing(f"{name} is not here: `make servers` builds it, or install your system's package")
    return found


def missing(text: str) -> NoReturn:
    """Report a missing server: CI fails, and a laptop shows the command to install it."""
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def _on_path(name: str, places: Sequence[str]) -> Path | None:
    for pattern in places:
        newest = sorted(Path("/").glob(pattern.lstrip("/")))
        if newest:
            return newest[-1]
    found = shutil.which(name)
    return Path(found) if found else None


@contextmanager
def running(
    command: Sequence[object],
    answers: Callable[[], bool],
    log: Path,
    *,
    user: str | None = None,
    environment: dict[str, str] | None = None,
    gently: bool = True,
    start_seconds: float = START_SECONDS,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that responds; it is always stopped at the end.

    The parts of the command are texts, paths and numbers. With gently=False it is killed: it has no
    data to save, and closing its connections takes many times longer than the test.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=sink,
            stderr=subprocess.STDOUT,
            user=user,
            env={**os.environ, **(environment or {})},
            cwd=log.parent,
        )
        try:
            _wait_for(process, answers, log, start_seconds)
            yield process
        finally:
            if not gently:
                process.kill()
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process; kill it if it does not end."""
    process.terminate()  # no effect if it has ended
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(
    process: subprocess.Popen[bytes], answers: Callable[[], bool], log: Path, start_seconds: float
) -> None:
    deadline = time.monotonic() + start_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if answers():
            return
        time.sleep(0.05)
    tail = log.read_text(errors="replace")[-3000:]
    raise AssertionError(f"{process.args!r} did not answer (exit {process.poll()}):\n{tail}")


def wait_for(done: Callable[[], bool], what: str = "it", every_seconds: float = 0.05) -> None:
    """Wait for a condition; fail after a limit of time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE_SECONDS:.0f} s"
        time.sleep(every_seconds)


def listens(port: int) -> bool:
    """Whether a server accepts connections on a port of this machine."""
    with socket.socket() as caller:
        caller.settimeout(0.5)
        return caller.connect_ex(("127.0.0.1", port)) == 0
