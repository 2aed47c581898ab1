"""A real Prometheus scrapes the real exporter over TLS; promtool reads its page and its rules."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import Authority
from tests.fake_rocm import Rocm, amd_smi_gpu, kubelet, library_gpu, partitioned_card, sysfs
from tests.servers.process import free_port, running, wait_for
from tests.servers.prometheus import programs, prometheus
from tests.unit.test_amd_exporter_collections import pods

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "amd-exporter"
CARDS = ("0000:c1:00.0", "0000:c2:00.0", "0000:c3:00.0")
CONFIG = """
scrape_configs:
  - job_name: gpu-ledger-amd-exporter
    scrape_interval: 1s
    scrape_timeout: 1s
    honor_labels: true
    scheme: https
    tls_config: {{ca_file: {ca}, cert_file: {cert}, key_file: {key}}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
rule_files: [{rules}]
"""


@contextmanager
def exporter(folder: Path, *arguments: str) -> Iterator[int]:
    """The real command on a node of `folder/rocm` and `folder/sys`; its port."""
    port = free_port()
    command = [sys.executable, "-m", "amd_exporter.cli", "--listen-address", "127.0.0.1"]
    command += ["--port", str(port), "--rocm-path", str(folder / "rocm"), "--node-name", "node-1"]
    command += ["--sysfs-path", str(folder / "sys"), "--collection-interval", "5", *arguments]

    def answers() -> bool:
        scheme = "https" if "--tls-cert" in arguments else "http"
        try:
            url = f"{scheme}://127.0.0.1:{port}/readyz"
            # Only on loopback, and only to see whether it responds, so the certificate is not
            # verified.
            return httpx.get(url, verify=False, timeout=2).status_code in (200, 503)
        except httpx.TransportError:
            return False

    with running(command, answers, folder / "exporter.log") as process:
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def collected_page(port: int) -> str:
    """The page of metrics after the first collection."""
    pages: list[str] = []

    def is_collected() -> bool:
        pages.append(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
        return "amd_gpu_exporter_last_success_timestamp_seconds " in pages[-1]

    wait_for(is_collected, "the first collection")
    return pages[-1]


def instant(real: httpx.Client, query: str) -> list[Any]:
    answer = real.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    result: list[Any] = answer["data"]["result"]
    return result


@pytest.mark.parametrize("version", [2, 3])
def test_prometheus_scrapes_over_tls_and_every_panel_has_data(version: int, tmp_path: Path) -> None:
    rocm = Rocm(tmp_path / "rocm")
    gpus = [amd_smi_gpu(n, bdf=bdf, serial=f"0x{n + 1}") for n, bdf in enumerate(CARDS[:2])]
    rocm.amd_smi([*gpus, amd_smi_gpu(2, bdf=CARDS[2], serial="0x3", uncorrectable=1)])
    sysfs(tmp_path / "sys", {bdf: 128 + n for n, bdf in enumerate(CARDS)} | {"0000:c4:00.0": 140})
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("exporter", folder=tmp_path)
    own, own_key = authority.issue("prometheus", folder=tmp_path)
    arguments = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    arguments += ["--tls-client-ca", str(authority.ca_file)]
    rules = tmp_path / "rules.yml"
    rules.write_text((DEPLOY / "rules.yml").read_text().replace("interval: 1m", "interval: 1s"))
    with kubelet(tmp_path / "kubelet.sock") as listing:
        listing.response = pods(("team-a", "train-0", "main", "amd.com/gpu", [CARDS[0]]))
        with exporter(tmp_path, *arguments, "--pod-resources-socket", str(listing.socket)) as port:
            config = CONFIG.format(
                ca=authority.ca_file, cert=own, key=own_key, port=port, rules=rules
            )
            with prometheus(programs(version), tmp_path / "prometheus", config) as real:
                power = 'amd_gpu_power_watts{pod="train-0"}'
                wait_for(lambda: bool(instant(real, power)), "the first scrape")
                [row] = instant(real, power)
                labels = row["metric"]
                assert row["value"][1] == "300"
                assert (labels["namespace"], labels["container"]) == ("team-a", "main")
                assert "exported_pod" not in labels
                assert labels["job"] == "gpu-ledger-amd-exporter"
                free = "node:amd_gpu_free:count"
                wait_for(lambda: bool(instant(real, free)), "the first rules")
                # Of three devices, a pod holds one and one is unhealthy.
                assert [row["value"][1] for row in instant(real, free)] == ["1"]
                assert instant(real, "up")[0]["value"][1] == "1"
                wait_for(lambda: not empty_panels(real), "a value in every panel")


def empty_panels(real: httpx.Client) -> list[str]:
    """The panels without a value, except that of broken exporters if none is broken."""
    board = json.loads((DEPLOY / "dashboard.json").read_text())
    return [
        f"{panel['title']}: {target['expr']}"
        for panel in board["panels"]
        for target in panel["targets"]
        if panel["title"] != "Exporters that cannot read"
        and not instant(real, target["expr"].replace("$node", ".*").replace("$product", ".*"))
    ]


def test_promtool_reports_no_fault_of_the_page(tmp_path: Path) -> None:
    """The page has partitions with values of their own, whole cards, errors, and every metric."""
    rocm = Rocm(tmp_path / "rocm")
    rocm.library([], how="init")
    engines: dict[str, list[int | None]] = {f"xcp_{n}": [n] for n in range(8)}
    gpus = partitioned_card("05", 0, 8, engines=engines)
    rocm.amd_smi([*gpus, amd_smi_gpu(8, bdf=CARDS[0], serial="0x9", watts=65535)])
    with exporter(tmp_path) as port:
        text = collected_page(port)
    assert 'amd_gpu_utilization_percent{container="",gpu="7"' in text
    assert 'amd_gpu_exporter_values_dropped_total{quantity="power_watts"} 1.0' in text
    for version in (2, 3):
        promtool = programs(version).promtool
        command = [str(promtool), "check", "metrics"]
        ran = subprocess.run(command, input=text, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("version", [2, 3])
def test_the_rules_do_what_their_examples_say(version: int) -> None:
    promtool = str(programs(version).promtool)
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        ran = subprocess.run([promtool, *command], cwd=DEPLOY, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_scrape_configuration_is_one(tmp_path: Path) -> None:
    (tmp_path / "gpu-ledger-amd-exporter-rules.yml").write_text((DEPLOY / "rules.yml").read_text())
    (tmp_path / "prometheus.yml").write_text((DEPLOY / "prometheus.yml").read_text())
    promtool = str(programs(3).promtool)  # Debian's is built without Kubernetes
    command = [promtool, "check", "config", str(tmp_path / "prometheus.yml")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_library_serves_through_the_real_command(tmp_path: Path) -> None:
    rocm = Rocm(tmp_path / "rocm")
    rocm.library([library_gpu(0, bdf=CARDS[0])])
    with exporter(tmp_path) as port:
        text = collected_page(port)
    assert re.search(r'source_info{source="amdsmi",tested="true",version="26.0"} 1.0', text)
