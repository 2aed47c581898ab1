"""The fake API server and a real one return the same responses to one sequence of requests.

Both have the same objects. Differences on which no client may rely are removed: the numbers of
versions, the contents of tokens, and the word of a parser in an error message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from fake_gpu.clock import driven, epoch
from fake_gpu.fleet.model import Fault, SimulatedCluster
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.kubernetes.server import KubernetesApi
from tests.collected import identified, listening
from tests.fleets import cluster_of
from tests.servers import replay
from tests.servers.both_api_servers import (
    Both,
    Document,
    WatchStream,
    bookmark,
    level,
    level_document,
    names_of,
    of_side,
    versions_of,
    watch_both,
    without_version,
)
from tests.servers.control_plane import control_plane, token_of
from tests.servers.custom_resources import define_gpu_budgets
from tests.servers.process import wait_for
from tests.small_fleets import HOUR, MIDNIGHT, node, pod, quiet_cluster

pytestmark = pytest.mark.servers

PODS = "/api/v1/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
FUTURE = 10**9

# The rights of the user of both servers: all resources except pods and deployments.
READS = ("namespaces", "nodes", "resourcequotas")


def _cluster() -> SimulatedCluster:
    """A dozen pods, some of which start and end."""
    on = node("node-b", cards=10)
    crowd = tuple(
        pod(f"p-{n:02}", created=-1000 + n, scheduled=-900, started=-800, on=on, cards=(n,),
            labels={"app": "even" if n % 2 == 0 else "odd"})
        for n in range(10)
    )  # fmt: skip
    late = pod("p-99", created=700, cards=(), labels={"app": "odd"})
    quiet = identified(quiet_cluster())
    offering = cluster_of(BY_CLAIM)
    return replace(
        quiet,
        nodes=(quiet.nodes[0], on, *offering.nodes),
        pods=(*quiet.pods, *crowd, late),
        claims=offering.claims,
    )


# Devices by claim: claims of their own, and claims of pods that do not exist.
BY_CLAIM = """\
    nodes: [{name: dra, product: NVIDIA-B200, cards: 2, dra: true}]
    workloads: [{name: claimed, namespace: team-a, claims: [{device_class: gpu.nvidia.com}]}]
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    cluster = _cluster()
    clock, history = driven(epoch(MIDNIGHT)), ObjectHistory(cluster)
    # The real server refuses all requests of `nobody`; this is the simulator's setting for it.
    refused = tuple(
        Fault(f"f-{name}", "rbac_lost", "", MIDNIGHT + 7 * HOUR, MIDNIGHT + 8 * HOUR, 1,
              {"resource": name})
        for name in ("pods", "deployments")
    )  # fmt: skip
    api = KubernetesApi(cluster, clock, faults=refused, history=history)
    folder = tmp_path_factory.mktemp("plane")
    with (
        control_plane(folder) as plane,
        listening(api.app) as url,
        plane.client() as real,
        httpx.Client(base_url=url, timeout=60) as fake,
    ):
        define_gpu_budgets(plane)
        made = Both(plane, clock, history, real, fake, told_until=-1)
        made.advance(0)
        made.settle()
        yield made
        clock.close()
        api.hub.close()


# --- lists ---------------------------------------------------------------------------------------


def test_lists_are_the_same(both: Both) -> None:
    answer = both.same(PODS)
    assert names_of(answer) == [f"p-{n:02}" for n in range(10)] + ["train-5d9c-abcde"]
    assert both.same(PODS, resourceVersion=0) == answer
    for path in ("/api/v1/nodes", "/api/v1/resourcequotas", "/apis/apps/v1/replicasets",
                 "/api/v1/namespaces/team-a/pods", "/api/v1/namespaces/none/pods"):  # fmt: skip
        both.same(path)


@pytest.mark.parametrize("resource", ["resourceclaims", "resourceslices"])
def test_objects_of_devices_by_claim_are_the_same(both: Both, resource: str) -> None:
    path = f"/apis/resource.k8s.io/v1/{resource}"
    [name] = names_of(both.same(path))
    place = "namespaces/team-a/" if resource == "resourceclaims" else ""
    one = both.same(f"/apis/resource.k8s.io/v1/{place}{resource}/{name}")
    assert one["body"]["name"] == name
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    real, fake = watch_both(both, path, allowWatchBookmarks="true", **options)
    assert fake.first_events(2) == real.first_events(2)
    assert [kind for kind, _ in real.events()] == ["ADDED", "BOOKMARK"]


def test_single_objects_and_missing_ones_are_the_same(both: Both) -> None:
    assert both.same("/api/v1/nodes/node-a")["body"]["kind"] == "Node"
    both.same("/api/v1/namespaces/kube-system")
    both.same("/apis/apps/v1/namespaces/team-a/replicasets/train-5d9c")
    missing = both.same("/api/v1/namespaces/team-a/pods/nothing")
    assert missing["body"]["details"] == {"name": "nothing", "kind": "pods"}
    both.same("/apis/apps/v1/namespaces/team-a/deployments/nothing")
    for path in ("/api/v1/nothing", "/apis/apps/v9", "/apis/apps/v1/nothing", "/apis/nothing/v1"):
        assert both.same(path)["status"] == 404


@pytest.mark.parametrize(
    "params",
    [
        {"fieldSelector": "spec.nodeName=node-b"},
        {"fieldSelector": "status.phase!=Running"},
        {"fieldSelector": "metadata.name=p-03,metadata.namespace=team-a"},
        {"fieldSelector": "spec.nodeName=node-b", "labelSelector": "app=odd"},
        {"labelSelector": "app in (odd, train)"},
        {"labelSelector": "app notin (odd,even)"},
        {"labelSelector": "app,app!=odd", "limit": 2},
        {"labelSelector": "!app"},
        {"labelSelector": "app==even"},
        {"fieldSelector": "spec.colour=red"},
    ],
)
def test_selectors_choose_the_same(both: Both, params: Document) -> None:
    refused = params.get("fieldSelector") == "spec.colour=red"
    assert both.same(PODS, **params)["status"] == (400 if refused else 200)


@pytest.mark.parametrize(
    "params",
    [
        {"labelSelector": "a==b,,=c"},
        {"continue": "nonsense"},
        {"continue": "e30"},
        {"limit": "x"},
        {"resourceVersion": "x"},
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
        {"watch": 1, "sendInitialEvents": "true"},
        {"watch": 1, "fieldSelector": "spec.colour=red"},
    ],
)
def test_invalid_parameters_give_the_same_errors(both: Both, params: Document) -> None:
    real, fake = both.ask(PODS, **params)
    for answer in (real, fake):
        # The message may quote the parser; code, reason and details are compared.
        answer["body"].pop("message")
    assert fake == real
    assert real["status"] in (400, 422)


def test_a_version_from_the_future_is_the_same_timeout(both: Both) -> None:
    answer = both.same(PODS, resourceVersion=FUTURE)
    assert (answer["status"], answer["retry_after"]) == (504, "1")
    assert answer["body"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    both.same(PODS, resourceVersion=FUTURE, resourceVersionMatch="Exact")
    both.same(PODS, resourceVersion=FUTURE, resourceVersionMatch="NotOlderThan")


# --- streams -------------------------------------------------------------------------------------


def test_a_streaming_list_is_the_same(both: Both) -> None:
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    for path in (PODS, "/api/v1/nodes"):
        count = len(both.same(path)["body"]["items"]) + 1
        real, fake = watch_both(both, path, allowWatchBookmarks="true", **params)
        assert fake.first_events(count) == real.first_events(count)
        kind, mark = real.events()[-1]
        assert kind == "BOOKMARK"
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_from_zero_begins_with_the_existing_objects(both: Both) -> None:
    for bookmarks in ("true", "false"):
        count = 11 + (bookmarks == "true")
        real, fake = watch_both(both, PODS, resourceVersion=0, allowWatchBookmarks=bookmarks)
        assert fake.first_events(count) == real.first_events(count)
        assert len(real.events()) == count


def test_a_streaming_list_from_the_future_is_an_error_inside_the_stream(both: Both) -> None:
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    real, fake = watch_both(
        both, PODS, resourceVersion=FUTURE, allowWatchBookmarks="true", **params
    )
    assert fake.first_events(1) == real.first_events(1)
    kind, status = real.events()[0]
    assert (kind, status["code"]) == ("ERROR", 504)


# --- changes during a watch ----------------------------------------------------------------------


def test_all_changes_give_the_same_events(both: Both) -> None:
    """A pod waits, one starts, runs, ends and is deleted; for all, a selector, one namespace."""
    versions = versions_of(both, PODS)
    everything = watch_both(both, PODS, resourceVersion=versions, allowWatchBookmarks="true")
    running = {"fieldSelector": "status.phase=Running,metadata.name=short"}
    chosen = watch_both(both, PODS, resourceVersion=versions, **running)
    inside = watch_both(both, "/api/v1/namespaces/team-b/pods", resourceVersion=versions)
    both.advance(650)
    more = tuple(c.get(PODS, params={"limit": 4}).json() for c in (both.real, both.fake))
    both.advance(1700)
    told = [
        e for e in both.history.changes if e.kind == "Pod" and MIDNIGHT < e.at <= both.told_until
    ]
    real, fake = everything
    assert fake.first_events(len(told)) == real.first_events(len(told))
    assert [kind for kind, _ in real.events()] == [change.verb for change in told]
    _is_told_in_order(real)
    real, fake = chosen
    assert fake.first_events(2) == real.first_events(2)
    assert [kind for kind, _ in real.events()] == ["ADDED", "DELETED"]
    real, fake = inside
    assert fake.first_events(2) == real.first_events(2)
    assert {item["name"] for _, item in real.events()} == {"waits"}
    for watch in (*everything, *chosen, *inside):
        watch.stop()
    _pages_are_of_the_first_ones_version(both, more)


def _is_told_in_order(watch: WatchStream) -> None:
    """Versions grow; a deletion has a version of its own."""
    numbers = [int(e["object"]["metadata"]["resourceVersion"]) for e in watch.lines]
    assert numbers == sorted(numbers)


def _pages_are_of_the_first_ones_version(both: Both, first: tuple[Document, ...]) -> None:
    """`p-99` was created while the pages were read, so it is not in the list."""
    pages = []
    for client, page in zip((both.real, both.fake), first, strict=True):
        found = [page]
        while more := found[-1]["metadata"].get("continue"):
            found.append(client.get(PODS, params={"limit": 4, "continue": more}).json())
            own = {p["metadata"]["resourceVersion"] for p in found}
            assert len(own) == 1
        pages.append([level_document(page) for page in found])
    assert pages[0] == pages[1]
    listed = [item["name"] for page in pages[0] for item in page["items"]]
    assert listed == [f"p-{n:02}" for n in range(10)] + ["train-5d9c-abcde", "waits"]
    assert "p-99" in names_of(both.same(PODS))


def test_a_bookmark_says_the_same(both: Both) -> None:
    """A real server sends one before it ends a watch, but only after other events."""
    elsewhere = {"fieldSelector": "metadata.name=nothing", "timeoutSeconds": (5, 7200)}
    real, fake = watch_both(
        both, PODS, resourceVersion=versions_of(both, PODS), allowWatchBookmarks="true", **elsewhere
    )
    wait_for(lambda: bool(fake.lines))
    pod = both.history.objects_at("Pod", both.told_until)[0]
    written = {**pod, "metadata": without_version(pod["metadata"])}

    def has_bookmark() -> bool:
        if real.lines:
            return True
        if real.over.is_set():
            real.open()  # it ended before the event reached it
        both.plane.store(replay.key_of(pod), written)
        return False

    wait_for(has_bookmark, "the bookmark of the real server", every_seconds=0.5)
    assert [bookmark(fake.lines[0])] == [bookmark(line) for line in real.lines]
    fake.stop()


# --- compaction ----------------------------------------------------------------------------------


def test_compacted_versions_give_the_same_errors(both: Both) -> None:
    """410 for a token and for a version in their responses, and for a watch inside its stream."""
    versions = versions_of(both, PODS)
    tokens = tuple(
        c.get(PODS, params={"limit": 4}).json()["metadata"]["continue"]
        for c in (both.real, both.fake)
    )
    both.advance(2400)
    both.clock.advance(1)  # the simulator keeps the state of the previous step
    both.plane.store("/registry/gpu-ledger-test", {"time": "goes on"})
    both.plane.compact()
    # A real server keeps older events in its cache; after a restart the cache is empty.
    both.plane.stop_api()
    both.plane.start_api()
    both.settle()

    for params in ({"continue": tokens, "limit": 4},
                   {"resourceVersion": versions, "resourceVersionMatch": "Exact"}):  # fmt: skip
        real, fake = (
            level(c.get(PODS, params={k: of_side(v, place) for k, v in params.items()}))
            for place, c in enumerate((both.real, both.fake))
        )
        assert fake == real
        assert (real["status"], real["body"]["reason"]) == (410, "Expired")
    watch = watch_both(both, PODS, resourceVersion=versions)
    real_words, fake_words = (each.first_events(1) for each in watch)
    assert fake_words == real_words
    assert (real_words[0][0], real_words[0][1]["code"]) == ("ERROR", 410)
    wait_for(lambda: all(each.over.is_set() for each in watch))
    _the_rest_can_be_read_with_the_token_of_the_refusal(both, tokens)


def _the_rest_can_be_read_with_the_token_of_the_refusal(
    both: Both, tokens: tuple[str, ...]
) -> None:
    rests = []
    for client, token in zip((both.real, both.fake), tokens, strict=True):
        gone = client.get(PODS, params={"continue": token}).json()
        rests.append(level(client.get(PODS, params={"continue": gone["metadata"]["continue"]})))
    assert rests[0] == rests[1]
    assert names_of(rests[0])[0] == "p-04"


# --- rights and discovery ------------------------------------------------------------------------


def _allow(admin: httpx.Client) -> None:
    """The user `collector` may read the resources in READS, but not pods and deployments."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reads-some"},
        "rules": [{"apiGroups": [""], "resources": list(READS), "verbs": ["get", "list", "watch"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads-some"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "reads-some",
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "collector"}
        ],
    }
    assert admin.post(f"{group}/clusterroles", json=role).status_code == 201
    assert admin.post(f"{group}/clusterrolebindings", json=binding).status_code == 201


def test_missing_rights_give_the_same_errors(both: Both) -> None:
    _allow(both.real)
    both.advance(7 * HOUR)
    with both.plane.client("collector") as real:
        limited = replace(both, real=real)
        wait_for(lambda: real.get("/api/v1/nodes").status_code == 200)
        for path in (PODS, "/api/v1/namespaces/team-a/pods", "/apis/apps/v1/deployments",
                     "/api/v1/namespaces/team-a/pods/p-00"):  # fmt: skip
            assert limited.same(path)["body"]["reason"] == "Forbidden"
        assert limited.same(PODS, watch=1)["status"] == 403
        assert limited.same("/api/v1/nodes")["status"] == 200
        for asked in ("pods", "nodes", "namespaces"):
            for verb in ("list", "watch"):
                assert len(set(_reviews(limited, verb, asked))) == 1
        assert _reviews(limited, "list", "pods") == [False, False]
        assert _reviews(limited, "list", "nodes") == [True, True]


def _reviews(both: Both, verb: str, resource: str) -> list[bool]:
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "resource": resource}},
    }
    answers = [client.post(REVIEWS, json=asked) for client in (both.real, both.fake)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert {answer.json()["kind"] for answer in answers} == {"SelfSubjectAccessReview"}
    return [answer.json()["status"]["allowed"] for answer in answers]


def test_a_wrong_token_gives_the_same_error(both: Both) -> None:
    cluster = _cluster()
    api = KubernetesApi(cluster, driven(epoch(MIDNIGHT)), token=token_of("admin"))
    wrong = {"Authorization": "Bearer nonsense"}
    with listening(api.app) as url, both.plane.client() as real:
        answers = [
            level(real.get(PODS, headers=wrong)),
            level(httpx.get(url + PODS, headers=wrong)),
        ]
        assert httpx.get(url + PODS, headers=real.headers).status_code == 200
    assert answers[0] == answers[1]
    assert answers[0]["status"] == 401


def test_the_table_of_contents_is_a_part_of_the_real_one(both: Both) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert both.same(path)["text"] == "ok"
    real, fake = (c.get("/version").json() for c in (both.real, both.fake))
    assert {n: real[n] for n in ("major", "minor", "gitVersion", "platform")} == {
        n: fake[n] for n in ("major", "minor", "gitVersion", "platform")
    }
    groups = [c.get("/apis").json()["groups"] for c in (both.real, both.fake)]
    known_groups = {group["name"]: group for group in groups[0]}
    for group in groups[1]:  # the real server may have further versions
        known = known_groups[group["name"]]
        assert group["preferredVersion"] == known["preferredVersion"]
        assert all(version in known["versions"] for version in group["versions"])
    for path in ("/api/v1", *(f"/apis/{g['preferredVersion']['groupVersion']}" for g in groups[1])):
        lists = [c.get(path).json() for c in (both.real, both.fake)]
        by_name = {r["name"]: r for r in lists[0]["resources"]}
        for entry in lists[1]["resources"]:
            known = by_name[entry["name"]]
            assert set(entry["verbs"]) <= set(known["verbs"])
            assert {n: v for n, v in entry.items() if n != "verbs"}.items() <= known.items()
