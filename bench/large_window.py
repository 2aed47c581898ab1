"""The memory of one pull of a day with a sample every 30 s, from a cluster of a thousand cards.

Put here: the responses of Prometheus for this day, and the pull.
Not here: the pull of an hour compared with curl (`bench_pull`), or simulated fleets (`fake_gpu`).

    python -m bench.large_window serve     prints its address; ends when its input ends
    python -m bench.large_window pull URL  pulls the day; prints sizes and peak memory

Each pod runs for 5.6 hours, and then the next pod starts. All pods are scraped in the same second.
Nearly every pod then has different text for its values, the slowest case for a decoder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

from bench.measurement import peak_mib
from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from warehouse.manifest import Sampling
from warehouse.store import FolderStore

HOURS = 24
STEP = 30
SLOTS = 1900  # pods that run at the same time
POD_SECONDS = 20_160
STARTED = 1_790_812_800  # 2026-10-01
FROM, UNTIL = STARTED - 3600, STARTED + HOURS * 3600 + 3600
ONE_SAMPLE = '[%d.123,"1"],'
WIDTH = len(ONE_SAMPLE % STARTED)
ALL_SAMPLES = "".join(ONE_SAMPLE % at for at in range(FROM, UNTIL, STEP))
POD_METRICS = (
    "kube_pod_container_resource_requests",
    "kube_pod_status_phase",
    "kube_pod_container_state_started",
    "kube_pod_info",
    "kube_pod_owner",
)
MORE_LABELS = {
    "kube_pod_container_resource_requests": {"resource": "nvidia_com_gpu", "unit": "integer"},
    "kube_pod_status_phase": {"phase": "Running"},
    "kube_pod_info": {"created_by_kind": "Job"},
    "kube_pod_owner": {"owner_kind": "Job"},
}
_METRICS = re.compile(r'__name__=~"([^"]*)"|^(\w+)\{')
_UID = re.compile(r'uid(=~|!~)"([^"]*)"')
_RANGE = re.compile(r"\[(\d+)s\]$")


def answer(query: str, at: int) -> bytes:
    """The matrix of a raw range selector; empty if the query selects no pods."""
    found, ranged = _METRICS.search(query), _RANGE.search(query)
    wanted = (found[1] or found[2] or "").split("|") if found and ranged else []
    uid = _UID.search(query)
    series = [
        one
        for metric in POD_METRICS
        if metric in wanted and ranged
        for one in _series(metric, at - int(ranged[1]), at, uid)
    ]
    body = '{"status":"success","data":{"resultType":"matrix","result":[%s]}}'
    return (body % ",".join(series)).encode("ascii")


def _series(metric: str, since: int, until: int, uid: re.Match[str] | None) -> list[str]:
    series = []
    for slot in range(SLOTS):
        began = FROM - slot * 977 % POD_SECONDS
        for number in range((UNTIL - began) // POD_SECONDS + 1):
            started = began + number * POD_SECONDS
            first, last = max(started, since, FROM), min(started + POD_SECONDS - 60, until, UNTIL)
            low, high = -(-(first - FROM) // STEP), -(-(last - FROM) // STEP)
            name = f"{(slot * 31 + number) * 2654435761 % (1 << 32):08x}"
            if low < high and (uid is None or bool(re.match(uid[2], name)) == (uid[1] == "=~")):
                labels = {"__name__": metric, "clusterID": "c1", "namespace": f"team-{slot % 97}",
                          "container": "main", "node": f"gpu-{slot % 125}", "pod": f"train-{name}",
                          "uid": f"{name}-0b5e-4d7c-9d3a-0c9b6a3e2f11"}  # fmt: skip
                text = json.dumps(labels | MORE_LABELS.get(metric, {}), separators=(",", ":"))
                samples = ALL_SAMPLES[low * WIDTH : high * WIDTH - 1]
                series.append(f'{{"metric":{text},"values":[{samples}]}}')
    return series


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        query, at = form.get("query", [""])[0], int(float(form.get("time", ["0"])[0]))
        if query == "time()":
            late = UNTIL + 86_400
            body = b'{"status":"success","data":{"resultType":"scalar","result":[%d,"%d"]}}'
            self._send(body % (late, late))
        else:
            self._send(answer(query, at))

    def do_GET(self) -> None:
        self._send(b'{"status":"success","data":[]}')

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the client stops reading at its limit
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


def pull(url: str) -> None:
    source = ClusterSource("c1", ThanosSettings("p", Connection(url)), Sampling(STEP, STEP))
    began = datetime.fromtimestamp(STARTED, UTC)
    window = Interval(began, began + timedelta(hours=HOURS))
    with tempfile.TemporaryDirectory() as folder:
        landing = Landing(FolderStore(Path(folder) / "landing"))
        late = StoppedClock(window.ended_at + timedelta(days=1))
        attempt = pull_hours(source, window, landing, Path(folder) / "runs", late)
    sizes = [one.byte_count >> 20 for one in attempt.answers]
    size = PullSize(sum(sizes), max(sizes), len(sizes), peak_mib(os.getpid()))
    print(json.dumps(asdict(size)))


@dataclass(frozen=True, slots=True)
class PullSize:
    """The sizes of the responses of one pull of the day, and its peak memory."""

    mib: int
    largest_mib: int
    answers: int
    peak_mib: float


def measure_pull() -> PullSize:
    """Pull the day; server and client are separate processes."""
    here = [sys.executable, "-m", "bench.large_window"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*here, "serve"], stdin=pipe, stdout=pipe, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        ran = subprocess.run([*here, "pull", url], capture_output=True, text=True, check=True)
        serving.communicate()
    return PullSize(**json.loads(ran.stdout))


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else pull(sys.argv[2])
