"""A client of the Kubernetes API: get, list, watch, patch, apply, create, access reviews.

Put here: requests, their limits, and the discovery of resource names.
Not here: addresses and credentials (`clients.kubeconfig`), or the meaning of objects.

A token is sent over TLS only. An error never repeats it.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from clients.credentials import CredentialUnreadable, TokenWithoutTls
from clients.kubeconfig import ClusterAccess
from clients.kubernetes_errors import NotKubernetes, ServerRefused, ServerUnreachable
from clients.redaction import Secret, secret_of
from clients.wire import BodyOverLimit, transport_to, whole_body

Document = dict[str, Any]

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
PAGE_LIMIT = 500  # objects of a page, as kubectl requests them
PAGES_LIMIT = 2_000  # a million objects of one kind: the server repeats itself
ANSWER_BYTES_LIMIT = 64 << 20  # a page of 500 pods has about 5 MB
WATCH_SECONDS = 300  # how long the server keeps a watch open; then the watcher lists again
EVENT_BYTES_LIMIT = 4 << 20  # an object of etcd has at most 1.5 MB
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class KubernetesClient:
    """One API server. `transport` replaces the network in tests."""

    def __init__(self, access: ClusterAccess, transport: httpx.BaseTransport | None = None) -> None:
        has_token = bool(access.token or access.token_file)
        if has_token and not access.url.startswith("https://"):
            raise TokenWithoutTls(access.url)
        self.url = access.url
        self._access = access
        self._plurals: dict[str, dict[str, str]] = {}
        self._http = httpx.Client(
            base_url=access.url,
            transport=transport or transport_to(access.url, tls=_tls(access)),
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept": "application/json", "User-Agent": "gpu-ledger"},
            # A redirect leads to a login page, and would carry the token to another host.
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

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
        following = ""
        for _ in range(PAGES_LIMIT):
            wanted = {**(parameters or {}), "limit": PAGE_LIMIT}
            if following:
                wanted["continue"] = following
            page = self.get(path, wanted)
            items = page.get("items")
            if not isinstance(items, list):
                raise NotKubernetes(self.url, path, "a JSON document without items")
            yield from (item for item in items if isinstance(item, dict))
            metadata = page.get("metadata")
            following = str(metadata.get("continue") or "") if isinstance(metadata, dict) else ""
            if not following:
                return
        raise NotKubernetes(self.url, path, f"more than {PAGES_LIMIT} pages of one list")

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

    def watch(
        self, path: str, resource_version: str, parameters: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Document]]:
        """Events (ADDED, MODIFIED, DELETED and the object) after a version, until the server ends
        the stream, at the latest after WATCH_SECONDS.
        """
        wanted = {
            **(parameters or {}),
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        token = self._access.current_token()
        secret = secret_of(token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = httpx.Timeout(WATCH_SECONDS + READ_SECONDS, connect=CONNECT_SECONDS)
        try:
            with self._http.stream(
                "GET", path, params=wanted, headers=headers, timeout=timeout
            ) as response:
                if response.status_code != 200:
                    body = whole_body(response.iter_bytes(), READ_SECONDS, ANSWER_BYTES_LIMIT)
                    self._document(path, response, body, secret)
                for line in _lines(response.iter_bytes()):
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ServerRefused(
                            self.url,
                            path,
                            int(status.get("code") or 500),
                            str(status.get("reason") or ""),
                            str(status.get("message") or ""),
                            "",
                        )
                    yield event["type"], event["object"]
        except BodyOverLimit as cause:
            raise NotKubernetes(self.url, path, str(cause)) from None
        except (msgspec.DecodeError, KeyError, TypeError) as cause:
            raise NotKubernetes(self.url, path, f"no event of a watch: {cause!r}"[:200]) from None
        except httpx.HTTPError as cause:
            seen = secret.taken_out_of(f"{type(cause).__name__}: {cause}")[:200]
            raise ServerUnreachable(self.url, path, seen) from None

    def is_allowed(
        self, verb: str, group: str, resource: str, namespace: str = "", subresource: str = ""
    ) -> bool:
        """Whether this client's own user may do that, by a SelfSubjectAccessReview."""
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        if subresource:
            attributes["subresource"] = subresource
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status = self.create(path, review).get("status")
        return isinstance(status, dict) and status.get("allowed") is True

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

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str | int] | None = None,
        body: Document | None = None,
        content_type: str = "application/json",
    ) -> Document:
        token = self._access.current_token()
        secret = secret_of(token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        content = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = msgspec.json.encode(body)
        try:
            with self._http.stream(
                method, path, params=dict(parameters or {}), headers=headers, content=content
            ) as response:
                answer = whole_body(response.iter_bytes(), READ_SECONDS, ANSWER_BYTES_LIMIT)
        except BodyOverLimit as cause:
            raise NotKubernetes(self.url, path, str(cause)) from None
        except httpx.HTTPError as cause:
            seen = secret.taken_out_of(f"{type(cause).__name__}: {cause}")[:200]
            raise ServerUnreachable(self.url, path, seen) from None
        return self._document(path, response, answer, secret)

    def _document(
        self, path: str, response: httpx.Response, body: bytes, secret: Secret
    ) -> Document:
        try:
            document = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            document = None
        if response.status_code not in (200, 201):
            status = document if isinstance(document, dict) else {}
            reason = str(status.get("reason") or response.reason_phrase)
            raise ServerRefused(
                self.url,
                path,
                response.status_code,
                secret.taken_out_of(reason),
                secret.taken_out_of(str(status.get("message") or "")),
                response.headers.get("retry-after", ""),
            )
        if not isinstance(document, dict):
            raise NotKubernetes(self.url, path, "an answer that is no JSON object")
        return document


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a stream, each when it is complete."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from (line for line in lines if line)
        if len(rest) > EVENT_BYTES_LIMIT:
            raise BodyOverLimit(f"an event of more than {EVENT_BYTES_LIMIT} bytes")


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


def _tls(access: ClusterAccess) -> ssl.SSLContext | None:
    if not access.url.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(
            cafile=str(access.ca_file) if access.ca_file else None, cadata=access.ca_pem or None
        )
        if access.certificate_pem:
            # Python reads a client certificate from a file only.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                file.write(f"{access.certificate_pem}\n{access.key_pem}\n")
                file.flush()
                context.load_cert_chain(file.name)
    except (OSError, ssl.SSLError) as cause:
        where = access.ca_file or "the kubeconfig"
        raise CredentialUnreadable(
            where, f"no usable certificate: {type(cause).__name__}: {cause}"[:200]
        ) from None
    return context
