"""Dagster's own folder in a home: its instance file, and where its memory is kept.

Put here: what `dagster.yaml` says, and why.
Not here: definitions (`orchestration.build`), or starting processes (`orchestration.cli.up`).

Dagster's memory is convenience: the hour ledger knows what is owed. SQLite in the home by default;
PostgreSQL where a URL is given, for several processes or hosts.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestration.assets.facts import POOL
from orchestration.open_home import OpenHome

POSTGRES_VARIABLE = "GPU_LEDGER_POSTGRES_URL"

_SHARED = """\
# Written by gpu-ledger; changes here are lost when it starts again.
telemetry:
  enabled: false
nux:
  enabled: false
run_retries:
  enabled: true
  max_retries: 2
concurrency:
  pools:
    # One writer holds the warehouse at a time.
    default_limit: 1
    granularity: run
  runs:
    max_concurrent_runs: 4
run_monitoring:
  enabled: true
"""

_POSTGRES = """\
storage:
  postgres:
    postgres_url:
      env: GPU_LEDGER_POSTGRES_URL
"""


def prepare(opened: OpenHome) -> dict[str, str]:
    """Write the instance file; the environment in which Dagster's processes start."""
    folder = opened.home.dagster
    folder.mkdir(parents=True, exist_ok=True)
    url = postgres_url(opened)
    text = _SHARED + (_POSTGRES if url else "")
    (folder / "dagster.yaml").write_text(text, encoding="utf-8")
    environment = {
        "DAGSTER_HOME": str(folder),
        "GPU_LEDGER_HOME": str(opened.home.path),
        # Events of a run of many hours are written 200 at a time: measured 19 s against 12 s.
        "DAGSTER_EVENT_BATCH_SIZE": "200",
    }
    return environment | ({POSTGRES_VARIABLE: url} if url else {})


def postgres_url(opened: OpenHome) -> str:
    """From the environment, or from the file that the settings name; empty means SQLite."""
    given = os.environ.get(POSTGRES_VARIABLE, "")
    name = opened.settings.postgres_url_file
    return given or (Path(name).read_text(encoding="utf-8").strip() if name else "")


def make_pool() -> None:
    """The pool of one writer, made before its first use: two runs at once were seen otherwise."""
    from dagster import DagsterInstance

    with DagsterInstance.get() as instance:
        instance.event_log_storage.set_concurrency_slots(POOL, 1)
