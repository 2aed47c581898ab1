"""The HTTP API: paths, parameters, statuses, JSON, gzip, deduplication."""

from __future__ import annotations

import gzip
import itertools

import pytest

from fake_gpu.prometheus.app import ApiOptions
from tests.served_samples import Thanos, fault, thanos
from tests.small_fleets import CLUSTER_ID, HOUR, MIDNIGHT, monitoring, quiet_fleet


@pytest.fixture(scope="module")
def quiet() -> Thanos:
    return thanos(quiet_fleet())


def test_get_and_post_are_equal_and_the_form_takes_precedence(quiet: Thanos) -> None:
    asked = {"query": "up", "time": str(MIDNIGHT + HOUR)}
    got = quiet.http.get("/api/v1/query", params=asked)
    posted = quiet.http.post("/api/v1/query", data=asked)
    assert got.status_code == posted.status_code == 200
    assert got.content == posted.content
    both = quiet.http.post("/api/v1/query?query=nothing", data=asked)
    assert both.content == posted.content


def test_a_response_has_the_format_of_a_real_server(quiet: Thanos) -> None:
    answer = quiet.ask('kube_node_spec_unschedulable{node="node-a"}', HOUR, dedup="true")
    assert answer.headers["content-type"] == "application/json"
    assert answer.text == (
        '{"status":"success","data":{"resultType":"vector","result":[{"metric":'
        '{"__name__":"kube_node_spec_unschedulable","cluster":"alpha",'
        f'"clusterID":"{CLUSTER_ID}","container":"kube-rbac-proxy-main",'
        '"endpoint":"https-main","job":"kube-state-metrics",'
        '"namespace":"openshift-monitoring","node":"node-a","service":"kube-state-metrics"},'
        f'"value":[{MIDNIGHT + HOUR},"0"]}}],"analysis":{{}}}}}}'
    )


def test_responses_have_the_time_of_the_servers_clock(quiet: Thanos) -> None:
    asked = quiet.http.post("/api/v1/query", data={"query": "time()", "time": f"{MIDNIGHT}.25"})
    assert asked.json()["data"] == {
        "resultType": "scalar",
        "result": [MIDNIGHT + 0.25, f"{MIDNIGHT}.25"],
        "analysis": {},
    }
    now = quiet.http.get("/api/v1/query?query=time()").json()["data"]["result"]
    assert now == [MIDNIGHT + 24 * HOUR, str(MIDNIGHT + 24 * HOUR)]
    steps = {"query": " time( ) ", "start": MIDNIGHT, "end": MIDNIGHT + 60, "step": 60}
    [series] = quiet.http.post("/api/v1/query_range", data=steps).json()["data"]["result"]
    assert series == {
        "metric": {},
        "values": [[MIDNIGHT, str(MIDNIGHT)], [MIDNIGHT + 60, str(MIDNIGHT + 60)]],
    }


def test_the_server_marks_itself_as_simulated(quiet: Thanos) -> None:
    assert quiet.http.get("/api/v1/status/buildinfo").json()["data"]["revision"] == "fake"


def test_large_responses_are_compressed_on_request(quiet: Thanos) -> None:
    asked = {"query": '{__name__=~"kube_.*"}[1h]', "time": str(MIDNIGHT + HOUR)}
    plain = quiet.http.post("/api/v1/query", data=asked, headers={"accept-encoding": "identity"})
    zipped = quiet.http.post("/api/v1/query", data=asked, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.content == plain.content  # the client decompresses it
    assert int(zipped.headers["content-length"]) < len(plain.content) / 10
    assert len(gzip.compress(plain.content)) < len(plain.content)


@pytest.mark.parametrize(
    ("path", "asked", "status", "kind", "words"),
    [
        ("query", {"query": "sum(up)"}, 400, "bad_data", "the simulated fleet supports selectors"),
        ("query", {"query": "up{"}, 400, "bad_data", "parse error: unexpected end of input"),
        ("query", {}, 400, "bad_data", "no expression found in input"),
        ("query", {"query": "up", "time": "soon"}, 400, "bad_data", 'cannot parse "soon"'),
        ("query", {"query": "up", "dedup": "maybe"}, 400, "bad_data", "'dedup' parameter"),
        ("query", {"query": "up", "partial_response": "x"}, 400, "bad_data", "partial_response"),
        (
            "query",
            {"query": "up", "max_source_resolution": "fine"},
            400,
            "bad_data",
            "max_source_resolution",
        ),
        ("query_range", {"query": "up", "start": "1"}, 400, "bad_data", '"end"'),
        (
            "query_range",
            {"query": "up", "start": "2", "end": "1", "step": "1"},
            400,
            "bad_data",
            "end timestamp must not be before start time",
        ),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "1", "step": "0"},
            400,
            "bad_data",
            "zero or negative query resolution step widths",
        ),
        (
            "query_range",
            {"query": "up", "start": "0", "end": "11001", "step": "1"},
            400,
            "bad_data",
            "exceeded maximum resolution of 11,000 points",
        ),
        (
            "query_range",
            {"query": "up[5m]", "start": "0", "end": "1", "step": "1"},
            400,
            "bad_data",
            'invalid expression type "range vector"',
        ),
        ("series", {}, 400, "bad_data", "no match[] parameter provided"),
        ("series", {"match[]": "up["}, 400, "bad_data", "parse error"),
        (
            "query",
            {"query": 'max_over_time({__name__=~"kube_pod_created|kube_pod_labels"}[1h])'},
            200,
            "",
            "",
        ),
        (
            "query",
            {
                "query": 'max_over_time({__name__=~"kube_pod_created|kube_pod_start_time"}[1h])',
                "time": str(MIDNIGHT + HOUR),
            },
            422,
            "execution",
            "vector cannot contain metrics with the same labelset",
        ),
    ],
)
def test_an_invalid_query_is_answered_with_its_error(
    quiet: Thanos, path: str, asked: dict[str, str], status: int, kind: str, words: str
) -> None:
    answer = quiet.http.post(f"/api/v1/{path}", data=asked)
    assert answer.status_code == status, answer.text
    if kind:
        body = answer.json()
        assert body["status"] == "error"
        assert body["errorType"] == kind
        assert words in body["error"]


def test_replicas_are_two_series_or_one(quiet: Thanos) -> None:
    apart = quiet.rows('kube_node_spec_unschedulable{node="node-a"}', HOUR)
    assert [row["prometheus_replica"] for row in apart] == ["prometheus-k8s-0", "prometheus-k8s-1"]
    united = quiet.rows('kube_node_spec_unschedulable{node="node-a"}', HOUR, dedup="true")
    assert len(united) == 1
    assert "prometheus_replica" not in united[0]
    renamed = quiet.http.post(
        "/api/v1/query",
        data={"query": "up", "time": MIDNIGHT + HOUR, "replicaLabels[]": "instance"},
    )
    labels = [row["metric"] for row in renamed.json()["data"]["result"]]
    assert all("prometheus_replica" in each and "instance" not in each for each in labels)


def test_a_matcher_on_a_replica_selects_its_store(quiet: Thanos) -> None:
    one = 'kube_node_spec_unschedulable{node="node-a",prometheus_replica="prometheus-k8s-1"}'
    assert len(quiet.rows(one, HOUR)) == 1
    none = one.replace("k8s-1", "k8s-9")
    assert quiet.rows(none, HOUR) == []
    assert quiet.rows(none, HOUR, dedup="true") == []
    [united] = quiet.rows(one, HOUR, dedup="true")
    assert "prometheus_replica" not in united


def test_labels_values_and_series_list_the_stored_series(quiet: Thanos) -> None:
    names = quiet.http.get("/api/v1/labels").json()["data"]
    assert {"__name__", "clusterID", "pod", "resource"} <= set(names)
    assert names == sorted(names)
    pods = quiet.http.get("/api/v1/label/pod/values", params={"match[]": "kube_pod_info"}).json()[
        "data"
    ]
    assert pods == ["short", "train-5d9c-abcde", "waits"]
    assert quiet.http.get("/api/v1/label/a-b/values").status_code == 400
    during = {
        "match[]": 'kube_pod_created{pod="short"}',
        "start": MIDNIGHT + HOUR,
        "end": MIDNIGHT + 2 * HOUR,
    }
    assert quiet.http.post("/api/v1/series", data=during).json()["data"] == []
    during["start"] = MIDNIGHT
    (found,) = quiet.http.post("/api/v1/series", data=during).json()["data"]
    assert found["namespace"] == "team-a"


def test_the_server_shows_health_version_and_stores(quiet: Thanos) -> None:
    assert quiet.http.get("/-/ready").text == "OK"
    info = quiet.http.get("/api/v1/status/buildinfo").json()["data"]
    assert info["version"] == "0.37.2"
    stores = quiet.http.get("/api/v1/stores").json()["data"]
    assert [store["lastError"] for store in stores["sidecar"]] == [None, None]
    assert stores["sidecar"][1]["labelSets"] == [
        {"cluster": "alpha", "clusterID": CLUSTER_ID, "prometheus_replica": "prometheus-k8s-1"}
    ]
    plain = thanos(quiet_fleet(), options=ApiOptions(flavour="prometheus"))
    assert plain.http.get("/-/ready").text == "Prometheus Server is Ready.\n"
    assert plain.http.get("/api/v1/stores").status_code == 404
    no_step = {"query": "up", "start": "0", "end": "1"}
    assert plain.http.post("/api/v1/query_range", data=no_step).status_code == 400
    assert quiet.http.post("/api/v1/query_range", data=no_step).status_code == 200


def test_samples_of_the_future_are_not_shown() -> None:
    early = thanos(quiet_fleet(), now=1000)
    query = 'kube_pod_info{pod="short"}'
    seen = early.samples(f"{query}[1h]", HOUR)
    assert 900 < min(at for at, _ in seen) <= max(at for at, _ in seen) <= 1000
    assert early.samples(query, 1200)  # the newest sample before, by look-back
    assert early.samples(query, 1400) == []
    early.go_to(1500)
    later = early.samples(f"{query}[1h]", HOUR)
    assert 1470 < max(at for at, _ in later) <= 1500
    assert set(seen) < set(later)


def test_a_query_that_would_load_too_much_is_an_error() -> None:
    small = thanos(quiet_fleet(), options=ApiOptions(largest_sample_count=100))
    answer = small.ask('{__name__=~"kube_.*"}[1h]', HOUR)
    assert answer.status_code == 422
    assert "too many samples" in answer.json()["error"]


def test_a_collected_cluster_has_a_sample_per_five_minutes_without_replica() -> None:
    collected = thanos(quiet_fleet(monitoring(collect_interval_seconds=300, staleness=False)))
    rows = collected.rows('kube_pod_info{pod="train-5d9c-abcde"}[1h]', 2 * HOUR)
    assert len(rows) == 1
    assert "prometheus_replica" not in rows[0]
    times = [at for at, _ in rows[0]["samples"]]
    assert len(times) == 12
    assert all(270 <= later - before <= 331 for before, later in itertools.pairwise(times))
    stores = collected.http.get("/api/v1/stores").json()["data"]
    assert list(stores) == ["receive"]


def test_without_markers_an_ended_pod_stays_for_the_look_back() -> None:
    """`short` is deleted at 1600; its last scrape is at most 30 s earlier."""
    query = 'kube_pod_info{pod="short"}'
    marked = thanos(quiet_fleet())
    assert marked.rows(query, 1590)
    assert marked.rows(query, 1640) == []
    unmarked = thanos(quiet_fleet(monitoring(staleness=False)))
    assert unmarked.rows(query, 1640)
    assert unmarked.rows(query, 1860)
    assert unmarked.rows(query, 1901) == []


@pytest.mark.parametrize("trouble", ["", "empty_success", "store_vanishes"])
def test_metric_names_are_those_of_the_returned_series(trouble: str) -> None:
    wrong = [fault(trouble, HOUR, 2 * HOUR, requests=0, warns_for=0)] if trouble else []
    shown = thanos(quiet_fleet(), *wrong, now=HOUR + 60)
    for selector in ('{__name__=~"DCGM_FI_.+|up"}', '{node="node-b"}', '{__name__!="",job="x"}'):
        asked = {"match[]": selector, "start": MIDNIGHT, "end": MIDNIGHT + HOUR}
        names = shown.http.get("/api/v1/label/__name__/values", params=asked).json()["data"]
        series = shown.http.get("/api/v1/series", params=asked).json()["data"]
        assert names == sorted({labels["__name__"] for labels in series})
