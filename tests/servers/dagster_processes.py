"""Dagster as several real processes on one PostgreSQL, and the calls of its web pages.

Put here: starting them, queueing runs like the pages do, reading partition states.
Not here: expectations.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from subprocess import Popen
from typing import Any

import dagster as dg
import httpx

from orchestration.dagster_code.ui_links import LOCATION
from tests.servers.process import free_port, running

PATIENCE_SECONDS = 600.0  # each run is a process of its own, on a machine under load
ANSWER_SECONDS = 120.0

LAUNCH = """
mutation Launch($runs: [ExecutionParams!]!) {
  launchMultipleRuns(executionParamsList: $runs) {
    __typename
    ... on LaunchMultipleRunsResult { launchMultipleRunsResult { __typename } }
    ... on PythonError { message }
  }
}
"""


BACKFILL = """
mutation Backfill($of: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $of) {
    __typename
    ... on PythonError { message }
  }
}
"""


@dataclass(frozen=True)
class Webserver:
    """Dagster's GraphQL API, with the calls of its pages."""

    session: str

    @cached_property
    def client(self) -> httpx.Client:
        return in_session(self.session)

    def queue(self, asset: Sequence[str], hours: Sequence[str], tags: dict[str, str]) -> None:
        """Queue one run for each hour."""
        runs = [self._run(asset, tags | {"dagster/partition": hour}) for hour in hours]
        answer = self._ask(LAUNCH, {"runs": runs})["launchMultipleRuns"]
        kinds = {one["__typename"] for one in answer.get("launchMultipleRunsResult", [answer])}
        assert kinds == {"LaunchRunSuccess"}, answer

    def backfill(self, asset: Sequence[str], hours: Sequence[str]) -> None:
        """Launch one backfill run for all hours; the daemon starts it."""
        asked = {"partitionNames": list(hours), "assetSelection": [{"path": list(asset)}]}
        answer = self._ask(BACKFILL, {"of": asked})["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer

    def _run(self, asset: Sequence[str], tags: dict[str, str]) -> dict[str, Any]:
        return {
            "selector": {
                "repositoryLocationName": LOCATION,
                "repositoryName": "__repository__",
                "jobName": "__ASSET_JOB",
                "assetSelection": [{"path": list(asset)}],
                "assetCheckSelection": [],
            },
            "runConfigData": {},
            "mode": "default",
            "executionMetadata": {"tags": [{"key": k, "value": v} for k, v in tags.items()]},
        }

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        sent = {"query": query, "variables": variables}
        answer = self.client.post("/graphql", json=sent)
        said = answer.raise_for_status().json()
        assert "errors" not in said, said
        found: dict[str, Any] = said["data"]
        return found


def printed_session(log: Path) -> str:
    """The address with a token that `up` prints, as soon as it is in the log."""
    found = re.search(r"Dagster is at (\S+)", log.read_text())
    assert found, log.read_text()
    return found[1]


def root_of(session: str) -> str:
    return session.partition("/?")[0]


def in_session(session: str) -> httpx.Client:
    """A client with a session, which it starts with the address and its token."""
    client = httpx.Client(base_url=root_of(session), timeout=ANSWER_SECONDS)
    client.get(session, follow_redirects=True).raise_for_status()
    return client


def wait_until(true: Callable[[], bool], what: str, every_seconds: float = 0.5) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"it never came to this: {what}"
        time.sleep(every_seconds)


@contextmanager
def up(
    home: Path, log: Path, *options: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[str, Popen[bytes]]]:
    """`gpu-ledger up` as a process of its own, once its pages respond; the printed address."""
    port = free_port()
    command = [Path(sys.executable).parent / "gpu-ledger", "up", "--home", home, "--port", port]

    def shown() -> bool:
        return "invoice drafts" in log.read_text()

    with (
        all_ended(home / "dagster"),
        running(
            [*command, *options],
            shown,
            log,
            environment=environment,
            start_seconds=PATIENCE_SECONDS,
        ) as process,
    ):
        yield printed_session(log), process


@contextmanager
def all_ended(dagster_home: Path) -> Iterator[None]:
    """At the end, kill all processes of this home: a code server outlives its daemon."""
    try:
        yield
    finally:
        for process in _processes_of(dagster_home):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _processes_of(dagster_home: Path) -> Iterator[int]:
    wanted = f"DAGSTER_HOME={dagster_home.resolve()}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if wanted in environment.read_bytes().split(b"\0"):
                yield int(environment.parent.name)


def counted(instance: dg.DagsterInstance, **filters: Any) -> int:
    return instance.get_runs_count(dg.RunsFilter(**filters))
