"""P2: from the body of an allocation response to runs, against reading the same JSON.

Put here: the body of one hour of a large fleet, and the ratios of goal P2 in one run.
Not here: fetching and storing (`bench_pull`).

    python -m bench P2

The body has the requests and the phase Running of the pods of 10,000 GPUs, for one hour at 30 s.
Scrape times differ per cluster; one pod in five begins or ends within the hour. All sides read the
same bytes in one process, one after the other, each on one core. Seconds are CPU seconds; the least
of several repetitions counts, for all sides.
Goals: at least 20 times faster than `orjson.loads` without changes to the objects, at most 4 times
a `msgspec.Raw` skip, memory at most twice the body and 150 MB.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.measurement import CannotMeasure, Measurement, Sense

CLUSTERS = 10
START = 1_790_848_800
SAMPLES = 120
PHASE_LABELS = ("cluster", "clusterID", "job", "namespace", "pod", "uid")
POD_COUNT = 19_222
REPEAT = 5
GOALS: dict[str, tuple[float, Sense]] = {
    "orjson.loads with garbage collection": (20.0, "at least"),
    "msgspec.Raw, which skips the content": (4.0, "at most"),
}


def body(pod_count: int) -> bytes:
    """The response in Prometheus' form: compact, with milliseconds only if they are not zero."""
    chance = random.Random(7)
    grids = []
    for _ in range(CLUSTERS):
        offset = chance.randrange(30_000)
        grids.append([START * 1000 + offset + 30_000 * n + chance.randrange(8) for n in range(120)])
    parts = []
    for number in range(pod_count):
        cluster = chance.randrange(CLUSTERS)
        times = grids[cluster]
        first, last = 0, SAMPLES
        if number % 10 == 3:
            first = chance.randrange(SAMPLES)
        elif number % 10 == 7:
            last = chance.randrange(1, SAMPLES)
        devices = 8 if number % 6 == 0 else 1
        uid = f"{chance.getrandbits(128):032x}"
        labels = {
            "__name__": "kube_pod_container_resource_requests",
            "cluster": f"cluster-{cluster}",
            "clusterID": f"{cluster:08d}-0b5e-4d7c-9d3a-0c9b6a3e2f11",
            "container": "main",
            "job": "kube-state-metrics",
            "namespace": f"team-{number % 97}",
            "node": f"gpu-{number % 1250}",
            "pod": f"train-{uid[:10]}",
            "resource": "nvidia_com_gpu",
            "uid": f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}",
            "unit": "integer",
        }
        parts.append(_series(labels, times[first:last], devices))
        phase = {name: labels[name] for name in PHASE_LABELS} | {
            "__name__": "kube_pod_status_phase",
            "phase": "Running",
        }
        parts.append(_series(phase, times[first:last], 1))
    # Servers sort by labels; the labels of this body begin with the metric and the cluster.
    result = ",".join(sorted(parts))
    text = f'{{"status":"success","data":{{"resultType":"matrix","result":[{result}]}}}}'
    return text.encode()


def _series(labels: dict[str, str], times_ms: list[int], value: int) -> str:
    values = ",".join(f'[{_seconds(ms)},"{value}"]' for ms in times_ms)
    metric = json.dumps(labels, separators=(",", ":"))
    return f'{{"metric":{metric},"values":[{values}]}}'


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}" if ms % 1000 else str(ms // 1000)


def best(act: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        gc.collect()
        started = time.process_time()
        act()
        seconds.append(time.process_time() - started)
    return min(seconds)


def without_collector(act: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        gc.disable()
        try:
            return act()
        finally:
            gc.enable()

    return run


def measured(answer: bytes, repeat: int) -> dict[str, float]:
    import orjson

    from ingestion.thanos.decode import DecodeWindow, SeriesDictionary, decode_runs
    from ingestion.thanos.response import read_matrix_body

    look = DecodeWindow(
        START * 1000, (START + 3600) * 1000, 45_000, (START - 30) * 1000, (START + 3630) * 1000
    )
    warm = SeriesDictionary(["prometheus_replica"])

    def ours(dictionary: SeriesDictionary) -> object:
        return decode_runs(read_matrix_body(answer).series, dictionary, look)

    ours(warm)
    return {
        "orjson.loads with garbage collection": best(
            lambda: orjson.loads(answer), max(repeat // 2, 2)
        ),
        "msgspec.Raw, which skips the content": best(
            without_collector(lambda: read_matrix_body(answer)), repeat
        ),
        "to runs, labels seen before": best(lambda: ours(warm), repeat),
        "to runs, labels never seen": best(
            lambda: ours(SeriesDictionary(["prometheus_replica"])), repeat
        ),
    }


def memory_mib(pod_count: int) -> tuple[float, float]:
    """Peak memory of a process that decodes the body once, and of one that only holds it."""
    peaks = []
    for code in ("", "decode_runs(read_matrix_body(answer).series, SeriesDictionary([]), look)"):
        program = (
            "import sys; sys.path.insert(0, '.')\n"
            "from bench.bench_decode import body, START\n"
            "from ingestion.thanos.response import read_matrix_body\n"
            "from ingestion.thanos.decode import DecodeWindow, SeriesDictionary, decode_runs\n"
            "import pyarrow.csv\n"
            "answer = open(sys.argv[1], 'rb').read()\n"
            "look = DecodeWindow(START * 1000, (START + 3600) * 1000, 45000, 0, 1 << 62)\n"
            f"{code}\n"
            # Not ru_maxrss: it includes the memory of the parent process before exec.
            "status = open('/proc/self/status').read()\n"
            "print(int(status.split('VmHWM:')[1].split()[0]) / 1024)\n"
        )
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"bench_decode_{os.getpid()}.json"
        path.write_bytes(body(pod_count))
        try:
            run = subprocess.run(
                [sys.executable, "-c", program, str(path)], capture_output=True, check=True
            )
        finally:
            path.unlink()
        peaks.append(float(run.stdout))
    return peaks[1], peaks[0]


def measure() -> list[Measurement]:
    if importlib.util.find_spec("orjson") is None:
        raise CannotMeasure("no orjson, the parser that goal P2 names")
    answer = body(POD_COUNT)
    mib = len(answer) / (1 << 20)
    seconds = measured(answer, REPEAT)
    ours = seconds["to runs, labels seen before"]
    size = f"{POD_COUNT} pods, {mib:.0f} MiB, one hour at 30 s: {ours * 1000:.0f} ms"
    rows = []
    for name, (goal, sense) in GOALS.items():
        other = seconds[name]
        ratio = other / ours if sense == "at least" else ours / other
        how = f"{size} against {other * 1000:.0f} ms"
        rows.append(Measurement("P2", f"decoding to runs against {name}", ratio, goal, sense, how))
    fresh = seconds["to runs, labels never seen"]
    peak, held = memory_mib(POD_COUNT)
    how = f"holding the body takes {held:.0f} MiB; labels never seen before: {fresh * 1000:.0f} ms"
    limit = 2 * mib + 150
    rows.append(Measurement("P2", "memory while decoding", peak, limit, "at most", how, "MiB"))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(row.line())
