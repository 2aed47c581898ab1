"""Random bytes for the parsers of external input: each gives a named error, never a traceback.

Put here: random changes of valid responses of a Prometheus server and of a Kubernetes API server to
pulls, the collector and the idle pruner, of segments of a journal, and of files that people and
other programs write.
Not here: single responses that once ended a pull (`tests/unit/test_hostile_responses.py`).

`N` is the number of inputs for each target.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from clients.credentials import ServerAccess
from clients.kubeconfig import read_kubeconfig
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import HistoryGone
from domain.clock import StoppedClock
from domain.errors import LedgerError
from domain.identity import sha256_bytes
from domain.interval import HOUR, Interval
from domain.mig.parted import parse_parted_file
from fake_gpu.scenario.load import library_text, load_scenario
from idle_pruner.records import Records, stops_in
from ingestion.evidence.chain_heads import read_heads
from ingestion.evidence.landing import Landing
from ingestion.kubernetes.journal import JournalWriter, segments
from ingestion.kubernetes.journal_decoder import decode, write_lifecycle
from ingestion.kubernetes.journal_state import JournalState
from ingestion.kubernetes.observations import Event, Listed
from ingestion.kubernetes.pull import pull_hours as pull_journal
from ingestion.kubernetes.recover import recover
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.recheck import recheck
from orchestration.cli.gpu import read_catalogue
from orchestration.idle_savings import weekly_report
from portal.tokens import TokenFile
from tests.decisions_by_hand import table
from tests.samples_by_hand import CLUSTER, TEN, Form, Server, every_ten_minutes, matrix
from tests.store_in_memory import MemoryStore
from tests.unit.test_prune_passes import MODEL, World
from warehouse.snapshot_reader import Snapshots
from warehouse.snapshots import FORMAT
from warehouse.snapshots import INDEX as INDEX_NAME

pytestmark = pytest.mark.explore

COUNT = int(os.environ.get("N", "2000"))
SEED = int(os.environ.get("SEED", "0"))
MANY = 400
"""With fewer cases, their shares depend on the seed."""

WINDOW = Interval(TEN, TEN + HOUR)
DEEP = b"[" * 50_000
TEXTS = (
    *("", "\0", "\ud800", "²", "../../x", "9" * 400, "é" * 300, "NaN", "-1", "1e308"),
    *("2026-10-01T10:00:00Z", "9999-99-99T99:99:99Z", "0000-00-00T00:00:00Z", "u1", "Running"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 0.5, 1e308, -1e308, 2**63, 2**64, 10**400),
    *([], {}, [[]], [{}], {"": {}}, [None], "x"),
)


def changed(document: Any, rng: random.Random) -> Any:
    """The document with some of its values exchanged, dropped, moved or repeated."""
    places = list(_places(document))
    for _ in range(rng.choice((1, 1, 2, 5))):
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        try:
            match rng.randrange(5):
                case 0:
                    del holder[key]
                case 1:
                    holder[key] = rng.choice(TEXTS)
                case 2:
                    other, name = rng.choice(places)
                    holder[key] = json.loads(json.dumps(other[name]))
                case _:
                    holder[key] = rng.choice(VALUES)
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # the place is gone, or contains itself
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value at any depth: its container and its key."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys:
        yield value, key
        yield from _places(value[key])


def torn(body: bytes, rng: random.Random) -> bytes:
    """The bytes, sometimes cut, exchanged or nested."""
    match rng.randrange(8):
        case 0:
            return body[: rng.randrange(len(body) + 1)]
        case 1:
            at = rng.randrange(len(body) + 1)
            return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
        case 2:
            at = rng.randrange(len(body) + 1)
            return body[:at] + rng.choice((DEEP, b"\xff", b'"', b"{", b"\\u0000")) + body[at:]
        case _:
            return body


def as_bytes(document: Any, rng: random.Random) -> bytes:
    compact = (",", ":") if rng.random() < 0.8 else None
    return torn(json.dumps(document, separators=compact).encode("utf-8", "surrogatepass"), rng)


def headers(rng: random.Random) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", rng.choice((b"application/json",) * 9 + (b"text/html",)))]
    if rng.random() < 0.2:
        odd = "".join(rng.choices(string.printable[:95] + "²³é", k=12)).encode("latin-1")
        name = rng.choice((b"retry-after", b"date", b"content-encoding", b"content-type"))
        found.append((name, rng.choice((odd, b"Thu, 01 Oct 99999999999 10:00:00 GMT", b"gzip"))))
    return found


# --- Prometheus ----------------------------------------------------------------------------------

LABELS = {"namespace": "a", "pod": "p", "uid": "u1", "container": "c", "node": "n1"}


@cache
def answers() -> tuple[tuple[str, bytes], ...]:
    """A valid response for each kind of query, by a text in the query."""

    def of(name: str, **labels: str) -> tuple[dict[str, str], list[tuple[int, str]]]:
        return {"__name__": name, **labels}, every_ten_minutes("1")

    requests = of("kube_pod_container_resource_requests", resource="nvidia_com_gpu", **LABELS)
    telemetry = ({"gpu": "0", "gpu_ledger_metric": "DCGM_FI_DEV_GPU_UTIL"}, [(1790852400, "1")])
    return (
        (
            "time()",
            b'{"status":"success","data":{"resultType":"scalar","result":[1790852400,"1"]}}',
        ),
        ("_over_time", matrix(telemetry).content),
        ("kube_pod_status_phase", matrix(of("kube_pod_status_phase", **LABELS)).content),
        ("kube_pod_container_resource_requests", matrix(requests).content),
        ("up", matrix(of("up", job="ksm"), of("up", job="dcgm")).content),
        ("", matrix(of("kube_node_info", node="n1")).content),
    )


def random_answer(rng: random.Random) -> Callable[[Form], httpx.Response]:
    def answer(form: Form) -> httpx.Response:
        body = next(body for text, body in answers() if text in form["query"])
        if rng.random() < 0.5:
            body = as_bytes(changed(json.loads(body), rng), rng)
        status = rng.choice((200,) * 9 + (503, 422, 400))
        return httpx.Response(status, headers=headers(rng), content=body)

    return answer


class Raw(Server):
    """Passes content-encoding on without decoding the body."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        try:
            return super().__call__(request)
        except httpx.DecodingError:
            return httpx.Response(200, content=b"{}")


def test_a_pull_survives_any_response(tmp_path: Path) -> None:
    clock = StoppedClock(TEN + timedelta(days=2))
    for seed in range(SEED, SEED + max(1, COUNT // 10)):  # a pull has more than ten responses
        rng = random.Random(seed)
        landing = Landing(MemoryStore())
        try:
            attempt = pull_hours(
                CLUSTER,
                WINDOW,
                landing,
                tmp_path / str(seed),
                clock,
                Raw(random_answer(rng)).client(),
            )
            assert len(attempt.hours) == 1
            recheck(CLUSTER, WINDOW, [], Raw(random_answer(rng)).client())
        except LedgerError:
            raise
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


# --- Kubernetes ----------------------------------------------------------------------------------

OBJECTS: dict[str, Any] = yaml.safe_load("""
pods:
  metadata:
    {name: p, namespace: a, uid: u1, resourceVersion: "5", labels: {app: x},
     creationTimestamp: "2026-10-01T10:00:00Z",
     ownerReferences: [{controller: true, apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: o}]}
  spec:
    nodeName: n1
    containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]
    resourceClaims: [{name: d, resourceClaimName: claim}]
  status:
    phase: Running
    startTime: "2026-10-01T10:00:05Z"
    conditions:
      - {type: PodScheduled, status: "True", lastTransitionTime: "2026-10-01T10:00:01Z"}
    containerStatuses:
      - {name: c, restartCount: 0, state: {running: {startedAt: "2026-10-01T10:00:10Z"}},
         lastState: {}}
nodes:
  metadata: {name: n1, uid: n, resourceVersion: "6", labels: {nvidia.com/gpu.product: A}}
  spec: {unschedulable: false}
  status:
    capacity: {nvidia.com/gpu: "8"}
    allocatable: {nvidia.com/gpu: "8"}
    conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-10-01T09:00:00Z"}]
namespaces:
  metadata: {name: a, uid: a, resourceVersion: "4"}
  status: {phase: Active}
resourcequotas:
  metadata: {name: q, namespace: a, uid: q, resourceVersion: "9"}
  status: {hard: {requests.nvidia.com/gpu: "8"}, used: {requests.nvidia.com/gpu: "1"}}
resourceclaims:
  metadata: {name: claim, namespace: a, uid: k, resourceVersion: "7"}
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 1}}]}}
  status:
    allocation: {devices: {results: [{driver: d, pool: n1, device: g, request: r}]}}
    reservedFor: [{resource: pods, name: p, uid: u1}]
resourceslices:
  metadata: {name: s, uid: s, resourceVersion: "8"}
  spec:
    driver: d
    nodeName: n1
    pool: {name: n1, generation: 1}
    devices:
      - {name: g, attributes: {uuid: {string: GPU-1}}, capacity: {memory: {value: 1Gi}}}
""")


def _copy(document: Any) -> Any:
    return json.loads(json.dumps(document))


def collected(resource: str, rng: random.Random) -> JournalState | None:
    """The state of a collector after a random list and watch; None if it refuses them."""

    def answer(request: httpx.Request) -> httpx.Response:
        one = _copy(OBJECTS[resource])
        if "watch=true" in str(request.url):
            event = {"type": rng.choice(("ADDED", "MODIFIED", "DELETED", "ERROR")), "object": one}
            lines = [as_bytes(changed(_copy(event), rng), rng) for _ in range(3)]
            return httpx.Response(200, headers=headers(rng), content=b"\n".join(lines) + b"\n")
        page = {"metadata": {"resourceVersion": "7"}, "items": [one, _copy(one)]}
        body = as_bytes(changed(page, rng), rng)
        status = rng.choice((200,) * 9 + (429, 403, 500))
        return httpx.Response(status, headers=headers(rng), content=body)

    client = KubernetesClient(ServerAccess("https://api.example:6443"), httpx.MockTransport(answer))
    state, writer = JournalState(), JournalWriter(MemoryStore(), "c1", "fuzz", "0.1.0")
    at = TEN + timedelta(minutes=5)
    refused = 0
    try:
        documents = tuple(d for page in client.pages(f"/api/v1/{resource}") for d in page.documents)
        writer.add(state.apply(Listed(resource, at, at, "start", documents, 7)))
        state.unknown_owners(documents)
    except (LedgerError, HistoryGone, httpx.DecodingError):
        refused += 1
    try:
        for event in client.watch(f"/api/v1/{resource}", 7):
            if event.kind != "BOOKMARK":
                seen = Event(resource, at, event.kind, event.document, event.version)
                writer.add(state.apply(seen))
    except (LedgerError, HistoryGone, httpx.DecodingError):
        refused += 1
    with contextlib.suppress(LedgerError):
        client.server_time()
    writer.flush(at)
    if writer.store.list("journal/"):
        landing = Landing(MemoryStore())
        clock = StoppedClock(TEN + 3 * HOUR)
        decode(pull_journal("c1", WINDOW, writer.store, landing, clock), landing)
    return state if refused < 2 else None


def test_a_collector_survives_any_response() -> None:
    accepted = 0
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        resource = rng.choice(list(OBJECTS))
        try:
            accepted += collected(resource, rng) is not None
        except Exception as error:
            raise AssertionError(f"seed {seed}, {resource}") from error
    # Many changes are valid data and must be read.
    assert accepted > COUNT // 8 or COUNT < MANY


# --- the journal ---------------------------------------------------------------------------------


@cache
def journal() -> tuple[str, bytes]:
    """One valid segment."""
    writer = JournalWriter(MemoryStore(), "c1", "fuzz", "0.1.0")
    at = TEN + timedelta(minutes=5)
    state = JournalState()
    for resource, document in OBJECTS.items():
        writer.add(state.apply(Listed(resource, at, at, "start", (_copy(document),), 7)))
    writer.flush(at)
    [segment] = segments(writer.store, "c1")
    return segment.key, writer.store.read(segment.key)


def test_a_damaged_segment_of_a_journal_is_named(tmp_path: Path) -> None:
    key, body = journal()
    clock = StoppedClock(datetime(2026, 10, 3, tzinfo=UTC))
    read_count = 0
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        lines = body.splitlines(keepends=True)
        if rng.random() < 0.5:
            place = rng.randrange(len(lines))
            line = changed(json.loads(lines[place]), rng)
            lines[place] = json.dumps(line).encode("utf-8", "surrogatepass") + b"\n"
            if rng.random() < 0.8:  # like a writer with a defect
                digest = sha256_bytes(b"".join(lines[:-1]))
                lines[-1] = b'{"line":"sealed","sha256":"%s"}\n' % digest.encode()
        store = MemoryStore()
        assert store.create(
            key, b"".join(lines) if rng.random() < 0.7 else torn(b"".join(lines), rng)
        )
        landing = Landing(MemoryStore())
        try:
            attempt = pull_journal("c1", WINDOW, store, landing, clock)
            read_count += attempt.hours[0].facts["segment_count"]
            write_lifecycle(landing, tmp_path / "runs", attempt)
            recover(store, "c1", JournalState(), TEN + HOUR)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    # Many changes leave a readable line.
    assert read_count > COUNT // 8 or COUNT < MANY


# --- the idle pruner -----------------------------------------------------------------------------


class AlteredWorld(World):
    """A cluster with some altered responses."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder)
        self._rng, self._share = rng, rng.choice((0.02, 0.1, 0.3))
        self.altered_count = 0

    def _samples(self, request: httpx.Request) -> httpx.Response:
        return self._altered(super()._samples(request))

    def _kubernetes(self, request: httpx.Request) -> httpx.Response:
        return self._altered(super()._kubernetes(request))

    def _altered(self, response: httpx.Response) -> httpx.Response:
        rng = self._rng
        if rng.random() > self._share:
            return response
        self.altered_count += 1
        body = as_bytes(changed(json.loads(response.content), rng), rng)
        status = rng.choice((response.status_code,) * 9 + (503, 429, 403))
        try:
            return httpx.Response(status, headers=headers(rng), content=body)
        except httpx.DecodingError:
            return response


def test_a_pass_of_the_pruner_survives_any_response(tmp_path: Path) -> None:
    altered_count = stopped_count = 0
    for seed in range(SEED, SEED + max(1, COUNT // 4)):
        rng = random.Random(seed)
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        world = AlteredWorld(folder, rng)
        model = world.deployment(replicas=2)
        for minutes in (0, 6, 1):
            with contextlib.suppress(LedgerError):
                world.after(minutes)
        stopped_count += model["spec"]["replicas"] == 0
        with contextlib.suppress(LedgerError):
            world.pruner.restore(MODEL, "a test")
        altered_count += world.altered_count
    assert altered_count > COUNT // 8 or COUNT < MANY
    assert stopped_count or COUNT < MANY, "some passes have whole responses"


# --- files of people and of other programs -------------------------------------------------------

KUBECONFIG = """
current-context: here
contexts: [{name: here, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://api.example:6443"}}]
users: [{name: u, user: {token: abc}}]
"""
MIG_PARTED = """
version: v1
mig-configs:
  mixed:
  - devices: [0, 1]
    mig-enabled: true
    mig-devices: {"1g.5gb": 2, "3g.20gb": 1}
  - devices: all
    mig-enabled: false
"""
TOKENS = "token_id,role,tenant,salt,sha256,created_at\na1,tenant,a,00,%s,2026-10-01T00:00:00Z\n"
SNAPSHOTS = b'{"format":%d,"provider":"p.duckdb","tenants":{"a":"a.duckdb"}}' % FORMAT


def read_tokens(path: Path) -> object:
    return TokenFile(path).caller_of_session("a1.00")


def read_mig_parted(path: Path) -> object:
    return parse_parted_file(path.read_bytes())


def read_fleet(path: Path) -> object:
    return load_scenario(str(path))


RECORD = (
    '{"at":"2026-11-02T12:00:00Z","event":"%s","kind":"Deployment","namespace":"a","name":"m",'
    '"api_version":"apps/v1","uid":"u","pods":["p"],"device_count":2}\n'
)
HEADS = '[{"cluster_id":"c1","source":"thanos","sequence":3,"sha256":"%s"}]'


class NoHeads(LedgerError):
    """The error of the command line for a file without heads."""


def read_pruner_records(path: Path) -> object:
    history = Records(path).read()
    return weekly_report(history, stops_in(history), {}, TEN)


def read_chain_heads(path: Path) -> object:
    try:
        return read_heads(path.read_bytes())
    except ValueError as cause:
        raise NoHeads(where=str(path), seen=str(cause), why="", remedy="") from None


PRODUCTS = table("products", *[f"CARD-{n},amd,CLASS-{n},,1,1," for n in range(20)])

FILES: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "kubeconfig": (KUBECONFIG.encode(), read_kubeconfig),
    "mig-parted": (MIG_PARTED.encode(), read_mig_parted),
    "scenario": (library_text("thin_line").encode(), read_fleet),
    "products": (PRODUCTS["products.csv"].encode(), read_catalogue),
    "portal tokens": ((TOKENS % ("0" * 64)).encode(), read_tokens),
    "records of the pruner": ((RECORD * 2 % ("stopped", "restored")).encode(), read_pruner_records),
    "heads of chains": ((HEADS % ("ab" * 32)).encode(), read_chain_heads),
    "snapshots": (SNAPSHOTS, lambda path: Snapshots(path.parent).tenants()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_random_changes_is_read_or_refused_by_name(name: str, tmp_path: Path) -> None:
    valid, read = FILES[name]
    path = tmp_path / ("fleet.yaml" if name == "scenario" else INDEX_NAME)
    path.write_bytes(valid)
    read(path)
    refused = 0
    for seed in range(SEED, SEED + COUNT):
        rng = random.Random(seed)
        body = valid
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(body) + 1)
            end = min(len(body), at + rng.randrange(12))
            other = rng.randrange(len(body) + 1)
            piece = rng.choice(
                (b"", bytes([rng.randrange(256)]), rng.choice(TEXTS).encode("utf-8", "replace"),
                 body[other : other + rng.randrange(40)], b"&a", b"*a", b"!!python/name:os.system",
                 b"- ", b": ", b"\n", b"[", b"}", b"\t", b"null", b"1e999")
            )  # fmt: skip
            body = body[:at] + piece + body[end:]
        path.write_bytes(body)
        try:
            read(path)
        except LedgerError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {body[:2000]!r}") from error
    assert refused > COUNT // 20 or COUNT < MANY
