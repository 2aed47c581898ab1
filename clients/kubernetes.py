"""A client of the Kubernetes API: get, list, watch, patch, apply, create, access reviews.

Put here: requests, and the limits of lists and watches.
Not here: addresses and credentials (`clients.kubeconfig`), reading the bytes of a response
(`clients.kubernetes_responses`), or the meaning of objects.

A token is sent over TLS only. No error, and no document, repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from clients.credentials import ServerAccess, TokenWithoutTls
from clients.http_transport import make_transport
from clients.json_text import NOT_JSON, unique_json
from clients.kubernetes_errors import NotKubernetes, ServerRefused, ServerUnreachable
from clients.kubernetes_responses import KubernetesResponse
from clients.redaction import secret_of

Document = dict[str, Any]

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
PAGE_LIMIT = 500  # objects of a page, as kubectl requests them
PAGES_LIMIT = 2_000  # a million objects of one kind: the server repeats itself
WATCH_SECONDS = 1_800  # the server ends a watch then; it sends a bookmark about once a minute
SILENCE_SECONDS = (
    150.0  # two bookmarks are missing: the connection is dead even if TCP reports none
)
EVENT_KINDS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
VERSION_DIGITS_LIMIT = 19  # a resource version has 64 bits
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list; `more` is the token of the next part, "" for the last one."""

    documents: tuple[Document, ...]
    version: int
    more: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK."""

    kind: str
    document: Document
    version: int
    byte_count: int = 0


class KubernetesClient:
    """One API server. `transport` replaces the network in tests."""

    def __init__(
        self,
        access: ServerAccess,
        transport: httpx.BaseTransport | None = None,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        has_token = bool(access.token or access.token_file)
        if has_token and not access.url.startswith("https://"):
            raise TokenWithoutTls(access.url)
        self.url = access.url.rstrip("/")
        self._access = access
        self._silence_seconds = silence_seconds
        self._watch_seconds = watch_seconds
        self._plurals: dict[str, dict[str, str]] = {}
        # Not httpx.Client, which logs the reason phrase: a proxy may repeat the token in it.
        # Redirects are not followed: they lead to a login page, and would carry the token there.
        self._transport = transport or make_transport(self.url, access.proxy, access.tls_context())

    def close(self) -> None:
        self._transport.close()

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Document:
        """One object, or the whole of a short list."""
        return self._request("GET", path, parameters)

    def find(self, path: str) -> Document | None:
        """One object, or None where the server answers 404."""
        try:
            return self.get(path)
        except ServerRefused as refused:
            if refused.status == 404:
                return None
            raise

    def items(
        self, path: str, parameters: Mapping[str, str | int] | None = None
    ) -> Iterator[Document]:
        """Every object of a list, page by page."""
        for page in self._pages(path, parameters or {}, PAGE_LIMIT):
            yield from page.documents

    def pages(self, path: str, limit: int = PAGE_LIMIT) -> Iterator[ListPage]:
        """The pages of one consistent list. HistoryGone when its token expires before the end."""
        for page in self._pages(path, {}, limit):
            if not page.version:
                raise NotKubernetes(self.url, path, "a list without a resourceVersion")
            yield page

    def watch(
        self, path: str, version: int, parameters: Mapping[str, str | int] | None = None
    ) -> Iterator[WatchEvent]:
        """Every change after `version`, until the server ends the stream."""
        wanted = {
            **(parameters or {}),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": self._watch_seconds,
        }
        with self._open("GET", path, wanted, read_seconds=self._silence_seconds) as response:
            response.require_json()
            for line in response.lines():
                yield self._watch_event(response, line)

    def merge_patch(self, path: str, patch: Document, *, field_manager: str) -> Document:
        """The object after a JSON merge patch (RFC 7386) in the name of a field manager.

        With `metadata.resourceVersion` in the patch the server refuses it (409) if the object has
        changed since; with `metadata.uid`, if it is another object (422).
        """
        parameters = {"fieldManager": field_manager}
        return self._request("PATCH", path, parameters, body=patch, content_type=MERGE_PATCH)

    def apply(
        self, path: str, document: Document, *, field_manager: str, force: bool = False
    ) -> Document:
        """The object after a server-side apply: the fields of the document, and no other field
        that this manager applied before. Without `force` a field of another manager is a 409.
        """
        parameters = {"fieldManager": field_manager, "force": "true" if force else "false"}
        return self._request("PATCH", path, parameters, body=document, content_type=APPLY_PATCH)

    def create(self, path: str, document: Document) -> Document:
        return self._request("POST", path, body=document)

    def is_allowed(
        self,
        verb: str,
        group: str,
        resource: str,
        namespace: str = "",
        subresource: str = "",
        *,
        name: str = "",
        account: str = "",
    ) -> bool:
        """Whether this client's own user may do that, by a SelfSubjectAccessReview; or a
        ServiceAccount (NAMESPACE:NAME), by a SubjectAccessReview.
        """
        attributes = {"verb": verb, "group": group, "resource": resource}
        optional = {"namespace": namespace, "subresource": subresource, "name": name}
        attributes |= {key: value for key, value in optional.items() if value}
        spec: Document = {"resourceAttributes": attributes}
        kind = "SelfSubjectAccessReview"
        if account:
            kind = "SubjectAccessReview"
            spec["user"] = f"system:serviceaccount:{account}"
            everyone = "system:serviceaccounts"
            of_namespace = f"{everyone}:{account.partition(':')[0]}"
            spec["groups"] = ["system:authenticated", everyone, of_namespace]
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
        status = self.create(path, review).get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    def cluster_id(self) -> str:
        """The UID of the kube-system namespace, which no other cluster has."""
        meta = self.get("/api/v1/namespaces/kube-system").get("metadata", {})
        return str(meta.get("uid", "")) if isinstance(meta, Mapping) else ""

    def server_time(self) -> float | None:
        """The server's clock by the Date of a response, in whole seconds."""
        try:
            with self._open("GET", "/version") as response:
                return parsedate_to_datetime(response.response.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def object_path(self, api_version: str, kind: str, namespace: str, name: str) -> str:
        """The path of a namespaced object; "" if the server does not serve its kind."""
        plural = self.plural_of(api_version, kind)
        return resource_path(api_version, plural, namespace, name) if plural else ""

    def plural_of(self, api_version: str, kind: str) -> str:
        """The resource name of a kind (`Deployment` → `deployments`), by discovery."""
        if api_version not in self._plurals:
            try:
                listed = self.get(_group_path(api_version)).get("resources")
            except ServerRefused as refused:
                if refused.status != 404:
                    raise
                listed = []
            self._plurals[api_version] = {
                str(entry.get("kind")): str(entry.get("name"))
                for entry in (listed if isinstance(listed, list) else ())
                if isinstance(entry, dict) and "/" not in str(entry.get("name"))
            }
        return self._plurals[api_version].get(kind, "")

    def _pages(
        self, path: str, parameters: Mapping[str, str | int], limit: int
    ) -> Iterator[ListPage]:
        following = ""
        for _ in range(PAGES_LIMIT):
            wanted = {**parameters, "limit": limit}
            if following:
                wanted["continue"] = following
            document = self.get(path, wanted)
            items, meta = document.get("items"), document.get("metadata")
            if not isinstance(items, list):
                raise NotKubernetes(self.url, path, "a JSON document without items")
            following = str(meta.get("continue") or "") if isinstance(meta, dict) else ""
            objects = tuple(item for item in items if isinstance(item, dict))
            yield ListPage(objects, version_of(meta), following)
            if not following:
                return
        raise NotKubernetes(self.url, path, f"more than {PAGES_LIMIT} pages of one list")

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        body: Document | None = None,
        content_type: str = "application/json",
    ) -> Document:
        with self._open(method, path, parameters, body, content_type) as response:
            response.require_json()
            return self._document(path, response.body())

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        body: Document | None = None,
        content_type: str = "application/json",
        read_seconds: float | None = None,
    ) -> Iterator[KubernetesResponse]:
        """The response to a request, with any status, before its body is read."""
        token = self._access.current_token()
        secret = secret_of(token)
        timeout = httpx.Timeout(read_seconds or READ_SECONDS, connect=CONNECT_SECONDS)
        request = httpx.Request(
            method,
            httpx.URL(self.url + path, params=dict(parameters or {})),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "User-Agent": "gpu-ledger",
                **({"Authorization": f"Bearer {token}"} if token else {}),
                **({"Content-Type": content_type} if body is not None else {}),
            },
            content=msgspec.json.encode(body) if body is not None else None,
            extensions={"timeout": timeout.as_dict()},
        )
        try:
            with closing(self._transport.handle_request(request)) as response:
                yield KubernetesResponse(response, self.url, path, secret)
        except httpx.HTTPError as cause:
            seen = secret.redact(f"{type(cause).__name__}: {cause}")[:200]
            raise ServerUnreachable(self.url, path, seen) from None

    def _watch_event(self, response: KubernetesResponse, line: bytes) -> WatchEvent:
        event = self._document(response.path, line)
        kind, document = event.get("type"), event.get("object")
        if kind not in EVENT_KINDS or not isinstance(document, dict):
            raise NotKubernetes(self.url, response.path, "a line that is no watch event")
        if kind == "ERROR":
            code, reason = document.get("code"), document.get("reason", "")
            status = code if isinstance(code, int) else 500
            gone = reason in ("Expired", "Gone")
            response.fail(410 if gone else status, reason, document.get("message", ""))
        response.refuse_our_secret(line)
        return WatchEvent(kind, document, version_of(document.get("metadata")), len(line))

    def _document(self, path: str, body: bytes) -> Document:
        try:
            document = _decode(body.rstrip())
        except NOT_JSON as cause:
            raise NotKubernetes(self.url, path, f"incomplete JSON document: {cause}") from None
        if not isinstance(document, dict):
            raise NotKubernetes(self.url, path, "a JSON value that is no object")
        return document


def _decode(body: bytes) -> object:
    """The value of a JSON text, also with half a surrogate; ValueError where a key occurs twice."""
    try:
        document = msgspec.json.decode(body)
        if len(msgspec.json.encode(document)) == len(body):
            return document  # with a key twice, it would be shorter than its text
    except ValueError:
        pass
    return unique_json(body)


def version_of(meta: object) -> int:
    """The resource version in an object's metadata (a number since Kubernetes 1.35); 0 without."""
    text = meta.get("resourceVersion", "") if isinstance(meta, Mapping) else ""
    is_version = isinstance(text, str) and text.isdecimal() and len(text) <= VERSION_DIGITS_LIMIT
    return int(text) if is_version else 0


def resource_path(api_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """`/apis/apps/v1/namespaces/team-a/deployments/model`; "" for every namespace or name."""
    parts = [_group_path(api_version)]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name:
        parts.append(quote(name, safe=""))
    return "/".join(parts)


def _group_path(api_version: str) -> str:
    text = quote(api_version, safe="/")
    return f"/apis/{text}" if "/" in text else f"/api/{text}"
