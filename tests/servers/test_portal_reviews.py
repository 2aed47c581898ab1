"""The portal's reviews on a real kube-apiserver, with the ClusterRoles of deploy/portal.

Put here: authentication, rights to view, aggregation, revocation.
Not here: pages (`unit/test_portal_pages`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.kubeconfig import read_kubeconfig
from clients.kubernetes import KubernetesClient
from portal.callers import ReviewFailed
from portal.reviews import REMEMBERED_SECONDS, Reviews, ReviewsOfClusters, missing_rights
from tests.how_to import of
from tests.portal_by_hand import OTHER, OWN, portal_at
from tests.servers.control_plane import ControlPlane, control_plane, controller_manager, token_of
from tests.servers.process import wait_for

pytestmark = pytest.mark.servers

MANIFESTS = Path(__file__).parents[2] / "deploy" / "portal"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "RoleBinding": f"{RBAC}/namespaces/{{}}/rolebindings",
}
USER = token_of("tenant-user")


@dataclass
class Cluster:
    plane: ControlPlane
    admin: httpx.Client

    def apply(self, document: dict[str, Any]) -> None:
        path = PATHS[document["kind"]].format(document["metadata"].get("namespace", ""))
        made = self.admin.post(path, json=document)
        assert made.is_success, made.text

    def bind(self, name: str, role: str, namespace: str = "", kind: str = "Group") -> str:
        """Bind a ClusterRole to the user's group; returns the path of the binding."""
        bound = "RoleBinding" if namespace else "ClusterRoleBinding"
        subject = {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": "team-vision"}
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        self.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": bound,
                "metadata": metadata,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role,
                },
                "subjects": [subject],
            }
        )
        return f"{PATHS[bound].format(namespace)}/{name}"

    def client(self, user: str) -> KubernetesClient:
        return KubernetesClient(read_kubeconfig(self.plane.kubeconfig(user)))

    def reviews(self, user: str = "portal", seconds: Any = None) -> Reviews:
        return Reviews(self.client(user), **({"seconds": seconds} if seconds else {}))

    def account_token(self, *audiences: str) -> str:
        spec = {"audiences": list(audiences)} if audiences else {}
        made = self.admin.post(
            f"/api/v1/namespaces/{OWN}/serviceaccounts/robot/token",
            json={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": spec,
            },
        )
        assert made.is_success, made.text
        return str(made.json()["status"]["token"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("reviews")
    with (
        control_plane(folder / "plane") as plane,
        controller_manager(plane, folder / "controllers"),
        plane.client() as admin,
    ):
        made = Cluster(plane, admin)
        for namespace in (OWN, OTHER):
            made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-ledger"}}
        made.apply(own)
        for name in ("rbac.yaml",):
            text = (MANIFESTS / name).read_text(encoding="utf-8")
            for document in yaml.safe_load_all(text):
                if document["kind"] == "ClusterRoleBinding":  # the account is a user here
                    document["subjects"] = [
                        {
                            "kind": "User",
                            "apiGroup": "rbac.authorization.k8s.io",
                            "name": "portal",
                        }
                    ]
                made.apply(document)
        made.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "robot", "namespace": OWN},
            }
        )
        yield made


def sees(cluster: Cluster, token: str, tenant: str) -> bool:
    caller = cluster.reviews().caller(token)
    return caller is not None and caller.may_see_tenant(tenant)


def test_a_viewer_of_a_project_sees_its_use_until_the_binding_is_deleted(
    cluster: Cluster,
) -> None:
    """`view` receives the rule by aggregation, a moment after the ClusterRole was created."""
    assert not sees(cluster, USER, OWN)
    binding = cluster.bind("viewers", "view", OWN)
    wait_for(lambda: sees(cluster, USER, OWN), "the right by aggregation")
    assert not sees(cluster, USER, OTHER)
    caller = cluster.reviews().caller(USER)
    assert caller is not None
    assert (caller.is_provider(), caller.is_programme()) == (False, False)
    assert caller.tenants_among([OTHER, OWN]) == [OWN]

    clock = [0.0]
    reviews = cluster.reviews(seconds=lambda: clock[0])
    remembered = reviews.caller(USER)
    assert remembered is not None
    assert remembered.may_see_tenant(OWN)
    assert cluster.admin.delete(binding).is_success
    wait_for(lambda: not sees(cluster, USER, OWN), "the right to end")
    clock[0] = REMEMBERED_SECONDS - 1
    assert reviews.caller(USER) is remembered
    clock[0] = REMEMBERED_SECONDS
    again = reviews.caller(USER)
    assert again is not None
    assert not again.may_see_tenant(OWN)


def test_a_review_of_the_own_rights_as_in_the_how_to_guide(cluster: Cluster) -> None:
    """`kubectl auth can-i` cannot find a resource that no server has; the review can."""
    [text] = of("how-to/run-the-portal.md", "yaml")
    review = yaml.safe_load(text)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    user = cluster.client("tenant-user")
    assert user.create(path, review)["status"]["allowed"] is False
    binding = cluster.bind("readers", "view", OWN)
    wait_for(lambda: user.create(path, review)["status"]["allowed"], "the right by aggregation")
    assert cluster.admin.delete(binding).is_success


def test_roles_of_the_whole_cluster(cluster: Cluster) -> None:
    def rights() -> tuple[bool, bool, bool]:
        caller = cluster.reviews().caller(USER)
        assert caller is not None
        return caller.is_provider(), caller.is_programme(), caller.may_see_tenant(OTHER)

    for role, expected in (
        ("gpu-ledger-programme", (False, True, False)),
        ("gpu-ledger-provider", (True, True, True)),
    ):
        binding = cluster.bind("everywhere", role)
        wait_for(lambda expected=expected: rights() == expected, f"the rights of {role}")
        assert cluster.admin.delete(binding).is_success
        wait_for(lambda: rights() == (False, False, False), "no right")


def test_a_service_account_needs_a_token_for_the_portal(cluster: Cluster) -> None:
    reviews = cluster.reviews()
    assert reviews.caller(cluster.account_token()) is None
    assert reviews.caller(cluster.account_token("another")) is None
    caller = reviews.caller(cluster.account_token("gpu-ledger"))
    assert caller is not None
    assert caller.name == f"user 'system:serviceaccount:{OWN}:robot'"
    assert reviews.caller("no-such-token") is None


def test_nothing_is_shown_without_a_review(cluster: Cluster) -> None:
    with pytest.raises(ReviewFailed):
        cluster.reviews("nobody").caller(USER)


def test_two_clusters_decide_each_about_its_own_rows(cluster: Cluster, tmp_path: Path) -> None:
    """The second server knows the token, but its user may not view the project there."""
    binding = cluster.bind("viewers-of-one", "view", OWN)
    with control_plane(tmp_path / "plane") as plane, plane.client() as admin:
        other = Cluster(plane, admin)
        account = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "portal"}
        assert missing_rights(other.client("portal")) == [
            "create tokenreviews.authentication.k8s.io",
            "create subjectaccessreviews.authorization.k8s.io",
        ]
        other.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "reviews"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "system:auth-delegator",
                },
                "subjects": [account],
            }
        )
        wait_for(lambda: not missing_rights(other.client("portal")), "the rights to review")
        wait_for(lambda: sees(cluster, USER, OWN), "the right by aggregation")
        reviews = ReviewsOfClusters({"c1": cluster.reviews(), "c2": other.reviews()})
        caller = reviews.caller(USER)
        assert caller is not None
        assert caller.clusters_of(OWN) == {"c1"}
        assert caller.clusters_of(OTHER) == frozenset()
        assert not caller.is_provider()
        assert reviews.caller("no-such-token") is None
    assert cluster.admin.delete(binding).is_success


def test_pages_follow_the_reviews(cluster: Cluster, tmp_path: Path) -> None:
    binding = cluster.bind("page-viewers", "view", OWN)
    wait_for(lambda: sees(cluster, USER, OWN), "the right")
    portal = portal_at(tmp_path, authority=cluster.reviews())
    headers = {"Authorization": f"Bearer {USER}"}
    own = portal.client.get(f"/tenants/{OWN}", headers=headers)
    assert (own.status_code, "12.00 USD" in own.text) == (200, True)
    foreign = portal.client.get(f"/tenants/{OTHER}", headers=headers)
    absent = portal.client.get("/tenants/absent", headers=headers)
    assert (foreign.status_code, foreign.content) == (404, absent.content)
    assert portal.client.get(f"/tenants/{OWN}").status_code == 401
    front = portal.client.get("/", headers=headers)
    assert front.headers["location"] == f"/tenants/{OWN}"
    assert cluster.admin.delete(binding).is_success
    refused = portal_at(tmp_path / "refused", authority=cluster.reviews("nobody"))
    found = refused.client.get(f"/tenants/{OWN}", headers=headers)
    assert (found.status_code, "SERVER-002" in found.text) == (503, True)
