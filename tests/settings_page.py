"""The page about config.toml, made of what the settings are.

Put here: what each key means, and the page `docs/reference/config-file.md`.
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

REQUIRED = "required"

HEAD = """\
# config.toml

Whom to ask, and where things are kept. `gpu-ledger init` writes it with the same explanations.
What people decide with a date (clusters, tenants, prices, gaps) is in
[decision tables](decision-tables.md). An unknown key is refused with its line; secrets are named by
their files and never stand here. This page is made from the code that reads the file.
"""

TAIL = """
Buckets take their credentials from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_REGION`, `AWS_ENDPOINT_URL`) or from the platform, never from this file.
"""

Meanings = dict[str, tuple[str, str]]
"""Key → what holds without it, where the code's own default does not say it, and what it means."""

PLACES: Meanings = {
    "landing": (
        "`landing/` in the home",
        "where evidence is kept: a folder or `s3://bucket/prefix`",
    ),
    "record": (
        "`record/` in the home",
        "where closes and invoices are kept: a folder or a URL",
    ),
}
ASK: Meanings = {
    "pod_labels": (
        "none",
        "the labels of pods that are kept; every other is dropped, whatever it holds",
    ),
}
SCHEDULE: Meanings = {
    "close_on_schedule": ("", "close a clean period by schedule; off, a person closes"),
    "postgres_url_file": (
        "SQLite",
        "a file that holds the URL of the orchestrator's PostgreSQL",
    ),
}
PORTAL: Meanings = {
    "CLUSTER_ID": (
        "the server that `--kubeconfig` names",
        "a kubeconfig of the portal's account in this cluster",
    ),
}
ALERTS: Meanings = {
    "send": ("", "gpu-ledger sends alerts itself, budget steps once each; off, PrometheusRules do"),
    "alertmanagers": (
        "none",
        "every Alertmanager, without `/api/v2`; a name with several addresses stands for all",
    ),
    "token_file": ("none", "a bearer token, read again for every request"),
    "ca_file": ("the system's", "a private authority; verification cannot be switched off"),
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
        "a bearer token, read again for every request; never sent over `http://` but to this "
        "machine",
    ),
    "ca_file": (
        "the system's",
        "a private authority; verification cannot be switched off",
    ),
    "client_certificate_file": ("none", "mutual TLS, with the key; both or neither"),
    "client_key_file": ("none", "the key of that certificate"),
    "proxy": (
        "`HTTPS_PROXY`, `NO_PROXY`",
        "the proxy to go through; one with a password comes from the environment alone",
    ),
    "timeout_seconds": ("", "how long one question may take: ACM's own limit"),
}
THANOS: Meanings = {
    "cluster_matcher": (
        "",
        "tells one cluster's series from another's; `\"\"` where there is one only",
    ),
    "raw_retention_days": (
        "",
        "how long raw samples are kept; older hours are not asked for",
    ),
    "replica_labels": (
        "",
        "labels that tell copies of one series apart; the copies are united by us",
    ),
}
PINS: Meanings = {
    "kube_state_metrics": ("everybody", "whose requests, phases, pods and nodes are believed"),
    "scheduler": ("everybody", "whose second count of requests is believed"),
    "devices": ("everybody", "whose telemetry of devices is believed"),
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
        "where the collector of this cluster writes: a folder or a URL",
    ),
}


def settings_page() -> str:
    """The page `docs/reference/config-file.md`; a test compares the two."""
    settings, connection = _fields(Settings), _fields(Connection)
    thanos = connection | _fields(ThanosSettings)
    kubernetes = connection | _fields(KubernetesSettings)
    parts = [
        HEAD,
        *_section("places", PLACES, settings),
        *_section("ask", ASK, settings),
        *_section("schedule", SCHEDULE, settings),
        *_section("alerts", ALERTS, _fields(AlertSettings)),
        *_section("portal.review_clusters", PORTAL, {}, _REVIEWS),
        *_section("thanos.NAME", CONNECTION | THANOS, thanos, _STORES),
        *_section("thanos.NAME.pins", PINS, _fields(Pins), _PINNED),
        *_section("clusters.CLUSTER_ID", CLUSTER, {}),
        *_section("clusters.CLUSTER_ID.kubernetes", KUBERNETES, kubernetes),
    ]
    return "\n".join(parts) + TAIL


_REVIEWS = """\
Clusters whose API servers review the callers of `gpu-ledger portal --auth kubernetes`. A caller
sees the rows of those clusters that allow it. Every server of the list receives every token.
"""

_STORES = """\
A sample store: a Prometheus, a Thanos Querier, ACM's rbac-query-proxy, Observatorium, or
OpenShift's thanos-querier. One may hold many clusters.
"""

_PINNED = """\
Whose word is taken, as a list of `NAMESPACE/JOB`, or `JOB` alone. The job is held always; the
namespace wherever that label is the exporter's own (of nodes and devices; of pods it is the pod's).
Write the job of `devices` alone where its exporter is scraped with `honorLabels`. `up` is never
pinned: it decides nothing. `gpu-ledger doctor --all` shows who says what, and names a metric that
comes from two.
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
