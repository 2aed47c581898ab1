"""`gpu-ledger up`: Dagster's web pages and daemon on a home.

Put here: the command, and what it prints.
Not here: the processes (`orchestration.pages`), or their configuration (`dagster_home`).
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from orchestration.cli.output import home_option, progress

if TYPE_CHECKING:
    from orchestration.demo.unfinished import Unfinished
    from orchestration.open_home import OpenHome

EPILOG = """\b
Examples:
  gpu-ledger up --demo                     a month with four missing hours to backfill
  gpu-ledger up --home my-ledger
  GPU_LEDGER_POSTGRES_URL=postgresql://… gpu-ledger up --home my-ledger --port 3333
  eval "$(gpu-ledger up --prepare-only --home my-ledger)"
  dagster-daemon run -w "$DAGSTER_HOME/workspace.yaml"
"""

DEMO_HOME = Path("open-month")
"""Not the home of `gpu-ledger demo`: making it anew would throw a closed month away."""


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
    creates the pool with one writer, and prints the environment of these processes. Runs lost in a
    crash are then ended by Dagster after four hours. A dagster-webserver started by hand checks
    neither token nor origin: put an authenticating proxy before it.
    """
    from orchestration.open_home import CLOCK_VARIABLE, OpenHome
    from orchestration.resources import home_from_environment

    if prepare_only:
        _prepare(OpenHome.at(home_path))
        return 0
    with interrupted_quietly():
        if not demo:
            home = OpenHome.at(home_path).home
            require_startable(home.dagster, host, port)
            os.environ["GPU_LEDGER_HOME"] = str(home.path)
            show_pages(home_from_environment().open(), host, port)
            return 0
        from orchestration.demo.unfinished import DEMO, unfinished

        place = DEMO_HOME if home_path == Path() else home_path
        require_startable(place / "dagster", host, port)
        if place.is_dir() and any(place.iterdir()):
            click.echo(f"{place} is made anew: what a demo left there is thrown away.", err=True)
        with unfinished(scenario or DEMO, place, progress) as made:
            os.environ |= {"GPU_LEDGER_HOME": str(made.home), CLOCK_VARIABLE: made.clock_url}
            _tell(made)
            show_pages(home_from_environment().open(), host, port)
    return 0


def require_startable(dagster: Path, host: str, port: int) -> None:
    """Refuse a home that is up, with an address for another session, or a port that is taken."""
    from orchestration import pages
    from orchestration.home_lock import AlreadyUp

    try:
        pages.require_startable(dagster, host, port)
    except AlreadyUp as running:
        if session := pages.new_session(running.url, dagster):
            click.echo(f"A new session: {session}")
        raise


def show_pages(opened: OpenHome, host: str, port: int) -> None:
    from orchestration.home_lock import lock_home
    from orchestration.pages import links, new_session, pages

    with lock_home(opened.home.dagster, f"http://{host}:{port}") as hold:
        environment = _made_ready(opened)
        _end_lost_runs(opened)
        click.echo("Starting Dagster …", err=True)
        with pages(opened, host, port, environment, hold=hold) as shown:
            shown.wait_until_shown()
            session = new_session(shown.url, shown.folder)
            found = links(opened, shown.url)
            width = max(len(what) for what, _ in found)
            click.echo(
                f"\nDagster is at {session}\nThe token works once; the same command again prints "
                "another one. To end it all, stop it with Ctrl-C.\n\n"
                + "\n".join(f"  {what:<{width}}  {where}" for what, where in found)
            )
            shown.wait()


def _prepare(opened: OpenHome) -> None:
    """Print what has to be set, but for what is secret."""
    from orchestration.dagster_home import POSTGRES_VARIABLE

    environment = _made_ready(opened)
    if environment.pop(POSTGRES_VARIABLE, ""):
        click.echo(f"{POSTGRES_VARIABLE} has to be set as well; it is a secret.", err=True)
    for name, value in environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _made_ready(opened: OpenHome) -> dict[str, str]:
    """The environment of Dagster's processes, with everything there that they need."""
    from orchestration.dagster_home import POSTGRES_VARIABLE, make_pool, prepare, require_database
    from orchestration.model_graph import prepared_graph
    from orchestration.pages import write_workspace

    environment = prepare(opened)
    if url := environment.get(POSTGRES_VARIABLE):
        require_database(url)
    write_workspace(opened.home.dagster)
    click.echo("Reading the models (once for every version of them) …", err=True)
    prepared_graph(opened.home)
    os.environ.update(environment)
    make_pool()
    return environment


def _end_lost_runs(opened: OpenHome) -> None:
    from orchestration.dagster_home import end_lost_runs, mark_of

    if lost := end_lost_runs(mark_of(opened.home.dagster)):
        click.echo(f"{lost} runs went down with the last start; they are ended.", err=True)


def _tell(made: Unfinished) -> None:
    count = len(list(made.missing.hours()))
    click.echo(
        f"\n{made.period} is over, and {count} hours of one cluster could not be asked. Find them, "
        "ask them again, see the checks go green, and close the month.\n\n"
        f"Its clock stands. For commands in another terminal:\n  {in_its_time(made)}\n",
        err=True,
    )


def in_its_time(made: Unfinished) -> str:
    """What lets commands in another terminal work on the demo's home, when its month is over."""
    from domain.interval import format_instant
    from orchestration.open_home import CLOCK_VARIABLE

    home, now = shlex.quote(str(made.home.resolve())), format_instant(made.stands_at)
    return f"export GPU_LEDGER_HOME={home} {CLOCK_VARIABLE}={now}"


@contextmanager
def interrupted_quietly() -> Iterator[None]:
    """Ctrl-C and a plain kill end it the same way: both processes are stopped first."""

    def stopped(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)
    finally:
        signal.signal(signal.SIGTERM, before)
