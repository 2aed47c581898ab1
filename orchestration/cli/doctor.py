"""`gpu-ledger doctor`: check the sources of every cluster and the facts, with a remedy per problem.

Put here: the choice of clusters and sources, the check of the facts, and the table.
Not here: the checks of a source (`ingestion.thanos.store_probe`,
`ingestion.kubernetes.api_server_probe`) or of a deployment (`orchestration.deployment_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from clients.kubeconfig import find_cluster_access, read_kubeconfig
from clients.kubernetes import KubernetesClient
from domain.decisions import Cluster, Source
from domain.errors import LedgerError
from domain.interval import HOUR
from ingestion.doctor_lines import DoctorLine
from ingestion.kubernetes.api_server_probe import probe as probe_journal
from ingestion.thanos.store_probe import probe as probe_samples
from orchestration.alert_ways import alert_lines
from orchestration.alerting import alertmanagers
from orchestration.cli.output import Progress, Row, emit, home_option, output_option, progress
from orchestration.cluster_collector import client_of
from orchestration.deployment_checks import (
    allowlist_lines,
    clock_lines,
    right_lines,
    route_line,
    storage_lines,
    token_lines,
)
from orchestration.open_home import OpenHome
from portal.reviews import missing_rights
from warehouse.engine import SPARK, SparkNotUsable, require_spark
from warehouse.manifest import Outcome
from warehouse.project import source_freshness
from warehouse.switched import WarehouseLost, periods_in, require_intact, switched_periods

EPILOG = """\b
Examples:
  gpu-ledger doctor                        every cluster that is measured now
  gpu-ledger doctor --cluster CLUSTER_ID --all
  gpu-ledger doctor -o json
  kubectl -n gpu-ledger exec deployment/ledger -- gpu-ledger doctor --in-cluster
"""

FACTS = "facts are complete"
FRESH = "evidence is fresh"
SPARK_INSTALLED = "Spark is installed"
COLUMNS = ("cluster", "source", "check", "fine", "seen", "remedy")
PATCH = "patch"
APPLY = "kubectl apply --server-side --force-conflicts -f patch.yaml"


@click.command(epilog=EPILOG)
@click.option("--cluster", "clusters", multiple=True, help="Only this cluster ID (repeatable).")
@click.option(
    "--portal-kubeconfig",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Kubeconfig of the portal's account at the hub: also check that it may review callers.",
)
@click.option(
    "--in-cluster",
    is_flag=True,
    help="Also check the deployment in this Kubernetes cluster, and print the objects it lacks.",
)
@click.option("--all", "show_all", is_flag=True, help="Also list the checks that passed.")
@home_option
@output_option
def doctor(
    clusters: tuple[str, ...],
    portal_kubeconfig: Path | None,
    in_cluster: bool,
    show_all: bool,
    home_path: Path,
    output: str,
) -> int:
    """Check each source of every cluster that is measured now, and the facts. Nothing is landed.

    Checks reachability, rights, metrics and their labels, sampling interval and retention, clocks,
    the GPU operator's monitoring, the collector's journal, the age of the newest evidence, and
    whether the warehouse has the facts that were built last. Where [engine] kind is "spark" in
    config.toml, it checks that the extra and Java are installed. Where [alerts] send is true, it
    checks that every Alertmanager responds, and that no PrometheusRule raises the same alerts;
    where it is false, it lists the possible ways to send alerts (with --all), or the part that each
    way lacks. With --portal-kubeconfig or [portal.review_clusters] in config.toml, it checks the
    rights of the portal's account by a SelfSubjectAccessReview. Each problem has a remedy. The exit
    code is 1 if there is a problem.

    With --in-cluster, it also checks the rights of each installed component, the allowlist of a hub
    of ACM, the API server's clock, the tokens of the sample stores, the home's volume, the
    conditional creates of a bucket, and that alerts reach a receiver. Objects that are missing are
    printed as a patch for kubectl. In a pod it uses the pod's account, elsewhere a kubeconfig.
    """
    opened = OpenHome.at(home_path)
    chosen = clusters_measured_now(opened, clusters)
    with progress("Checking") as report:
        rows = [
            *check_sources(opened, chosen, report),
            *check_facts(opened),
            *check_engine(opened),
            *check_alerts(opened),
            *check_portal(opened, portal_kubeconfig),
            *(check_deployment(opened) if in_cluster else ()),
        ]
    bad = [row for row in rows if not row["fine"]]
    shown = rows if show_all or output != "table" else bad
    emit(
        shown,
        output,
        (*COLUMNS, PATCH) if in_cluster and output != "table" else COLUMNS,
        empty="No problem was found.",
    )
    patches = dict.fromkeys(str(row[PATCH]) for row in rows if row[PATCH])
    if patches and output == "table":
        click.echo("---\n".join((f"\n# patch.yaml; apply it: {APPLY}\n", *patches)), nl=False)
    if chosen:
        click.echo(f"{len(rows)} checks of {len(chosen)} clusters; {len(bad)} not fine.", err=True)
    else:
        click.echo("No cluster is measured now, by decisions/clusters.csv.", err=True)
    return 1 if bad or not chosen else 0


def clusters_measured_now(opened: OpenHome, clusters: Sequence[str] = ()) -> list[Cluster]:
    """The decisions about clusters that are valid now."""
    now = opened.clock.now()
    wanted = clusters or sorted({row.cluster_id for row in opened.decisions.clusters})
    found = [opened.decisions.cluster_at(cluster_id, now) for cluster_id in wanted]
    return [row for row in found if row is not None]


def check_sources(opened: OpenHome, clusters: Sequence[Cluster], report: Progress) -> list[Row]:
    """The lines of every source of these clusters."""
    rows: list[Row] = []
    for number, cluster in enumerate(clusters):
        for source in cluster.expected_sources:
            name = cluster.cluster_name
            report(number, len(clusters), f"{name} {source.value}")
            check = _samples if source is Source.THANOS else _journal
            rows += _rows(name, source.value, partial(check, opened, cluster.cluster_id))
            newest = _newest_hour(opened, cluster.cluster_id, source)
            rows.append(_row(name, source.value, newest))
    report(len(clusters), len(clusters), "")
    return rows


def check_facts(opened: OpenHome) -> list[Row]:
    """The lines about the warehouse."""
    return _rows("", "warehouse", partial(_facts, opened))


def check_engine(opened: OpenHome) -> list[Row]:
    """The line about Spark; none where DuckDB computes the facts."""
    if opened.settings.engine.kind != SPARK:
        return []
    try:
        version = require_spark().version
    except SparkNotUsable as missing:
        line = DoctorLine(SPARK_INSTALLED, False, missing.seen, missing.remedy)
    else:
        master = opened.settings.engine.master or "its default master"
        seen = f"the extra is here, Java {version}; Spark runs at {master}"
        line = DoctorLine(SPARK_INSTALLED, True, seen)
    return [_row("", "engine", line)]


def check_alerts(opened: OpenHome) -> list[Row]:
    """The lines about the ways to send alerts."""
    return _rows("", "alerts", partial(alert_lines, opened))


def check_portal(opened: OpenHome, kubeconfig: Path | None) -> list[Row]:
    """One line for each API server that reviews the callers of the portal."""
    accounts = {name: Path(path) for name, path in opened.settings.review_clusters.items()}
    accounts |= {"hub": kubeconfig} if kubeconfig else {}
    return [
        row
        for name, path in accounts.items()
        for row in _rows(name, "portal", partial(_reviews, path))
    ]


def check_deployment(opened: OpenHome) -> list[Row]:
    """The lines about the deployment in this Kubernetes cluster."""
    try:
        client = KubernetesClient(find_cluster_access())
    except LedgerError as error:
        return [_row("", "rights", _error_line(error))]
    with closing(client):
        checks: dict[str, Callable[[], Iterable[DoctorLine]]] = {
            "rights": partial(right_lines, client),
            "allowlist": partial(allowlist_lines, client, opened.settings.pod_labels),
            "clocks": partial(clock_lines, client, opened.clock),
            "samples": partial(token_lines, opened.settings),
            "storage": partial(storage_lines, opened.home),
            "alerts": partial(_routes, opened),
        }
        return [row for name, check in checks.items() for row in _rows("", name, check)]


def _routes(opened: OpenHome) -> Iterator[DoctorLine]:
    """Whether the Alertmanagers to which this program posts have a receiver for its alerts."""
    for peer in alertmanagers(opened) if opened.settings.alerts.send else ():
        with closing(peer):
            yield route_line(peer)


def _reviews(kubeconfig: Path) -> list[DoctorLine]:
    with closing(KubernetesClient(read_kubeconfig(kubeconfig))) as client:
        missing = missing_rights(client)
    seen = f"its account may not {' and '.join(missing)}" if missing else "its account may"
    remedy = "bind the account to the ClusterRole system:auth-delegator, as in deploy/portal"
    return [DoctorLine("may review callers", not missing, seen, remedy)]


def _facts(opened: OpenHome) -> list[DoctorLine]:
    there, counted = periods_in(opened.home), switched_periods(opened.home)
    lines = []
    for name in sorted({*there, *counted, *opened.record.closed_periods()}):
        problem = _facts_problem(opened, name, is_there=name in there, was_counted=name in counted)
        if problem:
            remedy = f"gpu-ledger refresh --period {name}"
            lines.append(DoctorLine(FACTS, False, f"{name}: {problem}", remedy))
    fine = f"{len(there)} periods, each with the facts that were built last"
    return lines or [DoctorLine(FACTS, True, fine)]


def _facts_problem(opened: OpenHome, period: str, *, is_there: bool, was_counted: bool) -> str:
    """The problem of a period's facts; empty if they are the ones that were built last."""
    if not is_there:
        return "its facts are not in the warehouse"
    if not was_counted:
        return "no record says which facts were built last"
    try:
        require_intact(opened.home, period, deep=True)
    except WarehouseLost as lost:
        return lost.seen
    return ""


def _row(cluster: str, source: str, line: DoctorLine) -> Row:
    remedy = "" if line.is_fine else line.remedy
    shown = (cluster, source, line.check, line.is_fine, line.seen, remedy, line.patch)
    return dict(zip((*COLUMNS, PATCH), shown, strict=True))


def _rows(cluster: str, source: str, check: Callable[[], Iterable[DoctorLine]]) -> list[Row]:
    """The rows of a check; an error that prevents the check is a row, too."""
    try:
        lines = list(check())
    except LedgerError as error:
        lines = [_error_line(error)]
    return [_row(cluster, source, line) for line in lines]


def _error_line(error: LedgerError) -> DoctorLine:
    return DoctorLine("can be queried", False, f"{error.where}: {error.seen}", error.remedy)


def _samples(opened: OpenHome, cluster_id: str) -> list[DoctorLine]:
    source = opened.thanos_source(cluster_id, opened.clock.now())
    if source is None:
        seen = f"config.toml has no thanos in [clusters.{cluster_id}]"
        remedy = "name one of the [thanos.…] there, or take samples out of decisions/clusters.csv"
        return [DoctorLine("is configured", False, seen, remedy)]
    return probe_samples(source, opened.clock)


def _journal(opened: OpenHome, cluster_id: str) -> list[DoctorLine]:
    with closing(client_of(opened, cluster_id)) as client:
        return probe_journal(cluster_id, client, opened.spool(cluster_id), opened.clock)


def _newest_hour(opened: OpenHome, cluster_id: str, source: Source) -> DoctorLine:
    """The age of the newest evidence, compared with the freshness of its dbt source."""
    source_odd, source_wrong = source_freshness(SOURCES[source.value])
    attempts = list(opened.landing.latest_attempts(cluster_id, source, limit=LATEST))
    whole = [h.hour for one in attempts for h in one.hours if h.outcome is Outcome.OK]
    remedy = "gpu-ledger pull; with `gpu-ledger up` Dagster pulls every hour"
    if not whole:
        seen = f"none of the last {len(attempts)} attempts has a complete hour"
        return DoctorLine(
            FRESH, not attempts, seen if attempts else "no attempt was made yet", remedy
        )
    age = opened.clock.now() - max(whole) - HOUR
    seen = f"the newest complete hour ended {age // HOUR} h ago"
    limits = f"a warning after {source_odd // HOUR} h, an error after {source_wrong // HOUR} h"
    return DoctorLine(FRESH, age <= source_wrong, f"{seen}; {limits}", remedy)


LATEST = 100
"""Attempts that are searched for a complete hour: four days of hourly pulls."""

SOURCES = {"thanos": "thanos_runs", "kubernetes": "kubernetes_coverage"}
"""The dbt source that declares the freshness of each source."""
