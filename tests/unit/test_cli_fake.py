"""The `fake` commands as processes: their output and their exit."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from fake_gpu.scenario.errors import BadScenario
from fake_gpu.scenario.load import library_text, load_scenario

CODE = "from orchestration.cli.main import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, "fake", *arguments], capture_output=True, text=True
    )


def test_list_shows_the_library_with_descriptions() -> None:
    rows = json.loads(run("list", "-o", "json").stdout)
    names = [row["scenario"] for row in rows]
    assert names == sorted(names)
    assert {"demo", "one_cluster_quiet_day", "everything_at_once", "openb"} <= set(names)
    assert all(row["story"].endswith(".") for row in rows)


def test_a_scenario_is_checked_and_shown() -> None:
    ran = run("check", "thin_line", "-o", "csv")
    assert ran.returncode == 0
    rows = list(csv.DictReader(io.StringIO(ran.stdout)))
    assert [(row["node"], row["cards"]) for row in rows] == [("gpu-a", "4"), ("gpu-b", "2")]
    assert "7 pods, 7 of them bound" in ran.stderr
    pods = json.loads(run("check", "thin_line", "--show", "pods", "-o", "json").stdout)
    assert len(pods) == 7
    for part in ("workloads", "namespaces", "faults"):
        assert run("check", "demo", "--show", part, "-o", "json").returncode == 0


def test_suspicious_values_are_warned_of_and_the_fleet_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        library_text("thin_line")
        + "faults:\n  - {fault: node_removed, from: +40h, until: +41h}\n"
        + "  - {fault: pods_replaced, pod: nobody}\n"
    )
    ran = run("check", str(path), "-o", "json")
    assert ran.returncode == 0
    assert len(json.loads(ran.stdout)) == 2
    warnings = [line for line in ran.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert "node_removed is in force from 2026-10-02T16:00:00Z" in warnings[0]
    assert "pods_replaced#0 has no effect" in warnings[1]


def test_a_bad_file_ends_with_2_and_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nfrom: 2026-10-01\nuntil: 2026-10-02\ncluster: []\n")
    ran = run("check", str(path))
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "line 4: unknown key `cluster` (did you mean `clusters`?)" in ran.stderr


def test_a_file_that_is_not_text_is_refused_with_its_line(tmp_path: Path) -> None:
    for name in ("mine.yaml", "mine.csv"):
        path = tmp_path / name
        path.write_bytes(b"name: mine\nstory: caf\xe9\n")
        with pytest.raises(BadScenario) as refused:
            load_scenario(path)
        assert "line 2: byte 21 is no UTF-8" in refused.value.seen
    marked = tmp_path / "marked.yaml"
    marked.write_text(library_text("thin_line"), encoding="utf-8-sig")
    assert load_scenario(marked).scenario == load_scenario("thin_line").scenario


def test_the_truth_is_printed_by_grain() -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(run("truth", "thin_line", "--grain", "allocations", "-o", "csv").stdout)
        )
    )
    assert sum(int(row["device_seconds"]) for row in rows) == 21_600 + 21_595 + 13_530 + 13_160 + (
        1193 + 1521 + 11
    )
    hours = json.loads(run("truth", "thin_line", "--grain", "node-hours", "-o", "json").stdout)
    assert len(hours) == 12
    assert run("truth", "thin_line", "--grain", "weeks").returncode == 2


def test_a_shipped_scenario_can_be_copied_and_changed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(run("show", "thin_line").stdout)
    assert run("check", str(path)).returncode == 0
    assert run("show", "nothing").returncode == 2


def test_samples_are_exported_to_one_file_per_day(tmp_path: Path) -> None:
    ran = run(
        "export",
        "thin_line",
        "--openmetrics",
        str(tmp_path / "om"),
        "--until",
        "2026-10-01T00:10:00Z",
        "--match",
        '{__name__=~"kube_node_.+"}',
    )
    assert ran.returncode == 0
    [path] = ran.stdout.split()
    text = Path(path).read_text()
    assert text.endswith("# EOF\n")
    assert "kube_node_info{" in text
    assert {row[:10] for row in text.splitlines()} == {"kube_node_", "# EOF"}
    refused = run("export", "thin_line", "--openmetrics", str(tmp_path), "--match", "{")
    assert refused.returncode == 2
    assert "--match" in refused.stderr
    refused = run("export", "thin_line", "--openmetrics", str(tmp_path), "--from", "2026-10-02")
    assert refused.returncode == 2
    assert "nothing lies between 2026-10-02" in refused.stderr


def serving(*arguments: str) -> tuple[subprocess.Popen[str], list[dict[str, str]]]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", CODE, "fake", "serve", *arguments, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("]"):
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        text += line
    return process, json.loads(text)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.wait(60)


def test_a_served_fleet_responds_and_stops() -> None:
    process, addresses = serving("thin_line", "--at", "2026-10-01T02:00:00Z")
    try:
        urls = {row["api"]: row["url"] for row in addresses}
        assert list(urls) == ["thanos", "control", "kubernetes", "metrics"]
        assert httpx.get(f"{urls['control']}/-/clock").json()["mode"] == "fixed"
        assert httpx.get(f"{urls['thanos']}/-/ready").status_code == 200
        assert len(httpx.get(f"{urls['kubernetes']}/api/v1/nodes").json()["items"]) == 2
        metrics = httpx.get(f"{urls['metrics']}/kube-state-metrics/metrics").text
        assert "kube_node_info" in metrics
    finally:
        stop(process)
    assert process.returncode == 130


def test_a_changed_file_is_loaded_and_an_invalid_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = run("show", "thin_line").stdout
    path.write_text(text)
    process, addresses = serving(str(path), "--driven", "--reload")
    try:
        control = next(row["url"] for row in addresses if row["api"] == "control")
        path.write_text(text.replace("name: thin_line", "name: [broken"))
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), True)
        seen = ""
        while "The previous scenario is still served." not in seen:
            seen += process.stderr.readline()
        assert "FAKE-002" in seen
        assert httpx.get(f"{control}/-/fleet").json()["name"] == "thin_line"
        path.write_text(text.replace("name: thin_line", "name: renamed"))
        deadline = time.monotonic() + 60
        while httpx.get(f"{control}/-/fleet").json()["name"] != "renamed":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        stop(process)


def test_options_that_exclude_each_other_are_refused() -> None:
    ran = run("serve", "thin_line", "--live", "--driven")
    assert ran.returncode == 2
    assert "exclude each other" in ran.stderr
    ran = run("serve", "thin_line", "--reload")
    assert ran.returncode == 2
    assert "needs a clock that goes on" in ran.stderr
    ran = run("serve", "thin_line", "--reload", "--live")
    assert ran.returncode == 2
    assert "is not a file" in ran.stderr
