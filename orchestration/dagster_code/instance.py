"""Dagster's instance in a home: its configuration, its database, and runs lost in a crash.

Put here: the content of `dagster.yaml`, and the environment of Dagster's processes.
Not here: definitions (`build`), or starting the processes (`web_ui`).

The database may be lost: due hours follow from the landing and the decisions. It is SQLite in the
home by default, PostgreSQL where a URL is given, for several processes or hosts.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import dagster as dg
import sqlalchemy
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from clients.redaction import secret_of
from domain.errors import TemporarilyUnavailable
from orchestration.dagster_code.model_assets import POOL
from orchestration.dagster_code.resources import HOME_VARIABLE
from orchestration.dagster_code.run_tags import STARTED_IN, HomeTaggingLauncher
from orchestration.open_home import OpenHome
from warehouse.store import write_whole

POSTGRES_VARIABLE = "GPU_LEDGER_POSTGRES_URL"

RUN_SECONDS_LIMIT = 4 * 3600
"""Longer than any run; without it, a run whose machine stopped would keep its slot for ever."""

CONNECT_SECONDS = 10
"""A server that accepts no connection within this time is unreachable."""

SEEN_LIMIT = 300
"""Most characters of a driver's error message."""

LOCATION_RETRY_SECONDS = 60
"""Dagster reloads a broken code location once a minute; more frequent retries are useless."""

LOCATION_RETRIES = 24 * 60
"""A day to correct an invalid decision; after that one run a day fails, not the whole queue."""

_SHARED = f"""\
# Written by gpu-ledger; changes here are lost when it starts again.
telemetry:
  enabled: false
nux:
  enabled: false
run_retries:
  # A worker that died is started again. A failed step is not: incomplete hours stay due, and a
  # refused close stays refused.
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
  # While the code location does not load, runs wait. By default Dagster would take one run after
  # the other from the queue and fail it.
  max_user_code_failure_retries: {LOCATION_RETRIES}
  user_code_failure_retry_delay: {LOCATION_RETRY_SECONDS}
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
    """Write the instance file; returns the environment of Dagster's processes."""
    folder = opened.home.dagster
    folder.mkdir(parents=True, exist_ok=True)
    url = postgres_url(opened)
    # Lines of JSON are YAML.
    launcher = json.dumps(_launcher(mark_of(folder)))[1:-1] + "\n"
    text = _SHARED + launcher + (_POSTGRES if url else "")
    write_whole(folder / "dagster.yaml", text.encode())
    environment = {
        "DAGSTER_HOME": str(folder.resolve()),
        HOME_VARIABLE: str(opened.home.path.resolve()),
        # The planned materializations of a run are written in batches of 200 events.
        "DAGSTER_EVENT_BATCH_SIZE": "200",
        # On a busy machine a run does not start within the default of 60 s.
        "DAGSTER_GRPC_TIMEOUT_SECONDS": "300",
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": "300",
    }
    return environment | ({POSTGRES_VARIABLE: url} if url else {})


def mark_of(folder: Path) -> str:
    """The mark of the runs that are started from this folder; other homes may share the database.

    It is kept in the folder, because the host name may change.
    """
    kept = folder / "mark"
    if not kept.is_file():
        write_whole(kept, f"{secrets.token_hex(4)}\n".encode())
    return kept.read_text(encoding="utf-8").strip()


def _launcher(mark: str) -> dict[str, object]:
    return {
        "run_launcher": {
            "module": HomeTaggingLauncher.__module__,
            "class": HomeTaggingLauncher.__name__,
            "config": {"mark": mark},
        }
    }


class DatabaseUnreachable(TemporarilyUnavailable):
    """Dagster's PostgreSQL is unreachable."""

    code = "SERVER-001"

    def __init__(self, where: str, seen: str) -> None:
        super().__init__(
            where=where,
            seen=seen,
            why="Dagster keeps its runs and schedules there; the ledger itself is untouched",
            remedy="start the server, or correct the URL (postgresql://USER:PASSWORD@HOST/DATABASE)"
            "; without one Dagster uses SQLite",
        )


def postgres_url(opened: OpenHome) -> str:
    """The URL from the environment, or from the file in the settings; empty means SQLite."""
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
    """Connect to Dagster's PostgreSQL once; the error does not contain its password."""

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
        # SQLAlchemy adds links to its documentation to the driver's message.
        text = str(cause.orig if isinstance(cause, DBAPIError) else cause)
        seen = secret_of(str(parsed.password or "")).redact(" ".join(text.split()))
        raise DatabaseUnreachable(where, f"no connection: {seen}"[:SEEN_LIMIT]) from None


def make_pool() -> None:
    """Create the pool with one writer. Without it, the first two runs may use it at once."""
    with dg.DagsterInstance.get() as instance:
        instance.event_log_storage.set_concurrency_slots(POOL, 1)


def end_lost_runs(mark: str) -> int:
    """End the runs that an earlier `gpu-ledger up` left behind; returns their number.

    The caller holds the lock of the home, so no process executes these runs any more; they would
    keep their hours and the warehouse reserved. Runs of other homes are not changed.
    """
    alive = [
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ]
    with dg.DagsterInstance.get() as instance:
        lost = instance.get_runs(dg.RunsFilter(statuses=alive, tags={STARTED_IN: mark}))
        for run in lost:
            instance.report_run_failed(run, "Its process ended before Dagster was started again.")
    return len(lost)
