"""`gpu-ledger up`: Dagster's webserver and daemon on a home.

Put here: starting and stopping the two processes.
Not here: their configuration (`orchestration.dagster_home`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from orchestration.cli.output import home_option

EPILOG = """\b
Examples:
  gpu-ledger up --home demo-home
  GPU_LEDGER_POSTGRES_URL=postgresql://… gpu-ledger up --home my-ledger --port 3333
"""

MODULE = "orchestration.definitions"


@click.command(epilog=EPILOG)
@click.option("--port", default=3000, show_default=True, help="Where the web pages are.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Who may see them.")
@home_option
def up(port: int, host: str, home_path: Path) -> int:
    """Start Dagster's webserver and daemon on a home, until interrupted."""
    from orchestration.dagster_home import make_pool, prepare
    from orchestration.model_graph import prepared_graph
    from orchestration.open_home import OpenHome

    opened = OpenHome.at(home_path)
    environment = {**os.environ, **prepare(opened)}
    prepared_graph(opened.home)
    os.environ.update(environment)
    make_pool()
    programs = Path(sys.executable).parent
    webserver = [programs / "dagster-webserver", "-m", MODULE, "-h", host, "-p", str(port)]
    daemon = [programs / "dagster-daemon", "run", "-m", MODULE]
    folder = opened.home.dagster
    processes = [
        subprocess.Popen([str(part) for part in command], env=environment, cwd=folder)
        for command in (webserver, daemon)
    ]
    click.echo(f"Dagster is at http://{host}:{port}; stop with Ctrl-C.", err=True)
    try:
        return max(process.wait() for process in processes)
    except KeyboardInterrupt:
        return 0
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
