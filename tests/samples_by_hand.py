"""A sample store with values written by hand: one node, one pod, every ten minutes.

Put here: responses that can be added up by hand, and the server that returns them.
Not here: any test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx

from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.attempt_client import AttemptClient
from warehouse.manifest import Sampling

TEN = datetime(2026, 10, 1, 10, tzinfo=UTC)
START = int(TEN.timestamp())
HOUR = timedelta(hours=1)
CLUSTER = ClusterSource(
    "c1", ThanosSettings("hub", Connection("http://hub.test")), Sampling(600, 30)
)
Form = dict[str, str]
Answering = Callable[[Form], httpx.Response]


def matrix(*series: tuple[dict[str, str], list[tuple[int, str]]], **more: Any) -> httpx.Response:
    result = [{"metric": labels, "values": values} for labels, values in series]
    data = {"resultType": "matrix", "result": result}
    return httpx.Response(200, json={"status": "success", "data": data, **more})


def every_ten_minutes(value: str, started_at: int = START, count: int = 6) -> list[tuple[int, str]]:
    return [(started_at + 600 * step, value) for step in range(count)]


UP = ({"__name__": "up", "job": "ksm"}, every_ten_minutes("1"))
NODE = ({"__name__": "kube_node_info", "node": "n1"}, every_ten_minutes("1"))
REQUEST = (
    {"__name__": "kube_pod_container_resource_requests", "uid": "u1", "resource": "nvidia_com_gpu"},
    every_ten_minutes("2"),
)


def names(*found: str) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": list(found)})


UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
VALUES = {"avg_over_time": "41.5", "max_over_time": "97", "count_over_time": "118"}


def healthy(form: Form) -> httpx.Response:
    """A cluster of one node and one pod, for one hour."""
    query = form["query"]
    if "match[]" in form:
        return names()
    if query.startswith("up"):
        return matrix(UP)
    if "kube_node_info" in query:
        return matrix(NODE)
    if "kube_pod_container_resource_requests" in query:
        return matrix(REQUEST)
    return matrix()


class Chunks(httpx.SyncByteStream):
    """A body that is read in parts, as over a socket."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


class Server:
    """Responds by a function, and records the requests. A querier also lists its stores."""

    def __init__(self, answering: Answering, stores: int = 0) -> None:
        self.stores = stores
        self.forms: list[Form] = []
        self.requests: list[httpx.Request] = []
        self._answering = answering

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = request.content or request.url.query
        form = {"query": ""} | {key: texts[0] for key, texts in parse_qs(asked.decode()).items()}
        self.forms.append(form)
        self.requests.append(request)
        known = request.url.path != "/api/v1/stores"
        answer = self._answering(form) if known else stores_named(self.stores)
        return httpx.Response(
            answer.status_code, headers=answer.headers, stream=Chunks(answer.content)
        )

    def client(self) -> AttemptClient:
        return AttemptClient(
            CLUSTER.thanos.connection, httpx.MockTransport(self), wait=lambda seconds: None
        )


def stores_named(count: int) -> httpx.Response:
    """A querier's list of stores; a plain Prometheus (0) has no such page."""
    if not count:
        return httpx.Response(404, text="not found")
    found = [{"name": f"10.0.0.{number}:10901", "lastError": None} for number in range(count)]
    return httpx.Response(200, json={"status": "success", "data": {"sidecar": found}})


def in_union(form: Form, with_unions: bool) -> httpx.Response:
    """A server with two device metrics, with or without support for unions."""
    if "match[]" in form:
        return names(UTIL, POWER, "DCGM_FI_DEV_UNKNOWN")
    union = form["query"].startswith("label_replace(")
    function = form["query"].removeprefix("label_replace(").partition("(")[0]
    if function not in VALUES:
        return healthy(form)
    sample = [(START + 3600, VALUES[function])]
    if not union:
        return matrix(({"gpu": "0"}, sample))
    if not with_unions:
        refusal = {"status": "error", "errorType": "bad_data", "error": "unknown function"}
        return httpx.Response(400, json=refusal)
    asked = [metric for metric in (UTIL, POWER) if f'"{metric}"' in form["query"]]
    return matrix(*(({"gpu": "0", "gpu_ledger_metric": metric}, sample) for metric in asked))
