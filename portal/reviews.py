"""Callers that a Kubernetes API server authenticates and authorises.

Put here: token reviews, access reviews, and how long they are remembered.
Not here: the client (`clients.kubernetes`), or the ClusterRoles (`deploy/portal/`).

A bearer token is reviewed by the API server, and then the rights of its user:

    tenant       get consumption.gpu-ledger.io in the tenant's namespace
    provider     get consumption.gpu-ledger.io in all namespaces
    programme    get nodehours.gpu-ledger.io in all namespaces

RBAC authorises these resources although nothing serves them. A token of a person is reviewed
without an audience: an audience of ours would refuse it. A token of a ServiceAccount has to be
made for the audience of the portal.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clients.kubernetes import KubernetesClient
from domain.errors import TemporarilyUnavailable
from portal.callers import ReviewFailed

GROUP, CONSUMPTION, NODE_HOURS = "gpu-ledger.io", "consumption", "nodehours"
AUDIENCE = "gpu-ledger"
REMEMBERED_SECONDS = 60.0
"""The API server caches a token for up to 10 seconds more."""
CALLERS_REMEMBERED = 10_000
REVIEWS_AT_ONCE = 20
SERVICE_ACCOUNT = "system:serviceaccount:"

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Reviews:
    """The callers that one API server knows."""

    def __init__(
        self,
        client: KubernetesClient,
        audience: str = AUDIENCE,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._audience = audience
        self._seconds = seconds
        self._salt = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._callers: OrderedDict[bytes, tuple[float, ReviewedCaller | None]] = OrderedDict()

    def caller(self, token: str) -> ReviewedCaller | None:
        key = hashlib.sha256(self._salt + token.encode()).digest()
        now = self._seconds()
        with self._lock:
            known = self._callers.get(key)
        if known and now < known[0]:
            return known[1]
        caller = self._reviewed(token)
        with self._lock:
            self._callers[key] = (now + REMEMBERED_SECONDS, caller)
            self._callers.move_to_end(key)
            while len(self._callers) > CALLERS_REMEMBERED:
                self._callers.popitem(last=False)
        return caller

    def caller_of_session(self, subject: str) -> None:
        return None

    def session_subject(self, token: str) -> str:
        return ""

    def _reviewed(self, token: str) -> ReviewedCaller | None:
        wanted = [self._audience] if _is_of_service_account(token) else []
        spec: dict[str, Any] = {"token": token}
        if wanted:
            spec["audiences"] = wanted
        status = self.review(_TOKENS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        name = str(user.get("username", ""))
        given = status.get("audiences")
        is_account = name.startswith(SERVICE_ACCOUNT)
        if not name or (
            is_account and not (wanted and isinstance(given, list) and wanted[0] in given)
        ):
            return None
        return ReviewedCaller(self, user)

    def review(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The status of a review; raises ReviewFailed without one."""
        document = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        try:
            status = self._client.create(path, document).get("status")
        except TemporarilyUnavailable as cause:
            raise ReviewFailed(self._client.url, f"{cause.code} {cause.seen}") from None
        if not isinstance(status, dict):
            raise ReviewFailed(self._client.url, f"a {kind} without a status")
        return status


@dataclass
class ReviewedCaller:
    """One authenticated user. Its rights are remembered as long as its token."""

    reviews: Reviews
    user: Mapping[str, Any]
    _rights: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"user {str(self.user['username'])[:200]!a}"

    def may_see_tenant(self, tenant: str) -> bool:
        return bool(tenant) and self._may(CONSUMPTION, tenant)

    def clusters_of(self, tenant: str) -> frozenset[str] | None:
        return None if self.may_see_tenant(tenant) else frozenset()

    def is_provider(self) -> bool:
        return self._may(CONSUMPTION, "")

    def is_programme(self) -> bool:
        return self._may(NODE_HOURS, "")

    def tenants_among(self, tenants: Sequence[str]) -> list[str]:
        if self.is_provider():
            return list(tenants)
        with ThreadPoolExecutor(REVIEWS_AT_ONCE) as pool:
            seen = pool.map(self.may_see_tenant, tenants)
            return [tenant for tenant, may in zip(tenants, seen, strict=True) if may]

    def _may(self, resource: str, namespace: str) -> bool:
        key = (resource, namespace)
        if key not in self._rights:
            self._rights[key] = self._reviewed(resource, namespace)
        return self._rights[key]

    def _reviewed(self, resource: str, namespace: str) -> bool:
        attributes = {"verb": "get", "group": GROUP, "resource": resource}
        if namespace:
            attributes["namespace"] = namespace
        spec = {
            "user": self.user["username"],
            "uid": self.user.get("uid", ""),
            "groups": self.user.get("groups", []),
            "extra": self.user.get("extra", {}),
            "resourceAttributes": attributes,
        }
        status = self.reviews.review(
            _ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return status.get("allowed") is True and status.get("denied") is not True


class ReviewsOfClusters:
    """The callers of several API servers; each decides about the rows of its own cluster.

    Every one of them reviews every token, so that a server that fails hides no rows silently:
    the request fails.
    """

    def __init__(self, reviews: Mapping[str, Reviews]) -> None:
        self._reviews = dict(sorted(reviews.items()))

    def caller(self, token: str) -> CallerOfClusters | None:
        with ThreadPoolExecutor(REVIEWS_AT_ONCE) as pool:
            found = list(pool.map(lambda one: one.caller(token), self._reviews.values()))
        known = {
            cluster_id: caller
            for cluster_id, caller in zip(self._reviews, found, strict=True)
            if caller is not None
        }
        return CallerOfClusters(known, len(self._reviews)) if known else None

    def caller_of_session(self, subject: str) -> None:
        return None

    def session_subject(self, token: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class CallerOfClusters:
    """One token, as the API servers of some clusters know it."""

    callers: Mapping[str, ReviewedCaller]
    reviewing_count: int  # clusters that reviewed the token

    @property
    def name(self) -> str:
        """People of one name in two clusters are not one caller."""
        cluster_id, caller = next(iter(self.callers.items()))
        return f"{caller.name} of {cluster_id}"

    def clusters_of(self, tenant: str) -> frozenset[str] | None:
        if self.is_provider():
            return None
        with ThreadPoolExecutor(REVIEWS_AT_ONCE) as pool:
            may_see = pool.map(lambda one: one.may_see_tenant(tenant), self.callers.values())
            return frozenset(
                cluster_id for cluster_id, may in zip(self.callers, may_see, strict=True) if may
            )

    def is_provider(self) -> bool:
        return self._may_everywhere(ReviewedCaller.is_provider)

    def is_programme(self) -> bool:
        return self._may_everywhere(ReviewedCaller.is_programme)

    def tenants_among(self, tenants: Sequence[str]) -> list[str]:
        if self.is_provider():
            return list(tenants)
        visible = {t for caller in self.callers.values() for t in caller.tenants_among(tenants)}
        return [tenant for tenant in tenants if tenant in visible]

    def _may_everywhere(self, right: Callable[[ReviewedCaller], bool]) -> bool:
        """Pages of the fleet add up all clusters, so every one of them has to allow it."""
        return len(self.callers) == self.reviewing_count and all(map(right, self.callers.values()))


def missing_rights(client: KubernetesClient) -> list[str]:
    """The rights that the portal's account lacks at an API server, by SelfSubjectAccessReviews."""
    needed = (
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
    return [
        f"create {resource}.{group}"
        for group, resource in needed
        if not client.is_allowed("create", group, resource)
    ]


def _is_of_service_account(token: str) -> bool:
    """Whether a token says that it is a ServiceAccount's. Nothing else is believed of it."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(payload)
    except ValueError:
        return False
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return isinstance(subject, str) and subject.startswith(SERVICE_ACCOUNT)
