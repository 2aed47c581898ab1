"""`gpu-ledger fake`: simulated GPU clusters, served, exported and checked.

Put here: the options and the output of the commands.
Not here: the fleet itself (`fake_gpu`).
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from domain.errors import LedgerError
from domain.interval import format_instant, parse_instant
from fake_gpu.clock import VirtualClock, fixed
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import instant
from fake_gpu.fleet.summary import silent_faults, summary, table
from fake_gpu.prometheus.language import parse_selector
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.openmetrics import EVERYTHING, processes_here, write_openmetrics
from fake_gpu.prometheus.refusals import ParseError
from fake_gpu.scenario.load import library, library_text, load_scenario
from fake_gpu.scenario.openb import OPENB
from fake_gpu.serve import Running, series_of, settle
from fake_gpu.serve import serve as start_serving
from fake_gpu.truth.ledger import ledger
from orchestration.cli.fake_cluster import cluster as cluster_command
from orchestration.cli.output import emit, output_option, progress

GRAINS = ("allocations", "node-hours", "cluster-hours", "tenant-periods", "coverage", "faults")

# Interval between two readings of a served scenario file.
RELOAD_SECONDS = 1.0

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="GPU_LEDGER_OPENB",
    help="Folder of a trace that is not shipped (openb).",
)


@click.group(name="fake", no_args_is_help=True)
def command() -> None:
    """Serve, export and check simulated GPU clusters.

    SCENARIO is a name of the library, a YAML file, or a CSV trace of real pods.
    """


command.add_command(cluster_command)


LIST_EPILOG = """\b
Examples:
  gpu-ledger fake list
  gpu-ledger fake list -o csv
"""


@command.command(name="list", epilog=LIST_EPILOG)
@output_option
def list_scenarios(output: str) -> None:
    """List the shipped scenarios with the first sentence of their descriptions."""
    rows = [
        {"scenario": name, "story": _first_sentence(load_scenario(name).scenario.story)}
        for name in library()
        if name != OPENB
    ]
    rows.append({"scenario": OPENB, "story": "A trace of real pods; needs its files (--data)."})
    emit(sorted(rows, key=lambda row: row["scenario"]), output)


def _first_sentence(story: str) -> str:
    return " ".join(story.split()).split(". ")[0].rstrip(".") + "."


CHECK_EPILOG = """\b
Examples:
  gpu-ledger fake check demo
  gpu-ledger fake check my-fleet.yaml --show pods -o csv
"""


@command.command(epilog=CHECK_EPILOG)
@click.argument("scenario")
@click.option(
    "--show",
    type=click.Choice(["nodes", "pods", "workloads", "namespaces", "faults"]),
    default="nodes",
    show_default=True,
    help="Part of the simulated clusters to print.",
)
@data_option
@output_option
def check(scenario: str, show: str, data: Path | None, output: str) -> None:
    """Validate SCENARIO, simulate it, and print its clusters as a table.

    If the scenario is invalid, the command lists all problems with their lines, and the exit code
    is 2. Parts without effect, such as a fault that changes no response, are warnings on stderr.
    """
    loaded = load_scenario(scenario, data=data)
    fleet = build_fleet(loaded)
    for warning in (*loaded.warnings, *silent_faults(fleet)):
        click.echo(f"warning: {warning}", err=True)
    for line in summary(fleet):
        click.echo(line, err=True)
    emit(table(fleet, show), output, empty=f"{scenario} has no {show}.")


TRUTH_EPILOG = """\b
Examples:
  gpu-ledger fake truth demo --grain tenant-periods
  gpu-ledger fake truth thin_line --grain node-hours -o csv
  gpu-ledger fake truth openb --grain allocations -o json --data FOLDER
"""


@command.command(epilog=TRUTH_EPILOG)
@click.argument("scenario")
@click.option("--grain", type=click.Choice(GRAINS), required=True, help="Grain of the rows.")
@data_option
@output_option
def truth(scenario: str, grain: str, data: Path | None, output: str) -> None:
    """Print the truth ledger of SCENARIO, calculated independently of the pipeline."""
    rows = ledger(plain_rows(build_fleet(load_scenario(scenario, data=data))), grain)
    emit(rows, output, empty=f"{scenario} has no {grain}.")


EXPORT_EPILOG = """\b
Examples:
  gpu-ledger fake export thin_line --openmetrics OUT
  gpu-ledger fake export demo --openmetrics OUT --match '{__name__=~"kube_.+|up"}'
  for day in OUT/*.om; do promtool tsdb create-blocks-from openmetrics $day DATA; done
"""


@command.command(epilog=EXPORT_EPILOG)
@click.argument("scenario")
@click.option(
    "--openmetrics",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder for the OpenMetrics files, one for each day.",
)
@click.option("--from", "from_text", help="First instant (default: the scenario's start).")
@click.option(
    "--until", "until_text", help="First instant after the export (default: the scenario's end)."
)
@click.option("--match", "selector", help="Selector of the series (default: all).")
@data_option
@output_option
def export(
    scenario: str,
    folder: Path,
    from_text: str | None,
    until_text: str | None,
    selector: str | None,
    data: Path | None,
    output: str,
) -> None:
    """Write SCENARIO's samples for `promtool tsdb create-blocks-from openmetrics`."""
    matchers = _matchers(selector) if selector else EVERYTHING
    fleet = build_fleet(load_scenario(scenario, data=data))
    start = parse_instant(from_text, "--from") if from_text else instant(fleet.started_at)
    end = parse_instant(until_text, "--until") if until_text else instant(fleet.ended_at)
    if start >= end:
        seen = f"nothing lies between {start:%Y-%m-%dT%H:%M:%SZ} and {end:%Y-%m-%dT%H:%M:%SZ}"
        raise click.BadParameter(seen, param_hint="--from, --until")
    with progress("Writing samples") as report:
        source = series_of(fleet, fixed(end))
        settle()  # so that forked processes share the memory of permanent objects
        paths = write_openmetrics(
            source, start, end, folder, report, matchers, processes=processes_here()
        )
    click.echo(f"{len(paths)} files in {folder}", err=True)
    if output == "table":
        click.echo("\n".join(map(str, paths)))
    else:
        emit([{"file": str(path), "bytes": path.stat().st_size} for path in paths], output)


def _matchers(selector: str) -> tuple[Matcher, ...]:
    try:
        return parse_selector(selector)
    except ParseError as error:
        raise click.BadParameter(f"{error}: {selector}", param_hint="--match") from None


SERVE_EPILOG = """\b
Examples:
  gpu-ledger fake serve demo                              the state at the scenario's end
  gpu-ledger fake serve demo --at 2026-10-07T12:00:00Z    the state at that time
  gpu-ledger fake serve demo --live --speed 3600          one hour per second
  gpu-ledger fake serve demo --live --at 2026-10-06T03:00:00Z --speed 60
  gpu-ledger fake serve demo --driven --port 9400         the clock moves by POST /-/clock
"""


@command.command(epilog=SERVE_EPILOG)
@click.argument("scenario")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=int, default=0, help="Port of the Thanos API; the others follow (0: free ports)."
)
@click.option(
    "--at",
    "at_text",
    help="Time of the clock; with --live or --driven, its start.",
)
@click.option("--live", is_flag=True, help="Run the clock from the scenario's start, or --at.")
@click.option(
    "--speed", type=float, default=1.0, show_default=True, help="Speed of the clock, with --live."
)
@click.option(
    "--driven",
    is_flag=True,
    help="Start at the scenario's start; requests to the control port move the clock.",
)
@click.option(
    "--reload",
    "reloads",
    is_flag=True,
    help="With --live or --driven: apply changes of the scenario file.",
)
@data_option
@output_option
def serve(
    scenario: str,
    host: str,
    port: int,
    at_text: str | None,
    live: bool,
    speed: float,
    driven: bool,
    reloads: bool,
    data: Path | None,
    output: str,
) -> None:
    """Serve a Thanos API, and for each cluster a Kubernetes API and /metrics.

    With --live or --driven, clients may scale and annotate workloads and post Events. Pods, samples
    and the truth ledger (/-/truth of the control port) follow from the next second on.
    """
    if live and driven:
        raise click.UsageError("--live and --driven exclude each other.")
    if reloads and not (live or driven):
        raise click.UsageError("--reload needs a clock that goes on: --live or --driven.")
    watched = _read_watched(scenario) if reloads else None
    loaded = load_scenario(scenario, data=data)
    start: datetime = instant(loaded.scenario.from_)
    begin = parse_instant(at_text, "--at") if at_text else start
    if live:
        clock = VirtualClock(begin, "running", speed)
    elif driven:
        clock = VirtualClock(begin, "driven")
    else:
        end: datetime = instant(loaded.scenario.until)
        clock = VirtualClock(begin if at_text else end, "fixed")
    with start_serving(loaded, clock, host=host, port=port) as running:
        settle()
        emit(_addresses(running), output)
        click.echo(f"{format_instant(clock.now())} ({clock.mode}); Ctrl-C stops", err=True)
        _serve_until_interrupted(running, watched)


def _addresses(running: Running) -> list[dict[str, Any]]:
    rows = [
        {"api": "thanos", "cluster": "", "url": running.thanos_url},
        {"api": "control", "cluster": "", "url": running.control_url},
    ]
    for cluster in running.fleet.clusters:
        key = cluster.cluster_id
        rows.append(
            {"api": "kubernetes", "cluster": cluster.name, "url": running.kubernetes_urls[key]}
        )
        rows.append({"api": "metrics", "cluster": cluster.name, "url": running.metrics_urls[key]})
    return rows


def _read_watched(scenario: str) -> tuple[Path, bytes]:
    """The scenario file to watch, and its content before it is loaded."""
    path = Path(scenario)
    if not path.is_file():
        raise click.UsageError(
            f"--reload: {scenario!r} is not a file. Copy a scenario of the library with "
            "`gpu-ledger fake show NAME > my-fleet.yaml`."
        )
    return path, path.read_bytes()


def _serve_until_interrupted(running: Running, watched: tuple[Path, bytes] | None) -> None:
    """Serve until interrupted; a changed file is applied whole, or its error is printed."""
    path, known = watched or (None, b"")
    while True:
        time.sleep(RELOAD_SECONDS)
        content = _content(path, known)
        if path is None or content == known:
            continue
        known = content
        try:
            running.apply_scenario(partial(load_scenario, str(path)))
            click.echo(f"Applied: {path}", err=True)
        except LedgerError as error:
            click.echo(f"{error.message()}\nThe previous scenario is still served.", err=True)


def _content(path: Path | None, known: bytes) -> bytes:
    """The content of the file; while an editor replaces it, the content is unchanged."""
    try:
        return path.read_bytes() if path else known
    except OSError:
        return known


SHOW_EPILOG = """\b
Examples:
  gpu-ledger fake show demo > my-fleet.yaml
"""


@command.command(epilog=SHOW_EPILOG)
@click.argument("name")
def show(name: str) -> None:
    """Print the file of a shipped scenario."""
    click.echo(library_text(name), nl=False)
