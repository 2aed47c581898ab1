"""The fake's answers are those of a real Prometheus with the same history, sample for sample."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.clock import StoppedClock
from domain.interval import Interval
from fake_gpu.estate.model import Estate
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.openmetrics import write_openmetrics
from fake_gpu.prometheus.source import EstateSeries
from ingestion.catalogue import TELEMETRY_ENTRIES
from ingestion.thanos.telemetry import (
    FUNCTIONS,
    METRIC_LABEL,
    UNION_LIMIT,
    range_form,
    telemetry_query,
)
from tests.asgi import Client
from tests.servers.prometheus import make_blocks, programs, prometheus
from tests.small_estates import HOUR, MIDNIGHT, monitoring, quiet_estate

pytestmark = pytest.mark.servers

Both = tuple[httpx.Client, Client]
HOURS = 5
RANDOM_QUERIES = 300


def _series(estate: Estate) -> EstateSeries:
    clock = StoppedClock(datetime.fromtimestamp(MIDNIGHT + HOURS * HOUR, UTC))
    return EstateSeries(estate, {c.cluster_id: ObjectHistory(c) for c in estate.clusters}, clock)


@pytest.fixture(scope="module", params=[2, 3])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    """(the real server, the fake one), with the same history and without staleness markers."""
    which = programs(request.param)
    folder: Path = tmp_path_factory.mktemp(f"prometheus{request.param}")
    source = _series(quiet_estate(monitoring(staleness=False)))
    # The estate begins an hour before midnight; nothing may be known here and not there.
    start = datetime.fromtimestamp(MIDNIGHT - 2 * HOUR, UTC)
    end = datetime.fromtimestamp(MIDNIGHT + HOURS * HOUR, UTC)
    make_blocks(which, write_openmetrics(source, start, end, folder / "om"), folder / "data")
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


def hour_at(hour: int) -> datetime:
    return datetime.fromtimestamp(MIDNIGHT + hour * HOUR, UTC)


CATALOGUE = [
    "up",
    "kube_pod_container_resource_requests",
    "kube_pod_status_phase",
    "kube_pod_container_state_started",
    "kube_pod_info",
    "kube_pod_owner",
    "kube_node_labels",
    "kube_node_status_allocatable",
    "kube_node_status_condition",
    "kube_resourcequota",
]


@pytest.mark.parametrize("metric", CATALOGUE)
def test_every_raw_hour_of_the_catalogue_is_the_same(both: Both, metric: str) -> None:
    for hour in range(1, HOURS):
        asked = {"query": f"{metric}[1h]", "time": MIDNIGHT + hour * HOUR}
        answer = _same(both, "/api/v1/query", asked)
        assert answer["data"]["result"]


def test_the_servers_clock_is_told_in_the_same_form(both: Both) -> None:
    for path, asked in (
        ("/api/v1/query", {"query": "time()", "time": MIDNIGHT + 0.25}),
        ("/api/v1/query_range", {"query": "time()", "start": MIDNIGHT, "end": MIDNIGHT + 90.5,
                                 "step": 45}),
    ):  # fmt: skip
        real, fake = (client.post(path, data=asked) for client in both)
        assert fake.json() == real.json()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_telemetry_of_a_day_is_the_same_as_a_pull_asks_for_it(
    both: Both, function: str
) -> None:
    """Unions of the metrics, in the order in which both write them, and some of them alone."""
    window = Interval(hour_at(0), hour_at(HOURS - 1))
    for at in range(0, len(TELEMETRY_ENTRIES), UNION_LIMIT):
        names = [entry.metric for entry in TELEMETRY_ENTRIES[at : at + UNION_LIMIT]]
        asked = range_form(telemetry_query(function, {name: name for name in names}), window)
        together = _same(both, "/api/v1/query_range", asked)["data"]["result"]
        in_order = both[1].post("/api/v1/query_range", data=asked).json()["data"]["result"]
        assert together == in_order
        told = {row["metric"][METRIC_LABEL] for row in together}
        for name in names[::4]:
            asked = range_form(telemetry_query(function, {name: name}), window)
            alone = _same(both, "/api/v1/query_range", asked)["data"]["result"]
            assert bool(alone) == (name in told)


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


NAMES = [*CATALOGUE, "absent_metric"]
LABELS = ["pod", "namespace", "node", "phase", "job", "resource", "nolabel"]
VALUES = ["", "team-a", "short", "node-a", "Running", "nvidia_com_gpu", "kube-.*", "team-.|node-b"]


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
            asked = {"query": query, "start": at, "end": at + 2 * HOUR, "step": step}
            answer = _same(both, "/api/v1/query_range", asked)
        answered += bool(answer.get("data", {}).get("result"))
    assert answered > RANDOM_QUERIES / 3, "most random queries must be about something"
