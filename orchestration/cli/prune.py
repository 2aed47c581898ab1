"""`gpu-ledger prune`: find idle GPU workloads, scale them to zero, restore them.

Put here: options, the printing of results, and the choice of tokens and files.
Not here: decisions and actions (`idle_pruner`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from clients.credentials import ServerAccess
from clients.kubeconfig import SERVICE_ACCOUNT, find_cluster_access
from clients.kubernetes import KubernetesClient
from clients.prometheus import PrometheusClient
from domain.errors import LedgerError
from domain.interval import format_instant
from idle_pruner.cluster import STOPPABLE_KINDS, ObjectName
from idle_pruner.daemon import PrunerMetrics, metrics_server, run_daemon
from idle_pruner.decision import Thresholds, Verdict
from idle_pruner.pruner import PassResult, Pruner, reading_row
from idle_pruner.records import Records, WorkloadStop, stops_in
from idle_pruner.settings import (
    CHECK_INTERVAL_SECONDS,
    STOPS_PER_HOUR_LIMIT,
    STOPS_PER_PASS_LIMIT,
    PruneSettings,
)
from orchestration.cli.output import (
    emit,
    emit_document,
    emit_result,
    kubeconfig_option,
    output_option,
    progress,
)
from orchestration.cli.signals import stop_event
from orchestration.cli.time_arguments import INSTANT
from orchestration.idle_savings import (
    RECORDS,
    HourlyCosts,
    hourly_costs,
    saved_money,
    weekly_report,
)
from orchestration.open_home import clock_from_environment
from warehouse.home import Home

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

API_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Notebook": "kubeflow.org/v1",
    "InferenceService": "serving.kserve.io/v1beta1",
}
COLUMNS = ("namespace", "kind", "name", "replicas", "devices", "verdict", "action", "reason")
LIST_COLUMNS = (
    "namespace",
    "kind",
    "name",
    "devices",
    "stopped_at",
    "restored_at",
    "saved",
    "currency",
    "reason",
)
READING_COLUMNS = (
    "device",
    "signal",
    "metric",
    "minimum",
    "maximum",
    "sample_count",
    "scrape_count",
    "scrape_failed_count",
)

EPILOG = """\b
Examples:
  gpu-ledger prune --prometheus-url https://thanos.example     report idle workloads
  gpu-ledger prune --prometheus-url URL -t 60 -n 'team-.*'     idle for an hour, some namespaces
  gpu-ledger prune --prometheus-url URL -d -r scale-down       stop them, every three minutes
  gpu-ledger prune explain team-a/model-0 --prometheus-url URL
  gpu-ledger prune restore Deployment team-a/model
"""


class Pattern(click.ParamType[str]):
    """A regular expression that must match a whole name."""

    name = "pattern"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            re.compile(value)
        except re.error as cause:
            self.fail(f"{value!r} is not a regular expression: {cause}", param, ctx)
        return value


def prometheus_options(command: Decorated) -> Decorated:
    """Add the options for the Prometheus to query and for the thresholds of idleness."""
    for option in reversed(
        (
            click.option(
                "--prometheus-url",
                envvar="PROMETHEUS_URL",
                metavar="URL",
                help="Prometheus or Thanos to query.",
            ),
            click.option(
                "--prometheus-token",
                envvar="PROMETHEUS_TOKEN",
                metavar="TOKEN",
                help="Bearer token. Visible in the process list: prefer a file.",
            ),
            click.option(
                "--prometheus-token-file",
                metavar="FILE",
                type=click.Path(path_type=Path, dir_okay=False),
                help="File with the bearer token; read for every query.",
            ),
            click.option(
                "--prometheus-ca-file",
                metavar="FILE",
                type=click.Path(path_type=Path, dir_okay=False, exists=True),
                help="CA certificates (PEM) to trust instead of the system's.",
            ),
            click.option(
                "--honor-labels",
                is_flag=True,
                help="DCGM series have `pod`, not `exported_pod` (honorLabels is set).",
            ),
            click.option(
                "-t",
                "--duration",
                type=click.IntRange(5, 1440),
                default=30,
                show_default=True,
                metavar="MINUTES",
                help="Window in which every device must be idle.",
            ),
            click.option(
                "-g",
                "--grace-period",
                type=click.IntRange(0, 86_400),
                default=300,
                show_default=True,
                metavar="SECONDS",
                help="Extra age of a workload, and time from the notice to the stop.",
            ),
            click.option(
                "--idle-threshold",
                type=click.FloatRange(0, 0.5),
                default=0.0,
                show_default=True,
                metavar="RATIO",
                help="Highest engine activity (0 to 1) of an idle device.",
            ),
            click.option(
                "--memory-threshold",
                type=click.FloatRange(0, 0.5),
                default=0.01,
                show_default=True,
                metavar="RATIO",
                help="Highest memory traffic (0 to 1) of an idle device.",
            ),
            click.option(
                "--power-threshold",
                type=click.FloatRange(min=0),
                metavar="WATTS",
                help="Highest power of an idle device; not used by default.",
            ),
        )
    ):
        command = option(command)
    return command


home_option = click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="GPU_LEDGER_HOME",
    help="Home whose record folder receives the records.",
)
records_option = click.option(
    "--records",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_default="record/idle-pruner.jsonl of the home, else ./idle-pruner.jsonl",
    help="JSON-lines file of stops, notices and refusals.",
)


@click.group(
    "prune",
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-d", "--daemon-mode", is_flag=True, help="Repeat until SIGTERM.")
@click.option(
    "-c",
    "--check-interval",
    type=click.IntRange(10, 86_400),
    metavar="SECONDS",
    default=CHECK_INTERVAL_SECONDS,
    show_default=True,
    help="Time between passes of the daemon.",
)
@click.option(
    "-n",
    "--namespace",
    "namespace_pattern",
    type=Pattern(),
    default="",
    help="Namespaces to examine.",
)
@click.option(
    "-m",
    "--model-name",
    "model_pattern",
    type=Pattern(),
    default="",
    help="GPU models to examine, such as 'NVIDIA A100.*'.",
)
@click.option(
    "--exclude-namespaces",
    "excluded_namespaces",
    type=Pattern(),
    multiple=True,
    help="Namespaces to leave out (repeatable).",
)
@click.option(
    "--exclude-pods",
    "excluded_pods",
    type=Pattern(),
    multiple=True,
    help="Pods whose workloads to leave out (repeatable).",
)
@click.option(
    "-r",
    "--run-mode",
    type=click.Choice(["dry-run", "scale-down"]),
    default="dry-run",
    show_default=True,
    help="Report only, or also announce and stop.",
)
@click.option(
    "--stops-per-pass",
    type=click.IntRange(1, 1000),
    default=STOPS_PER_PASS_LIMIT,
    show_default=True,
    help="Maximum number of stops in a pass.",
)
@click.option(
    "--stops-per-hour",
    type=click.IntRange(1, 10_000),
    default=STOPS_PER_HOUR_LIMIT,
    show_default=True,
    help="Maximum number of stops in an hour.",
)
@click.option(
    "--kill-switch",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="While this file exists and does not contain 'off', only report.",
)
@click.option(
    "--alertmanager-url",
    "alertmanager_urls",
    multiple=True,
    metavar="URL",
    help="Alertmanager that gets the notice of a stop (repeatable).",
)
@click.option(
    "--evidence-page", default="", metavar="URL", help="Page with the evidence, linked in notices."
)
@click.option(
    "--metrics-addr",
    default="",
    metavar="HOST:PORT",
    help="Serve /metrics, /healthz and /readyz (daemon).",
)
@click.option(
    "-l",
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log of the daemon.",
)
@prometheus_options
@kubeconfig_option
@home_option
@records_option
@output_option
@click.pass_context
def prune(ctx: click.Context, /, **options: Any) -> int:
    """Find workloads whose GPUs are idle; with -r scale-down, scale them to zero.

    A workload is idle only if every GPU, MIG instance and partition of every replica was idle
    during the whole window, by complete samples of two signals. A stop is announced one grace
    period before it, needs the opt-in of the namespace, and can be restored.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    settings = PruneSettings(
        thresholds=_thresholds(options),
        scales_down=options["run_mode"] == "scale-down",
        namespace_pattern=options["namespace_pattern"],
        model_pattern=options["model_pattern"],
        excluded_namespaces=options["excluded_namespaces"],
        excluded_pods=options["excluded_pods"],
        honor_labels=options["honor_labels"],
        stops_per_pass=options["stops_per_pass"],
        stops_per_hour=options["stops_per_hour"],
        kill_switch=options["kill_switch"],
        alertmanager_urls=options["alertmanager_urls"],
        evidence_page=options["evidence_page"],
    )
    with _pruner(options, settings) as pruner:
        if options["daemon_mode"]:
            _run_daemon(pruner, options)
            return 0
        with progress("Workloads") as report:
            result = pruner.run_pass(report)
    empty = "No workload with a running GPU pod was found."
    emit([found.row() for found in result.results], options["output"], COLUMNS, empty=empty)
    idle = sum(found.verdict is Verdict.IDLE for found in result.results)
    click.echo(f"{len(result.results)} GPU workloads; {idle} idle.", err=True)
    return 0


@prune.command(
    "explain",
    epilog="\b\nExamples:\n  gpu-ledger prune explain team-a/model-0 "
    "--prometheus-url https://thanos.example",
)
@click.argument("pod", metavar="NAMESPACE/POD")
@prometheus_options
@kubeconfig_option
@home_option
@records_option
@output_option
def explain(pod: str, output: str, **options: Any) -> int:
    """Print why the workload of a pod is idle or not, with the numbers of each device."""
    namespace, name = _namespace_and_name(pod)
    settings = PruneSettings(thresholds=_thresholds(options), honor_labels=options["honor_labels"])
    with _pruner(options, settings) as pruner:
        explained = pruner.explain(namespace, name)
    if explained is None:
        raise click.UsageError(f"{pod} is not a running pod with GPUs of a tenant's namespace.")
    workload, decision, evidence = explained
    pods = [replica.pod for replica in workload.replicas]
    rows = [reading_row(r) for pod in pods for r in evidence.readings.get(pod, ())]
    if output == "json":
        emit_document(
            {
                "workload": str(workload.name),
                "owner_chain": [str(owner) for owner in workload.chain],
                "verdict": decision.verdict.value,
                "reasons": list(decision.reasons),
                "started_at": format_instant(evidence.started_at.replace(microsecond=0)),
                "ended_at": format_instant(evidence.ended_at.replace(microsecond=0)),
                "readings": [{key: row[key] for key in READING_COLUMNS} for row in rows],
            }
        )
        return 0
    if output == "table":
        click.echo(f"{workload.name}: {decision.verdict.value}")
        for reason in decision.reasons:
            click.echo(f"  {reason}")
    emit(rows, output, READING_COLUMNS, empty="Prometheus has no series for its pods.")
    return 0


@prune.command(
    "restore", epilog="\b\nExamples:\n  gpu-ledger prune restore Deployment team-a/model"
)
@click.argument("kind", metavar="KIND")
@click.argument("workload", metavar="NAMESPACE/NAME")
@kubeconfig_option
@home_option
@records_option
@output_option
def restore(kind: str, workload: str, output: str, **options: Any) -> int:
    """Set a stopped workload to exactly its previous state.

    Refused if the workload was changed after the stop.
    """
    namespace, name = _namespace_and_name(workload)
    kinds = {known.lower(): known for known in STOPPABLE_KINDS}
    if kind.lower() not in kinds:
        raise click.UsageError(f"{kind!r} is none of {', '.join(STOPPABLE_KINDS)}.")
    kind = kinds[kind.lower()]
    target = ObjectName(API_VERSIONS[kind], kind, namespace, name)
    records = _records(options)
    with closing(KubernetesClient(find_cluster_access(options["kubeconfig"]))) as client:
        # A restore queries no samples.
        pruner = Pruner(
            client,
            PrometheusClient(ServerAccess("http://localhost")),
            records,
            PruneSettings(),
            clock_from_environment(),
        )
        record = pruner.restore(target, "It was requested on the command line.")
    done = {"kind": kind, "namespace": namespace, "name": name, "restored_at": record.at}
    emit_result(done, output, f"{target} is restored.")
    return 0


@prune.command("list", epilog="\b\nExamples:\n  gpu-ledger prune list --home my-ledger -o json")
@click.option("--all", "show_all", is_flag=True, help="Also workloads that were restored.")
@home_option
@records_option
@output_option
def list_stops(show_all: bool, output: str, **options: Any) -> int:
    """List stopped workloads: time and evidence of the stop, and time of the restore.

    With a home, also the money saved: the hourly cost of the stopped pods, as billed in the month
    of the stop, times the hours from the stop to the restore.
    """
    stops = [stop for stop in _records(options).stops() if show_all or stop.restored is None]
    home: Path | None = options["home_path"]
    prices = hourly_costs(Home.open(home), stops) if home else {}
    rows = [_stop_row(stop, prices) for stop in stops]
    columns = LIST_COLUMNS if output == "table" else None
    emit(rows, output, columns, empty="No workload is stopped.")
    return 0


REPORT_EPILOG = """\b
Examples:
  gpu-ledger prune report --home my-ledger                        the last seven days
  gpu-ledger prune report --home my-ledger --until 2026-11-16 -o csv
"""


@prune.command("report", epilog=REPORT_EPILOG)
@click.option("--until", type=INSTANT, help="End of the week (default: the last midnight, in UTC).")
@home_option
@records_option
@output_option
def report(until: datetime | None, output: str, **options: Any) -> int:
    """Print the device-hours and the cost that stops of one week saved, by namespace.

    Device-hours are those of stopped workloads within the week. With a home, saved is their hourly
    cost, as billed in the month of the stop. Stops without a known price are counted apart.
    """
    now = until or clock_from_environment().now().replace(hour=0, minute=0, second=0, microsecond=0)
    history = _records(options).read()
    stops = stops_in(history)
    home: Path | None = options["home_path"]
    costs = hourly_costs(Home.open(home), stops) if home else {}
    rows = weekly_report(history, stops, costs, now)
    emit(rows, output, empty="No workload was stopped in this week.")
    return 0


def _stop_row(stop: WorkloadStop, costs: HourlyCosts) -> dict[str, Any]:
    record, restored = stop.stopped, stop.restored
    saved = saved_money(stop, costs, clock_from_environment().now())
    return {
        "namespace": record.namespace,
        "kind": record.kind,
        "name": record.name,
        "uid": record.uid,
        "devices": record.device_count,
        "stopped_at": record.at,
        "restored_at": restored.at if restored else "",
        "saved": str(saved[0]) if saved else "",
        "currency": saved[1] if saved else "",
        "reason": " ".join(record.reasons),
        "previous_state": record.previous_state,
        "owner_chain": record.owner_chain,
        "pods": record.pods,
        "evidence": record.evidence if record.evidence else {},
    }


def _thresholds(options: dict[str, Any]) -> Thresholds:
    return Thresholds(
        duration=timedelta(minutes=options["duration"]),
        grace_period=timedelta(seconds=options["grace_period"]),
        activity=options["idle_threshold"],
        memory_traffic=options["memory_threshold"],
        power_watts=options["power_threshold"],
    )


@contextmanager
def _pruner(options: dict[str, Any], settings: PruneSettings) -> Iterator[Pruner]:
    if not options["prometheus_url"]:
        raise click.UsageError("--prometheus-url is missing. It names the Prometheus to query.")
    with (
        closing(KubernetesClient(find_cluster_access(options["kubeconfig"]))) as client,
        PrometheusClient(_prometheus_access(options)) as prometheus,
    ):
        yield Pruner(client, prometheus, _records(options), settings, clock_from_environment())


def _prometheus_access(options: dict[str, Any]) -> ServerAccess:
    """With the token of the option or its file; else that of the pod, else of the kubeconfig.

    A token that was not given for this server is sent over TLS only.
    """
    access = ServerAccess(options["prometheus_url"], ca_file=options["prometheus_ca_file"])
    if options["prometheus_token"]:
        return replace(access, token=options["prometheus_token"])
    if options["prometheus_token_file"]:
        return replace(access, token_file=options["prometheus_token_file"])
    if not access.url.startswith("https://"):
        return access
    if (SERVICE_ACCOUNT / "token").exists():
        return replace(access, token_file=SERVICE_ACCOUNT / "token")
    user = find_cluster_access(options["kubeconfig"])
    return replace(access, token=user.token, token_file=user.token_file)


def _records(options: dict[str, Any]) -> Records:
    home: Path | None = options["home_path"]
    default = Path(RECORDS) if home is None else home / "record" / RECORDS
    return Records(options["records"] or default)


def _namespace_and_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise click.UsageError(f"{text!r} is not NAMESPACE/NAME.")
    return namespace, name


def _run_daemon(pruner: Pruner, options: dict[str, Any]) -> None:
    metrics = PrunerMetrics()
    as_json = options["log_format"] == "json"

    def log(level: str, message: str, **fields: Any) -> None:
        if as_json:
            now = format_instant(clock_from_environment().now().replace(microsecond=0))
            click.echo(json.dumps({"at": now, "level": level, "message": message, **fields}))
        else:
            shown = " ".join(f"{key}={value}" for key, value in fields.items())
            click.echo(f"{level}: {message} {shown}".rstrip())

    def on_pass(result: PassResult) -> None:
        for found in result.results:
            if found.action not in ("none", "would stop"):
                log("info", found.action, **found.row())
        idle = sum(found.verdict is Verdict.IDLE for found in result.results)
        log("info", "pass complete", workloads=len(result.results), idle=idle)

    def on_error(error: LedgerError) -> None:
        log("error", error.seen, where=error.where, code=error.code)

    with stop_event() as stop, ExitStack() as stack:
        if options["metrics_addr"]:
            host, _, port = options["metrics_addr"].rpartition(":")
            if not port.isdecimal() or int(port) > 65_535:
                raise click.UsageError("--metrics-addr is not HOST:PORT.")
            stack.enter_context(metrics_server(host or "127.0.0.1", int(port), metrics))
        run_daemon(pruner.run_pass, metrics, options["check_interval"], on_pass, on_error, stop)
