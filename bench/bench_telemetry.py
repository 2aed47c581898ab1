"""Three days with the telemetry of 3,256 cards: the memory of pulling and of refreshing them.

Put here: a server that responds with such telemetry, and a pull of it in a process of its own.
Not here: a day of allocation metrics (`large_window`), or the home that is refreshed
(`home_of_a_month`).

    python -m bench "telemetry"
    python -m bench.bench_telemetry serve     prints its address, ends with its input
    python -m bench.bench_telemetry pull URL  pulls the days, prints their size and its peak in MiB

Each card has the 25 metrics that dcgm-exporter exports by default, and one pod all the time.
"""

from __future__ import annotations

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

from bench.home_of_a_month import create_home, run
from bench.measurement import Measurement, peak_mib
from bench.month_of_a_fleet import CARDS, PERIOD, START, TELEMETRY, Month
from domain.clock import StoppedClock
from domain.interval import Interval
from ingestion.evidence.landing import Landing
from ingestion.settings import ClusterSource, Connection, ThanosSettings
from ingestion.thanos.pull import pull_hours
from ingestion.thanos.query_runner import PullMemory
from warehouse.manifest import Sampling
from warehouse.store import FolderStore

GOAL = "telemetry"
DAYS = 3
MONTH = Month(
    nodes=407, days=DAYS, pod_seconds=20_000 * 3600, mig_every=0, tenants=156, telemetry=True
)
PULL_MIB, REFRESH_MIB = 400.0, 1024.0
STEP = 30
_SELECTOR = re.compile(r"(avg|max|count)_over_time\((\w+)\{")
_TO_MATRIX = '{"status":"success","data":{"resultType":"matrix","result":[%s]}}'


def answer(query: str, started: int, ended: int) -> bytes:
    """The matrix of a union of functions, evaluated each hour."""
    of_union = "label_replace(" in query
    series = [
        _series(metric, function, card, of_union, range(started, ended + 1, 3600))
        for function, metric in _SELECTOR.findall(query)
        if metric in TELEMETRY
        for card in range(MONTH.gpus)
    ]
    return (_TO_MATRIX % ",".join(series)).encode("ascii")


def _series(metric: str, function: str, card: int, of_union: bool, ends: range) -> str:
    node, place = divmod(card, CARDS)
    labels = {
        **({"gpu_ledger_metric": metric} if of_union else {}),
        "DCGM_FI_DRIVER_VERSION": "550.90.07",
        "Hostname": f"gpu-{node}",
        "UUID": f"GPU-{card:08x}-0b5e-4d7c-9d3a-0c9b6a3e2f11",
        "clusterID": "c1",
        "container": "nvidia-dcgm-exporter",
        "device": f"nvidia{place}",
        "endpoint": "gpu-metrics",
        "exported_container": "main",
        "exported_namespace": f"team-{card % MONTH.tenants}",
        "exported_pod": f"train-{card * 2654435761 % (1 << 32):08x}",
        "gpu": str(place),
        "instance": f"10.128.{node // 250}.{node % 250}:9400",
        "job": "nvidia-dcgm-exporter",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "namespace": "nvidia-gpu-operator",
        "pci_bus_id": f"00000000:{place:02X}:00.0",
        "pod": f"nvidia-dcgm-exporter-{node:05x}",
        "service": "nvidia-dcgm-exporter",
    }
    values = ",".join(
        f'[{end},"{3600 // STEP if function == "count" else card * end % 9973 / 97!r}"]'
        for end in ends
    )
    return f'{{"metric":{json.dumps(labels, separators=(",", ":"))},"values":[{values}]}}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        query = form.get("query", [""])[0]
        if query == "time()":
            late = MONTH.ended + 86_400
            self._respond(
                b'{"status":"success","data":{"resultType":"scalar","result":[%d,"%d"]}}'
                % (late, late)
            )
        elif "start" in form:
            self._respond(answer(query, int(form["start"][0]), int(form["end"][0])))
        else:
            self._respond(answer("", 0, 0))

    def do_GET(self) -> None:
        self._respond(b'{"status":"success","data":[]}')

    def _respond(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


@dataclass(frozen=True, slots=True)
class Pulled:
    """The size of the responses, how many there were, and the peak memory of pulling them."""

    mib: int
    answer_count: int
    peak_mib: float


def pull(url: str) -> None:
    """Pull day after day, as `gpu-ledger pull` does."""
    source = ClusterSource("c1", ThanosSettings("p", Connection(url)), Sampling(STEP, STEP))
    began = datetime.fromtimestamp(START, UTC)
    memory, sizes = PullMemory(), []
    with tempfile.TemporaryDirectory() as folder:
        landing = Landing(FolderStore(Path(folder) / "landing"))
        clock = StoppedClock(began + timedelta(days=DAYS + 1))
        for day in range(DAYS):
            window = Interval(began + timedelta(days=day), began + timedelta(days=day + 1))
            runs = Path(folder) / "runs"
            attempt = pull_hours(source, window, landing, runs, clock, memory=memory)
            sizes += [one.byte_count for one in attempt.answers]
    found = Pulled(sum(sizes) >> 20, len(sizes), peak_mib(os.getpid()))
    print(json.dumps(asdict(found)))


def pulled() -> Pulled:
    """Pull the days, with server and client in processes of their own."""
    here = [sys.executable, "-m", "bench.bench_telemetry"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*here, "serve"], stdin=pipe, stdout=pipe, text=True) as serving:
        assert serving.stdout is not None
        url = serving.stdout.readline().strip()
        ran = subprocess.run([*here, "pull", url], capture_output=True, text=True, check=True)
        serving.communicate()
    return Pulled(**json.loads(ran.stdout))


def measure() -> list[Measurement]:
    found = pulled()
    with tempfile.TemporaryDirectory(prefix="bench_telemetry_") as folder:
        home = create_home(Path(folder) / "home", MONTH)
        ran = run(home, "refresh", "--period", PERIOD.name)
    shape = f"{DAYS} days of {MONTH.gpus:,} cards with {len(TELEMETRY)} metrics each"
    return [
        Measurement(GOAL, "memory of a pull", found.peak_mib, PULL_MIB, "at most",
                    f"{shape}: {found.mib} MiB of JSON in {found.answer_count} responses, a day at"
                    " a time: the process's peak, libraries included", "MiB"),
        Measurement(GOAL, "memory of `gpu-ledger refresh`", ran.peak_mib, REFRESH_MIB, "at most",
                    f"{shape}: the process's peak; {ran.cpu_seconds:.1f} s of the processor,"
                    f" {ran.wall_seconds:.1f} s on the wall", "MiB"),
    ]  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif sys.argv[1:2] == ["pull"]:
        pull(sys.argv[2])
    else:
        for row in measure():
            print(row.line())
