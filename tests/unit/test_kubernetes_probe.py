"""The doctor's checks of an API server and of a journal, passing and failing.

Put here: one server for each problem. Not here: the format of the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from domain.clock import StoppedClock
from ingestion.doctor_lines import DoctorLine
from ingestion.kubernetes.api_server_probe import SILENT_AFTER, probe
from ingestion.kubernetes.journal import segment_key
from ingestion.kubernetes.watched_resources import PATHS
from warehouse.store import FolderStore

CLUSTER_ID = "6f1c1f0a-0b5e-4d7c-9d3a-0c9b6a3e2f11"
NOW = datetime(2026, 10, 1, 10, 20, tzinfo=UTC)
DATE = "Thu, 01 Oct 2026 10:20:00 GMT"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Change = Callable[[httpx.Request], httpx.Response | None]


def fine(request: httpx.Request) -> httpx.Response:
    """An OpenShift cluster without a problem."""
    path = request.url.path
    if path == "/api/v1/namespaces/kube-system":
        return httpx.Response(200, json={"metadata": {"uid": CLUSTER_ID}})
    if path == "/version":
        return httpx.Response(200, json={}, headers={"date": DATE})
    if path == REVIEWS:
        return httpx.Response(201, json={"status": {"allowed": True}})
    items = namespaces("true") if path == PATHS["namespaces"] else []
    return httpx.Response(200, json={"metadata": {"resourceVersion": "7"}, "items": items})


def namespaces(monitored: str | None) -> list[dict[str, Any]]:
    labels = {} if monitored is None else {"openshift.io/cluster-monitoring": monitored}
    return [
        {"metadata": {"name": "openshift-monitoring"}},
        {"metadata": {"name": "nvidia-gpu-operator", "labels": labels}},
    ]


def probed(tmp_path: Path, change: Change = lambda _: None, hours_ago: int = 0) -> list[DoctorLine]:
    spool = FolderStore(tmp_path / "spool")
    if hours_ago >= 0:
        hour = NOW.replace(minute=0) - timedelta(hours=hours_ago)
        spool.create(segment_key(CLUSTER_ID, hour, 1), b"{}\n")
    transport = httpx.MockTransport(lambda request: change(request) or fine(request))
    client = KubernetesClient(ServerAccess("https://api.example:6443"), transport)
    return probe(CLUSTER_ID, client, spool, StoppedClock(NOW))


def wrong(lines: list[DoctorLine]) -> dict[str, DoctorLine]:
    found = {line.check: line for line in lines if not line.is_fine}
    assert all(line.remedy for line in found.values())
    return found


def test_a_cluster_without_a_problem_passes_every_check(tmp_path: Path) -> None:
    lines = probed(tmp_path)
    assert wrong(lines) == {}
    assert {line.check for line in lines} == {
        "API server answers",
        "clocks agree",
        *(f"may read {resource}" for resource in PATHS),
        "nvidia-gpu-operator is monitored",
        "journal is written",
    }


def test_only_the_journal_of_an_unreachable_server_is_checked(tmp_path: Path) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    reached, journal = probed(tmp_path, away)
    assert not reached.is_fine
    assert "no route to host" in reached.seen
    assert journal.is_fine


def test_the_server_of_another_cluster_is_the_only_line(tmp_path: Path) -> None:
    def another(request: httpx.Request) -> httpx.Response | None:
        if request.url.path != "/api/v1/namespaces/kube-system":
            return None
        return httpx.Response(200, json={"metadata": {"uid": "other"}})

    [line] = probed(tmp_path, another)
    assert line.seen == "it is the cluster other"


@pytest.mark.parametrize("resource", ["pods", "gpubudgets"])
def test_a_missing_right_is_named_with_its_verb(tmp_path: Path, resource: str) -> None:
    def may_not_watch(request: httpx.Request) -> httpx.Response | None:
        if request.url.path != REVIEWS or f'"{resource}"'.encode() not in request.content:
            return None
        allowed = b'"watch"' not in request.content
        return httpx.Response(201, json={"status": {"allowed": allowed}})

    found = wrong(probed(tmp_path, may_not_watch))
    assert list(found) == [f"may read {resource}"]
    assert "may not watch" in found[f"may read {resource}"].seen
    assert "ClusterRole" in found[f"may read {resource}"].remedy


def test_an_older_cluster_may_lack_claims_but_not_pods(tmp_path: Path) -> None:
    def lacking(name: str) -> Change:
        body = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such thing"}
        gone = httpx.Response(404, json=body)
        return lambda request: gone if request.url.path == PATHS[name] else None

    older = probed(tmp_path, lacking("resourceclaims"))
    assert wrong(older) == {}
    assert "this cluster does not serve them" in [line.seen for line in older]
    assert list(wrong(probed(tmp_path, lacking("pods")))) == ["may read pods"]


def test_a_wrong_clock_is_a_line(tmp_path: Path) -> None:
    def late(request: httpx.Request) -> httpx.Response | None:
        date = {"date": DATE.replace("10:20:00", "10:20:03")}
        return (
            httpx.Response(200, json={}, headers=date) if request.url.path == "/version" else None
        )

    found = wrong(probed(tmp_path, late))
    assert found["clocks agree"].seen == "the server's clock is +3 s off ours"


def test_an_operator_without_cluster_monitoring_is_a_line(tmp_path: Path) -> None:
    def showing(items: list[dict[str, Any]]) -> Change:
        found = {"metadata": {"resourceVersion": "7"}, "items": items}
        answer = httpx.Response(200, json=found)
        return lambda request: answer if request.url.path == PATHS["namespaces"] else None

    for label in (None, "false"):
        found = wrong(probed(tmp_path, showing(namespaces(label))))
        assert "oc label namespace nvidia-gpu-operator" in (
            found["nvidia-gpu-operator is monitored"].remedy
        )
    # Without OpenShift, that label has no meaning.
    plain = [{"metadata": {"name": "gpu-operator"}}]
    lines = probed(tmp_path, showing(plain))
    assert wrong(lines) == {}
    assert "not OpenShift" in next(x for x in lines if x.check == "GPU operator is monitored").seen
    # Without a namespace of an operator, the line reports that none was checked.
    elsewhere = probed(tmp_path, showing(namespaces("true")[:1]))
    [line] = [line for line in elsewhere if line.check == "GPU operator is monitored"]
    assert line.seen.startswith("no namespace like *gpu-operator* or *amd-gpu* among 1")


def test_an_ended_or_missing_journal_is_a_line(tmp_path: Path) -> None:
    hours = int(SILENT_AFTER.total_seconds()) // 3600
    assert wrong(probed(tmp_path / "fresh", hours_ago=hours - 1)) == {}
    stopped = wrong(probed(tmp_path / "stopped", hours_ago=hours))
    assert "2026-10-01T08:00:00Z" in stopped["journal is written"].seen
    never = wrong(probed(tmp_path / "never", hours_ago=-1))
    assert never["journal is written"].seen.startswith("nothing in ")
