"""Dagster's own folder in a home: its instance file, and where its memory is kept.

Put here: what `dagster.yaml` says, and why.
Not here: definitions (`orchestration.build`), or starting processes (`orchestration.cli.up`).

Dagster's database can be lost: the hour ledger knows which hours are due. SQLite in the home by
default; PostgreSQL where a URL is given, for several processes or hosts.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from clients.redaction import secret_of
from domain.errors import CouldNotLook
from orchestration.assets.facts import POOL
from orchestration.open_home import OpenHome
from orchestration.resources import HOME_VARIABLE
from orchestration.tags import STARTED_IN
from warehouse.store import write_whole

POSTGRES_VARIABLE = "GPU_LEDGER_POSTGRES_URL"

RUN_SECONDS_LIMIT = 4 * 3600
"""Longer than any run: one whose machine went down would otherwise hold its place for ever."""

CONNECT_SECONDS = 10
"""A server that accepts no connection in this time is away."""

SEEN_LIMIT = 300
"""Characters of what a driver says of a failure."""

TRY_A_LOCATION_SECONDS = 60
"""Dagster itself loads a broken code location again once a minute; more often is no use."""

TRIES_OF_A_LOCATION = 24 * 60
"""A day to put a refused decision right; after that one run a day is given up, not the queue."""

_SHARED = f"""\
# Written by gpu-ledger; changes here are lost when it starts again.
telemetry:
  enabled: false
nux:
  enabled: false
run_retries:
  # A worker that died is started again. A step that failed is not: bad hours are asked again when
  # the hour ledger says so, and a refused close stays refused.
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
run_monitoring:
  enabled: true
  start_timeout_seconds: 300
  max_runtime_seconds: {RUN_SECONDS_LIMIT}
concurrency:
  pools:
    # One writer holds the warehouse at a time.
    default_limit: 1
    granularity: run
  runs:
    max_concurrent_runs: 4
    tag_concurrency_limits:
      # A backfill of any size leaves room for the live hour.
      - key: dagster/backfill
        limit: 2
run_queue:
  # While the code location does not load, runs wait, and say why. Dagster's own answer is to take
  # run after run from the queue and call it failed.
  max_user_code_failure_retries: {TRIES_OF_A_LOCATION}
  user_code_failure_retry_delay: {TRY_A_LOCATION_SECONDS}
retention:
  schedule:
    purge_after_days: 90
  sensor:
    purge_after_days:
      skipped: 7
      failure: 30
      success: 90
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
    # Lines of JSON are YAML.
    launcher = json.dumps(_launcher(mark_of(folder)))[1:-1] + "\n"
    storage = _POSTGRES if url else json.dumps(event_log_in(folder))[1:-1] + "\n"
    text = _SHARED + launcher + storage
    write_whole(folder / "dagster.yaml", text.encode())
    environment = {
        "DAGSTER_HOME": str(folder.resolve()),
        HOME_VARIABLE: str(opened.home.path.resolve()),
        # What is planned for the hours of a run is written 200 events at a time.
        "DAGSTER_EVENT_BATCH_SIZE": "200",
        # On a busy machine a run needs more than the 60 s that Dagster waits for it to begin.
        "DAGSTER_GRPC_TIMEOUT_SECONDS": "300",
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": "300",
    }
    return environment | ({POSTGRES_VARIABLE: url} if url else {})


def mark_of(folder: Path) -> str:
    """What tells the runs that were started in this folder from all others of their database.

    It stays as long as the folder: the same machine may have another name tomorrow.
    """
    kept = folder / "mark"
    if not kept.is_file():
        write_whole(kept, f"{secrets.token_hex(4)}\n".encode())
    return kept.read_text(encoding="utf-8").strip()


def _launcher(mark: str) -> dict[str, object]:
    return {
        "run_launcher": {
            "module": "orchestration.launching",
            "class": "MarkingLauncher",
            "config": {"mark": mark},
        }
    }


def event_log_in(folder: Path) -> dict[str, object]:
    """How Dagster is told of our event log; its files are where Dagster itself would have them."""
    return {
        "event_log_storage": {
            "module": "orchestration.event_log",
            "class": "HeldEventLog",
            "config": {"base_dir": str((folder / "history" / "runs").resolve())},
        }
    }


class DatabaseUnreachable(CouldNotLook):
    """Dagster's PostgreSQL accepts no connection."""

    code = "UP-004"

    def __init__(self, where: str, seen: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="Dagster keeps its runs and schedules there; the ledger itself is untouched",
            remedy="start the server, or correct the URL (postgresql://USER:PASSWORD@HOST/DATABASE)"
            "; without one Dagster uses SQLite",
        )


def postgres_url(opened: OpenHome) -> str:
    """From the environment, or from the file that the settings name; empty means SQLite."""
    given = os.environ.get(POSTGRES_VARIABLE, "")
    name = opened.settings.postgres_url_file
    if given or not name:
        return given
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as cause:
        seen = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8"
        raise DatabaseUnreachable(name, f"cannot be read: {seen}") from None


def require_database(url: str) -> None:
    """Connect to Dagster's PostgreSQL once, or say why not, without what is secret in its URL."""
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

    try:
        parsed = sqlalchemy.make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnreachable(POSTGRES_VARIABLE, "its value is not a URL") from None
    where = f"{parsed.host or 'local socket'}:{parsed.port or 5432}/{parsed.database or ''}"
    if not parsed.drivername.startswith("postgresql"):
        raise DatabaseUnreachable(where, f"{parsed.drivername}:// is not PostgreSQL") from None
    try:
        engine = sqlalchemy.create_engine(
            parsed,
            poolclass=sqlalchemy.NullPool,
            connect_args={"connect_timeout": CONNECT_SECONDS},
        )
        engine.connect().close()
    except (SQLAlchemyError, ImportError, ValueError) as cause:
        # What SQLAlchemy adds to the driver's message are pages of its own documentation.
        text = str(cause.orig if isinstance(cause, DBAPIError) else cause)
        seen = secret_of(str(parsed.password or "")).taken_out_of(" ".join(text.split()))
        raise DatabaseUnreachable(where, f"no connection: {seen}"[:SEEN_LIMIT]) from None


def make_pool() -> None:
    """The pool of one writer, made before its first use: two runs at once were seen otherwise."""
    from dagster import DagsterInstance

    with DagsterInstance.get() as instance:
        instance.event_log_storage.set_concurrency_slots(POOL, 1)


def end_lost_runs(mark: str) -> int:
    """End the runs that nothing executes any more; how many there were.

    Only for a start that has its home alone: what an earlier start of it launched went down with
    it, and would keep its hours and the warehouse for itself. Runs of others are left alone.
    """
    from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

    alive = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
    with DagsterInstance.get() as instance:
        lost = instance.get_runs(RunsFilter(statuses=alive, tags={STARTED_IN: mark}))
        for run in lost:
            instance.report_run_failed(
                run, "Its process went down before Dagster was started anew."
            )
    return len(lost)
