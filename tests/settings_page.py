"""The page about config.toml, generated from the settings.

Put here: the meaning of each key, and the page `docs/reference/config-file.md`.
Not here: reading the file, or defaults (`ingestion.settings` has them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

from ingestion.exporter_pins import Pins
from ingestion.settings import (
    AlertSettings,
    Connection,
    KubernetesSettings,
    Settings,
    ThanosSettings,
)
from warehouse.engine import Engine

REQUIRED = "required"

HEAD = """\
# config.toml

Settings of a home: the servers of its clusters, and its storage. `gpu-ledger init` writes the file
with comments. Dated decisions (clusters, tenants, prices, gaps) are in
[decision tables](decision-tables.md). An unknown key is an error that names its line. The file
names the files of secrets and never contains a secret. This page is generated from the code that
reads the file.
"""

TAIL = """
Credentials of buckets come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_REGION`, `AWS_ENDPOINT_URL`), from the platform, or from the AWS credentials file that
`AWS_SHARED_CREDENTIALS_FILE` names, never from this file. That file is read again for each
request.
"""

Meanings = dict[str, tuple[str, str]]
"""Key → default, if that of the code does not explain it, and meaning."""

STORAGE: Meanings = {
    "landing": (
        "`landing/` in the home",
        "storage of evidence: a folder or `s3://bucket/prefix`",
    ),
    "record": (
        "`record/` in the home",
        "storage of closes and invoices: a folder or a URL",
    ),
}
ENGINE: Meanings = {
    "kind": (
        "",
        "engine of the models: `duckdb`, or `spark`, which needs the extra `spark` and Java 17",
    ),
    "master": (
        "of `spark-submit` or `spark-defaults.conf`, or `local[*]`",
        "Spark master: `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`",
    ),
    "exchange": (
        "`build/spark/` in the home",
        "a folder or `s3://bucket/prefix` for the input and output of Spark, reachable from all "
        "its machines; emptied after each refresh",
    ),
}
PULL: Meanings = {
    "pod_labels": (
        "none",
        "pod labels to record; all other labels of pods are dropped",
    ),
}
SCHEDULE: Meanings = {
    "close_on_schedule": (
        "",
        "close each period without blocking findings on a schedule; if false, an operator closes",
    ),
    "postgres_url_file": (
        "SQLite",
        "a file that contains the URL of Dagster's PostgreSQL",
    ),
}
PORTAL: Meanings = {
    "CLUSTER_ID": (
        "the server that `--kubeconfig` names",
        "a kubeconfig of the portal's account in this cluster",
    ),
}
ALERTS: Meanings = {
    "send": (
        "",
        "post alerts to Alertmanager, once for each step; if false, PrometheusRules raise them",
    ),
    "alertmanagers": (
        "none",
        "all Alertmanager peers, without `/api/v2`; a name with several addresses stands for all",
    ),
    "token_file": ("none", "a bearer token, read for each request"),
    "ca_file": ("the system's", "a private CA; certificates are always verified"),
    "client_certificate_file": ("none", "mutual TLS, with the key; both or neither"),
    "client_key_file": ("none", "the key of that certificate"),
}
CONNECTION: Meanings = {
    "url": (
        "",
        "the address without `/api/v1`; for Observatorium `https://…/api/metrics/v1/default`",
    ),
    "token_file": (
        "none",
        "a bearer token, read for each request; sent over `http://` only to this machine",
    ),
    "ca_file": (
        "the system's",
        "a private CA; certificates are always verified",
    ),
    "client_certificate_file": ("none", "mutual TLS, with the key; both or neither"),
    "client_key_file": ("none", "the key of that certificate"),
    "proxy": (
        "`HTTPS_PROXY`, `NO_PROXY`",
        "the proxy; set one that needs a password in the environment only",
    ),
    "timeout_seconds": ("", "the limit of one query; the default is ACM's"),
}
THANOS: Meanings = {
    "cluster_matcher": (
        "",
        'selects the series of one cluster; `""` for a store of a single cluster',
    ),
    "raw_retention_days": (
        "",
        "how long the store keeps raw samples; older hours are not pulled",
    ),
    "replica_labels": (
        "",
        "labels that distinguish replicas of one series; gpu-ledger merges the replicas",
    ),
}
PINS: Meanings = {
    "kube_state_metrics": ("all jobs", "jobs whose requests, phases, pods and nodes are accepted"),
    "scheduler": ("all jobs", "jobs whose resource requests by the scheduler are accepted"),
    "devices": ("all jobs", "jobs whose device telemetry is accepted"),
}
CLUSTER: Meanings = {"thanos": ("none", "the name of one of the `[thanos.…]`")}
KUBERNETES: Meanings = {
    "url": ("", "the API server"),
    **{
        name: (CONNECTION[name][0], "as above")
        for name in CONNECTION
        if name not in ("url", "timeout_seconds")
    },
    "journal": (
        "`journal/CLUSTER_ID` in the home",
        "written by the collector of this cluster: a folder or a URL",
    ),
}


def settings_page() -> str:
    """The page `docs/reference/config-file.md`; a test compares the two."""
    settings, connection = _fields(Settings), _fields(Connection)
    thanos = connection | _fields(ThanosSettings)
    kubernetes = connection | _fields(KubernetesSettings)
    parts = [
        HEAD,
        *_section("storage", STORAGE, settings),
        *_section("pull", PULL, settings),
        *_section("engine", ENGINE, _fields(Engine), _ENGINE),
        *_section("schedule", SCHEDULE, settings),
        *_section("alerts", ALERTS, _fields(AlertSettings)),
        *_section("portal.review_clusters", PORTAL, {}, _REVIEWS),
        *_section("thanos.NAME", CONNECTION | THANOS, thanos, _STORES),
        *_section("thanos.NAME.pins", PINS, _fields(Pins), _PINNED),
        *_section("clusters.CLUSTER_ID", CLUSTER, {}),
        *_section("clusters.CLUSTER_ID.kubernetes", KUBERNETES, kubernetes),
    ]
    return "\n".join(parts) + TAIL


_ENGINE = """\
The facts have the same bytes with either engine; [beyond one machine](../explanation/scale.md)
states at which size Spark is worth its cost. Spark's executors, memory and access to a bucket are
set in its own `spark-defaults.conf`, in the folder that `SPARK_CONF_DIR` names.
"""

_REVIEWS = """\
Clusters whose API servers review the callers of `gpu-ledger portal --auth kubernetes`. A caller
sees the rows of those clusters that allow it. Each server of the list receives all tokens.
"""

_STORES = """\
A sample store: a Prometheus, a Thanos Querier, ACM's rbac-query-proxy, Observatorium, or
OpenShift's thanos-querier. A store can hold several clusters.
"""

_PINNED = """\
Accepted exporters, as a list of `NAMESPACE/JOB` or `JOB`. The job is always compared. The namespace
is compared for metrics of nodes and devices; in metrics of pods that label is the pod's. If the
exporter of `devices` is scraped with `honorLabels`, give its job only. `up` is not restricted: no
amount depends on it. `gpu-ledger doctor --all` lists the jobs of each metric, and names a metric
that two jobs expose.
"""


def _fields(kind: type[Any]) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(kind)}


def _section(
    name: str, meanings: Meanings, known: dict[str, Field[Any]], about: str = ""
) -> Iterator[str]:
    yield f"## `[{name}]`\n"
    if about:
        yield about
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for key, (without, meaning) in meanings.items():
        yield f"| `{key}` | {without or _default(known[key])} | {meaning} |"
    yield ""


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return REQUIRED
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value}`"
