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
"""


@click.command(epilog=EPILOG)
@click.argument("cluster_id")
@home_option
def collect(cluster_id: str, home_path: Path) -> None:
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

    collector = collector_of(OpenHome.at(home_path), cluster_id)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopped)
    click.echo(f"Collecting {cluster_id}; stop with Ctrl-C.", err=True)
    collector.run(stop)
    health = collector.health
    click.echo(f"{health.lines_written} lines in {health.segments_written} segments.", err=True)
