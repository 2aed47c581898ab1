"""`gpu-ledger doctor`: can everything be asked that is relied on, and what helps where it cannot.

Put here: which witnesses of which clusters are looked at, and showing what was found.
Not here: looking (`ingestion.thanos.probe`, `ingestion.kubernetes.probe`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from domain.errors import LedgerError
from orchestration.cli.output import Progress, Row, emit, home_option, output_option, progress

if TYPE_CHECKING:
    from domain.decisions import Cluster
    from ingestion.probe import ProbeLine
    from orchestration.open_home import OpenHome

EPILOG = """\b
Examples:
  gpu-ledger doctor                        every cluster that is measured now
  gpu-ledger doctor --cluster CLUSTER_ID --all
  gpu-ledger doctor -o json
"""

COLUMNS = ("cluster", "witness", "check", "fine", "seen", "remedy")


@click.command(epilog=EPILOG)
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option("--all", "show_all", is_flag=True, help="Show also what is fine.")
@home_option
@output_option
def doctor(clusters: tuple[str, ...], show_all: bool, home_path: Path, output: str) -> int:
    """Look at every witness of every cluster that is measured now; land nothing.

    Reachable, allowed, every metric there with its labels, how often and how long samples are kept,
    clocks, the GPU operator's monitoring, the collector's journal. Exit 1 when something is not
    fine; each line says what helps.
    """
    from orchestration.open_home import OpenHome

    opened = OpenHome.at(home_path)
    chosen = measured_now(opened, clusters)
    with progress("Looking") as report:
        rows = examined(opened, chosen, report)
    bad = [row for row in rows if not row["fine"]]
    emit(rows if show_all or output != "table" else bad, output, COLUMNS)
    if chosen:
        click.echo(f"{len(rows)} checks of {len(chosen)} clusters; {len(bad)} not fine.", err=True)
    else:
        click.echo("No cluster is measured now, by decisions/clusters.csv.", err=True)
    return 1 if bad or not chosen else 0


def measured_now(opened: OpenHome, clusters: Sequence[str] = ()) -> list[Cluster]:
    """The decisions about clusters that hold now."""
    now = opened.clock.now()
    wanted = clusters or sorted({row.cluster_id for row in opened.decisions.clusters})
    found = [opened.decisions.cluster_at(cluster_id, now) for cluster_id in wanted]
    return [row for row in found if row is not None]


def examined(opened: OpenHome, chosen: Sequence[Cluster], report: Progress) -> list[Row]:
    """Every line about every witness of these clusters."""
    rows: list[Row] = []
    for number, row in enumerate(chosen):
        for source in row.sources:
            report(number, len(chosen), f"{row.cluster_name} {source.value}")
            for line in _lines(LOOKS[source.value], opened, row.cluster_id):
                shown = (line.check, line.is_fine, line.seen, _remedy(line))
                rows.append(
                    dict(zip(COLUMNS, (row.cluster_name, source.value, *shown), strict=True))
                )
    report(len(chosen), len(chosen), "")
    return rows


def _remedy(line: ProbeLine) -> str:
    return "" if line.is_fine else line.remedy


def _lines(
    look: Callable[[OpenHome, str], list[ProbeLine]], opened: OpenHome, cluster_id: str
) -> list[ProbeLine]:
    """What a look finds; a look that cannot even begin is a line like any other."""
    from ingestion.probe import ProbeLine

    try:
        return look(opened, cluster_id)
    except LedgerError as error:
        return [ProbeLine("can be asked", False, f"{error.where}: {error.seen}", error.remedy)]


def _samples(opened: OpenHome, cluster_id: str) -> list[ProbeLine]:
    from ingestion.probe import ProbeLine
    from ingestion.thanos.probe import probe

    source = opened.thanos_source(cluster_id, opened.clock.now())
    if source is None:
        seen = f"config.toml has no thanos in [clusters.{cluster_id}]"
        remedy = "name one of the [thanos.…] there, or take samples out of decisions/clusters.csv"
        return [ProbeLine("is configured", False, seen, remedy)]
    return probe(source, opened.clock)


def _journal(opened: OpenHome, cluster_id: str) -> list[ProbeLine]:
    from contextlib import closing

    from ingestion.kubernetes.probe import probe
    from orchestration.collecting import client_of

    with closing(client_of(opened, cluster_id)) as client:
        return probe(cluster_id, client, opened.spool(cluster_id), opened.clock)


LOOKS: dict[str, Callable[[OpenHome, str], list[ProbeLine]]] = {
    "thanos": _samples,
    "kubernetes": _journal,
}
