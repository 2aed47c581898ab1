"""Asking a Kubernetes API server: pages of lists, streams of watches, access reviews.

Put here: requests, and their limits.
Not here: connections (`clients.wire`), tokens and certificates (`credentials`), reading bytes
(`answers`), what the answers mean (`state`), or when to ask (`collector`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec

from clients.credentials import TokenWithoutTls, read_token, tls_context
from clients.kubernetes_errors import NotKubernetes, ServerRefused, ServerUnreachable
from clients.redaction import Secret, secret_of
from clients.wire import transport_to
from ingestion.json_text import NOT_JSON, unique_json
from ingestion.kubernetes.answers import Answer
from ingestion.kubernetes.documents import Page, page_of, version_of

# Pods of a page: the API server's own default for chunked lists of kubectl.
PAGE_LIMIT = 500
# A million objects in one list are no cluster; a server that pages for ever must be noticed.
PAGES_LIMIT = 2_000
# How long a server may keep a watch open; it sends a bookmark about once a minute.
WATCH_SECONDS = 1_800
# Two bookmarks missing: the connection is dead, whatever TCP says.
SILENCE_SECONDS = 150.0
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
EVENT_KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
# Requests that are remembered; a dozen are asked again and again.
REQUESTS_LIMIT = 100

# Where each resource lives. resource.k8s.io/v1 is there since Kubernetes 1.34.
PATHS: Mapping[str, str] = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "resourcequotas": "/api/v1/resourcequotas",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}

# Kinds that own pods, or own their owners, by API group. The version is the one that the reference
# names. The workload of a pod is the last owner of its chain; a kind that is not here ends it.
OWNER_PLURALS: Mapping[tuple[str, str], str] = {
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps", "DaemonSet"): "daemonsets",
    ("batch", "Job"): "jobs",
    ("batch", "CronJob"): "cronjobs",
    ("argoproj.io", "Workflow"): "workflows",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("kubeflow.org", "MPIJob"): "mpijobs",
    ("kubeflow.org", "Notebook"): "notebooks",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs",
    ("kubeflow.org", "TFJob"): "tfjobs",
    ("kubeflow.org", "Workspace"): "workspaces",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets",
    ("ray.io", "RayCluster"): "rayclusters",
    ("ray.io", "RayJob"): "rayjobs",
    ("ray.io", "RayService"): "rayservices",
    ("serving.knative.dev", "Configuration"): "configurations",
    ("serving.knative.dev", "Revision"): "revisions",
    ("serving.knative.dev", "Service"): "services",
    ("serving.kserve.io", "InferenceService"): "inferenceservices",
    ("serving.kserve.io", "LLMInferenceService"): "llminferenceservices",
    ("sparkoperator.k8s.io", "SparkApplication"): "sparkapplications",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs",
    ("workload.codeflare.dev", "AppWrapper"): "appwrappers",
}

# Users write owner references; only what can be a version and a name becomes part of a path.
_VERSION = re.compile(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


def owner_path(api_version: str, kind: str, namespace: str, name: str) -> str:
    """Where an owner of a known kind lives; "" for another kind, or where no object can be."""
    group, _, version = api_version.partition("/")
    plural = OWNER_PLURALS.get((group, kind), "")
    is_path = _VERSION.fullmatch(version) and _NAME.fullmatch(namespace) and _NAME.fullmatch(name)
    if not plural or not is_path:
        return ""
    return f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}"


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """How one API server is reached."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None
    proxy: str = ""  # else HTTPS_PROXY and NO_PROXY are used


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK."""

    kind: str
    document: Mapping[str, Any]
    version: int
    byte_count: int = 0


class ApiClient:
    """One API server. `transport` replaces the network in tests."""

    def __init__(
        self,
        settings: ApiSettings,
        transport: httpx.BaseTransport | None = None,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        url = settings.url.rstrip("/")
        if settings.token_file is not None and not url.startswith("https://"):
            raise TokenWithoutTls(url)
        self.url = url
        self._settings = settings
        self._silence_seconds = silence_seconds
        self._watch_seconds = watch_seconds
        tls = tls_context(
            settings.ca_file, settings.client_certificate_file, settings.client_key_file
        )
        self._transport = transport or transport_to(url, settings.proxy, tls)
        self._requests: dict[tuple[object, ...], httpx.Request] = {}

    def close(self) -> None:
        self._transport.close()

    def pages(self, resource: str, limit: int = PAGE_LIMIT) -> Iterator[Page]:
        """The pages of one consistent list. HistoryGone when the token expires on the way."""
        more = ""
        for _ in range(PAGES_LIMIT):
            params: dict[str, str | int] = {"limit": limit}
            if more:
                params["continue"] = more
            page = self._page(PATHS[resource], self._body(PATHS[resource], params))
            yield page
            more = page.more
            if not more:
                return
        raise NotKubernetes(self.url, PATHS[resource], f"more than {PAGES_LIMIT} pages of one list")

    def watch(self, resource: str, version: int) -> Iterator[WatchEvent]:
        """Every change after `version`, until the server ends the stream."""
        path = PATHS[resource]
        params: dict[str, str | int] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": self._watch_seconds,
        }
        with self._asked(path, self._request(path, params, self._silence_seconds)) as answer:
            for line in answer.lines():
                yield self._watch_event(answer, line)

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        """One JSON document."""
        return self._json(path, self._body(path, params or {}))

    def owner(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """The owner of a pod or of an owner; empty when it is gone, not readable, or not known."""
        path = owner_path(api_version, kind, namespace, name)
        if not path:
            return {}
        try:
            return self.get(path)
        except ServerRefused as refused:
            if refused.status in (403, 404):
                return {}
            raise

    def may(self, resource: str, verb: str) -> bool:
        """Whether the server would let this collector do that everywhere."""
        group = PATHS[resource].split("/")[2] if PATHS[resource].startswith("/apis/") else ""
        attributes = {"group": group, "resource": resource, "verb": verb}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        request = self._request(path, {}, body=msgspec.json.encode(review))
        with self._asked(path, request) as answer:
            body = answer.body()
        status = self._json(path, body).get("status", {})
        return isinstance(status, Mapping) and status.get("allowed") is True

    def cluster_id(self) -> str:
        """The UID of the kube-system namespace: a cluster's name that nobody gives twice."""
        meta = self.get("/api/v1/namespaces/kube-system").get("metadata", {})
        return str(meta.get("uid", "")) if isinstance(meta, Mapping) else ""

    def server_time(self) -> float | None:
        """The server's clock by the Date of an answer, in whole seconds."""
        try:
            with self._sent("/version", self._request("/version", {})) as answer:
                return parsedate_to_datetime(answer.response.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def _request(
        self,
        path: str,
        params: Mapping[str, str | int],
        read_seconds: float = READ_SECONDS,
        body: bytes = b"",
    ) -> httpx.Request:
        """What is asked every hour is put together once, for as long as the token is the same."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "gpu-ledger-collector",
        } | self._authorization()
        key = (path, *params.items(), read_seconds, body, headers.get("Authorization"))
        request = self._requests.get(key)  # another thread may empty it meanwhile
        if request is None:
            if len(self._requests) >= REQUESTS_LIMIT:
                self._requests.clear()
            timeout = httpx.Timeout(read_seconds, connect=CONNECT_SECONDS)
            request = self._requests[key] = httpx.Request(
                "POST" if body else "GET",
                httpx.URL(self.url + path, params=params),
                headers=headers | ({"Content-Type": "application/json"} if body else {}),
                content=body or None,
                extensions={"timeout": timeout.as_dict()},
            )
        return request

    @contextmanager
    def _asked(self, path: str, request: httpx.Request) -> Iterator[Answer]:
        """The answer to a request, if it is one: JSON, and no failure."""
        with self._sent(path, request) as answer:
            answer.check()
            yield answer

    @contextmanager
    def _sent(self, path: str, request: httpx.Request) -> Iterator[Answer]:
        """Whatever is answered to a request."""
        secret = secret_of(request.headers.get("Authorization", "").removeprefix("Bearer "))
        try:
            with closing(self._transport.handle_request(request)) as response:
                yield Answer(response, self.url, path, secret)
        except httpx.HTTPError as cause:
            raise ServerUnreachable(self.url, path, _said(cause, secret)) from None

    def _authorization(self) -> dict[str, str]:
        path = self._settings.token_file
        return {} if path is None else {"Authorization": f"Bearer {read_token(path)}"}

    def _body(self, path: str, params: Mapping[str, str | int]) -> bytes:
        with self._asked(path, self._request(path, params)) as answer:
            return answer.body()

    def _page(self, path: str, body: bytes) -> Page:
        page = page_of(body, partial(self._json, path))
        if page is not None:
            return page
        document = self._json(path, body)
        meta, items = document.get("metadata"), document.get("items")
        if not isinstance(meta, Mapping) or not isinstance(items, list):
            raise NotKubernetes(self.url, path, "a JSON document that is no list")
        version = version_of(meta)
        if not version:
            raise NotKubernetes(self.url, path, "a list without a resourceVersion")
        documents = tuple(item for item in items if isinstance(item, Mapping))
        return Page(documents, version, str(meta.get("continue") or ""))

    def _watch_event(self, answer: Answer, line: bytes) -> WatchEvent:
        event = self._json(answer.path, line)
        kind, document = event.get("type"), event.get("object")
        if kind not in EVENT_KINDS or not isinstance(document, Mapping):
            raise NotKubernetes(self.url, answer.path, "a line that is no watch event")
        if kind == "ERROR":
            code, reason = document.get("code"), document.get("reason", "")
            status = code if isinstance(code, int) else 500
            gone = reason in ("Expired", "Gone")
            answer.fail(410 if gone else status, reason, document.get("message", ""))
        answer.refuse_our_secret(line)
        return WatchEvent(kind, document, version_of(document.get("metadata")), len(line))

    def _json(self, path: str, body: bytes | msgspec.Raw) -> dict[str, Any]:
        try:
            document = _document(bytes(body).rstrip())
        except NOT_JSON as cause:
            raise NotKubernetes(self.url, path, f"no whole JSON document: {cause}") from None
        if not isinstance(document, dict):
            raise NotKubernetes(self.url, path, "a JSON value that is no object")
        return document


def _document(body: bytes) -> object:
    """What a JSON text says; of half a surrogate or a number without bounds, too."""
    try:
        document = msgspec.json.decode(body)
        if len(msgspec.json.encode(document)) == len(body):
            return document  # with a key twice, it would be shorter than its text
    except ValueError:
        pass
    return unique_json(body)


def _said(cause: Exception, secret: Secret) -> str:
    """What an error says, without what was sent: what it quotes of an answer may repeat it."""
    return secret.taken_out_of(f"{type(cause).__name__}: {cause}")[:200]
