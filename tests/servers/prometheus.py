"""A real Prometheus for tests, with blocks from promtool or scraping a page of the test.

Put here: starting one of either version, and writing its history.
Not here: the queries.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.servers import build
from tests.servers.process import free_port, missing, required, running

DEBIAN = Path("/usr/bin/prometheus")  # 2.x, whose ranges are closed
# Longer than the age of any block.
KEPT = "100y"


@dataclass(frozen=True)
class Programs:
    """One version of the server and of its tool."""

    version: int
    prometheus: Path
    promtool: Path


def programs(version: int) -> Programs:
    """Prometheus 2 is the system's package, 3 is built."""
    if version == 3:
        return Programs(3, required("prometheus", "/nowhere"), required("promtool", "/nowhere"))
    if not DEBIAN.exists():
        missing("prometheus 2 is not here: `apt-get install prometheus`")
    return Programs(2, DEBIAN, DEBIAN.with_name("promtool"))


def built_is_three() -> bool:
    return build.program("prometheus") is not None


def make_blocks(which: Programs, files: list[Path], data: Path, *options: str) -> None:
    """The history of OpenMetrics files as blocks."""
    for file in files:
        command = [which.promtool, "tsdb", "create-blocks-from", "openmetrics", *options]
        command += [file, data]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)


@contextmanager
def prometheus(
    which: Programs, folder: Path, config: str = "", *options: str
) -> Iterator[httpx.Client]:
    """A server over `folder/data`, and a client for it."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    file = folder / "prometheus.yml"
    file.write_text(config)
    command = [
        *(which.prometheus, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.retention.time={KEPT}"),
        *options,
    ]
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/-/ready", timeout=1).status_code == 200
        except httpx.TransportError:
            return False

    with (
        running(command, answers, folder / "server.log"),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client
