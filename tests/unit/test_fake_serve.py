"""All servers of one fleet over HTTP: driving, querying, and replacing the scenario."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from domain.errors import PortTaken
from fake_gpu.clock import SimulatedPastIsFixed, driven, epoch, fixed
from fake_gpu.faults.ledger import KEPT_DETAILS, FaultLedger
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.errors import InvalidScenario
from fake_gpu.scenario.load import library_text, load_scenario, read_scenario
from fake_gpu.serve import Running, serve
from tests.fleets import HEAD, fleet

EAST = "0a7c1d52-3c4e-4b8a-9d5f-6f1e2a3b4c5d"


def at(text: str) -> str:
    return f"2026-10-01T{text}Z"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    thin = build_fleet(load_scenario("thin_line"))
    with serve(thin, driven(epoch(thin.started_at))) as served:
        yield served


def advance(running: Running, when: str) -> httpx.Response:
    return httpx.post(f"{running.control_url}/-/clock", json={"advance_to": when}, timeout=30)


def pod_names(running: Running) -> set[str]:
    answer = httpx.get(f"{running.kubernetes_urls[EAST]}/api/v1/namespaces/vision/pods")
    return {item["metadata"]["name"].split("-")[0] for item in answer.json()["items"]}


def test_one_clock_moves_thanos_and_kubernetes(running: Running) -> None:
    assert httpx.get(f"{running.control_url}/-/clock").json() == {
        "now": at("00:00:00"),
        "mode": "driven",
    }
    assert pod_names(running) == {"serve"}
    assert advance(running, at("01:30:00")).json()["now"] == at("01:30:00")
    assert pod_names(running) == {"serve", "train"}
    query = {"query": 'kube_pod_status_phase{phase="Running",namespace="vision"}'}
    answer = httpx.get(f"{running.thanos_url}/api/v1/query", params=query).json()
    assert answer["status"] == "success"
    running_pods = [s["metric"]["pod"] for s in answer["data"]["result"] if s["value"][1] == "1"]
    assert {name.split("-")[0] for name in running_pods} == {"serve", "train"}


def test_every_server_dates_its_responses_by_the_fleets_clock(running: Running) -> None:
    urls = [
        f"{running.thanos_url}/-/ready",
        f"{running.kubernetes_urls[EAST]}/version",
        f"{running.metrics_urls[EAST]}/",
        f"{running.control_url}/-/clock",
    ]
    for url in urls:
        dates = httpx.get(url).headers.get_list("date")
        expected = running.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        assert dates == [expected], url
        assert "Oct 2026" in expected


def test_time_does_not_go_back_over_http(running: Running) -> None:
    advance(running, at("00:30:00"))  # refused even if another test has advanced the clock already
    refused = advance(running, at("00:00:00"))
    assert refused.status_code == 409
    assert refused.json()["code"] == "FAKE-001"
    assert advance(running, "noon").status_code == 409
    assert httpx.post(f"{running.control_url}/-/clock", content=b"x").status_code == 400


def test_a_watch_receives_a_step_before_the_step_returns(running: Running) -> None:
    base = running.kubernetes_urls[EAST]
    told: list[str] = []
    opened = threading.Event()

    def watch() -> None:
        parameters = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": "0",
            "timeoutSeconds": "86400",  # of virtual time
        }
        with httpx.stream("GET", f"{base}/api/v1/pods", params=parameters, timeout=30) as answer:
            for line in answer.iter_lines():
                event = json.loads(line)
                told.append(f"{event['type']} {event['object']['metadata'].get('name', '')}")
                opened.set()
                if any("blink" in entry and "DELETED" in entry for entry in told):
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    assert opened.wait(60)
    advance(running, at("03:20:05"))
    wait_for(lambda: any(e.startswith(("ADDED blink", "MODIFIED blink")) for e in told))
    advance(running, at("03:30:00"))
    thread.join(60)
    assert "DELETED blink" in told


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait for a thread of this process to read the server's response."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "it was never told"
        time.sleep(0.01)


def test_the_control_lists_its_servers(running: Running) -> None:
    shown = httpx.get(f"{running.control_url}/-/fleet").json()
    assert shown["name"] == "thin_line"
    assert [c["cluster_id"] for c in shown["clusters"]] == [EAST]
    assert httpx.get(f"{running.control_url}/-/faults").json() == []
    topology = httpx.get(f"{running.control_url}/topology").json()
    assert set(topology["east"]) == {"gpu-a", "gpu-b"}
    one = httpx.get(f"{running.control_url}/topology/nodes/gpu-a").json()
    used = [gpu["metrics"]["metadata"].get("namespace") for gpu in one["gpus"]]
    assert used[3] == "vision"
    assert httpx.get(f"{running.control_url}/topology/nodes/none").status_code == 404


def changed_thin_line(extra: str) -> str:
    return library_text("thin_line") + extra


LATER = """\
      - {name: later, namespace: speech, kind: Job, requests: 1, from: +5h, lifetime: 10m}
"""
EARLIER = LATER.replace("from: +5h", "from: +10m")


def test_a_changed_scenario_applies_whole_and_only_to_the_future() -> None:
    thin = build_fleet(load_scenario("thin_line"))
    with serve(thin, driven(epoch(thin.started_at))) as running:
        advance(running, at("02:00:00"))
        url = f"{running.control_url}/-/scenario"
        refused = httpx.post(url, content=changed_thin_line(EARLIER), timeout=30)
        assert refused.status_code == 409
        assert refused.json()["code"] == "FAKE-001"
        broken = httpx.post(url, content="name: [", timeout=30)
        assert broken.status_code == 409
        assert broken.json()["code"] == "FAKE-002"
        assert running.fleet is thin  # the old one is still served
        taken = httpx.post(url, content=changed_thin_line(LATER), timeout=30)
        assert taken.json() == {"applied": "thin_line"}
        advance(running, at("05:05:00"))
        answer = httpx.get(f"{running.kubernetes_urls[EAST]}/api/v1/pods").json()
        assert any(item["metadata"]["name"].startswith("later") for item in answer["items"])


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [
        ("scrape_interval: 30s", "scrape_interval: 60s", "monitored otherwise"),
        ("utilisation: 10-30", "utilisation: 30-50", "serve-pdqqcdmgh-8ftd5 was"),
        ("story: |", "faults: [{fault: html_login, from: +1h}]\nstory: |", "html_login"),
    ],
)
def test_effects_that_only_samples_show_may_not_change_either(
    old: str, new: str, seen: str
) -> None:
    text = library_text("thin_line")
    assert old in text
    thin = build_fleet(load_scenario("thin_line"))
    with serve(thin, driven(epoch(thin.started_at))) as running:
        advance(running, at("02:00:00"))
        with pytest.raises(SimulatedPastIsFixed, match=seen):
            running.apply_scenario(lambda: read_scenario(text.replace(old, new), "x", None))


def test_a_future_fault_may_be_added() -> None:
    text = library_text("thin_line")
    later = text.replace("story: |", "faults: [{fault: html_login, from: +3h}]\nstory: |")
    thin = build_fleet(load_scenario("thin_line"))
    with serve(thin, driven(epoch(thin.started_at))) as running:
        advance(running, at("02:00:00"))
        running.apply_scenario(lambda: read_scenario(later, "x", None))
        assert [fault.kind for fault in running.fleet.faults] == ["html_login"]


def test_adding_or_removing_a_cluster_changes_the_past() -> None:
    thin = build_fleet(load_scenario("thin_line"))
    with (
        serve(thin, driven(epoch(thin.started_at))) as running,
        pytest.raises(SimulatedPastIsFixed, match="come or go"),
    ):
        running.apply_scenario(
            lambda: read_scenario(f"{HEAD}clusters: [{{name: other}}]\n", "x", None)
        )


def test_open_watches_end_when_a_scenario_is_replaced() -> None:
    thin = build_fleet(load_scenario("thin_line"))
    ended = threading.Event()
    with serve(thin, driven(epoch(thin.started_at))) as running:
        base = running.kubernetes_urls[EAST]

        def watch() -> None:
            parameters = {"watch": "1", "resourceVersion": "0"}
            with httpx.stream("GET", f"{base}/api/v1/pods", params=parameters) as answer:
                for _ in answer.iter_lines():
                    opened.set()
            ended.set()

        opened = threading.Event()
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        assert opened.wait(60)
        running.apply_scenario(lambda: read_scenario(changed_thin_line(LATER), "x", None))
        assert ended.wait(60)


def test_ports_are_taken_in_order_and_a_used_one_is_named() -> None:
    small = fleet(f"{HEAD}clusters: [{{name: c}}]\n")
    with serve(small, fixed(datetime(2026, 10, 1, tzinfo=UTC))) as first:
        port = int(first.thanos_url.rsplit(":", 1)[1])
        with pytest.raises(PortTaken, match=str(port)):
            serve(small, fixed(datetime(2026, 10, 1, tzinfo=UTC)), port=port)


def test_a_fault_that_never_occurred_fails_its_test() -> None:
    faults = fleet(f"{HEAD}clusters: [{{name: c}}]\nfaults: [{{fault: timeout}}]\n").faults
    ledger = FaultLedger()
    with pytest.raises(InvalidScenario, match="timeout#0"):
        ledger.require_fired(faults)
    for n in range(KEPT_DETAILS + 5):
        ledger.fire("timeout#0", "c", n, f"request {n}")
    ledger.require_fired(faults)
    assert ledger.count("timeout#0") == KEPT_DETAILS + 5
    assert len(ledger.firings("timeout#0")) == KEPT_DETAILS
    assert ledger.counts() == {"timeout#0": KEPT_DETAILS + 5}


def test_a_step_without_watchers_is_sent_with_the_next_one() -> None:
    thin = build_fleet(load_scenario("thin_line"))
    with serve(thin, driven(epoch(thin.started_at))) as served:
        told: list[str] = []
        reading = threading.Thread(target=watch_pods, args=(served, told), daemon=True)
        reading.start()
        while not told:
            reading.join(0.01)
        before = len(told)
        served.advance_to(epoch(thin.started_at + 3600), woken=())
        assert len(told) == before
        served.advance_to(epoch(thin.started_at + 3600))
        while told[-1] != "BOOKMARK" or len(told) == before:
            reading.join(0.01)
        assert "ADDED" in told[before:]


def watch_pods(running: Running, told: list[str]) -> None:
    """Append the type of every event of a watch that starts at the present."""
    url = f"{running.kubernetes_urls[EAST]}/api/v1/pods"
    asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "0"}
    with httpx.stream("GET", url, params=asked, timeout=60) as answer:
        for line in answer.iter_lines():
            told.append(json.loads(line)["type"])
