"""A proxy alters the responses of the sample store: no wrong amount without a blocking finding.

Put here: the alterations, and the comparison of each cluster's amounts with the truth ledger.
Not here: single situations with their finding (`tests/unit/test_build_reconciliation.py`), or
responses that no parser can read (`tests/unit/test_hostile_responses.py`).

Each alteration has two clusters of its own: one with samples as the only source, one with a
journal. All of them go through the whole pipeline together. A cluster whose amounts differ from the
truth by more than the printed uncertainty must have a blocking finding. `N` is the number of
alterations, `SEED` the first one.
"""

from __future__ import annotations

import copy
import json
import os
import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import httpx
import pytest

from domain.billing_period import BillingPeriod
from domain.clock import StoppedClock
from domain.findings import Finding
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.export import plain_rows
from fake_gpu.fleet.model import Fleet
from fake_gpu.scenario.load import read_scenario
from fake_gpu.truth.ledger import ledger as truth_ledger
from quality.run import check_period
from tests.decisions_by_hand import decided, table
from tests.recorded_fleets import clusters_csv, record_fleet
from tests.small_fleets import renamed
from warehouse.build import build_period
from warehouse.connection import connected
from warehouse.home import Home

pytestmark = pytest.mark.explore

PERIOD = BillingPeriod("2026-10")
COUNT = int(os.environ.get("N", "120"))
SEED = int(os.environ.get("SEED", "1"))

FLEET = """
name: altered
story: Four tenants on two kinds of cards; pods without a device beside them.
seed: 3
from: 2026-10-05T00:00:00Z
until: 2026-10-05T03:00:00Z
clusters:
  - name: alpha
    monitoring: {prometheus_replicas: 1, scrape_interval: 30s}
    nodes:
      - {name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 4}
      - {name: t4, product: Tesla-T4, cards: 2}
      - {name: plain, cpu_cores: 32, memory_gib: 128}
    workloads:
      - {name: agent, namespace: kube-system, kind: DaemonSet}
      - {name: serve, namespace: chat, node: a100, requests: 1}
      - {name: train, namespace: physics, node: a100, requests: 2, kind: StatefulSet, until: +2h}
      - {name: scan, namespace: vision, node: t4, requests: 1, from: +40m}
      - {name: look, namespace: maps, node: t4, requests: 1, kind: StatefulSet, until: +100m}
"""

REQUESTS, PHASE = "kube_pod_container_resource_requests", "kube_pod_status_phase"
SCHEDULER, INFO = "kube_pod_resource_request", "kube_pod_info"
STARTED, LABELS = "kube_pod_container_state_started", "kube_node_labels"
CAPACITY = "kube_node_status_capacity"
METRICS = (REQUESTS, REQUESTS, PHASE, PHASE, SCHEDULER, INFO, STARTED, LABELS, CAPACITY)
"""Metrics that decide resource and tenant of a pod are altered more often."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "namespace": ("chat", "physics", "vision", "maps", "../../x"),
    "pod": ("another", ""),
    "uid": ("11111111-2222-4333-8444-555555555555", "no uuid", ""),
    "container": ("copy",),
    "node": ("a100", "t4", ""),
    "resource": ("nvidia_com_gpu", "nvidia_com_mig_1g_10gb", "amd_com_gpu", "cpu", ""),
    "phase": ("Pending",),
    "label_nvidia_com_gpu_product": ("NVIDIA-H100-80GB-HBM3", "Tesla-T4", "no such card", ""),
}
VALUES = ("0", "1", "2", "8", "NaN", "-1", "0.5", "1e308", "+Inf")

Matrix = list[dict[str, Any]]
Change = Callable[[random.Random, Matrix, Matrix], None]
"""Alters the series of one metric in the whole result (those with devices first)."""


def drop_series(rng: random.Random, result: Matrix, some: Matrix) -> None:
    result.remove(rng.choice(some))


def drop_metric(rng: random.Random, result: Matrix, some: Matrix) -> None:
    for one in some:
        result.remove(one)


def drop_samples(rng: random.Random, result: Matrix, some: Matrix) -> None:
    one = rng.choice(some)
    first = rng.randrange(len(one["values"]))
    del one["values"][first : first + rng.choice((1, 5, 40, 400))]


def drop_samples_of_all(rng: random.Random, result: Matrix, some: Matrix) -> None:
    first, count = rng.randrange(200), rng.choice((1, 5, 40, 400))
    for one in some:
        del one["values"][first : first + count]


def drop_label(rng: random.Random, result: Matrix, some: Matrix) -> None:
    one = rng.choice(some)
    del one["metric"][rng.choice([name for name in one["metric"] if name in OTHERS])]


def set_values(rng: random.Random, result: Matrix, some: Matrix) -> None:
    one, value = rng.choice(some), rng.choice(VALUES)
    one["values"] = [[at, value] for at, _ in one["values"]]


def set_some_values(rng: random.Random, result: Matrix, some: Matrix) -> None:
    one, value = rng.choice(some), rng.choice(VALUES)
    first, count = rng.randrange(len(one["values"])), rng.choice((1, 20, 200))
    for sample in one["values"][first : first + count]:
        sample[1] = value


def set_label(rng: random.Random, result: Matrix, some: Matrix) -> None:
    _relabel(rng, rng.choice(some))


def set_label_of_all(rng: random.Random, result: Matrix, some: Matrix) -> None:
    """All products of all nodes at once are excluded, because no other sample has them."""
    if some[0]["metric"]["__name__"] == LABELS:
        set_label(rng, result, some)
        return
    name, value = _another(rng, some[0])
    for one in some:
        one["metric"][name] = value


def repeat_series(rng: random.Random, result: Matrix, some: Matrix) -> None:
    again = copy.deepcopy(rng.choice(some))
    _relabel(rng, again)
    result.append(again)


def repeat_series_with_value(rng: random.Random, result: Matrix, some: Matrix) -> None:
    again = copy.deepcopy(rng.choice(some))
    again["metric"]["instance"] = "10.9.9.9:8443"
    again["values"] = [[at, rng.choice(VALUES)] for at, _ in again["values"]]
    result.append(again)


def rename_metric(rng: random.Random, result: Matrix, some: Matrix) -> None:
    for one in some if rng.random() < 0.5 else [rng.choice(some)]:
        one["metric"]["__name__"] += "_v2"


def exchange_labels(rng: random.Random, result: Matrix, some: Matrix) -> None:
    left, right = rng.choice(some), rng.choice(some)
    left["metric"], right["metric"] = right["metric"], left["metric"]


def shift_times(rng: random.Random, result: Matrix, some: Matrix) -> None:
    by = rng.choice((-3600, -45, -30, -15, 15, 30, 45, 600, 3600, 1_790_000_000))
    for sample in rng.choice(some)["values"]:
        sample[0] += by


def _relabel(rng: random.Random, one: dict[str, Any]) -> None:
    name, value = _another(rng, one)
    one["metric"][name] = value


def _another(rng: random.Random, one: Mapping[str, Any]) -> tuple[str, str]:
    name = rng.choice([name for name in OTHERS if name in one["metric"]])
    return name, rng.choice([text for text in OTHERS[name] if text != one["metric"][name]])


CHANGES: tuple[Change, ...] = (
    drop_series,
    drop_metric,
    drop_samples,
    drop_samples_of_all,
    drop_label,
    set_values,
    set_some_values,
    set_label,
    set_label,
    set_label_of_all,
    repeat_series,
    repeat_series,
    repeat_series_with_value,
    rename_metric,
    exchange_labels,
    shift_times,
)

BODIES: Mapping[str, Callable[[bytes], tuple[int, str, bytes]]] = {
    "cut short": lambda body: (200, "application/json", body[: len(body) // 2]),
    "a login page": lambda body: (200, "text/html", b"<html>Log in</html>"),
    "unavailable": lambda body: (503, "application/json", b"{}"),
    "nothing": lambda body: (
        *(200, "application/json"),
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
    ),
    "a warning": lambda body: (200, "application/json", body[:-1] + b',"warnings":["half"]}'),
    "data twice": lambda body: (
        *(200, "application/json"),
        body.replace(b'"data":', b'"data":{"resultType":"matrix","result":[]},"data":', 1),
    ),
    "a label twice": lambda body: (
        *(200, "application/json"),
        body.replace(b'"namespace":', b'"namespace":"maps","namespace":', 1),
    ),
    "not UTF-8": lambda body: (200, "application/json", body.replace(b"chat", b"ch\xfft")),
    "nested too deeply": lambda body: (
        *(200, "application/json"),
        body[:-1] + b',"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ),
}


class Altering(httpx.BaseTransport):
    """Passes all responses on, and alters those with samples of one metric."""

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self._metric = rng.choice(METRICS)
        self._body = rng.choice(list(BODIES)) if rng.random() < 0.12 else ""
        self._change = rng.choice(CHANGES)
        self.altered_count = 0

    def before(self, server: httpx.BaseTransport) -> httpx.BaseTransport:
        self._server = server
        return self

    @property
    def what(self) -> str:
        if self.seed is None:
            return UNALTERED
        return f"seed {self.seed}: {self._body or self._change.__name__} of {self._metric}"

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._server.handle_request(request)
        body = response.read()
        wanted = request.url.path.endswith("/query") and b'"matrix"' in body
        if self.seed is None or not wanted:
            return _respond(response.status_code, response.headers["content-type"], body)
        document = json.loads(body)
        result = document["data"]["result"]
        some = [one for one in result if self._is_wanted(one["metric"])]
        if not some:
            return _respond(200, "application/json", body)
        self.altered_count += 1
        if self._body:
            return _respond(*BODIES[self._body](body))
        self._change(random.Random(self.seed), result, some)
        return _respond(200, "application/json", json.dumps(document).encode())

    def _is_wanted(self, labels: Mapping[str, str]) -> bool:
        named = labels["__name__"] == self._metric
        return named and labels.get("namespace") != "kube-system" and labels.get("node") != "plain"


class _Body(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Any:
        yield self._content


def _respond(status: int, kind: str, body: bytes) -> httpx.Response:
    return httpx.Response(status, headers={"content-type": kind}, stream=_Body(body))


UNALTERED = "unaltered"
Amounts = dict[tuple[str, str], tuple[int, int]]
"""By tenant and class of GPU: billed device seconds, and their uncertainty."""


@dataclass(frozen=True)
class Checked:
    what: dict[str, str]  # by cluster
    amounts: Mapping[str, Amounts]
    true: Mapping[tuple[str, str], int]
    blocking: Mapping[str, list[Finding]]

    def is_right(self, cluster_id: str) -> bool:
        found = self.amounts.get(cluster_id, {})
        return all(
            abs(found.get(key, (0, 0))[0] - self.true.get(key, 0)) <= found.get(key, (0, 0))[1]
            for key in {*found, *self.true}
        )


@cache
def altered_fleet() -> Fleet:
    return build_fleet(read_scenario(FLEET, "altered.yaml", None))


def fleet_of(cluster_id: str, name: str) -> Fleet:
    fleet = altered_fleet()
    return replace(fleet, clusters=(renamed(fleet.clusters[0], cluster_id, name),), name=name)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    home = Home.create(tmp_path_factory.mktemp("altered") / "home")
    what: dict[str, str] = {}
    rows: dict[str, list[str]] = {"both": [], "samples": []}
    for seed in range(SEED - 1, SEED + COUNT):
        for sources in rows:
            cluster_id = str(uuid.UUID(int=seed * 2 + (sources == "both"), version=4))
            fleet = fleet_of(cluster_id, f"{sources}-{seed}")
            proxy = Altering(seed if seed >= SEED else None)
            record_fleet(home, fleet, watched=sources == "both", through=proxy.before)
            what[cluster_id] = f"{sources}, {proxy.what}"
            assert proxy.altered_count or proxy.seed is None, what[cluster_id]
            header, row = clusters_csv([fleet], sources)["clusters.csv"].splitlines()
            rows[sources].append(row)
    text = "\n".join([header, *rows["both"], *rows["samples"]]) + "\n"
    prices = table(
        "rates", *(f",{name},whole,EUR,1.00,2026-10-01,,|," for name in ("A100-80GB", "T4"))
    )
    decisions = decided({"clusters.csv": text}, prices)
    build_period(home, PERIOD, decisions, closed_periods=frozenset())
    check_result = check_period(home, PERIOD, decisions, StoppedClock(PERIOD.ended_at))
    blocking: dict[str, list[Finding]] = defaultdict(list)
    for finding in check_result.findings:
        for cluster_id in what:
            if finding.blocks and cluster_id in (finding.cluster_id or finding.where):
                blocking[cluster_id].append(finding)
    return Checked(what, _amounts(home), _true_amounts(), blocking)


def _amounts(home: Home) -> dict[str, Amounts]:
    statement = """
        select cluster_id, tenant, gpu_class, sum(billable_seconds * device_count)::bigint,
            sum(uncertainty_seconds * device_count)::bigint
        from marts.fct_pod_hours where belongs_to = 'tenant' group by all
    """
    found: dict[str, Amounts] = defaultdict(dict)
    with connected(home.warehouse_path, read_only=True) as connection:
        for cluster, tenant, gpu_class, *seconds in connection.execute(statement).fetchall():
            found[cluster][tenant, gpu_class] = (seconds[0], seconds[1])
    return found


CLASSES = {"chat": "A100-80GB", "physics": "A100-80GB", "vision": "T4", "maps": "T4"}


def _true_amounts() -> dict[tuple[str, str], int]:
    true: dict[tuple[str, str], int] = defaultdict(int)
    rows = truth_ledger(plain_rows(altered_fleet()), "allocations")
    for row in rows:
        key = row["namespace"], CLASSES[row["namespace"]]
        true[key] += row["running_seconds"] * row["device_count"]
    return true


def test_unaltered_responses_have_the_true_amounts_and_no_blocking_finding(
    checked: Checked,
) -> None:
    unaltered = [cluster for cluster, what in checked.what.items() if what.endswith(UNALTERED)]
    assert len(unaltered) == 2
    for cluster in unaltered:
        assert checked.is_right(cluster), (checked.amounts[cluster], checked.true)
        assert not checked.blocking.get(cluster), checked.blocking[cluster]


def test_every_wrong_amount_has_a_blocking_finding(checked: Checked) -> None:
    silent = {
        checked.what[cluster]: checked.amounts.get(cluster, {})
        for cluster in checked.what
        if not checked.is_right(cluster) and not checked.blocking.get(cluster)
    }
    wrong = [cluster for cluster in checked.what if not checked.is_right(cluster)]
    print(f"{len(checked.what)} clusters, {len(wrong)} with wrong amounts, {len(silent)} silent")
    assert not silent, "\n".join(f"{what}: {found}" for what, found in silent.items())
