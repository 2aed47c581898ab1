"""Real Thanos components for tests: sidecars, queriers, receivers, store gateways, on loopback.

Put here: starting, killing and pausing them, writing to receivers, buckets of blocks.
Not here: the Prometheus behind a sidecar (`prometheus`), or the queries.
"""

from __future__ import annotations

import json
import shutil
import signal
import struct
import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from fake_gpu.prometheus.series import WindowSeries
from tests.servers.process import free_port, required, running

RESOLUTION_MS = 300_000


@dataclass
class Component:
    """A running part of Thanos that answers on a gRPC port."""

    name: str
    grpc_port: int
    http_port: int
    process: subprocess.Popen[bytes]

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def kill(self) -> None:
        """Kill it: its port refuses connections."""
        self.process.kill()
        self.process.wait()

    def hang(self) -> None:
        """Pause it: it keeps and accepts connections, but does not respond."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def _ready(port: int) -> bool:
    try:
        url = f"http://127.0.0.1:{port}/-/ready"
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def component(
    kind: str, folder: Path, *options: str, grpc_port: int | None = None
) -> Iterator[Component]:
    """`thanos KIND` with its two ports and these options, as soon as it is ready."""
    folder.mkdir(parents=True, exist_ok=True)
    grpc_port, http_port = grpc_port or free_port(), free_port()
    command = [
        *(required("thanos"), kind),
        f"--grpc-address=127.0.0.1:{grpc_port}",
        f"--http-address=127.0.0.1:{http_port}",
        "--grpc-grace-period=1s",
        "--http-grace-period=1s",
        *options,
    ]
    log = folder / f"{kind}-{grpc_port}.log"
    with running(command, lambda: _ready(http_port), log, gently=False) as process:
        yield Component(kind, grpc_port, http_port, process)


@contextmanager
def sidecar(prometheus_url: str, data: Path, folder: Path) -> Iterator[Component]:
    options = (f"--prometheus.url={prometheus_url}", f"--tsdb.path={data}")
    with component("sidecar", folder, *options) as made:
        yield made


@contextmanager
def querier(
    endpoints: Iterable[str],
    folder: Path,
    *more: str,
    replica_label: str,
    forgets_after: str = "5m",
    steady: Container[str] = (),
) -> Iterator[str]:
    """A querier over these stores; its URL.

    It keeps a steady store even if the store answers a health check too late, as under load.
    """
    options = [*more]
    for endpoint in endpoints:
        options.append(f"--endpoint{'-strict' * (endpoint in steady)}={endpoint}")
    options += [
        f"--query.replica-label={replica_label}",
        f"--store.unhealthy-timeout={forgets_after}",
    ]
    with component("query", folder, *options) as made:
        yield f"http://127.0.0.1:{made.http_port}"


def stores(querier_url: str) -> dict[str, str | None]:
    """Address and last error of each store, from the querier."""
    answer = httpx.get(f"{querier_url}/api/v1/stores", timeout=30, trust_env=False).json()
    every = [store for group in answer["data"].values() for store in group]
    return {store["name"]: store.get("lastError") for store in every}


# --- buckets -------------------------------------------------------------------------------------


@contextmanager
def store_gateway(bucket: Path, folder: Path) -> Iterator[Component]:
    """A store over the present blocks of a bucket."""
    options = (f"--objstore.config={_bucket(bucket)}", f"--data-dir={folder / 'cache'}")
    with component("store", folder, *options) as made:
        yield made


def upload(blocks: Path, bucket: Path, labels: Mapping[str, str]) -> None:
    """Put Prometheus blocks into a bucket with these external labels, as a sidecar does."""
    bucket.mkdir(parents=True)
    command = [required("thanos"), "tools", "bucket", "upload-blocks", "--shipper.upload-compacted"]
    command += [f"--objstore.config={_bucket(bucket)}", f"--path={blocks}"]
    command += [f'--label={name}="{text}"' for name, text in labels.items()]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def down_sample(bucket: Path, folder: Path) -> None:
    """Add a block with one value per five minutes for each raw block; each must cover 40 hours."""
    folder.mkdir(parents=True)
    command = [required("thanos"), "tools", "bucket", "downsample", "--http-grace-period=1s"]
    command += [f"--objstore.config={_bucket(bucket)}", f"--data-dir={folder}"]
    command += [f"--http-address=127.0.0.1:{free_port()}"]
    with running(command, lambda: RESOLUTION_MS in resolutions(bucket).values(), folder / "log"):
        pass


def resolutions(bucket: Path) -> dict[Path, int]:
    """Each complete block and its resolution in milliseconds; 0 is raw."""
    metas = {path.parent: json.loads(path.read_text()) for path in bucket.glob("*/meta.json")}
    return {block: meta["thanos"]["downsample"]["resolution"] for block, meta in metas.items()}


def without_raw(bucket: Path, aside: Path) -> Path:
    """A copy of a bucket after the retention of its raw blocks has deleted them."""
    shutil.copytree(bucket, aside)
    for block, resolution in resolutions(aside).items():
        if not resolution:
            shutil.rmtree(block)
    return aside


def _bucket(folder: Path) -> str:
    return json.dumps({"type": "FILESYSTEM", "config": {"directory": str(folder)}})


# --- receivers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Receivers:
    """Receivers that divide series between them by hash, each series in one of them."""

    members: tuple[Component, ...]
    write_url: str

    @property
    def endpoints(self) -> list[str]:
        return [member.endpoint for member in self.members]


@contextmanager
def receivers(count: int, folder: Path) -> Iterator[Receivers]:
    folder.mkdir(parents=True, exist_ok=True)
    ports = [free_port() for _ in range(count)]
    ring = folder / "hashring.json"
    ring.write_text(json.dumps([{"endpoints": [f"127.0.0.1:{port}" for port in ports]}]))
    write_port = free_port()
    with ExitStack() as stack:
        members = []
        for number, port in enumerate(ports):
            address = f"127.0.0.1:{free_port() if number else write_port}"
            options = (
                f"--remote-write.address={address}",
                f"--receive.capnproto-address=127.0.0.1:{free_port()}",
                f"--tsdb.path={folder / f'receive-{number}'}",
                "--tsdb.retention=0d",
                f'--label=receive_replica="{number}"',
                f"--receive.hashrings-file={ring}",
                "--receive.hashrings-algorithm=ketama",
                f"--receive.local-endpoint=127.0.0.1:{port}",
            )
            members.append(
                stack.enter_context(component("receive", folder, *options, grpc_port=port))
            )
        yield Receivers(tuple(members), f"http://127.0.0.1:{write_port}/api/v1/receive")


# --- remote write --------------------------------------------------------------------------------

SERIES_PER_REQUEST = 200
# A receiver refuses samples that are more than an hour older than its newest one.
SLICE_MS = 30 * 60 * 1000


def remote_write(url: str, series: Sequence[WindowSeries]) -> None:
    """Send all samples of these series in order of time, in the remote-write protocol."""
    import pyarrow as pa

    headers = {"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
    times = [at for each in series for at in (each.timestamps_ms[0], each.timestamps_ms[-1])]
    with httpx.Client(timeout=60, headers=headers, trust_env=False) as client:
        for from_ms in range(min(times), max(times) + 1, SLICE_MS):
            cut = [each.clipped(from_ms, from_ms + SLICE_MS - 1) for each in series]
            there = [each for each in cut if each.parts]
            for at in range(0, len(there), SERIES_PER_REQUEST):
                chosen = there[at : at + SERIES_PER_REQUEST]
                body = b"".join(_field(1, _time_series(each)) for each in chosen)
                answer = client.post(url, content=pa.compress(body, codec="snappy", asbytes=True))
                assert answer.is_success, f"{answer.status_code}: {answer.text}"


def _time_series(series: WindowSeries) -> bytes:
    labels = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, text.encode())) for name, text in series.key
    )
    samples = b"".join(
        _field(2, b"\x09" + struct.pack("<d", number) + b"\x10" + _varint(at_ms))
        for at_ms, number in zip(series.timestamps_ms, series.numbers, strict=True)
    )
    return labels + samples


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
