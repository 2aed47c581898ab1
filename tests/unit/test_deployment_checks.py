"""The doctor's checks of a deployment, passing and failing, and the objects that they print.

Put here: one API server, bucket or Alertmanager for each problem.
Not here: a real kube-apiserver that takes the patch (`tests/servers/test_doctor_in_cluster`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from clients.alertmanager import Alertmanager
from clients.credentials import ServerAccess
from clients.kubeconfig import find_cluster_access
from clients.kubernetes import KubernetesClient
from ingestion.acm import HUB_NAMESPACE, allowlist
from ingestion.doctor_lines import DoctorLine
from ingestion.settings import ClusterSettings, Connection, Settings, ThanosSettings
from orchestration.deployment_checks import (
    COMPONENTS,
    allowlist_lines,
    read_bindings,
    right_lines,
    route_line,
    storage_lines,
    token_lines,
)
from warehouse.home import Home

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
Attributes = dict[str, Any]


def server(
    *,
    may: Callable[[str, Attributes], bool] = lambda user, asked: True,
    objects: Iterable[str] = (),
    documents: dict[str, Any] | None = None,
    status: int = 201,
) -> KubernetesClient:
    """An API server that has these objects, and allows what `may` says."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == REVIEWS:
            if status != 201:
                return httpx.Response(status, json={"kind": "Status", "message": "forbidden"})
            spec = msgspec.json.decode(request.content)["spec"]
            allowed = may(spec["user"], spec["resourceAttributes"])
            return httpx.Response(201, json={"status": {"allowed": allowed}})
        if request.url.path in (documents or {}):
            return httpx.Response(200, json=(documents or {})[request.url.path])
        found = request.url.path.removeprefix("/api/v1/namespaces/") in set(objects)
        body = {"kind": "Status"} if not found else {"metadata": {}}
        return httpx.Response(200 if found else 404, json=body)

    return KubernetesClient(ServerAccess("http://api"), httpx.MockTransport(respond))


def by_check(lines: Iterable[DoctorLine]) -> dict[str, DoctorLine]:
    return {line.check: line for line in lines}


ALL = ("gpu-ledger", "gpu-ledger-collector", "gpu-ledger-idle-pruner", "gpu-ledger-fake-gpus")


def test_every_component_has_an_account_and_rights() -> None:
    bound = {name: read_bindings(name) for name in COMPONENTS}
    assert {name: found[0].account for name, found in bound.items()} == {
        "ledger": "gpu-ledger:ledger",
        "portal": "gpu-ledger:portal",
        "collector": "gpu-ledger-collector:gpu-ledger-collector",
        "idle-pruner": "gpu-ledger-idle-pruner:idle-pruner",
        "fake-gpus": "gpu-ledger-fake-gpus:fake-gpus",
    }
    assert [one.namespace for one in bound["fake-gpus"]] == ["", "gpu-ledger-fake-gpus"]


def test_components_that_are_not_installed_are_no_problem() -> None:
    lines = by_check(right_lines(server(objects=["gpu-ledger"])))
    assert all(line.is_fine for line in lines.values())
    assert "not installed" in lines["rights of idle-pruner"].seen
    assert "every right" in lines["rights of portal"].seen


def test_a_missing_right_is_named_with_the_role_and_the_binding() -> None:
    def may(user: str, asked: Attributes) -> bool:
        is_collector = user == "system:serviceaccount:gpu-ledger-collector:gpu-ledger-collector"
        return not (is_collector and asked["resource"] == "nodes" and asked["verb"] == "watch")

    lines = by_check(right_lines(server(may=may, objects=ALL)))
    assert [name for name, line in lines.items() if not line.is_fine] == ["rights of collector"]
    line = lines["rights of collector"]
    assert line.seen == "gpu-ledger-collector:gpu-ledger-collector may not watch nodes"
    role, binding = yaml.safe_load_all(line.patch)
    assert (role["kind"], binding["kind"]) == ("ClusterRole", "ClusterRoleBinding")
    assert role["metadata"]["name"] == binding["roleRef"]["name"]


def test_a_right_in_one_namespace_is_reviewed_and_patched_there() -> None:
    def may(user: str, asked: Attributes) -> bool:
        return asked.get("namespace") != "gpu-ledger-fake-gpus"

    line = by_check(right_lines(server(may=may, objects=ALL)))["rights of fake-gpus"]
    assert not line.is_fine
    documents = list(yaml.safe_load_all(line.patch))
    assert [one["kind"] for one in documents] == ["Role", "RoleBinding"]
    assert {one["metadata"]["namespace"] for one in documents} == {"gpu-ledger-fake-gpus"}


def test_without_the_right_to_review_the_patch_grants_it() -> None:
    line = by_check(right_lines(server(objects=ALL, status=403)))["rights of portal"]
    assert not line.is_fine
    assert "gpu-ledger-doctor" in line.patch


def test_the_allowlist_of_a_hub_has_every_queried_metric() -> None:
    path = f"/api/v1/namespaces/{HUB_NAMESPACE}/configmaps/observability-metrics-custom-allowlist"
    whole = yaml.safe_load(allowlist())
    assert list(allowlist_lines(server(), ())) == []  # no hub
    hub = [HUB_NAMESPACE]
    [fine] = allowlist_lines(server(objects=hub, documents={path: whole}), ())
    assert fine.is_fine
    listed = whole["data"]["metrics_list.yaml"].replace("- kube_pod_status_phase\n", "")
    lacking = {**whole, "data": {"metrics_list.yaml": listed}}
    [line] = allowlist_lines(server(objects=hub, documents={path: lacking}), ())
    assert line.seen == "1 metrics are not forwarded, such as kube_pod_status_phase"
    assert line.patch == allowlist()
    [absent] = allowlist_lines(server(objects=hub), ())
    assert not absent.is_fine


def test_a_refused_token_at_openshifts_thanos_gets_its_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "https://thanos-querier.openshift-monitoring.svc:9091"
    thanos = ThanosSettings("main", Connection(url))
    settings = Settings({"c1": ClusterSettings("c1", thanos)})
    transport = httpx.MockTransport(lambda request: httpx.Response(403, text="Forbidden"))
    monkeypatch.setattr("clients.prometheus.make_transport", lambda *_, **__: transport)
    [line] = token_lines(settings)
    assert (line.check, line.is_fine, line.seen) == ("main accepts the token", False, "HTTP 403")
    binding = yaml.safe_load(line.patch)
    assert binding["roleRef"]["name"] == "cluster-monitoring-view"


def test_a_home_with_room_passes_and_a_full_one_gets_a_larger_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home")
    assert all(line.is_fine for line in storage_lines(home))
    usage = shutil._ntuple_diskusage(100 << 30, 100 << 30, 1 << 20)  # type: ignore[attr-defined]
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    line = by_check(storage_lines(home))["home has room"]
    assert not line.is_fine
    assert yaml.safe_load(line.patch)["spec"]["resources"]["requests"]["storage"] == "201Gi"


def test_a_bucket_has_to_refuse_a_second_create(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.create(tmp_path / "home", '[storage]\nlanding = "memory://landing"\n')
    line = by_check(storage_lines(home))["landing refuses a second create"]
    assert line.is_fine, line

    class Overwrites:
        location = "s3://old"
        body = b""

        def create(self, key: str, body: bytes) -> bool:
            self.body = body
            return False

        def read(self, key: str) -> bytes:
            return self.body

    monkeypatch.setattr(Home, "landing_store", lambda self: Overwrites())
    line = by_check(storage_lines(home))["landing refuses a second create"]
    assert not line.is_fine
    assert line.seen == "s3://old replaced the object"


OPENSHIFT = """
route:
  receiver: Default
  routes:
    - matchers: ["alertname = Watchdog"]
      receiver: Watchdog
    - matchers: ["severity = critical"]
      receiver: Critical
receivers:
  - {name: Default}
  - {name: Watchdog}
  - {name: Critical}
"""
ROUTED = """
route:
  receiver: Default
  routes:
    - match: {severity: critical}
      receiver: Pager
      continue: true
    - matchers: ['alertname=~"Gpu(Ledger|Budget).+"', 'severity!="none"']
      routes:
        - match_re: {severity: "info|warning"}
          receiver: Mail
receivers:
  - {name: Default}
  - name: Mail
    email_configs: [{to: billing@example.com}]
  - name: Pager
    pagerduty_configs: [{service_key: <secret>}]
"""


@pytest.mark.parametrize(
    ("config", "silent"),
    [
        (OPENSHIFT, "alerts reach a receiver without integration"),
        (ROUTED, ""),
        # Only critical alerts are left to the receiver of the parent route.
        (ROUTED.replace("receiver: Pager\n      continue: true", "receiver: Default"), "critical"),
        ("", "without integration"),
    ],
)
def test_every_alert_has_to_reach_a_receiver_with_an_integration(config: str, silent: str) -> None:
    status = {"config": {"original": config}, "versionInfo": {}}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=status))
    line = route_line(Alertmanager("http://alertmanager", transport=transport))
    assert line.is_fine is not bool(silent), line
    assert silent in line.seen


def test_a_pod_uses_the_token_that_the_manifests_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr("clients.kubeconfig.OWN_TOKEN", tmp_path)
    access = find_cluster_access(None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert (access.url, access.token_file) == ("https://10.0.0.1:443", tmp_path / "token")
