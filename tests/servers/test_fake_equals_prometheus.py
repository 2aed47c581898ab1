"""The simulator returns the same samples as a real Prometheus with the same history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.interval import Interval
from fake_gpu.clock import epoch
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.openmetrics import write_openmetrics
from ingestion.metric_catalogue import (
    ALLOCATION_ENTRIES,
    CATALOGUE,
    TELEMETRY_ENTRIES,
    MetricQuery,
    allocation_queries,
)
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from ingestion.thanos.query_runner import QueryRunner
from ingestion.thanos.telemetry import (
    FUNCTIONS,
    METRIC_LABEL,
    UNION_LIMIT,
    range_form,
    telemetry_query,
)
from tests.asgi import Client
from tests.servers.prometheus import make_blocks, programs, prometheus
from tests.servers.queried_fleet import HOURS, INTERVAL, queried_fleet, queried_series
from tests.small_fleets import HOUR, MIDNIGHT
from warehouse.manifest import Sampling

pytestmark = pytest.mark.servers

Both = tuple[httpx.Client, Client]
RANDOM_QUERIES = 300
ASKED = Matcher("__name__", "=~", "|".join(entry.metric for entry in CATALOGUE))
# All metrics of one request of a pull, and every metric alone.
ASKS = {
    ",".join(ask.metrics): ask
    for ask in (
        *allocation_queries(),
        *(
            MetricQuery(entry.metric, (entry.metric,), entry.matchers)
            for entry in ALLOCATION_ENTRIES
        ),
    )
}


NOWHERE = Connection("http://127.0.0.1:1")
[CLUSTER] = queried_fleet().clusters
ASKER = QueryRunner(
    ClusterSource(CLUSTER.cluster_id, ThanosSettings("x", NOWHERE), Sampling(INTERVAL, INTERVAL)),
    AttemptClient(NOWHERE),
)


def hour_at(hour: int) -> datetime:
    return epoch(MIDNIGHT + hour * HOUR)


@pytest.fixture(scope="module", params=[2, 3])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """The real server and the fake one, with the same history and without staleness markers."""
    which = programs(request.param)
    folder: Path = tmp_path_factory.mktemp(f"prometheus{request.param}")
    source = queried_series()
    files = write_openmetrics(source, hour_at(0), hour_at(HOURS), folder / "om", matchers=[ASKED])
    make_blocks(which, files, folder / "data")
    options = ApiOptions(flavour="prometheus", left_open=which.version == 3)
    with prometheus(which, folder) as real:
        yield real, Client(make_app(source, source.clock, options))


Sorted = list[tuple[tuple[tuple[str, str], ...], Any]]


def _normal(answer: httpx.Response) -> tuple[int, Any, Sorted]:
    body = answer.json()
    if body["status"] != "success":
        return answer.status_code, body["errorType"], []
    data = body["data"]
    if not isinstance(data, dict):
        return answer.status_code, data, []
    rows = [
        (tuple(sorted(row["metric"].items())), row.get("values", row.get("value")))
        for row in data["result"]
    ]
    return answer.status_code, data["resultType"], sorted(rows)


def _same(both: Both, path: str, asked: dict[str, Any]) -> Any:
    real, fake = (client.post(path, data=asked) for client in both)
    assert _normal(fake) == _normal(real), f"{path} {asked}\n{real.text[:500]}\n{fake.text[:500]}"
    return real.json()


@pytest.mark.parametrize("metrics", ASKS)
def test_every_hour_is_the_same_with_the_queries_of_a_pull(both: Both, metrics: str) -> None:
    """Raw samples in an interval from both sides, with the matchers of the catalogue."""
    ask = ASKS[metrics]
    selector = ASKER.selector(ask)
    told = set()
    for hour in range(HOURS):
        asked = {
            "query": f"{selector}[{HOUR + 2 * INTERVAL}s]",
            "time": MIDNIGHT + (hour + 1) * HOUR + INTERVAL,
        }
        rows = _same(both, "/api/v1/query", asked)["data"]["result"]
        told |= {row["metric"]["__name__"] for row in rows}
    assert told == set(ask.metrics), "an answer that is empty on both sides compares nothing"


def test_the_time_of_the_server_has_the_same_form(both: Both) -> None:
    for path, asked in (
        ("/api/v1/query", {"query": "time()", "time": MIDNIGHT + 0.25}),
        ("/api/v1/query_range", {"query": "time()", "start": MIDNIGHT, "end": MIDNIGHT + 90.5,
                                 "step": 45}),
    ):  # fmt: skip
        real, fake = (client.post(path, data=asked) for client in both)
        assert fake.json() == real.json()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_day_of_telemetry_is_the_same_with_the_queries_of_a_pull(
    both: Both, function: str
) -> None:
    """Unions of the metrics, in the order of both servers, and each metric alone."""
    window = Interval(hour_at(0), hour_at(HOURS))
    exposed = set(both[0].get("/api/v1/label/__name__/values").json()["data"])
    assert len(exposed & {entry.metric for entry in TELEMETRY_ENTRIES}) > 20
    for at in range(0, len(TELEMETRY_ENTRIES), UNION_LIMIT):
        names = [entry.metric for entry in TELEMETRY_ENTRIES[at : at + UNION_LIMIT]]
        asked = range_form(telemetry_query(function, {name: name for name in names}), window)
        together = _same(both, "/api/v1/query_range", asked)["data"]["result"]
        in_order = both[1].post("/api/v1/query_range", data=asked).json()["data"]["result"]
        assert together == in_order
        told = {row["metric"][METRIC_LABEL] for row in together}
        assert told == exposed.intersection(names)
        for name in names[FUNCTIONS.index(function) :: len(FUNCTIONS)]:
            asked = range_form(telemetry_query(function, {name: name}), window)
            found = _same(both, "/api/v1/query_range", asked)["data"]["result"]
            assert bool(found) == (name in exposed)


LIKE_OR_UNLIKE = [
    "kube_node_status_allocatable or kube_node_status_capacity",  # equal labels, another name
    "count_over_time(up[5m]) or count_over_time(up[2h])",
    'kube_pod_owner or label_replace(kube_pod_info,"phase","Running","","") or kube_pod_owner',
    'label_replace(kube_pod_info,"node","","","")',
    'label_replace(kube_pod_status_phase,"phase","x","","")',
    'label_replace(kube_pod_container_state_started,"uid","x","","")',
    'label_replace(kube_pod_info,"__name__","other","","")',
    'label_replace(up,"a-b","x","","")',
    'label_replace(up,"","x","","")',
    'label_replace(absent_metric,"a-b","x","","")',
    'label_replace(up,"job","","","") or up',
    "up or up[5m]",
    "(up[5m] or up)",
    'label_replace(up[5m],"a","b","","")',
    'label_replace(up,"a","b","")',
    "max_over_time(up or up)",
]


@pytest.mark.parametrize("query", LIKE_OR_UNLIKE)
def test_labels_that_collide_come_out_the_same(both: Both, query: str) -> None:
    for hour in range(HOURS):
        _same(both, "/api/v1/query", {"query": query, "time": MIDNIGHT + hour * HOUR})
    for step in (60, 3600):
        times = {"start": MIDNIGHT, "end": MIDNIGHT + (HOURS - 1) * HOUR, "step": step}
        _same(both, "/api/v1/query_range", {"query": query, **times})


NAMES = [*(entry.metric for entry in CATALOGUE), "absent_metric"]
LABELS = ["pod", "namespace", "node", "phase", "job", "resource", "nolabel"]
VALUES = [
    "",
    "a",
    "exact",
    "whole",
    "Running",
    "nvidia_com_gpu",
    "kube-.*|dcgm.*",
    "nightly-.+|cpx",
]


def _random_query(draw: random.Random) -> str:
    if draw.random() < 0.25:
        return draw.choice([" or ", " OR ", "or\n"]).join(
            [_random_part(draw) for _ in range(draw.randrange(2, 5))]
        )
    return _random_part(draw)


def _random_part(draw: random.Random) -> str:
    part = _random_vector(draw)
    if draw.random() < 0.25:
        label, text = draw.choice([*LABELS, "__name__"]), draw.choice(["", "x", "y", "node-a"])
        return f'label_replace({part}, "{label}", "{text}", "", "")'
    return part


def _random_vector(draw: random.Random) -> str:
    matchers = [
        f'{draw.choice(LABELS)}{draw.choice(["=", "!=", "=~", "!~"])}"{draw.choice(VALUES)}"'
        for _ in range(draw.randrange(3))
    ]
    if draw.random() < 0.3:
        several = "|".join(draw.sample(NAMES, 2))
        selector = "{" + ",".join([f'__name__=~"{several}"', *matchers]) + "}"
    else:
        selector = draw.choice(NAMES) + "{" + ",".join(matchers) + "}"
    offset = draw.choice(["", "", " offset 1ms", " offset 7m", " offset -3m"])
    form = draw.randrange(6)
    if form == 0:
        return selector + offset
    ranged = f"{selector}[{draw.choice(['1h', '5m', '90s', '2h30m'])}]{offset}"
    if form == 1:
        return ranged
    name = draw.choice(["avg", "max", "min", "count"])
    return f"{name}_over_time({ranged})"


def test_random_queries_of_the_language_are_answered_the_same(
    both: Both,
) -> None:
    draw = random.Random(20261118)
    answered = 0
    for _ in range(RANDOM_QUERIES):
        query = _random_query(draw)
        at = MIDNIGHT + draw.randrange(0, HOURS * HOUR) + draw.choice([0, 0.25, 0.63])
        if draw.random() < 0.5:
            asked = {"query": query, "time": at}
            answer = _same(both, "/api/v1/query", asked)
        else:
            step = draw.choice([30, 300, 3600])
            asked = {"query": query, "start": at, "end": at + HOUR, "step": step}
            answer = _same(both, "/api/v1/query_range", asked)
        answered += bool(answer.get("data", {}).get("result"))
    assert answered > RANDOM_QUERIES / 3, "most random queries must be about something"
