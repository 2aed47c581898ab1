"""Several clusters review the callers of the portal, and each one decides about its own rows.

Put here: the rows and totals that such a caller gets, with API servers in memory.
Not here: a real kube-apiserver (`servers/test_portal_reviews`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from clients.credentials import ServerAccess
from clients.kubernetes import KubernetesClient
from orchestration.cli import portal as command
from portal.reviews import Reviews, ReviewsOfClusters, missing_rights
from tests.asgi import Client
from tests.portal_by_hand import (
    OTHER,
    OWN,
    TWO_USD,
    Portal,
    fleet_rows,
    merged,
    pod_rows,
    portal_at,
    tenant_rows,
)

TOKEN = {"Authorization": "Bearer the-token"}


@dataclass
class ApiServer:
    """The reviews of an API server: known tokens, and the namespaces that their users may read."""

    namespaces: set[str] = field(default_factory=set)  # "" means all namespaces
    knows: bool = True
    status: int = 201
    tokens: list[str] = field(default_factory=list)
    access: list[dict[str, Any]] = field(default_factory=list)  # the reviews of rights
    user: dict[str, Any] = field(default_factory=lambda: {"username": "ann", "groups": ["team"]})

    def respond(self, request: httpx.Request) -> httpx.Response:
        document = json.loads(request.content)
        spec = document["spec"]
        if self.status != 201:
            return httpx.Response(self.status, json={"kind": "Status", "message": "no"})
        if document["kind"] == "TokenReview":
            self.tokens.append(spec["token"])
            status: dict[str, Any] = {"authenticated": self.knows, "user": self.user}
        else:
            self.access.append(spec)
            wanted = spec["resourceAttributes"].get("namespace", "")
            status = {"allowed": "" in self.namespaces or wanted in self.namespaces}
        return httpx.Response(201, json={"status": status})

    def client(self) -> KubernetesClient:
        return KubernetesClient(ServerAccess("https://api.test"), httpx.MockTransport(self.respond))


def two_clusters() -> dict[str, list[Any]]:
    """The pod `a` of `vision` runs in cluster c1, its pod `b` in c2."""
    elsewhere = {
        name: [row | {"cluster_id": "c2"} if "cluster_id" in row else row for row in rows]
        for name, rows in pod_rows(OWN, "b").items()
    }
    west = {"dim_clusters": [{"cluster_id": "c2", "cluster_name": "west"}]}
    return merged(
        fleet_rows(),
        west,
        tenant_rows(OWN, TWO_USD * 6),
        tenant_rows(OTHER, TWO_USD * 3),
        pod_rows(OWN, "a"),
        pod_rows(OTHER, "n"),
        elsewhere,
    )


def portal_reviewed_by(folder: Path, servers: Mapping[str, ApiServer]) -> Portal:
    reviews = {cluster_id: Reviews(server.client()) for cluster_id, server in servers.items()}
    return portal_at(folder, two_clusters(), ReviewsOfClusters(reviews))


def summary(portal: Portal) -> dict[str, Any]:
    found = portal.client.get(f"/api/v1/tenants/{OWN}/summary", headers=TOKEN)
    assert found.status_code == 200, found.text
    [row] = found.json()["rows"]
    assert found.json()["left_out_clusters"] == row["left_out_clusters"]
    return dict(row)


def test_totals_are_of_the_allowing_clusters_and_name_the_others(
    tmp_path: Path,
) -> None:
    """One pod × 3 hours × 2 USD in each cluster; the third hour of c1 is incomplete."""
    both = portal_reviewed_by(tmp_path / "both", {"c1": ApiServer({OWN}), "c2": ApiServer({OWN})})
    whole = summary(both)
    assert (whole["cost"], whole["burn_rate_per_hour"], whole["left_out_clusters"]) == (
        "12.00",
        "4.00",
        [],
    )
    assert whole["budget"] == "120.00"
    portal = portal_reviewed_by(tmp_path / "one", {"c1": ApiServer({OWN}), "c2": ApiServer()})
    row = summary(portal)
    assert (row["cost"], row["settled"], row["in_flight"]) == ("6.00", "4.00", "2.00")
    assert (row["burn_rate_per_hour"], row["last_day_per_hour"]) == ("2.00", "0.17")
    assert (row["gpu_hours"], row["left_out_clusters"]) == ("3.00", ["west"])
    assert (row["forecast"], row["budget"], row["budget_used_pct"]) == ("", "", "")
    text = portal.client.get(f"/tenants/{OWN}", headers=TOKEN).text
    assert "west" in text
    assert "train-b" not in text
    assert "INV-000001" not in text  # an invoice is of all clusters
    pods = portal.client.get(f"/api/v1/tenants/{OWN}/pods", headers=TOKEN).json()["rows"]
    assert [pod["pod_uid"] for pod in pods] == ["a"]
    path = f"/tenants/{OWN}/documents/INV-000001/INV-000001.pdf"
    assert portal.client.get(path, headers=TOKEN).status_code == 404
    assert portal.client.get(f"/tenants/{OWN}/charts/cost.svg", headers=TOKEN).status_code == 200


def test_a_review_has_the_user_with_uid_groups_and_extra(tmp_path: Path) -> None:
    """An authorizer may decide by any of them; they are those of the review of the token."""
    user = {
        "username": "ann",
        "uid": "b1b6",
        "groups": ["team", "system:authenticated"],
        "extra": {"scopes.authorization.openshift.io": ["user:full"]},
    }
    server = ApiServer({OWN}, user=user)
    portal = portal_reviewed_by(tmp_path, {"c1": server})
    assert portal.client.get(f"/tenants/{OWN}", headers=TOKEN).status_code == 200
    assert server.tokens == ["the-token"]
    who = {"user": "ann"} | {name: user[name] for name in ("uid", "groups", "extra")}
    assert [one.items() >= who.items() for one in server.access] == [True] * len(server.access)
    attributes = [one["resourceAttributes"] for one in server.access]
    assert {
        "verb": "get",
        "group": "gpu-ledger.io",
        "resource": "consumption",
        "namespace": OWN,
    } in attributes


def test_the_command_reviews_callers_on_the_listed_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application that `gpu-ledger portal` would serve, with the servers of two kubeconfigs."""
    servers = {"east.kubeconfig": ApiServer({OWN}), "west.kubeconfig": ApiServer()}
    made = portal_at(tmp_path, two_clusters())
    made.home.path.joinpath("config.toml").write_text(
        "[portal.review_clusters]\n"
        f'c1 = "{tmp_path}/east.kubeconfig"\nc2 = "{tmp_path}/west.kubeconfig"\n'
    )
    served: list[Any] = []
    monkeypatch.setattr(command, "find_cluster_access", lambda path: path)
    monkeypatch.setattr(command, "KubernetesClient", lambda path: servers[path.name].client())
    monkeypatch.setattr(command.uvicorn.Server, "run", lambda self: served.append(self.config.app))
    arguments = ["--auth", "kubernetes", "--name", "fake", "--home", str(made.home.path)]
    result = CliRunner().invoke(command.portal, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    client = Client(served[0])
    found = client.get(f"/api/v1/tenants/{OWN}/summary", headers=TOKEN).json()
    assert (found["rows"][0]["cost"], found["left_out_clusters"]) == ("6.00", ["west"])
    assert [server.tokens for server in servers.values()] == [["the-token"]] * 2
    assert client.get(f"/tenants/{OTHER}", headers=TOKEN).status_code == 404


def test_responses_of_two_callers_have_two_etags(tmp_path: Path) -> None:
    servers = {"c1": ApiServer({OWN}), "c2": ApiServer({OWN})}
    path = f"/api/v1/tenants/{OWN}/summary"
    whole = portal_reviewed_by(tmp_path / "a", servers).client.get(path, headers=TOKEN)
    servers["c2"].namespaces.clear()
    part = portal_reviewed_by(tmp_path / "b", servers).client.get(path, headers=TOKEN)
    assert whole.headers["etag"] != part.headers["etag"]


@pytest.mark.parametrize(
    ("servers", "status"),
    [
        ({"c1": ApiServer(), "c2": ApiServer()}, 404),
        ({"c1": ApiServer({OTHER}), "c2": ApiServer(knows=False)}, 404),
        ({"c1": ApiServer(knows=False), "c2": ApiServer(knows=False)}, 401),
        ({"c1": ApiServer({OWN}), "c2": ApiServer({OWN}, status=500)}, 503),
        ({"c1": ApiServer({OWN}), "c2": ApiServer({OWN}, knows=False)}, 200),
    ],
)
def test_a_failing_or_refusing_server_hides_the_rows_of_its_cluster(
    tmp_path: Path, servers: dict[str, ApiServer], status: int
) -> None:
    portal = portal_reviewed_by(tmp_path, servers)
    found = portal.client.get(f"/tenants/{OWN}", headers=TOKEN)
    assert found.status_code == status


def test_the_provider_needs_every_cluster(tmp_path: Path) -> None:
    for servers, status in (
        ({"c1": ApiServer({""}), "c2": ApiServer({""})}, 200),
        ({"c1": ApiServer({""}), "c2": ApiServer({OWN})}, 404),
        ({"c1": ApiServer({""}), "c2": ApiServer({""}, knows=False)}, 404),
    ):
        portal = portal_reviewed_by(tmp_path / str(status), servers)
        assert portal.client.get("/provider", headers=TOKEN).status_code == status
    front = portal.client.get("/", headers=TOKEN)
    assert (front.status_code, OTHER in front.text) == (200, True)


def test_the_rights_that_the_portals_account_lacks_are_named() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        attributes = json.loads(request.content)["spec"]["resourceAttributes"]
        allowed = attributes["resource"] == "tokenreviews" and attributes["verb"] == "create"
        return httpx.Response(201, json={"status": {"allowed": allowed}})

    client = KubernetesClient(ServerAccess("https://api.test"), httpx.MockTransport(respond))
    assert missing_rights(client) == ["create subjectaccessreviews.authorization.k8s.io"]
