"""The exporter's HTTP server: pages, probes, TLS with reload, client certificates, shutdown."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from amd_exporter.collection import SnapshotCollector
from amd_exporter.exposition import RegistryCollector
from amd_exporter.server import CONNECTIONS_LIMIT, MetricsServer
from amd_exporter.settings import ExporterSettings, read_settings
from amd_exporter.sources import RocmSmiTool, Runner
from tests.certificates import Authority
from tests.fake_rocm import Rocm, amd_smi_gpu, partitioned_card
from tests.servers.process import free_port

CARD = "0000:c1:00.0"
SECONDS = 20.0  # for actions that are immediate on an idle machine
SCRAPE_BYTES_LIMIT = 30_000


@pytest.fixture
def rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rocm:
    monkeypatch.setenv("PATH", os.defpath)
    installed = Rocm(tmp_path / "rocm")
    installed.amd_smi([amd_smi_gpu(0, bdf=CARD)])
    return installed


def settings(rocm: Rocm, *arguments: str) -> ExporterSettings:
    own = ("--rocm-path", str(rocm.folder), "--sysfs-path", str(rocm.folder), "--node-name", "n1")
    chosen = read_settings([*own, "--listen-address", "127.0.0.1", *arguments], {})
    return replace(chosen, port=0)


@contextmanager
def serving(chosen: ExporterSettings, collection: SnapshotCollector | None = None) -> Iterator[str]:
    """A server whose collection has run once; its URL."""
    collection = collection or SnapshotCollector(chosen)
    collection.collect()
    registry = CollectorRegistry()
    registry.register(RegistryCollector(collection, chosen.node_name))
    server = MetricsServer(chosen, registry, collection)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        scheme = "https" if chosen.tls_cert else "http"
        yield f"{scheme}://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        server.server_close()
        collection.stop()


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_server_serves_metrics_and_probes(rocm: Rocm) -> None:
    chosen = settings(rocm, "--metrics-path", "/gpus")
    with serving(chosen) as url:
        page = httpx.get(f"{url}/gpus")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/plain; version=")
        assert 'amd_gpu_power_watts{container="",gpu="0"' in page.text
        openmetrics = httpx.get(f"{url}/gpus", headers={"Accept": "application/openmetrics-text"})
        assert openmetrics.text.endswith("# EOF\n")
        assert httpx.get(f"{url}/readyz").text == "ok\n"
        assert httpx.get(f"{url}/metrics").status_code == 404
        assert httpx.head(f"{url}/gpus").content == b""
        assert httpx.post(f"{url}/gpus").status_code == 501
        # No collection runs without the loop, and the liveness probe reports exactly that.
        assert httpx.get(f"{url}/healthz").status_code == 503


def test_readiness_names_the_failing_part(rocm: Rocm) -> None:
    rocm.failing("amd-smi", "crash")
    with serving(settings(rocm)) as url:
        answer = httpx.get(f"{url}/readyz")
    assert answer.status_code == 503
    assert "amd-smi: exit_status" in answer.text
    assert "rocm-smi: not_found" in answer.text


def test_a_scrape_of_a_full_node_is_small(rocm: Rocm) -> None:
    """Size of the gzip response for eight cards with eight partitions each."""
    gpus = [gpu for card in range(8) for gpu in partitioned_card(f"{card + 1:02x}", card * 8, 8)]
    rocm.amd_smi(gpus)
    with serving(settings(rocm)) as url, httpx.stream("GET", f"{url}/metrics") as answer:
        assert answer.headers["content-encoding"] == "gzip"
        received = sum(len(chunk) for chunk in answer.iter_raw())
    assert 1_000 < received < SCRAPE_BYTES_LIMIT


def test_a_hanging_tool_does_not_block_the_page(rocm: Rocm) -> None:
    chosen = settings(rocm)
    source = RocmSmiTool(rocm.folder, Runner(seconds_limit=SECONDS))
    rocm.rocm_smi('{"card0": {"GPU use (%)": "7"}}')
    collection = SnapshotCollector(chosen, [source])
    with serving(chosen, collection) as url:
        rocm.failing("rocm-smi", "hang")
        collection.start()
        wait_for((rocm.folder / "child").exists)
        started = time.monotonic()
        assert "amd_gpu_utilization_percent" in httpx.get(f"{url}/metrics").text
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert time.monotonic() - started < SECONDS / 2


def test_more_connections_than_the_limit_are_closed(rocm: Rocm) -> None:
    with serving(settings(rocm)) as url:
        port = int(url.rpartition(":")[2])
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS_LIMIT)]

        def is_refused() -> bool:
            try:
                httpx.get(f"{url}/readyz", timeout=1)
            except httpx.TransportError:
                return True
            return False

        wait_for(is_refused)
        for each in idle:
            each.close()
        wait_for(lambda: not is_refused())
        assert httpx.get(f"{url}/readyz").status_code == 200


# --- TLS ---


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.ca_file))


def test_tls_reloads_a_replaced_certificate(rocm: Rocm, tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    certificate, key = old.issue("server", folder=tmp_path)
    chosen = settings(rocm, "--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(chosen) as url:
        assert httpx.get(f"{url}/readyz", verify=trusting(old)).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/readyz", verify=trusting(new))
        # The key is replaced first: until the certificate follows, the old pair is served.
        new_certificate, new_key = new.issue("server", folder=tmp_path / "new")
        new_key.rename(key)
        assert httpx.get(f"{url}/readyz", verify=trusting(old)).status_code == 200
        new_certificate.rename(certificate)
        assert httpx.get(f"{url}/readyz", verify=trusting(new)).status_code == 200


def test_a_client_without_a_handshake_blocks_no_other(rocm: Rocm, tmp_path: Path) -> None:
    """A handshake in the accept loop would wait for a client that connects and sends nothing."""
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("server", folder=tmp_path)
    chosen = settings(rocm, "--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(chosen) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):
            answer = httpx.get(f"{url}/readyz", verify=trusting(authority), timeout=5)
            assert answer.status_code == 200


def test_with_a_client_ca_only_its_clients_read_metrics(rocm: Rocm, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    certificate, key = authority.issue("server", folder=tmp_path)
    files = ("--tls-cert", str(certificate), "--tls-key", str(key))
    chosen = settings(rocm, *files, "--tls-client-ca", str(authority.ca_file))
    with serving(chosen) as url:
        assert httpx.get(f"{url}/readyz", verify=trusting(authority)).status_code == 200
        assert httpx.get(f"{url}/metrics", verify=trusting(authority)).status_code == 403
        known = trusting(authority)
        known.load_cert_chain(*authority.issue("prometheus", folder=tmp_path / "ca"))
        assert httpx.get(f"{url}/metrics", verify=known).status_code == 200
        foreign = trusting(authority)
        foreign.load_cert_chain(*other.issue("prometheus", folder=tmp_path / "other"))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/metrics", verify=foreign)


# --- the process ---


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_within_a_second_while_a_tool_hangs(
    rocm: Rocm, number: int
) -> None:
    rocm.failing("amd-smi", "hang")
    port = free_port()
    command = [sys.executable, "-m", "amd_exporter.cli", "--listen-address", "127.0.0.1"]
    command += ["--port", str(port), "--rocm-path", str(rocm.folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for((rocm.folder / "child").exists)
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        started = time.monotonic()
        process.send_signal(number)
        assert process.wait(SECONDS) == 0
        assert time.monotonic() - started < 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.deep
def test_once_prints_a_collection_and_fails_without_one(rocm: Rocm) -> None:
    command = [sys.executable, "-m", "amd_exporter.cli", "--once", "--rocm-path", str(rocm.folder)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0
    assert "amd_gpu_power_watts" in ran.stdout
    rocm.failing("amd-smi", "crash")
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 3
    assert "driver is not loaded" in ran.stderr


def test_server_imports_few_modules() -> None:
    """gRPC is imported only with a kubelet socket, and modules of the warehouse never."""
    code = (
        "import sys; import amd_exporter.cli\n"
        "heavy = 'grpc google duckdb polars dagster domain httpx yaml click'.split()\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
