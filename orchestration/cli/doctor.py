"""`gpu-ledger doctor`: can everything be asked that is relied on, and what helps where it cannot.

Put here: which sources of which clusters are looked at, whether the facts are what was counted,
and showing what was found.
Not here: looking (`ingestion.thanos.store_probe`, `ingestion.kubernetes.api_server_probe`,
`warehouse.switched`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from domain.errors import LedgerError
from domain.interval import HOUR
from orchestration.cli.output import Progress, Row, emit, home_option, output_option, progress

if TYPE_CHECKING:
    from domain.decisions import Cluster, Source
    from ingestion.doctor_lines import ProbeLine
    from orchestration.open_home import OpenHome

EPILOG = """\b
Examples:
  gpu-ledger doctor                        every cluster that is measured now
  gpu-ledger doctor --cluster CLUSTER_ID --all
  gpu-ledger doctor -o json
"""

FACTS = "has what was counted"
FRESH = "evidence is fresh"
COLUMNS = ("cluster", "source", "check", "fine", "seen", "remedy")


@click.command(epilog=EPILOG)
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option(
    "--portal-kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Kubeconfig of the portal's account at the hub: also check that it may review callers.",
)
@click.option("--all", "show_all", is_flag=True, help="Also list the checks that passed.")
@home_option
@output_option
def doctor(
    clusters: tuple[str, ...],
    portal_kubeconfig: Path | None,
    show_all: bool,
    home_path: Path,
    output: str,
) -> int:
    """Check each source of every cluster that is measured now, and the facts. Nothing is landed.

    Checks reachability, rights, metrics and their labels, sampling interval and retention, clocks,
    the GPU operator's monitoring, the collector's journal, the age of the newest evidence, and
    whether the warehouse has the facts that were built last. With --portal-kubeconfig or
    [portal.review_clusters] in config.toml, it checks the rights of the portal's account by a
    SelfSubjectAccessReview. Each problem has a remedy. The exit code is 1 if there is a problem.
    """
    from orchestration.open_home import OpenHome

    opened = OpenHome.at(home_path)
    chosen = measured_now(opened, clusters)
    with progress("Looking") as report:
        rows = [
            *examined(opened, chosen, report),
            *facts_examined(opened),
            *portal_examined(opened, portal_kubeconfig),
        ]
    bad = [row for row in rows if not row["fine"]]
    shown = rows if show_all or output != "table" else bad
    emit(shown, output, COLUMNS, empty="Everything that was looked at is fine.")
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
    """Every line about every source of these clusters."""
    rows: list[Row] = []
    for number, row in enumerate(chosen):
        for source in row.expected_sources:
            report(number, len(chosen), f"{row.cluster_name} {source.value}")
            lines = _lines(LOOKS[source.value], opened, row.cluster_id)
            for line in (*lines, _newest_hour(opened, row.cluster_id, source)):
                shown = (line.check, line.is_fine, line.seen, _remedy(line))
                rows.append(
                    dict(zip(COLUMNS, (row.cluster_name, source.value, *shown), strict=True))
                )
    report(len(chosen), len(chosen), "")
    return rows


def facts_examined(opened: OpenHome) -> list[Row]:
    """Every line about the warehouse: it is the home's, and no cluster's."""
    rows: list[Row] = []
    for line in _lines(lambda opened, _: _facts(opened), opened, ""):
        shown = ("", "warehouse", line.check, line.is_fine, line.seen, _remedy(line))
        rows.append(dict(zip(COLUMNS, shown, strict=True)))
    return rows


def portal_examined(opened: OpenHome, kubeconfig: Path | None) -> list[Row]:
    """One line for each API server that reviews the callers of the portal."""
    accounts = {name: Path(path) for name, path in opened.settings.review_clusters.items()}
    accounts |= {"hub": kubeconfig} if kubeconfig else {}
    rows: list[Row] = []
    for name, path in accounts.items():
        for line in _lines(partial(_reviews, path), opened, name):
            shown = (name, "portal", line.check, line.is_fine, line.seen, _remedy(line))
            rows.append(dict(zip(COLUMNS, shown, strict=True)))
    return rows


def _reviews(kubeconfig: Path, opened: OpenHome, name: str) -> list[ProbeLine]:
    from contextlib import closing

    from clients.kubeconfig import read_kubeconfig
    from clients.kubernetes import KubernetesClient
    from ingestion.doctor_lines import ProbeLine
    from portal.reviews import missing_rights

    del opened, name
    with closing(KubernetesClient(read_kubeconfig(kubeconfig))) as client:
        missing = missing_rights(client)
    seen = f"its account may not {' and '.join(missing)}" if missing else "its account may"
    remedy = "bind the account to the ClusterRole system:auth-delegator, as in deploy/portal"
    return [ProbeLine("may review callers", not missing, seen, remedy)]


def _facts(opened: OpenHome) -> list[ProbeLine]:
    from ingestion.doctor_lines import ProbeLine
    from warehouse.switched import periods_in, switched_periods

    there, counted = periods_in(opened.home), switched_periods(opened.home)
    lines = []
    for name in sorted({*there, *counted, *opened.record.closed_periods()}):
        wrong = _wrong_with(opened, name, is_there=name in there, was_counted=name in counted)
        if wrong:
            remedy = f"gpu-ledger refresh --period {name}"
            lines.append(ProbeLine(FACTS, False, f"{name}: {wrong}", remedy))
    fine = f"{len(there)} periods, each as it was switched in"
    return lines or [ProbeLine(FACTS, True, fine)]


def _wrong_with(opened: OpenHome, period: str, *, is_there: bool, was_counted: bool) -> str:
    """What is wrong with a period's facts, in words; empty when they are what was counted."""
    from warehouse.switched import WarehouseLost, require_intact

    if not is_there:
        return "its facts are not in the warehouse"
    if not was_counted:
        return "nothing is written down of what was switched in"
    try:
        require_intact(opened.home, period, deep=True)
    except WarehouseLost as lost:
        return lost.seen
    return ""


def _remedy(line: ProbeLine) -> str:
    return "" if line.is_fine else line.remedy


def _lines(
    look: Callable[[OpenHome, str], list[ProbeLine]], opened: OpenHome, cluster_id: str
) -> list[ProbeLine]:
    """What a look finds; a look that cannot even begin is a line like any other."""
    from ingestion.doctor_lines import ProbeLine

    try:
        return look(opened, cluster_id)
    except LedgerError as error:
        return [ProbeLine("can be asked", False, f"{error.where}: {error.seen}", error.remedy)]


def _samples(opened: OpenHome, cluster_id: str) -> list[ProbeLine]:
    from ingestion.doctor_lines import ProbeLine
    from ingestion.thanos.store_probe import probe

    source = opened.thanos_source(cluster_id, opened.clock.now())
    if source is None:
        seen = f"config.toml has no thanos in [clusters.{cluster_id}]"
        remedy = "name one of the [thanos.…] there, or take samples out of decisions/clusters.csv"
        return [ProbeLine("is configured", False, seen, remedy)]
    return probe(source, opened.clock)


def _journal(opened: OpenHome, cluster_id: str) -> list[ProbeLine]:
    from contextlib import closing

    from ingestion.kubernetes.api_server_probe import probe
    from orchestration.collecting import client_of

    with closing(client_of(opened, cluster_id)) as client:
        return probe(cluster_id, client, opened.spool(cluster_id), opened.clock)


def _newest_hour(opened: OpenHome, cluster_id: str, source: Source) -> ProbeLine:
    """How old the evidence is that is there, against what its dbt source declares."""
    from ingestion.doctor_lines import ProbeLine
    from warehouse.manifest import Outcome
    from warehouse.project import source_freshness

    source_odd, source_wrong = source_freshness(SOURCES[source.value])
    attempts = list(opened.landing.latest_attempts(cluster_id, source, limit=LATEST))
    whole = [h.hour for one in attempts for h in one.hours if h.outcome is Outcome.OK]
    remedy = "gpu-ledger pull; `gpu-ledger up` keeps Dagster asking by itself"
    if not whole:
        seen = f"none of the last {len(attempts)} askings brought a whole hour"
        return ProbeLine(FRESH, not attempts, seen if attempts else "nothing was asked yet", remedy)
    age = opened.clock.now() - max(whole) - HOUR
    seen = f"the newest whole hour ended {age // HOUR} h ago"
    limits = f"odd after {source_odd // HOUR} h, wrong after {source_wrong // HOUR} h"
    return ProbeLine(FRESH, age <= source_wrong, f"{seen}; {limits}", remedy)


LATEST = 100
"""Askings that are looked back over: four days, by the hour."""

SOURCES = {"thanos": "thanos_runs", "kubernetes": "kubernetes_coverage"}
"""The dbt source whose freshness is that of a source."""

LOOKS: dict[str, Callable[[OpenHome, str], list[ProbeLine]]] = {
    "thanos": _samples,
    "kubernetes": _journal,
}
