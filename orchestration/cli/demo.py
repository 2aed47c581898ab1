"""`gpu-ledger demo`: a month of a simulated fleet, from samples to sealed invoices.

Put here: options, and the last screen.
Not here: the steps of the demo (`orchestration.demo`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from domain.money import format_nanos
from orchestration.cli.output import (
    emit,
    emit_document,
    output_option,
    progress,
)
from orchestration.cli.signals import stop_on_signals
from orchestration.demo.closed_month import ClosedMonth, DemoResult, run_demo
from orchestration.open_home import CLOCK_VARIABLE, OpenHome
from portal.tokens import FILE, PROGRAMME, PROVIDER, TENANT, create_token

PORTAL_URL = "http://127.0.0.1:8443"

EPILOG = """\b
Examples:
  gpu-ledger demo                                       a month of three clusters
  gpu-ledger demo --scenario thin_line --home /tmp/l    six hours, to check by hand
  gpu-ledger demo --scenario my-pods.csv                your own pods, from a trace
  gpu-ledger demo --keep-running                        the portal and Dagster, until Ctrl-C
"""


@click.command(epilog=EPILOG)
@click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-home"),
    show_default=True,
    help="Folder of the demo's home; the home of an earlier demo is deleted.",
)
@click.option(
    "--scenario",
    default="demo",
    show_default=True,
    help="Name of a scenario (gpu-ledger fake list), a scenario file, or a trace of pods (.csv).",
)
@click.option(
    "--keep-running",
    is_flag=True,
    help="Keep the simulated fleet, the portal and the Dagster web UI running until Ctrl-C.",
)
@click.option(
    "--port",
    default=3000,
    show_default=True,
    help="Port of the Dagster web UI (with --keep-running).",
)
@output_option
def demo(home_path: Path, scenario: str, keep_running: bool, port: int, output: str) -> None:
    """Simulate a month of GPU clusters, and bill it.

    Serves simulated clusters over HTTP, runs a collector for each, pulls both sources, refuses to
    close the month while an hour is missing, backfills that hour, accepts the gaps that cannot be
    backfilled, closes, and writes invoices, the programme report and the copy for analysts.
    """
    if keep_running:
        # Imports Dagster, 1 s, which a demo without it does not need.
        from orchestration.cli.up import require_startable, show_pages

        require_startable(home_path / "dagster", "127.0.0.1", port)
    with (
        stop_on_signals(),
        run_demo(
            scenario, home_path, progress, lambda text: click.echo(f"\n{text}", err=True)
        ) as result,
    ):
        show(result, output)
        if keep_running:
            os.environ[CLOCK_VARIABLE] = result.clock_url
            home = result.opened.home.path.resolve()
            with _serve_portal(home, f"http://127.0.0.1:{port}"):
                show_pages(OpenHome.at(home), "127.0.0.1", port)


def show(result: DemoResult, output: str) -> None:
    """Print the last screen: the invoices, the places of the files, and commands to try."""
    invoices = [row for month in result.months for row in _invoices(month)]
    if output != "table":
        _show_for_programs(result, invoices, output)
        return
    for month in result.months:
        click.echo()
        rows = [{k: v for k, v in row.items() if k != "period"} for row in _invoices(month)]
        closed = f"{month.period} is closed"
        emit(rows, output, title=closed, empty=f"{closed}, without an invoice.")
    period = result.months[-1].period
    refused, accepted = _counts(result)
    click.echo(
        f"Summary: the close was refused {'once' if refused == 1 else f'{refused} times'}, "
        f"one hour was backfilled, {accepted or 'no'} gap{'' if accepted == 1 else 's'} accepted, "
        f"{len(invoices)} invoices issued.\n"
    )
    for name, place in _places(result).items():
        click.echo(f"{name + ':':<28}{place}")
    click.echo("\nTry next:")
    for command in (
        f"gpu-ledger explain {invoices[0]['invoice']} --line 1"
        if invoices
        else f"gpu-ledger check {period}",
        f"gpu-ledger gaps {period}",
        f"gpu-ledger usage --period {period}",
    ):
        click.echo(f"  {command} --home {result.opened.home.path}")
    _show_portal(result, invoices)


def _show_portal(result: DemoResult, invoices: list[dict[str, str]]) -> None:
    """Print the command that starts the portal, with a link for a tenant and for each role."""
    home, now = result.opened.home.path, result.opened.clock.now().replace(microsecond=0)
    callers = [(TENANT, invoices[0]["tenant"])] if invoices else []
    links = [
        (
            f"{role} {tenant}".strip(),
            f"{PORTAL_URL}/login?token={create_token(home / FILE, role, tenant, now)}",
        )
        for role, tenant in (*callers, (PROVIDER, ""), (PROGRAMME, ""))
    ]
    click.echo(f"\nStart the portal:\n  gpu-ledger portal --home {home}\nThen open one of:")
    for name, link in links:
        click.echo(f"  {name:<20}{link}")


@contextmanager
def _serve_portal(home: Path, dagster_url: str) -> Iterator[None]:
    """Run the portal in a process of its own until the block is left; its log is in the home."""
    program = Path(sys.executable).with_name("gpu-ledger")
    command = [str(program), "portal", f"--home={home}", f"--dagster-url={dagster_url}"]
    with open(home / "portal.log", "wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            click.echo(f"The portal is at {PORTAL_URL}; log in by one of the links above.")
            yield
        finally:
            process.terminate()


def _show_for_programs(result: DemoResult, invoices: list[dict[str, str]], output: str) -> None:
    if output == "csv":
        emit(invoices, output)
        return
    refused, accepted = _counts(result)
    emit_document(
        {
            "home": str(result.opened.home.path),
            "refused": refused,
            "accepted_gaps": accepted,
            "invoices": invoices,
            "places": {name: str(place) for name, place in _places(result).items()},
        }
    )


def _invoices(month: ClosedMonth) -> list[dict[str, str]]:
    return [
        {
            "period": month.period.name,
            "invoice": document.number,
            "tenant": document.tenant,
            "billed": format_nanos(document.billed_nanos, 2),
            "currency": month.result.total.currency if month.result.total else "",
        }
        for document in month.result.invoices
    ]


def _counts(result: DemoResult) -> tuple[int, int]:
    """The number of refused closes, and of accepted gaps."""
    refused = sum(len(month.refusals) for month in result.months)
    return refused, sum(len(month.accepted_gaps) for month in result.months)


def _places(result: DemoResult) -> dict[str, Path]:
    period = result.months[-1].period
    folder = result.opened.home.documents / period.name
    return {
        "Invoices (PDF, CSV, FOCUS)": folder,
        "Programme report": folder / "provider",
        "Bundle for an auditor": folder / f"{period}.zip",
        "Copy for analysts": result.published.latest_path,
        "Documentation of models": result.model_pages,
    }
