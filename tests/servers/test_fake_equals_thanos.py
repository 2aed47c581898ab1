"""The simulated querier responds like a real Thanos over two replicas that lost other scrapes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from fake_gpu.prometheus.app import ApiOptions, make_app
from tests.asgi import Client
from tests.servers.stored_fleets import (
    REPLICA,
    START,
    by_replica,
    halves,
    replicated_fleet,
    samples_of,
)
from tests.small_fleets import HOUR, MIDNIGHT

pytestmark = pytest.mark.servers

Both = tuple[httpx.Client, Client]
RANDOM_QUERIES = 150
UNIONS = 40
NAMES = ["up", "kube_pod_container_resource_requests", "kube_node_info", "kube_pod_status_phase"]
LABELS = ["namespace", "pod", "node", REPLICA]
VALUES = ["team-a", "p-0.", "node-b", "prometheus-k8s-1", ""]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    fleet = replicated_fleet()
    source = samples_of(fleet)
    # This Thanos uses the query language of Prometheus 3.
    options = ApiOptions(left_open=True, replica_labels=(REPLICA,))
    fake = Client(make_app(source, source.clock, options))
    with (
        halves(fleet, by_replica, tmp_path_factory.mktemp("thanos"), steady=[0, 1]) as made,
        httpx.Client(base_url=made.url, timeout=60, trust_env=False) as real,
    ):
        yield real, fake


def _level(answer: httpx.Response) -> Any:
    """A response with its rows in one order; for an error, its type."""
    body = answer.json()
    if body["status"] != "success":
        return answer.status_code, body["errorType"]
    data = body["data"]
    if not isinstance(data, dict):
        return answer.status_code, sorted(data, key=str)
    rows = [
        (tuple(sorted(row["metric"].items())), row.get("values", row.get("value")))
        for row in data["result"]
    ]
    return answer.status_code, data["resultType"], sorted(rows, key=str), body.get("warnings")


def _same(both: Both, path: str, **asked: Any) -> Any:
    real, fake = (client.post(path, data=asked) for client in both)
    ours, theirs = _level(fake), _level(real)
    assert ours == theirs, f"{path} {asked}\n{_first_difference(ours, theirs)}"
    return real.json()


def _first_difference(ours: Any, theirs: Any) -> str:
    """The first two rows that differ, or the beginnings of both responses."""
    for mine, other in zip(ours[2:3], theirs[2:3], strict=False):
        pair = next((pair for pair in zip(mine, other, strict=False) if pair[0] != pair[1]), None)
        if pair is not None:
            return f"ours: {pair[0]}\nreal: {pair[1]}"
    return f"ours: {ours}"[:600] + f"\nreal: {theirs}"[:600]


@pytest.mark.parametrize("dedup", ["true", "false"])
@pytest.mark.parametrize("metric", NAMES)
def test_raw_ranges_are_the_same_with_and_without_deduplication(
    both: Both, metric: str, dedup: str
) -> None:
    # Windows inside one block of the store: at its edge a real one may also switch the replica.
    for width, end in (("10m", 1200), ("10m", 1800), ("1h", 3600), ("1h", 7199), ("2h", 7199)):
        asked = {"query": f"{metric}[{width}]", "time": MIDNIGHT + end, "dedup": dedup}
        answer = _same(both, "/api/v1/query", **asked)
        assert answer["data"]["result"]


def test_deduplication_creates_gaps_in_both(both: Both) -> None:
    """No replica has this gap; its presence depends on the start of the window."""
    has_hole = set()
    for width in range(20, 120, 5):
        asked = {"query": f"up[{width}m]", "time": MIDNIGHT + 3600, "dedup": "true"}
        [series, *_] = _same(both, "/api/v1/query", **asked)["data"]["result"]
        times = [at for at, _ in series["values"]]
        has_hole.add(max(after - before for before, after in pairwise(times)) > 90)
    assert has_hole == {True, False}


def _random_query(draw: random.Random) -> str:
    matchers = [
        f'{draw.choice(LABELS)}{draw.choice(["=", "!=", "=~", "!~"])}"{draw.choice(VALUES)}"'
        for _ in range(draw.randrange(3))
    ]
    selector = draw.choice(NAMES) + "{" + ",".join(matchers) + "}"
    offset = draw.choice(["", "", " offset 1ms", " offset 7m"])
    form = draw.randrange(5)
    if form == 0:
        return selector + offset
    ranged = f"{selector}[{draw.choice(['1h', '5m', '90s'])}]{offset}"
    return ranged if form == 1 else f"{draw.choice(['avg', 'max', 'count'])}_over_time({ranged})"


def test_random_queries_are_answered_the_same(both: Both) -> None:
    draw = random.Random(20261118)
    answered = 0
    for _ in range(RANDOM_QUERIES):
        query, dedup = _random_query(draw), draw.choice(["true", "false"])
        at = MIDNIGHT + draw.randrange(0, 3 * HOUR)
        if draw.random() < 0.5:
            answer = _same(both, "/api/v1/query", query=query, time=at, dedup=dedup)
        else:
            step = draw.choice([60, 300, 3600])
            asked = {"query": query, "start": at, "end": at + HOUR, "step": step, "dedup": dedup}
            answer = _same(both, "/api/v1/query_range", **asked)
        answered += bool(answer.get("data", {}).get("result"))
    assert answered > RANDOM_QUERIES / 3, "most random queries must be about something"


def test_unions_are_the_same_with_the_queries_of_a_pull(both: Both) -> None:
    draw = random.Random(20261119)
    answered = 0
    for _ in range(UNIONS):
        parts = [_random_query(draw) for _ in range(draw.randrange(2, 5))]
        query = " or ".join(
            f'label_replace({part},"{label}","{draw.choice("xyz")}","","")' if label else part
            for part in parts
            for label in [draw.choice(["gpu_ledger_metric", "gpu_ledger_metric", "pod", ""])]
        )
        window = {"start": MIDNIGHT + HOUR, "end": MIDNIGHT + 3 * HOUR, "step": HOUR}
        answer = _same(both, "/api/v1/query_range", query=query, dedup="false", **window)
        answered += bool(answer.get("data", {}).get("result"))
    assert answered > UNIONS / 3, "most unions must be about something"


def test_names_of_series_and_labels_are_the_same(both: Both) -> None:
    window = {"start": str(MIDNIGHT), "end": str(MIDNIGHT + HOUR)}
    chosen = {"match[]": 'kube_pod_info{namespace="team-a"}'}
    for dedup in ("true", "false"):
        _same(both, "/api/v1/series", **chosen, **window, dedup=dedup)
    _same(both, "/api/v1/labels", **chosen, **window)
    for name in ("__name__", "namespace", REPLICA):
        path = f"/api/v1/label/{name}/values"
        real, fake = (client.get(path, params=chosen | window) for client in both)
        assert _level(fake) == _level(real), f"{real.text}\n{fake.text}"


SAME_LABELS = "kube_node_status_capacity|kube_node_status_allocatable"
REFUSED = [
    {"query": "up["},
    {"query": ""},
    {"query": "up", "dedup": "maybe"},
    {"query": "up", "partial_response": "maybe"},
    {"query": "up", "max_source_resolution": "coarse"},
    {"query": "up", "time": "yesterday"},
    {"query": f'avg_over_time({{__name__=~"{SAME_LABELS}"}}[1h])'},
]


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: "&".join(asked.values()))
def test_refused_queries_give_the_same_errors(both: Both, asked: dict[str, str]) -> None:
    whole = {"time": str(MIDNIGHT + 3600)} | asked
    real, fake = (client.post("/api/v1/query", data=whole) for client in both)
    assert _level(fake) == _level(real), f"{real.text}\n{fake.text}"
    assert real.status_code >= 400


def test_the_page_of_stores_has_the_same_form(both: Both) -> None:
    real, fake = (client.get("/api/v1/stores").json() for client in both)
    assert fake["data"].keys() == real["data"].keys() == {"sidecar"}
    for ours, theirs in zip(fake["data"]["sidecar"], real["data"]["sidecar"], strict=True):
        assert ours.keys() <= theirs.keys()
        assert ours["lastError"] is theirs["lastError"] is None
        assert ours["labelSets"][0].keys() == theirs["labelSets"][0].keys()
        assert ours["minTime"] <= START.timestamp() * 1000
    versions = [client.get("/api/v1/status/buildinfo").json()["data"].keys() for client in both]
    assert versions[1] <= versions[0]
    assert both[0].get("/-/ready").text == both[1].get("/-/ready").text
