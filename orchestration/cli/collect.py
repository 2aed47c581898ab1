"""`gpu-ledger collect`: watch one cluster until interrupted.

Put here: running a collector as a process, and stopping it on a signal.
Not here: collecting (`ingestion.kubernetes`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from ingestion.kubernetes.collector import Collector
from ingestion.kubernetes.health import HealthServer
from orchestration.cli.output import home_option, progress
from orchestration.cli.signals import stop_event
from orchestration.cli.time_arguments import INSTANT
from orchestration.cluster_collector import STEP_SECONDS_LIMIT, collector_of, drive
from orchestration.fleet_clock import FleetClock
from orchestration.open_home import OpenHome

EPILOG = """\b
Examples:
  gpu-ledger collect CLUSTER_ID --home my-ledger
  gpu-ledger collect CLUSTER_ID --health-port 8080      with pages for probes and metrics
  gpu-ledger collect CLUSTER_ID CLUSTER_ID --drive-to 2026-10-02    of a simulated fleet
"""


@click.command(epilog=EPILOG)
@click.argument("cluster_ids", metavar="CLUSTER_ID...", nargs=-1, required=True)
@click.option("--health-port", type=int, help="Port of /healthz and /metrics.")
@click.option(
    "--drive-to",
    type=INSTANT,
    help="Move the driven clock of a simulated fleet ($GPU_LEDGER_NOW is its address) to this "
    "time, hour by hour, and end. With several clusters, all their collectors run.",
)
@home_option
def collect(
    cluster_ids: Sequence[str],
    health_port: int | None,
    drive_to: datetime | None,
    home_path: Path,
) -> None:
    """Watch a cluster's Kubernetes API and write its journal, until interrupted.

    An event counts as recorded when it is on disk. A restarted collector continues its
    journal and records the gap.
    """
    opened = OpenHome.at(home_path)
    driven = isinstance(opened.clock, FleetClock)
    if drive_to is not None and not driven:
        raise click.UsageError(
            "--drive-to needs GPU_LEDGER_NOW=http://…/-/clock of a simulated fleet"
        )
    if len(cluster_ids) > 1 and (drive_to is None or health_port is not None):
        raise click.UsageError("several clusters need --drive-to, and have no --health-port")
    collectors = [collector_of(opened, cluster_id, lockstep=driven) for cluster_id in cluster_ids]
    if health_port is not None:
        HealthServer(collectors[0].health, opened.clock, "0.0.0.0", health_port)
    click.echo(f"Collecting {', '.join(cluster_ids)}; stop with Ctrl-C.", err=True)
    with stop_event("Stopping; received events are being written.") as stop:
        if drive_to is not None and isinstance(opened.clock, FleetClock):
            _drive(opened.clock, collectors, stop, drive_to)
        else:
            collectors[0].run(stop)
    lines = sum(collector.health.lines_written for collector in collectors)
    segments = sum(collector.health.segments_written for collector in collectors)
    click.echo(f"{lines} lines in {segments} segments.", err=True)


def _drive(
    clock: FleetClock, collectors: Sequence[Collector], stop: threading.Event, end: datetime
) -> None:
    threads = [collector.run_in_thread(stop) for collector in collectors]
    try:
        with progress("Simulating") as report:
            drive(clock, collectors, end, report)
    finally:
        stop.set()
        for thread in threads:
            thread.join(STEP_SECONDS_LIMIT)
