"""`gpu-ledger collect`: watching one cluster until told to stop.

Put here: starting a collector as a process, and stopping it on a signal.
Not here: collecting (`ingestion.kubernetes`).
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType

import click

from orchestration.cli.output import home_option

EPILOG = """\b
Examples:
  gpu-ledger collect CLUSTER_ID --home my-ledger
  gpu-ledger collect CLUSTER_ID --health-port 8080      with pages for probes and metrics
"""


@click.command(epilog=EPILOG)
@click.argument("cluster_id")
@click.option("--health-port", type=int, help="Answer /healthz and /metrics on this port.")
@home_option
def collect(cluster_id: str, health_port: int | None, home_path: Path) -> None:
    """Watch one cluster's Kubernetes API into a journal, until interrupted.

    What was heard is on disk before it counts; started again, it goes on where it stopped and
    writes down the gap between.
    """
    from orchestration.collecting import collector_of
    from orchestration.open_home import OpenHome

    stop = threading.Event()

    def stopped(number: int, frame: FrameType | None) -> None:
        del frame
        click.echo(f"Stopping on signal {number}; what was heard is being written.", err=True)
        stop.set()

    opened = OpenHome.at(home_path)
    collector = collector_of(opened, cluster_id)
    if health_port is not None:
        from ingestion.kubernetes.health import HealthServer

        HealthServer(collector.health, opened.clock, "0.0.0.0", health_port)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    click.echo(f"Collecting {cluster_id}; stop with Ctrl-C.", err=True)
    collector.run(stop)
    health = collector.health
    click.echo(f"{health.lines_written} lines in {health.segments_written} segments.", err=True)
