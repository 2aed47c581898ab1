"""The lines of `gpu-ledger doctor --in-cluster`, and the missing objects to apply.

Put here: rights of the components' accounts, the hub's allowlist, the API server's clock, storage,
routes of alerts.
Not here: the sources of each cluster, and printing (`orchestration.cli.doctor`), or the ways to
send alerts (`orchestration.alert_ways`).

The rights that a component needs are those of its manifests in `deploy/`, which are part of the
package.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from clients.alertmanager import Alertmanager
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import ServerRefused
from clients.prometheus import QUERY_PATH, PrometheusClient
from domain.clock import Clock
from domain.errors import LedgerError
from ingestion.acm import ALLOWLIST_NAME, HUB_NAMESPACE, allowlist
from ingestion.doctor_lines import DoctorLine, clock_line
from ingestion.settings import Connection, Settings
from ingestion.yaml_text import yaml_text
from portal.alerting.alerts import NOT_KNOWN, STEP_REACHED
from portal.alerting.rules import PROVIDER_ALERTS
from warehouse.home import Home
from warehouse.store import FolderStore, Store

NAMESPACE = "gpu-ledger"
COMPONENTS = {
    "ledger": "ledger/rbac.yaml",
    "portal": "portal/rbac.yaml",
    "collector": "collector/collector.yaml",
    "idle-pruner": "idle-pruner/rbac.yaml",
    "fake-gpus": "fake-gpu/base/rbac.yaml",
}
"""The manifest of each component that has rights in Kubernetes, below `deploy/`."""

ROLES_OF_KUBERNETES = {
    "system:auth-delegator": (
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["tokenreviews"],
            "verbs": ["create"],
        },
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        },
    )
}
GIB = 1 << 30
FREE_BYTES = GIB
"""Beside two copies of the warehouse: a refresh writes a second file and replaces the first."""
PROBE_KEY = "doctor/conditional-create"
"""A small object in each bucket; it stays, because the ledger's identity must not delete."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """The rights that a manifest gives to a ServiceAccount, in a namespace or in all ("")."""

    account: str  # NAMESPACE:NAME
    namespace: str
    rules: Sequence[Mapping[str, Any]]
    documents: tuple[Document, ...]  # the binding and, unless it is Kubernetes' own, the role

    def missing_rights(self, client: KubernetesClient) -> list[str]:
        """The rights that the account does not have, as VERB RESOURCE."""
        found = []
        for rule in self.rules:
            names = rule.get("resourceNames", [""])
            for group, resource, verb, name in product(
                rule["apiGroups"], rule["resources"], rule["verbs"], names
            ):
                base, _, sub = resource.partition("/")
                of = {"name": name, "account": self.account}
                if not client.is_allowed(verb, group, base, self.namespace, sub, **of):
                    shown = f"{resource}.{group}" if group else resource
                    found.append(" ".join(part for part in (verb, shown, name) if part))
        return found


def read_bindings(component: str) -> list[Binding]:
    """The bindings in the manifest of a component, with their rules."""
    text = (_manifests() / COMPONENTS[component]).read_text(encoding="utf-8")
    documents = [document for document in yaml.safe_load_all(text) if document]
    roles = {(one["kind"], one["metadata"]["name"]): one for one in documents}
    found = []
    for document in documents:
        if document["kind"] not in ("ClusterRoleBinding", "RoleBinding"):
            continue
        [subject] = document["subjects"]
        namespace = subject["namespace"] if document["kind"] == "RoleBinding" else ""
        role = roles.get((document["roleRef"]["kind"], document["roleRef"]["name"]))
        rules = role["rules"] if role else ROLES_OF_KUBERNETES[document["roleRef"]["name"]]
        parts = (role, document) if role else (document,)
        account = f"{subject['namespace']}:{subject['name']}"
        found.append(
            Binding(account, namespace, rules, tuple(_in_namespace(namespace, p) for p in parts))
        )
    return found


def _in_namespace(namespace: str, document: Document) -> Document:
    if not namespace:
        return document
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def _manifests() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "_manifests"
    return installed if installed.is_dir() else here.parent / "deploy"


def right_lines(client: KubernetesClient) -> Iterator[DoctorLine]:
    """Whether the account of each installed component has the rights of its manifest."""
    for component in COMPONENTS:
        check = f"rights of {component}"
        try:
            yield _right_line(client, component, check)
        except ServerRefused as refused:
            own = [document for one in read_bindings("ledger") for document in one.documents]
            remedy = "apply the patch: with it the ledger may have rights reviewed"
            yield DoctorLine(check, False, refused.seen, remedy, _yaml(own))


def _right_line(client: KubernetesClient, component: str, check: str) -> DoctorLine:
    bound = read_bindings(component)
    namespace = bound[0].account.partition(":")[0]
    if client.find(f"/api/v1/namespaces/{namespace}") is None:
        return DoctorLine(check, True, f"there is no namespace {namespace}: not installed here")
    lacking = [(binding, binding.missing_rights(client)) for binding in bound]
    missing = [right for _, rights in lacking for right in rights]
    account = bound[0].account
    if not missing:
        return DoctorLine(check, True, f"{account} has every right of its manifest")
    documents = [d for binding, rights in lacking if rights for d in binding.documents]
    seen = f"{account} may not {', '.join(missing[:5])}"
    seen += f", and {len(missing) - 5} more" if len(missing) > 5 else ""
    return DoctorLine(check, False, seen, "apply the patch", _yaml(documents))


def allowlist_lines(client: KubernetesClient, pod_labels: Sequence[str]) -> Iterator[DoctorLine]:
    """On a hub of ACM: whether its list forwards every metric that is queried."""
    check = "allowlist of the hub"
    try:
        if client.find(f"/api/v1/namespaces/{HUB_NAMESPACE}") is None:
            return
        path = f"/api/v1/namespaces/{HUB_NAMESPACE}/configmaps/{ALLOWLIST_NAME}"
        present = client.find(path) or {}
    except LedgerError as error:
        yield DoctorLine(check, False, error.seen, error.remedy)
        return
    wanted = allowlist(pod_labels)
    missing = sorted(_metrics_of(yaml.safe_load(wanted)) - _metrics_of(present))
    remedy = "apply the patch, with the metrics of the present list that you need besides"
    yield DoctorLine(
        check,
        not missing,
        f"{len(missing)} metrics are not forwarded, such as {missing[0]}"
        if missing
        else "it forwards every metric that is queried",
        remedy,
        wanted if missing else "",
    )


def _metrics_of(config_map: Mapping[str, Any]) -> set[str]:
    try:
        listed = yaml.safe_load(config_map["data"]["metrics_list.yaml"])
        return {str(one) for key in ("names", "matches") for one in listed.get(key) or ()}
    except (LookupError, TypeError, AttributeError, yaml.YAMLError):
        return set()


def clock_lines(client: KubernetesClient, clock: Clock) -> Iterator[DoctorLine]:
    """Compare this machine's clock with that of the API server."""
    seconds = client.server_time()
    if seconds is not None:
        yield clock_line(seconds, clock.now().timestamp())


def token_lines(settings: Settings) -> Iterator[DoctorLine]:
    """Whether each sample store answers a query with the token of the settings."""
    stores = [one.thanos for one in settings.clusters.values() if one.thanos is not None]
    for thanos in {one.name: one for one in stores}.values():
        with PrometheusClient(thanos.connection.access) as client:
            reply = client.post(QUERY_PATH, {"query": "time()"})
        seen = reply.failure or f"HTTP {reply.status}"
        is_refused = reply.status in (401, 403)
        remedy = "check url, proxy, ca_file and the NetworkPolicy"
        if is_refused:
            remedy = "give its account the view of metrics, or renew token_file"
        patch = _view_binding(thanos.connection) if is_refused else ""
        remedy = "apply the patch" if patch else remedy
        is_fine = reply.status == 200 and not reply.failure
        yield DoctorLine(f"{thanos.name} accepts the token", is_fine, seen, remedy, patch)


def _view_binding(connection: Connection) -> str:
    """The binding that permits the ledger to query OpenShift's Thanos Querier."""
    if "thanos-querier.openshift-monitoring" not in connection.url:
        return ""
    return yaml_text(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "gpu-ledger-monitoring-view"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-monitoring-view",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "ledger", "namespace": NAMESPACE}],
        }
    )


def storage_lines(home: Home) -> Iterator[DoctorLine]:
    """Whether the home can be written and has room, and buckets refuse to replace an object."""
    try:
        with tempfile.TemporaryFile(dir=home.path):
            yield DoctorLine("home can be written", True, str(home.path))
    except OSError as cause:
        seen = f"{home.path}: {cause.strerror}"
        remedy = "the volume's group has to be the pod's: fsGroup, on OpenShift the namespace's"
        yield DoctorLine("home can be written", False, seen, remedy)
    warehouse = home.warehouse_path
    needed = 2 * (warehouse.stat().st_size if warehouse.exists() else 0) + FREE_BYTES
    space = shutil.disk_usage(home.path)
    is_enough = space.free >= needed
    yield DoctorLine(
        "home has room",
        is_enough,
        f"{space.free / GIB:.1f} of {space.total / GIB:.1f} GiB are free; a refresh needs "
        f"{needed / GIB:.1f}",
        "apply the patch, where the volume's StorageClass can expand it, or free space",
        "" if is_enough else _larger_volume(max(space.total, needed)),
    )
    for name, store in (("landing", home.landing_store()), ("record", home.record_store())):
        if not isinstance(store, FolderStore):
            yield _conditional_create(name, store)


def _larger_volume(byte_count: int) -> str:
    size = f"{2 * byte_count // GIB + 1}Gi"
    return yaml_text(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "gpu-ledger-home", "namespace": NAMESPACE},
            "spec": {"resources": {"requests": {"storage": size}}},
        }
    )


def _conditional_create(name: str, store: Store) -> DoctorLine:
    """Create an object twice: a bucket that takes the second one would lose evidence."""
    check = f"{name} refuses a second create"
    try:
        store.create(PROBE_KEY, b"first\n")
        is_replaced = store.create(PROBE_KEY, b"second\n") or store.read(PROBE_KEY) != b"first\n"
    except LedgerError as error:
        return DoctorLine(check, False, f"{error.where}: {error.seen}", "check keys and policy")
    seen = f"{store.location} {'replaced the object' if is_replaced else 'kept the first object'}"
    remedy = "use a store that keeps If-None-Match; docs/how-to/keep-evidence-in-a-bucket.md"
    return DoctorLine(check, not is_replaced, seen, remedy)


def route_line(peer: Alertmanager) -> DoctorLine:
    """Whether each alert of the ledger reaches a receiver with an integration."""
    check = "alerts reach a receiver"
    config = _mapping(yaml.safe_load(peer.status().config.get("original", "")))
    receivers = {str(one.get("name")): one for one in config.get("receivers") or ()}
    silent = []
    for labels in _posted_labels():
        names = _receivers(_mapping(config.get("route")), labels)
        if not any(_notifies(receivers.get(name, {})) for name in names):
            silent.append(f"{labels['alertname']} ({labels['severity']})")
    seen = f"{peer.name}: {len(silent)} alerts reach a receiver without integration"
    return DoctorLine(
        check,
        not silent,
        f"{seen}, such as {silent[0]}" if silent else f"{peer.name}: every alert reaches one",
        'add a route with matchers: [alertname=~"Gpu(Ledger|Budget).+"] and a receiver with, for '
        "example, email_configs to the configuration of Alertmanager",
    )


def _posted_labels() -> Iterator[dict[str, str]]:
    for alert in PROVIDER_ALERTS:
        yield {"alertname": alert.name, "severity": alert.severity}
    for severity in ("info", "warning", "critical"):
        yield {"alertname": STEP_REACHED, "severity": severity}
    yield {"alertname": NOT_KNOWN, "severity": "warning"}


def _receivers(route: Mapping[str, Any], labels: Mapping[str, str]) -> list[str]:
    """The receivers of an alert, as Alertmanager walks its tree of routes."""
    found: list[str] = []
    for child in route.get("routes") or ():
        if _selects(child, labels):
            inherited = {"receiver": route.get("receiver"), **child}
            found += _receivers(inherited, labels)
            if not child.get("continue"):
                return found
    return found or [str(route.get("receiver"))]


_MATCHER = re.compile(r'\s*"?([^"=!~\s]+)"?\s*(=~|!~|!=|=)\s*"?(.*?)"?\s*', re.DOTALL)


def _selects(route: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    matchers = [_MATCHER.fullmatch(str(text)) for text in route.get("matchers") or ()]
    wanted = [match.groups() for match in matchers if match]
    wanted += [(name, "=", str(value)) for name, value in _mapping(route.get("match")).items()]
    wanted += [(name, "=~", str(text)) for name, text in _mapping(route.get("match_re")).items()]
    return all(_matches(labels.get(name, ""), sign, value) for name, sign, value in wanted)


def _matches(value: str, sign: str, wanted: str) -> bool:
    is_equal = re.fullmatch(wanted, value) is not None if "~" in sign else value == wanted
    return is_equal is not sign.startswith("!")


def _notifies(receiver: Mapping[str, Any]) -> bool:
    return any(name.endswith("_configs") and configs for name, configs in receiver.items())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _yaml(documents: Sequence[Document]) -> str:
    return "---\n".join(map(yaml_text, documents))
