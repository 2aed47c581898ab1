"""One cluster's Kubernetes API over HTTP: lists, gets, watches, reviews, discovery.

Put here: requests and responses.
Not here: the stream of a watch (`watch`), the history behind it (`objects`), starting a server
(`fake_gpu.serve`).

It leaves out, because none of its clients needs them: other writes than those of `writes`,
protobuf, tables, OpenAPI.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fake_gpu.clock import VirtualClock
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault, SimulatedCluster
from fake_gpu.kubernetes import resources
from fake_gpu.kubernetes.answers import ApiRefusal, unknown_path
from fake_gpu.kubernetes.faults import ApiFaults
from fake_gpu.kubernetes.forms import Document
from fake_gpu.kubernetes.lists import read_list, read_one
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.kubernetes.open_watches import OpenWatches
from fake_gpu.kubernetes.request_faults import RequestFaults
from fake_gpu.kubernetes.resources import Resource, resources_of
from fake_gpu.kubernetes.texts import encoded
from fake_gpu.kubernetes.view import View
from fake_gpu.kubernetes.watch import WatchRequest, watch_stream
from fake_gpu.kubernetes.writes import (
    BODY_BYTES_LIMIT,
    WorkloadPatch,
    WrittenObjects,
    merged_patch,
    require_same,
    scale_document,
    workload_patch,
)

_Endpoint = Callable[[Request], Awaitable[Response]]
ChangeWorkload = Callable[[str, WorkloadPatch], Document]
"""From a cluster's ID and a patch to the changed object; raises Refusal."""
MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
"""Of replicas and annotations both kinds make the same."""


class KubernetesApi:
    """The API server of one cluster; `app` is an ASGI application.

    `history_seconds` is how long deleted and changed objects stay readable by resource version
    (etcd keeps five minutes); `token`, when given, is required in all requests but health checks.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        clock: VirtualClock,
        *,
        history: ObjectHistory | None = None,
        faults: tuple[Fault, ...] = (),
        ledger: FaultLedger | None = None,
        history_seconds: int = 300,
        token: str = "",
        written: WrittenObjects | None = None,
        change_workload: ChangeWorkload | None = None,
    ) -> None:
        self.cluster = cluster
        self.clock = clock
        ledger = ledger or FaultLedger()
        self.history = history or ObjectHistory(cluster, faults, ledger)
        self.faults = ApiFaults(cluster.cluster_id, faults, ledger)
        self.view = View(self.history, clock, self.faults, history_seconds)
        self.hub = OpenWatches()
        self.token = token
        self.resources = resources_of(cluster.workloads)
        self.is_silent = False
        self.written = written or WrittenObjects()
        self._change_workload = change_workload
        self._request_faults = RequestFaults(self.view)
        clock.add_listener(self._on_step)
        self.app = Starlette(routes=self._routes(), exception_handlers={404: self._unknown_path})

    def close(self) -> None:
        """No more events are sent: open watches end, and the clock continues."""
        self.clock.remove_listener(self._on_step)
        self.hub.close()

    def _on_step(self, instant: datetime) -> None:
        """Send to every watch; while silent, they receive this step with the next one."""
        if not self.is_silent:
            self.view.step(instant)
            self.hub.on_step(instant)

    def _routes(self) -> list[Route]:
        routes = [
            Route("/version", self._answering(self._version)),
            Route("/api", self._answering(lambda _: resources.core_versions())),
            Route("/apis", self._answering(lambda _: resources.group_list(self.resources))),
            Route(
                "/api/v1",
                self._answering(lambda _: resources.resource_list(self.resources, "v1")),
            ),
            Route("/apis/{group}/{version}", self._answering(self._group)),
            Route(
                f"/apis/{resources.ACCESS_REVIEWS}/{resources.REVIEW_PLURAL}",
                self._review,
                methods=["POST"],
            ),
        ]
        routes += [Route(f"/{path}", _ok) for path in ("healthz", "readyz", "livez")]
        for resource in self.resources:
            routes += self._resource_routes(resource)
        return routes

    def _resource_routes(self, resource: Resource) -> list[Route]:
        many, one = self._many(resource), self._one(resource)
        routes = [Route(f"{resource.path}/{resource.plural}", many)]
        if resource.namespaced:
            inside = f"{resource.path}/namespaces/{{namespace}}/{resource.plural}"
            routes += [Route(inside, many), Route(f"{inside}/{{name}}", one)]
            routes += self._write_routes(resource, inside)
        else:
            routes.append(Route(f"{resource.path}/{resource.plural}/{{name}}", one))
        return routes

    def _write_routes(self, resource: Resource, inside: str) -> list[Route]:
        name = f"{inside}/{{name}}"
        if resource.plural in resources.WRITTEN:
            return [
                Route(inside, self._writing(resource, self._create), methods=["POST"]),
                Route(name, self._writing(resource, self._patch_written), methods=["PATCH"]),
                Route(name, self._writing(resource, self._delete), methods=["DELETE"]),
            ]
        if not resources.is_patched(resource):
            return []
        routes = [Route(name, self._writing(resource, self._patch_workload), methods=["PATCH"])]
        if resource.plural in resources.SCALED:
            scale = self._writing(resource, self._patch_scale)
            routes.append(Route(f"{name}/scale", scale, methods=["PATCH"]))
            routes.append(Route(f"{name}/scale", self._scale(resource)))
        return routes

    # --- requests -----------------------------------------------------------------------------

    def _many(self, resource: Resource) -> _Endpoint:
        async def list_or_watch(request: Request) -> Response:
            try:
                self._admit(request)
                if request.query_params.get("watch", "").lower() in ("1", "true"):
                    return self._watch(resource, request)
                return self._list(resource, request)
            except ApiRefusal as refusal:
                return _refused(refusal)

        return list_or_watch

    def _list(self, resource: Resource, request: Request) -> Response:
        self._request_faults.refuse("list", resource, _namespace(request))
        text = read_list(self.view, resource, _namespace(request), dict(request.query_params))
        if resource.plural in resources.WRITTEN:
            text = self._with_written(resource, _namespace(request), text)
        body = self._request_faults.truncated(resource, text.encode())
        return Response(body, media_type="application/json")

    def _watch(self, resource: Resource, request: Request) -> Response:
        self._request_faults.refuse("watch", resource, _namespace(request))
        wanted = WatchRequest.of(
            self.view, resource, _namespace(request), dict(request.query_params)
        )
        stream = watch_stream(self.view, self.hub, wanted)
        return StreamingResponse(stream, media_type="application/json")

    def _one(self, resource: Resource) -> _Endpoint:
        async def get(request: Request) -> Response:
            try:
                self._admit(request)
                name = request.path_params["name"]
                self._request_faults.refuse("get", resource, _namespace(request), name)
                written = self.written.find(resource, _namespace(request), name)
                if written is not None:
                    return _json(written)
                return _json(read_one(self.view, resource, _namespace(request), name))
            except ApiRefusal as refusal:
                return _refused(refusal)

        return get

    def _with_written(self, resource: Resource, namespace: str, text: str) -> str:
        """The last page of a list also has the objects that clients wrote."""
        written = self.written.of(resource, namespace)
        page = json.loads(text) if written else {}
        if not written or page["metadata"].get("continue"):
            return text
        return json.dumps(page | {"items": [*page["items"], *written]}, separators=(",", ":"))

    def _scale(self, resource: Resource) -> _Endpoint:
        async def get(request: Request) -> Response:
            try:
                self._admit(request)
                name = request.path_params["name"]
                found = read_one(self.view, resource, _namespace(request), name)
                return _json(scale_document(resource, found))
            except ApiRefusal as refusal:
                return _refused(refusal)

        return get

    def _writing(
        self, resource: Resource, write: Callable[[Resource, str, str, Document], Document]
    ) -> _Endpoint:
        """A request that writes: its body is one JSON object, and it runs beside the event loop."""

        async def handle(request: Request) -> Response:
            try:
                self._admit(request)
                verb = {"POST": "create", "PATCH": "patch"}.get(request.method, "delete")
                namespace, name = _namespace(request), request.path_params.get("name", "")
                self._request_faults.refuse(verb, resource, namespace, name)
                body = await _body(request)
                made = await run_in_threadpool(write, resource, namespace, name, body)
                return _json(made, 201 if verb == "create" else 200)
            except ApiRefusal as refusal:
                return _refused(refusal)

        return handle

    def _create(self, resource: Resource, namespace: str, name: str, body: Document) -> Document:
        return self.written.create(resource, namespace, body, self.view.second())

    def _patch_written(
        self, resource: Resource, namespace: str, name: str, body: Document
    ) -> Document:
        return self.written.patch(resource, namespace, name, body)

    def _delete(self, resource: Resource, namespace: str, name: str, body: Document) -> Document:
        return self.written.delete(resource, namespace, name, self.view.second())

    def _patch_workload(
        self, resource: Resource, namespace: str, name: str, body: Document
    ) -> Document:
        if self._change_workload is None:
            raise ApiRefusal(405, "MethodNotAllowed", "this server is read only")
        current = read_one(self.view, resource, namespace, name)
        wanted = workload_patch(resource, current, body)
        return self._change_workload(self.cluster.cluster_id, wanted)

    def _patch_scale(
        self, resource: Resource, namespace: str, name: str, body: Document
    ) -> Document:
        current = read_one(self.view, resource, namespace, name)
        require_same(current, body)
        scale = merged_patch(scale_document(resource, current), body)
        replicas = {"spec": {"replicas": scale["spec"].get("replicas", 0)}}
        changed = self._patch_workload(resource, namespace, name, replicas)
        return scale_document(resource, changed)

    def _answering(self, answer: Callable[[Request], Document]) -> _Endpoint:
        async def plain(request: Request) -> Response:
            try:
                self._admit(request)
                return _json(answer(request))
            except ApiRefusal as refusal:
                return _refused(refusal)

        return plain

    def _version(self, request: Request) -> Document:
        return resources.version_document(self.cluster.kubernetes_version)

    def _group(self, request: Request) -> Document:
        wanted = f"{request.path_params['group']}/{request.path_params['version']}"
        document = resources.resource_list(self.resources, wanted)
        if not document:
            raise HTTPException(404)
        return document

    async def _review(self, request: Request) -> Response:
        """SelfSubjectAccessReview: reading is allowed, unless a fault takes it away."""
        try:
            self._admit(request)
            body = json.loads(await request.body())
            asked = body["spec"]["resourceAttributes"]
            verb, group, plural, part = (
                str(asked.get(name, "")) for name in ("verb", "group", "resource", "subresource")
            )
        except ApiRefusal as refusal:
            return _refused(refusal)
        except (ValueError, KeyError, TypeError, AttributeError):
            return _refused(ApiRefusal(400, "BadRequest", "the object provided is not a review"))
        served = resources.serves(self.resources, verb, group, plural, part)
        namespace = str(asked.get("namespace", ""))
        allowed = served and self._request_faults.allows(verb, plural, namespace)
        body["status"] = {"allowed": allowed} | ({} if allowed else {"reason": "RBAC: no rule"})
        return JSONResponse(body, status_code=201)

    async def _unknown_path(self, request: Request, exception: Exception) -> Response:
        """A served group reports an unknown resource in its own form."""
        parts = request.url.path.split("/")[1:3]
        if parts == ["api", "v1"] or (
            parts[0] == "apis" and parts[-1] in resources.group_names(self.resources)
        ):
            return _refused(unknown_path())
        return PlainTextResponse("404 page not found\n", 404)

    def _admit(self, request: Request) -> None:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            raise ApiRefusal(401, "Unauthorized", "Unauthorized")


async def _ok(request: Request) -> Response:
    return PlainTextResponse("ok")


async def _body(request: Request) -> Document:
    if request.method == "DELETE":
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0]
    if request.method == "PATCH" and kind not in MERGE_PATCHES:
        raise ApiRefusal(
            415, "UnsupportedMediaType", f"a patch is one of {', '.join(MERGE_PATCHES)}"
        )
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > BODY_BYTES_LIMIT:
            raise ApiRefusal(413, "RequestEntityTooLarge", "the request body is too large")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise ApiRefusal(400, "BadRequest", "the body is not a JSON object")
    return body


def _namespace(request: Request) -> str:
    namespace: str = request.path_params.get("namespace", "")
    return namespace


def _bytes(document: Document) -> bytes:
    return encoded(document).encode()


def _json(document: Document, status: int = 200) -> Response:
    return Response(_bytes(document), status, media_type="application/json")


def _refused(refusal: ApiRefusal) -> Response:
    headers = {}
    if refusal.retry_after_seconds:
        headers["Retry-After"] = str(refusal.retry_after_seconds)
    return Response(
        _bytes(refusal.status()), refusal.code, headers=headers, media_type="application/json"
    )
