"""The lines of `gpu-ledger doctor` about an API server and the journal of its collector.

Put here: access to the cluster, its resources, and the state of the journal.
Not here: printing, or the sample store's side (`ingestion.thanos.store_probe`).

A probe writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import ServerRefused
from domain.clock import Clock
from domain.errors import LedgerError
from domain.interval import format_instant
from ingestion.doctor_lines import (
    OPERATORS,
    OPERATORS_SPELLED,
    WATCHED_LABEL,
    DoctorLine,
    clock_line,
)
from ingestion.kubernetes.journal import latest_segments
from ingestion.kubernetes.requests import is_allowed
from ingestion.kubernetes.watched_resources import PATHS
from warehouse.store import Store

NOT_EVERYWHERE = ("resourceclaims", "resourceslices", "gpubudgets")
"""Dynamic resource allocation exists since Kubernetes 1.34, and GpuBudgets where their definition
was applied. A cluster without them has no such objects."""

SILENT_AFTER = timedelta(hours=2)
"""After the start of the last written hour: the hour itself and an hour to close it."""


def probe(
    cluster_id: str, client: KubernetesClient, spool: Store, clock: Clock
) -> list[DoctorLine]:
    """Send the requests of a collector to an API server, and check its journal."""
    try:
        found = client.cluster_id()
    except LedgerError as error:
        unreached = DoctorLine("API server answers", False, error.seen, error.remedy)
        return [unreached, *_journal_line(cluster_id, spool, clock.now())]
    if found != cluster_id:
        seen = f"it is the cluster {found}"
        remedy = "compare url in config.toml with the cluster_id in decisions/clusters.csv"
        return [DoctorLine("is this cluster", False, seen, remedy)]
    return [
        DoctorLine("API server answers", True, "it is this cluster"),
        *_clock_lines(client, clock),
        *_right_lines(client),
        *_operator_lines(client),
        *_journal_line(cluster_id, spool, clock.now()),
    ]


def _clock_lines(client: KubernetesClient, clock: Clock) -> Iterator[DoctorLine]:
    try:
        seconds = client.server_time()
    except LedgerError:
        return
    if seconds is not None:
        yield clock_line(seconds, clock.now().timestamp())


def _right_lines(client: KubernetesClient) -> Iterator[DoctorLine]:
    """Whether each resource may be listed and watched, and whether the server has it."""
    for resource in PATHS:
        try:
            refused = [verb for verb in ("list", "watch") if not is_allowed(client, verb, resource)]
            if refused:
                yield DoctorLine(
                    f"may read {resource}",
                    False,
                    f"may not {' and '.join(refused)} them in all namespaces",
                    "apply the ClusterRole that `gpu-ledger init FOLDER --collector CLUSTER_ID` "
                    "writes",
                )
                continue
            next(iter(client.pages(PATHS[resource], limit=1)))
            yield DoctorLine(f"may read {resource}", True, "listed and watched")
        except ServerRefused as error:
            absent = error.status == 404 and resource in NOT_EVERYWHERE
            seen = "this cluster does not serve them" if absent else error.seen
            yield DoctorLine(f"may read {resource}", absent, seen, "" if absent else error.remedy)
        except LedgerError as error:
            yield DoctorLine(
                f"may read {resource}", False, str(error).splitlines()[0], "run doctor again"
            )


def _operator_lines(client: KubernetesClient) -> Iterator[DoctorLine]:
    """On OpenShift, a namespace without the label is not scraped by cluster monitoring."""
    try:
        namespaces = [_meta(one) for one in client.items(PATHS["namespaces"])]
    except LedgerError:
        return
    by_name = {str(meta.get("name", "")): meta for meta in namespaces}
    if not any(name.startswith("openshift-") for name in by_name):
        seen = f"not OpenShift: the label {WATCHED_LABEL} has no effect"
        yield DoctorLine("GPU operator is monitored", True, seen)
        return
    found = [name for name in by_name if any(part in name for part in OPERATORS)]
    for name in found:
        label = (by_name[name].get("labels") or {}).get(WATCHED_LABEL)
        yield DoctorLine(
            f"{name} is monitored",
            label == "true",
            f"its label {WATCHED_LABEL} is {label or 'absent'!r}",
            f"oc label namespace {name} {WATCHED_LABEL}=true, or no device telemetry arrives",
        )
    if not found:
        seen = (
            f"no namespace like {OPERATORS_SPELLED} among {len(by_name)}: where the operator runs "
            f"in another one, that one needs the label {WATCHED_LABEL}=true"
        )
        yield DoctorLine("GPU operator is monitored", True, seen)


def _journal_line(cluster_id: str, spool: Store, now: datetime) -> Sequence[DoctorLine]:
    manifests = f"`gpu-ledger init FOLDER --collector {cluster_id}` writes its manifests"
    remedy = f"run it: {manifests}; lost hours stay lost"
    try:
        segments = latest_segments(spool, cluster_id, now, SILENT_AFTER)
    except LedgerError as error:
        return [DoctorLine("journal is written", False, error.seen, error.remedy)]
    if not segments:
        return [DoctorLine("journal is written", False, f"nothing in {spool.location}", remedy)]
    last = segments[-1].hour
    seen = f"its last segment is of {format_instant(last)}"
    return [DoctorLine("journal is written", last + SILENT_AFTER > now, seen, remedy)]


def _meta(document: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = document.get("metadata")
    return meta if isinstance(meta, Mapping) else {}
