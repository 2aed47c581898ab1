"""P7: the month's facts, against PromQL on a real Prometheus with the same samples.

Put here: writing a month's samples as blocks, starting Prometheus on them, and querying it.
Not here: our side (`bench_facts`), or the size of our evidence (`bench_storage`).

    python -m bench P7

Three queries of a bill: the most GPUs in use per node and hour, GPU-hours per pod, GPU-hours per
tenant. Prometheus answers from its blocks over HTTP. Our side calculates the same three from a
refresh's intervals, with the SQL of the models (`bench.aggregates`), in a process of its own. The
refresh that wrote these intervals is reported separately, as is the ingestion of Prometheus. Both
sides have a fiftieth of the fleet of the goals, because writing its blocks takes hours.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.aggregates import run_aggregates
from bench.bench_facts import build_month, peak_of_process_mib
from bench.measurement import CannotMeasure, Measurement, peak_mib
from bench.month_of_a_fleet import START, Month, create_lives
from warehouse.connection import connected

NODES = 25
METRIC = "kube_pod_container_resource_requests"
GOAL_SPEED, GOAL_MEMORY, GOAL_OVERCOUNT = 70.0, 0.2, 0.0
START_SECONDS_LIMIT = 60
ASK_SECONDS_LIMIT = 600


def write_blocks(month: Month, folder: Path) -> int:
    """Write the samples of the requests as Prometheus blocks; returns their GPU-seconds."""
    folder.mkdir()
    with connected(":memory:") as connection:
        create_lives(connection, month)
        lives = connection.execute(
            "select uid, name, namespace, node, started, ended from lives order by pod"
        ).fetchall()
    true = 0
    with (folder / "om.txt").open("w", encoding="utf-8") as file:
        file.write(f"# TYPE {METRIC} gauge\n")
        for uid, name, namespace, node, started, ended in lives:
            labels = f'uid="{uid}",pod="{name}",namespace="{namespace}",node="{node}"'
            true += min(ended, month.ended) - started
            first = -(-started // month.step) * month.step
            file.writelines(
                f"{METRIC}{{{labels}}} 1 {at}\n"
                for at in range(first, min(ended, month.ended), month.step)
            )
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=54h"]
    subprocess.run(
        [*command, "openmetrics", "om.txt", "data"], cwd=folder, check=True, capture_output=True
    )
    return true


@contextmanager
def prometheus(folder: Path) -> Iterator[tuple[str, int]]:
    """The address and process of a Prometheus on these blocks that scrapes no target."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--query.max-samples=500000000",
            "--query.timeout=10m",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/-/ready")
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def _wait(url: str) -> None:
    until = time.monotonic() + START_SECONDS_LIMIT
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def ask(address: str, path: str, **form: str) -> list[dict[str, Any]]:
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{address}{path}", body, timeout=ASK_SECONDS_LIMIT) as answer:
        said = json.load(answer)
    assert said["status"] == "success", said
    found: list[dict[str, Any]] = said["data"]["result"]
    return found


def bill(address: str, month: Month) -> float:
    """Run the three queries; returns the GPU-seconds of the last one."""
    hours = {"start": str(START + 3600), "end": str(month.ended), "step": "3600"}
    window = f"[{month.ended - START}s]"
    most = ask(
        address,
        "/api/v1/query_range",
        query=f"max_over_time(sum by (node) ({METRIC})[1h:{month.step}s])",
        **hours,
    )
    assert most
    at = str(month.ended - 1)
    pods = ask(address, "/api/v1/query", query=f"sum_over_time({METRIC}{window})", time=at)
    assert pods
    tenants = ask(
        address,
        "/api/v1/query",
        query=f"sum by (namespace) (sum_over_time((sum by (namespace, uid) ({METRIC}))"
        f"{window[:-1]}:{month.step}s]))",
        time=at,
    )
    return sum(float(one["value"][1]) for one in tenants) * month.step


def measure() -> list[Measurement]:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        raise CannotMeasure("no prometheus")
    folder = Path(tempfile.mkdtemp(prefix="bench_promql_"))
    month = Month(NODES)
    try:
        true = write_blocks(month, folder / "prometheus")
        with prometheus(folder / "prometheus") as (address, pid):
            began = time.perf_counter()
            said = bill(address, month)
            theirs = time.perf_counter() - began
            their_memory = peak_mib(pid)
        (folder / "ours").mkdir()
        ours = build_month(folder / "ours", month)
        refresh_memory = peak_of_process_mib()
        three = run_aggregates(folder / "ours" / "facts.duckdb", ours.compiled)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert three.sums["pods"] == three.sums["tenants"] == ours.device_seconds
    assert three.sums["node-hours"] == ours.node_maxima
    seconds, our_memory = three.whole, three.peak_mib
    over = (ours.device_seconds - true) / true
    size = f"{ours.pods:,} pods of {month.gpus} GPUs in {month.days} days, a sample each 5 min"
    return [
        Measurement("P7", "PromQL against the facts from intervals", theirs / seconds, GOAL_SPEED,
                    "at least", f"{size}: {theirs:.1f} s against {seconds:.2f} s; apart, the"
                    f" refresh that made the intervals and every other fact: {ours.whole:.1f} s"),
        Measurement("P7", "memory of gpu-ledger against Prometheus", our_memory / their_memory,
                    GOAL_MEMORY, "at most",
                    f"{our_memory:.0f} MiB against {their_memory:.0f} MiB, peaks of"
                    f" whole processes; apart, the refresh: {refresh_memory:.0f} MiB"),
        Measurement("P7", "GPU-seconds counted above the truth", abs(over) * 100,
                    GOAL_OVERCOUNT, "at most",
                    f"{ours.device_seconds:,} GPU-seconds are the truth; PromQL with look-back says"
                    f" {(said - true) * 100 / true:+.2f} %", "%"),
    ]  # fmt: skip


if __name__ == "__main__":
    for row in measure():
        print(row.line())
