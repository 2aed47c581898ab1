"""Requests and responses of the simulated API server, compared with those of a real one."""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from fake_gpu.clock import VirtualClock, driven, epoch, fixed
from fake_gpu.fleet.model import Fault, SimulatedCluster
from fake_gpu.kubernetes.open_watches import OpenWatch
from fake_gpu.kubernetes.server import KubernetesApi
from tests.asgi import Client
from tests.collected import identified, listening
from tests.servers.build import KUBERNETES
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, node, pod, quiet_cluster

PODS = "/api/v1/pods"


def many_pods(count: int = 10) -> SimulatedCluster:
    on = node("node-b", cards=count)
    pods = [
        pod(f"p-{n:02}", created=-1000 + n, scheduled=-900, started=-800, on=on, cards=(n,),
            labels={"app": "even" if n % 2 == 0 else "odd"})
        for n in range(count)
    ]  # fmt: skip
    return identified(replace(quiet_cluster(), nodes=(on,), pods=tuple(pods)))


def api_at(
    seconds: int, cluster: SimulatedCluster | None = None, *faults: Fault, **options: Any
) -> tuple[KubernetesApi, Client]:
    clock = options.pop("clock", None) or fixed(epoch(MIDNIGHT + seconds))
    api = KubernetesApi(cluster or identified(quiet_cluster()), clock, faults=faults, **options)
    return api, Client(api.app)


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"]]


# --- lists ---------------------------------------------------------------------------------------


def test_a_list_has_its_kind_and_version_and_its_items_do_not() -> None:
    api, client = api_at(1000)
    document = client.get(PODS).json()
    assert (document["kind"], document["apiVersion"]) == ("PodList", "v1")
    assert document["metadata"]["resourceVersion"] == str(api.view.version(MIDNIGHT + 1000))
    assert names(document) == ["short", "train-5d9c-abcde", "waits"]
    assert not {"kind", "apiVersion"} & document["items"][0].keys()


def test_a_list_shows_only_existing_objects() -> None:
    assert names(api_at(0)[1].get(PODS).json()) == ["train-5d9c-abcde"]
    assert names(api_at(2000)[1].get(PODS).json()) == ["train-5d9c-abcde", "waits"]


def test_a_namespaced_list_and_a_single_object() -> None:
    _, client = api_at(1000)
    assert names(client.get("/api/v1/namespaces/team-b/pods").json()) == ["waits"]
    one = client.get("/api/v1/namespaces/team-b/pods/waits").json()
    assert (one["kind"], one["metadata"]["namespace"]) == ("Pod", "team-b")
    assert client.get("/api/v1/nodes/node-a").json()["metadata"]["name"] == "node-a"
    lost = client.get("/api/v1/namespaces/team-b/pods/short")
    assert (lost.status_code, lost.json()["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"fieldSelector": "spec.nodeName=node-a"}, ["train-5d9c-abcde"]),
        ({"fieldSelector": "status.phase!=Running"}, ["waits"]),
        ({"fieldSelector": "metadata.name=short,metadata.namespace=team-a"}, ["short"]),
        ({"labelSelector": "app=short"}, ["short"]),
        ({"labelSelector": "app in (short, waits)"}, ["short", "waits"]),
        ({"labelSelector": "app notin (short,waits)"}, ["train-5d9c-abcde"]),
        ({"labelSelector": "app,app!=waits"}, ["short", "train-5d9c-abcde"]),
        ({"labelSelector": "!app"}, []),
    ],
)
def test_selectors_filter_objects(selector: dict[str, str], expected: list[str]) -> None:
    assert names(api_at(1000)[1].get(PODS, params=selector).json()) == expected


@pytest.mark.parametrize("selector", [{"fieldSelector": "spec.colour=red"}, {"labelSelector": "a=="
                                                                             "b,,=c"}])  # fmt: skip
def test_an_invalid_selector_is_refused(selector: dict[str, str]) -> None:
    assert api_at(1000)[1].get(PODS, params=selector).status_code == 400


# --- pages ---------------------------------------------------------------------------------------


def test_all_pages_have_the_version_of_the_first() -> None:
    clock = driven(epoch(MIDNIGHT))
    late = pod("p-99", created=30, cards=())
    cluster = many_pods()
    _, client = api_at(0, replace(cluster, pods=(*cluster.pods, late)), clock=clock)
    first = client.get(PODS, params={"limit": 4}).json()
    assert (len(first["items"]), first["metadata"]["remainingItemCount"]) == (4, 6)
    clock.advance(60)
    found, more = names(first), first["metadata"]["continue"]
    while more:
        page = client.get(PODS, params={"limit": 4, "continue": more}).json()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        found += names(page)
        more = page["metadata"].get("continue", "")
    assert found == [f"p-{n:02}" for n in range(10)]
    assert names(client.get(PODS).json())[-1] == "p-99"


def test_the_token_of_a_page_has_its_version_and_expires() -> None:
    clock = driven(epoch(MIDNIGHT))
    _, client = api_at(0, many_pods(), clock=clock)
    more = client.get(PODS, params={"limit": 4}).json()["metadata"]["continue"]
    clock.advance(301)
    clock.advance(1)  # the version before the last step is kept; no query could be between them
    gone = client.get(PODS, params={"limit": 4, "continue": more})
    assert gone.status_code == 410
    status = gone.json()
    assert (status["reason"], status["kind"]) == ("Expired", "Status")
    assert "too old to display a consistent list" in status["message"]
    # The response has a token to read the remaining, inconsistent pages.
    rest = client.get(PODS, params={"continue": status["metadata"]["continue"]}).json()
    assert len(rest["items"]) == 6


@pytest.mark.parametrize("token", ["nonsense", "e30", "%%%"])
def test_an_invalid_token_is_refused(token: str) -> None:
    assert api_at(0)[1].get(PODS, params={"continue": token}).status_code == 400


def test_a_list_of_an_exact_version_is_of_the_past_until_it_is_compacted() -> None:
    api, client = api_at(1700)
    exact = {"resourceVersionMatch": "Exact"}
    past = api.view.version(MIDNIGHT + 1599)
    shown = client.get(PODS, params={"resourceVersion": past} | exact).json()
    assert "short" in names(shown)
    old = api.view.version(MIDNIGHT + 1000)
    assert client.get(PODS, params={"resourceVersion": old} | exact).status_code == 410


def test_a_version_from_the_future_is_a_timeout_with_its_reason() -> None:
    refused = api_at(1000)[1].get(PODS, params={"resourceVersion": 10**9})
    assert refused.status_code == 504
    assert refused.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


# --- watches -------------------------------------------------------------------------------------


class Watching:
    """One watch in a thread, with its events line by line."""

    def __init__(self, url: str, params: dict[str, Any]) -> None:
        self.events: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(url, params), daemon=True)
        self._thread.start()

    def _read(self, url: str, params: dict[str, Any]) -> None:
        try:
            with httpx.stream("GET", url, params={"watch": "1"} | params, timeout=60) as response:
                for line in response.iter_lines():
                    with self._heard:
                        self.events.append(json.loads(line))
                        self._heard.notify_all()
        except httpx.HTTPError:
            pass
        self.over.set()

    def until(self, version: int) -> list[tuple[str, str]]:
        """Return and forget (type, name) of the events up to a bookmark of this version."""
        with self._heard:
            assert self._heard.wait_for(lambda: self._marked(version), 10), self.events
            events, self.events = self.events, []
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]

    def _marked(self, version: int) -> bool:
        return any(
            e["type"] == "BOOKMARK" and int(e["object"]["metadata"]["resourceVersion"]) >= version
            for e in self.events
        )


@contextmanager
def served(cluster: SimulatedCluster, start: int, *faults: Fault, **options: Any) -> Iterator[
    tuple[KubernetesApi, VirtualClock, str]
]:  # fmt: skip
    clock = driven(epoch(MIDNIGHT + start))
    api = KubernetesApi(identified(cluster), clock, faults=faults, **options)
    with listening(api.app) as url:
        yield api, clock, url
        clock.close()
        api.hub.close()


MARKED = {"allowWatchBookmarks": "true"}


def test_a_watch_sends_every_change_and_a_bookmark_after_every_step() -> None:
    with served(quiet_cluster(), 890) as (api, clock, url):
        version = api.view.version(MIDNIGHT + 890)
        watching = Watching(url + PODS, {"resourceVersion": version} | MARKED)
        watching.until(version)
        clock.advance_to(epoch(MIDNIGHT + 920))
        assert watching.until(api.view.version(MIDNIGHT + 920)) == [
            ("ADDED", "short"),
            ("MODIFIED", "short"),
            ("MODIFIED", "short"),
            ("MODIFIED", "short"),
            ("MODIFIED", "short"),
            ("BOOKMARK", ""),
        ]
        clock.advance_to(epoch(MIDNIGHT + 930))
        assert watching.until(api.view.version(MIDNIGHT + 930)) == [("BOOKMARK", "")]


def test_advance_returns_after_every_watch_was_sent() -> None:
    with served(quiet_cluster(), 0) as (api, clock, url):
        version = api.view.version(MIDNIGHT)
        watches = [Watching(url + PODS, {"resourceVersion": version} | MARKED) for _ in range(5)]
        for watching in watches:
            watching.until(version)
        for _ in range(30):
            clock.advance(60)
        for watching in watches:
            events = watching.until(api.view.version(MIDNIGHT + 1800))
            assert events.count(("BOOKMARK", "")) == 30


def test_a_step_during_the_registration_of_a_watch_is_sent_once() -> None:
    with served(quiet_cluster(), 0) as (api, clock, url):
        mark_sent = api.hub.mark_sent
        driving = threading.Thread(target=clock.advance, args=(60,))

        def mark_sent_late(open_watch: OpenWatch, until: int) -> None:
            if until == MIDNIGHT:
                driving.start()
                deadline = time.monotonic() + 60
                while clock.now_seconds() == MIDNIGHT:
                    assert time.monotonic() < deadline, "the clock stands still"
                    time.sleep(0.001)
            mark_sent(open_watch, until)

        api.hub.mark_sent = mark_sent_late  # type: ignore[method-assign]
        watching = Watching(url + PODS, {"resourceVersion": api.view.version(MIDNIGHT)} | MARKED)
        events = watching.until(api.view.version(MIDNIGHT + 60))
        driving.join()
        clock.advance(60)
        events += watching.until(api.view.version(MIDNIGHT + 120))
        assert events == [("BOOKMARK", "")] * 3


def test_a_streaming_list_ends_with_a_marked_bookmark() -> None:
    with served(quiet_cluster(), 1000) as (api, _, url):
        params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        version = api.view.version(MIDNIGHT + 1000)
        watching = Watching(url + PODS, params | MARKED)
        with watching._heard:
            watching._heard.wait_for(lambda: watching._marked(version), 10)
            events = list(watching.events)
        assert [(e["type"], e["object"]["metadata"].get("name")) for e in events[:4]] == [
            ("ADDED", "short"),
            ("ADDED", "train-5d9c-abcde"),
            ("ADDED", "waits"),
            ("BOOKMARK", None),
        ]
        assert events[3]["object"]["metadata"]["annotations"] == {
            "k8s.io/initial-events-end": "true"
        }
        bad = httpx.get(url + PODS, params={"watch": "1", "sendInitialEvents": "true"})
        assert bad.status_code == 422


def test_a_watch_from_a_compacted_version_is_a_410_inside_the_stream() -> None:
    with served(quiet_cluster(), 1000) as (api, _, url):
        old = api.view.version(MIDNIGHT + 600)
        response = httpx.get(url + PODS, params={"watch": "1", "resourceVersion": old})
        assert response.status_code == 200
        event = json.loads(response.text)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert event["object"]["message"].startswith("too old resource version")


def test_a_watch_ends_after_its_timeout_in_virtual_time() -> None:
    with served(quiet_cluster(), 0) as (api, clock, url):
        version = api.view.version(MIDNIGHT)
        watching = Watching(url + PODS, {"resourceVersion": version, "timeoutSeconds": 120})
        while api.hub.open_count == 0:
            pass
        clock.advance(60)
        assert not watching.over.is_set()
        clock.advance(60)
        assert watching.over.wait(60)


def test_a_selector_makes_entering_an_addition_and_leaving_a_deletion() -> None:
    with served(quiet_cluster(), 890) as (api, clock, url):
        version = api.view.version(MIDNIGHT + 890)
        selector = {"fieldSelector": "status.phase=Running,metadata.name=short"}
        watching = Watching(url + PODS, {"resourceVersion": version} | MARKED | selector)
        watching.until(version)
        clock.advance_to(epoch(MIDNIGHT + 1700))
        events = watching.until(api.view.version(MIDNIGHT + 1700))
        assert events == [("ADDED", "short"), ("DELETED", "short"), ("BOOKMARK", "")]


def test_bookmarks_are_sent_only_on_request() -> None:
    with served(quiet_cluster(), 890) as (api, clock, url):
        version = api.view.version(MIDNIGHT + 890)
        watching = Watching(url + PODS, {"resourceVersion": version, "timeoutSeconds": 100})
        while api.hub.open_count == 0:
            pass
        clock.advance(60)
        clock.advance(60)
        assert watching.over.wait(60)
        assert {e["type"] for e in watching.events} == {"ADDED", "MODIFIED"}


# --- rights and discovery -------------------------------------------------------------------------


def test_a_review_shows_read_rights_and_a_fault_removes_them() -> None:
    fault = Fault("f", "rbac_lost", "", MIDNIGHT, MIDNIGHT + HOUR, 1, {"resource": "pods"})
    api, client = api_at(100, None, fault)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    def allowed(resource: str) -> bool:
        asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": resource}}}
        answer = client.post(path, json=asked)
        assert answer.status_code == 201
        return bool(answer.json()["status"]["allowed"])

    assert allowed("nodes")
    assert not allowed("pods")
    refused = client.get(PODS)
    assert refused.status_code == 403
    assert refused.json()["message"].startswith("pods is forbidden: User")
    assert api.faults.ledger.count("f") == 2


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ({"verb": "get", "resource": "pods"}, True),
        ({"verb": "watch", "resource": "pods", "namespace": "team-a"}, True),
        ({"verb": "list", "resource": "deployments", "group": "apps"}, True),
        ({"verb": "list", "resource": "deployments"}, False),
        ({"verb": "list", "resource": "pods", "group": "apps"}, False),
        ({"verb": "create", "resource": "pods"}, False),
        ({"verb": "delete", "resource": "nodes"}, False),
        ({"verb": "*", "resource": "pods"}, False),
        ({"verb": "list", "resource": "secrets"}, False),
        ({"verb": "list", "resource": "*"}, False),
        ({"verb": "get", "resource": "pods", "subresource": "log"}, False),
        (
            {
                "verb": "create",
                "resource": "selfsubjectaccessreviews",
                "group": "authorization.k8s.io",
            },
            True,
        ),
        ({"verb": "create", "resource": "selfsubjectaccessreviews"}, False),
        ({}, False),
    ],
)
def test_a_review_allows_only_served_resources(asked: dict[str, str], allowed: bool) -> None:
    _, client = api_at(100, None)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = client.post(path, json={"spec": {"resourceAttributes": asked}})
    assert answer.status_code == 201
    assert answer.json()["status"]["allowed"] is allowed
    assert client.post(path, json={"spec": {"resourceAttributes": ["pods"]}}).status_code == 400


def test_every_path_but_health_checks_needs_a_token() -> None:
    _, client = api_at(0, token="open sesame")
    assert client.get("/healthz").text == "ok"
    assert client.get(PODS).status_code == 401
    allowed = client.get(PODS, headers={"Authorization": "Bearer open sesame"})
    assert allowed.status_code == 200


def test_discovery_lists_the_resources() -> None:
    _, client = api_at(0)
    assert client.get("/version").json()["gitVersion"] == f"v{KUBERNETES}"
    assert client.get("/api").json()["versions"] == ["v1"]
    core = {r["name"] for r in client.get("/api/v1").json()["resources"]}
    assert {"pods", "nodes", "namespaces", "events", "resourcequotas"} <= core
    groups = {g["name"] for g in client.get("/apis").json()["groups"]}
    served = {"apps", "authorization.k8s.io", "autoscaling", "batch", "resource.k8s.io"}
    assert groups == served | {"gpu-ledger.io", "rbac.authorization.k8s.io"}
    assert client.get("/apis/apps/v2").status_code == 404


def test_events_of_pods_are_kept_for_an_hour() -> None:
    def events_at(seconds: int) -> list[tuple[str, str]]:
        items = api_at(seconds)[1].get("/api/v1/events").json()["items"]
        return sorted((e["involvedObject"]["name"], e["reason"]) for e in items)

    assert events_at(1000) == [
        ("short", "FailedScheduling"),
        ("short", "Scheduled"),
        ("short", "Started"),
        ("train-5d9c-abcde", "FailedScheduling"),
        ("train-5d9c-abcde", "Scheduled"),
        ("train-5d9c-abcde", "Started"),
        ("waits", "FailedScheduling"),
    ]
    assert {name for name, _ in events_at(4000)} == {"short", "waits"}
    assert events_at(3 * HOUR) == []


def test_lost_events_are_never_sent_and_are_counted() -> None:
    wrong = Fault("e#0", "events_lost", "", MIDNIGHT, MIDNIGHT + HOUR, 7, {"share": "1/2"})
    api, client = api_at(1000, None, wrong)
    left = names(client.get("/api/v1/events").json())
    everything = names(api_at(1000)[1].get("/api/v1/events").json())
    assert 0 < len(left) < len(everything) == 7
    assert names(client.get("/api/v1/events").json()) == left
    assert set(left) < set(everything)
    assert api.view.faults.ledger.count("e#0") == 2


# --- the official client -------------------------------------------------------------------------


def test_the_official_client_reads_it() -> None:
    kubernetes = importlib.import_module("kubernetes")  # it has no type annotations
    with served(quiet_cluster(), 1000) as (_, clock, url):
        configuration = kubernetes.client.Configuration(host=url)
        with kubernetes.client.ApiClient(configuration) as client:
            core = kubernetes.client.CoreV1Api(client)
            pods = core.list_pod_for_all_namespaces(limit=2)
            assert [p.metadata.name for p in pods.items] == ["short", "train-5d9c-abcde"]
            started = pods.items[0].status.container_statuses[0].state.running.started_at
            assert started == epoch(MIDNIGHT + 920)
            rest = core.list_pod_for_all_namespaces(_continue=pods.metadata._continue)
            assert [p.metadata.name for p in rest.items] == ["waits"]
            nodes = core.list_node().items
            assert nodes[0].status.capacity["nvidia.com/gpu"] == "2"
            system = core.read_namespace("kube-system")
            assert system.metadata.uid == CLUSTER_ID
            quota = core.list_resource_quota_for_all_namespaces().items[0]
            assert quota.status.used == {"requests.nvidia.com/gpu": "2"}
            apps = kubernetes.client.AppsV1Api(client)
            replica_set = apps.list_namespaced_replica_set("team-a").items[0]
            assert replica_set.metadata.owner_references[0].kind == "Deployment"
            version = kubernetes.client.VersionApi(client).get_code()
            assert version.git_version == f"v{KUBERNETES}"
            review = kubernetes.client.V1SelfSubjectAccessReview(
                spec=kubernetes.client.V1SelfSubjectAccessReviewSpec(
                    resource_attributes=kubernetes.client.V1ResourceAttributes(
                        verb="list", resource="pods"
                    )
                )
            )
            authorization = kubernetes.client.AuthorizationV1Api(client)
            assert authorization.create_self_subject_access_review(review).status.allowed
            events = []
            watch = kubernetes.watch.Watch()
            threading.Timer(0.3, lambda: clock.advance(700)).start()
            stream = watch.stream(
                core.list_pod_for_all_namespaces,
                resource_version=rest.metadata.resource_version,
                timeout_seconds=600,
            )
            for event in stream:
                events.append((event["type"], event["object"].metadata.name))
                if len(events) == 2:
                    watch.stop()
            assert events == [("MODIFIED", "short"), ("DELETED", "short")]
