"""`gpu-ledger up`: run the Dagster web UI and daemon on a home.

Put here: the command, and its output.
Not here: the processes (`dagster_code.web_ui`), or their configuration (`dagster_code.instance`).
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from domain.interval import format_instant
from orchestration.cli.output import home_option, progress
from orchestration.cli.signals import stop_on_signals
from orchestration.dagster_code import instance, web_ui
from orchestration.dagster_code.model_graph import prepared_graph
from orchestration.demo.open_month import DEMO, OpenMonth, open_month
from orchestration.home_lock import AlreadyUp, lock_home
from orchestration.open_home import CLOCK_VARIABLE, OpenHome

EPILOG = """\b
Examples:
  gpu-ledger up --demo                     a month with four missing hours to backfill
  gpu-ledger up --home my-ledger
  GPU_LEDGER_POSTGRES_URL=postgresql://… gpu-ledger up --home my-ledger --port 3333
  eval "$(gpu-ledger up --prepare-only --home my-ledger)"
  dagster-daemon run -w "$DAGSTER_HOME/workspace.yaml"
"""

DEMO_HOME = Path("open-month")
"""Not the home of `gpu-ledger demo`, so that `up --demo` does not delete a closed month."""


@click.command(epilog=EPILOG)
@click.option("--port", default=3000, show_default=True, help="Port of the web UI.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--demo",
    is_flag=True,
    help="Create a demo home (default: ./open-month) and serve its simulated fleet.",
)
@click.option("--scenario", default="", help="Scenario of the demo: a name or a file.")
@click.option(
    "--prepare-only", is_flag=True, help="Start nothing; print the environment of the processes."
)
@home_option
def up(port: int, host: str, demo: bool, scenario: str, prepare_only: bool, home_path: Path) -> int:
    """Start the Dagster web UI and daemon for a home, until interrupted.

    The printed address has a token that opens one browser session. The same command prints a new
    one while the UI runs. The UI can close a month. It listens on 127.0.0.1 unless --host is given,
    accepts that name or address only, and refuses requests without a session or from other sites.

    To start the web server, daemon or run workers in another way (on other hosts, by another run
    launcher), --prepare-only writes dagster.yaml and workspace.yaml into the home's dagster/,
    creates the pool with one writer, and prints the environment of these processes. Runs that a
    crash interrupted then count as in progress for four hours, until Dagster ends them. A
    dagster-webserver started by hand checks neither token nor origin: put an authenticating proxy
    before it.
    """
    if prepare_only:
        _print_environment(OpenHome.at(home_path))
        return 0
    with stop_on_signals():
        if not demo:
            opened = OpenHome.at(home_path)
            require_startable(opened.home.dagster, host, port)
            show_pages(opened, host, port)
            return 0
        place = DEMO_HOME if home_path == Path() else home_path
        require_startable(place / "dagster", host, port)
        if place.is_dir() and any(place.iterdir()):
            click.echo(
                f"{place} is created again; the home of the earlier demo is deleted.", err=True
            )
        with open_month(scenario or DEMO, place, progress) as month:
            os.environ[CLOCK_VARIABLE] = month.clock_url
            _describe(month)
            show_pages(OpenHome.at(month.home), host, port)
    return 0


def require_startable(dagster: Path, host: str, port: int) -> None:
    """Refuse a home that is up, with an address for another session, or a port in use."""
    try:
        web_ui.require_startable(dagster, host, port)
    except AlreadyUp as running:
        if session := web_ui.new_session(running.url, dagster):
            click.echo(f"A new session: {session}")
        raise


def show_pages(opened: OpenHome, host: str, port: int) -> None:
    """Run the web UI and the daemon until one of them ends, and print the links."""
    with lock_home(opened.home.dagster, f"http://{host}:{port}") as lock:
        environment = _write_files(opened)
        if lost := instance.end_lost_runs(instance.mark_of(opened.home.dagster)):
            click.echo(f"{lost} runs of the last start were lost; they are ended.", err=True)
        click.echo("Starting Dagster …", err=True)
        with web_ui.run_web_ui(opened, host, port, environment, lock=lock) as running:
            running.wait_until_ready()
            session = web_ui.new_session(running.url, running.folder)
            links = web_ui.page_links(opened, running.url)
            width = max(len(name) for name, _ in links)
            click.echo(
                f"\nDagster is at {session}\nThe token works once; run the same command again "
                "for another one. Ctrl-C stops everything.\n\n"
                + "\n".join(f"  {name:<{width}}  {link}" for name, link in links)
            )
            running.wait()


def _print_environment(opened: OpenHome) -> None:
    """Print the environment variables of the processes, without secrets."""
    environment = _write_files(opened)
    if environment.pop(instance.POSTGRES_VARIABLE, ""):
        click.echo(f"{instance.POSTGRES_VARIABLE} must be set as well; it is a secret.", err=True)
    for name, value in environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _write_files(opened: OpenHome) -> dict[str, str]:
    """Write the files that Dagster's processes need; returns their environment."""
    environment = instance.prepare(opened)
    if url := environment.get(instance.POSTGRES_VARIABLE):
        instance.require_database(url)
    web_ui.write_workspace(opened.home.dagster)
    click.echo("Reading the models (once for every version of them) …", err=True)
    prepared_graph(opened.home)
    os.environ.update(environment)
    instance.make_pool()
    return environment


def _describe(month: OpenMonth) -> None:
    count = len(list(month.missing.hours()))
    click.echo(
        f"\n{month.period} is over, and {count} hours of one cluster are missing. Find them, "
        "pull them again, check the month, and close it.\n\n"
        f"Its clock is stopped. For commands in another terminal:\n  {export_command(month)}\n",
        err=True,
    )


def export_command(month: OpenMonth) -> str:
    """The command that gives other terminals the demo's home and clock."""
    home, now = shlex.quote(str(month.home.resolve())), format_instant(month.clock_stands_at)
    return f"export GPU_LEDGER_HOME={home} {CLOCK_VARIABLE}={now}"
