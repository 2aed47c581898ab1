"""`gpu-ledger collect`: watching one cluster until told to stop.

Put here: starting a collector as a process, and stopping it on a signal.
Not here: collecting (`ingestion.kubernetes`).
"""

from __future__ import annotations

import signal
import threading
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import home_option, progress
from orchestration.cli.windows import INSTANT

if TYPE_CHECKING:
    from ingestion.kubernetes.collector import Collector
    from orchestration.demo.estate_clock import EstateClock

EPILOG = """\b
Examples:
  gpu-ledger collect CLUSTER_ID --home my-ledger
  gpu-ledger collect CLUSTER_ID --health-port 8080      with pages for probes and metrics
"""


@click.command(epilog=EPILOG)
@click.argument("cluster_id")
@click.option("--health-port", type=int, help="Answer /healthz and /metrics on this port.")
@click.option(
    "--drive-to",
    type=INSTANT,
    help="Of a fake estate whose clock is driven ($GPU_LEDGER_NOW is its address): turn the clock "
    "to this time, hour by hour, and end.",
)
@home_option
def collect(
    cluster_id: str, health_port: int | None, drive_to: datetime | None, home_path: Path
) -> None:
    """Watch one cluster's Kubernetes API into a journal, until interrupted.

    What was heard is on disk before it counts; started again, it goes on where it stopped and
    writes down the gap between.
    """
    from orchestration.collecting import collector_of
    from orchestration.demo.estate_clock import EstateClock
    from orchestration.open_home import OpenHome

    stop = threading.Event()

    def stopped(number: int, frame: FrameType | None) -> None:
        del frame
        click.echo(f"Stopping on signal {number}; what was heard is being written.", err=True)
        stop.set()

    opened = OpenHome.at(home_path)
    driven = isinstance(opened.clock, EstateClock)
    if drive_to is not None and not driven:
        raise click.UsageError("--drive-to needs GPU_LEDGER_NOW=http://…/-/clock of a fake estate")
    collector = collector_of(opened, cluster_id, lockstep=driven)
    if health_port is not None:
        from ingestion.kubernetes.health import HealthServer

        HealthServer(collector.health, opened.clock, "0.0.0.0", health_port)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    click.echo(f"Collecting {cluster_id}; stop with Ctrl-C.", err=True)
    if drive_to is not None and isinstance(opened.clock, EstateClock):
        _drive(opened.clock, collector, stop, drive_to)
    else:
        collector.run(stop)
    health = collector.health
    click.echo(f"{health.lines_written} lines in {health.segments_written} segments.", err=True)


def _drive(clock: EstateClock, collector: Collector, stop: threading.Event, end: datetime) -> None:
    from orchestration.demo.clockwork import STEP_SECONDS_LIMIT, drive

    thread = collector.run_in_thread(stop)
    try:
        with progress("Living through it") as report:
            drive(clock, collector, end, report)
    finally:
        stop.set()
        thread.join(STEP_SECONDS_LIMIT)
