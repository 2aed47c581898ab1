"""A scenario is replaced while it runs: the past stays, and changes start now.

Put here: allowed and refused changes, of scenarios with times and of configurations without.
Not here: the endpoint that accepts a scenario (`test_fake_serve`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from fake_gpu.clock import SimulatedPastIsFixed, driven, epoch, running
from fake_gpu.fleet.export import plain_rows
from fake_gpu.scenario.errors import BadScenario
from fake_gpu.scenario.load import LoadedScenario, read_scenario
from fake_gpu.serve import Running, serve
from fake_gpu.truth.ledger import ledger
from tests.fleets import T0, check_invariants

HOUR = 3600
NOW = T0 + 2 * HOUR
BUSY, USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"


def read(text: str) -> LoadedScenario:
    return read_scenario(text, "changing", None)


@contextmanager
def served(text: str, now: int = NOW) -> Iterator[Running]:
    with serve(read(text), driven(epoch(T0))) as fleet:
        fleet.advance_to(epoch(now))
        yield fleet


def samples(fleet: Running, metric: str, at: int) -> dict[str, str]:
    """Card to value, of a query to Thanos at an instant."""
    asked = {"query": metric, "time": str(at)}
    answer = httpx.get(f"{fleet.thanos_url}/api/v1/query", params=asked).json()
    return {each["metric"]["UUID"]: each["value"][1] for each in answer["data"]["result"]}


def objects(fleet: Running, path: str) -> dict[str, str]:
    """Name to UID, of the API server's current list."""
    [url] = fleet.kubernetes_urls.values()
    items = httpx.get(f"{url}/api/v1/{path}").json()["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}


# --- scenarios with times -------------------------------------------------------------------------

TIMED = """\
name: timed
from: 2026-10-01T00:00:00Z
until: 2026-10-02T00:00:00Z
clusters:
  - name: east
    nodes:
      - name: gpu-a
        product: Tesla-T4
        cards: 2
        card_ids: [GPU-0, GPU-1]
        incidents: [{card: 1, from: +30m, until: +5h, xid: 79}]
    workloads:
      - name: train
        namespace: vision
        kind: Pod
        requests: 1
        pods:
          - created: +1m
            started: +1m
            node: gpu-a
            cards: [0]
            card_loads: [{card: 0, utilisation: 40, memory_used_mib: 6000}]
"""

OTHER_PASTS = {
    "another card": ("cards: [0]", "cards: [1]", "device_id was GPU-0, and would have been GPU-1"),
    "another card's name": ("[GPU-0, ", "[GPU-9, ", "card_id was GPU-0, and would have been GPU-9"),
    "another error": ("xid: 79", "xid: 48", "xid was 79, and would have been 48"),
    "an error more": (
        "incidents: [",
        "incidents: [{card: 0, from: +2h}, ",
        "Node gpu-a MODIFIED at 2026-10-01T02:00:00Z would",
    ),
    "other times of an error": (
        "from: +30m, until: +5h",
        "from: +30m, until: +1h",
        "Node gpu-a MODIFIED at 2026-10-01T01:00:00Z would have happened",
    ),
    "busier": ("utilisation: 40", "utilisation: 41", "pod vision/train was 40 % busy"),
    "busier at first": (
        "utilisation: 40",
        "utilisation: {phases: [{time: 1s, utilisation: 41}, {time: 1h, utilisation: 40}]}",
        "and would have been 41 % busy",
    ),
    "more memory": ("used_mib: 6000", "used_mib: 6001", "would have been 40 % busy with 6001 MiB"),
    "busier since a second": (
        "memory_used_mib: 6000}",
        "memory_used_mib: 6000}, {card: 0, from: +2h, utilisation: 90}",
        "at 2026-10-01T02:00:00Z, and would have been 90 % busy",
    ),
    "a label": ("name: gpu-a", "name: gpu-a\n        labels: {rack: a}", "labels.rack was None"),
    "a start": (
        "started: +1m",
        "started: +2m",
        "Pod vision/train ADDED at 2026-10-01T00:01:00Z: status.phase was Running",
    ),
    "a version": ("name: east", "name: east\n    openshift: 4.20.3", "openshift"),
}


@pytest.mark.parametrize("change", OTHER_PASTS)
def test_a_scenario_with_another_past_is_refused(change: str) -> None:
    old, new, seen = OTHER_PASTS[change]
    assert old in TIMED
    with served(TIMED) as fleet:
        told = [samples(fleet, metric, NOW) for metric in (BUSY, USED, "DCGM_FI_DEV_XID_ERRORS")]
        before = fleet.fleet
        with pytest.raises(SimulatedPastIsFixed) as refused:
            fleet.apply_scenario(lambda: read(TIMED.replace(old, new)))
        assert seen in refused.value.message()
        assert fleet.fleet is before
        assert told == [
            samples(fleet, metric, NOW) for metric in (BUSY, USED, "DCGM_FI_DEV_XID_ERRORS")
        ]


FUTURES = {
    "an end of trouble": ("until: +5h", "until: +3h"),
    "another load later": (
        "memory_used_mib: 6000}",
        "memory_used_mib: 6000}, {card: 0, from: +3h, utilisation: 90}",
    ),
    "other phases from now on": (
        "utilisation: 40",
        # The pod started at 00:01, so its first two hours are unchanged.
        "utilisation: {phases: [{time: 2h, utilisation: 40}, {time: 20h, utilisation: 90}]}",
    ),
    "an end": ("cards: [0]", "cards: [0]\n            ended: +3h"),
}


@pytest.mark.parametrize("change", FUTURES)
def test_the_future_may_change(change: str) -> None:
    old, new = FUTURES[change]
    assert old in TIMED
    with served(TIMED) as fleet:
        told = samples(fleet, BUSY, NOW)
        fleet.apply_scenario(lambda: read(TIMED.replace(old, new)))
        assert samples(fleet, BUSY, NOW) == told == {"GPU-0": "40", "GPU-1": "0"}


def test_the_load_of_a_pod_may_change_at_a_second() -> None:
    old, new = FUTURES["another load later"]
    with served(TIMED.replace(old, new), T0 + 4 * HOUR) as fleet:
        assert samples(fleet, BUSY, T0 + 2 * HOUR)["GPU-0"] == "40"
        assert samples(fleet, BUSY, T0 + 4 * HOUR)["GPU-0"] == "90"
        assert samples(fleet, USED, T0 + 2 * HOUR)["GPU-0"] == "6000"
        # 80 % of the 15,360 MiB less the driver's part, as a pod uses by default.
        assert samples(fleet, USED, T0 + 4 * HOUR)["GPU-0"] == str((15_360 - 192) * 8 // 10)


# --- configurations without times -----------------------------------------------------------------

GPU = """\
      - id: {card}
        metrics:
          metadata: {{namespace: {namespace}, pod: {pod}, container: main}}
          utilization: {busy}
          fb-used: {used}
"""
NODE = "  {name}:\n    gpu-memory: 11441\n    gpu-product: Tesla-K80\n    gpus:\n"


def gpu(card: str, busy: str = "10", used: int = 5000, pod: str = "pod", tenant: str = "a") -> str:
    return GPU.format(card=card, namespace=f"team-{tenant}", pod=pod, busy=busy, used=used)


def idle(card: str) -> str:
    return f"      - id: {card}\n"


def design(strategy: str = "none", **nodes: str) -> str:
    """A configuration in the format of the design document."""
    entries = [NODE.format(name=name) + gpus for name, gpus in nodes.items()]
    return f"mig-strategy: {strategy}\nnodes:\n" + "".join(entries)


ONE = design(a=gpu("GPU-0") + idle("GPU-1"))


def changed(fleet: Running, text: str) -> None:
    """Replace the scenario now, and advance by an hour."""
    fleet.apply_scenario(lambda: read(text))
    fleet.advance_to(epoch(fleet.clock.now_seconds() + HOUR))
    check_invariants(fleet.fleet.clusters[0])


def test_another_load_starts_now_and_the_past_stays() -> None:
    with served(ONE) as fleet:
        pods = objects(fleet, "pods")
        version = fleet.histories[fleet.fleet.clusters[0].cluster_id].resource_version_at(NOW)
        changed(fleet, design(a=gpu("GPU-0", "50", 6000) + idle("GPU-1")))
        for at in (NOW - HOUR, NOW):
            assert samples(fleet, BUSY, at) == {"GPU-0": "10", "GPU-1": "0"}
            assert samples(fleet, USED, at)["GPU-0"] == "5000"
        assert samples(fleet, BUSY, NOW + HOUR) == {"GPU-0": "50", "GPU-1": "0"}
        assert samples(fleet, USED, NOW + HOUR)["GPU-0"] == "6000"
        assert objects(fleet, "pods") == pods  # the same pod, not a new one of that name
        again = fleet.histories[fleet.fleet.clusters[0].cluster_id].resource_version_at(NOW)
        assert again == version


def test_phases_start_when_they_are_accepted() -> None:
    with served(ONE) as fleet:
        phases = "\"{ {time: '30m' utilization: 80} {time: '30m' utilization: 20} repeat: 1 }\""
        changed(fleet, design(a=gpu("GPU-0", phases) + idle("GPU-1")))
        seen = [samples(fleet, BUSY, NOW + at)["GPU-0"] for at in (0, 1740, 1860, HOUR)]
        assert seen == ["10", "80", "20", "20"]
        fleet.advance_to(epoch(NOW + 2 * HOUR))
        assert samples(fleet, BUSY, NOW + 2 * HOUR)["GPU-0"] == "0"


def test_nodes_and_pods_are_added_and_removed() -> None:
    with served(ONE) as fleet:
        other = design(
            a=gpu("GPU-0") + idle("GPU-1"), b=gpu("GPU-7", "70", pod="other", tenant="b")
        )
        changed(fleet, other)
        assert set(objects(fleet, "nodes")) == {"a", "b"}
        assert set(objects(fleet, "pods")) == {"pod", "other"}
        assert "team-b" in objects(fleet, "namespaces")
        assert samples(fleet, BUSY, NOW) == {"GPU-0": "10", "GPU-1": "0"}
        assert samples(fleet, BUSY, NOW + HOUR) == {"GPU-0": "10", "GPU-1": "0", "GPU-7": "70"}

        changed(fleet, ONE)
        assert set(objects(fleet, "nodes")) == {"a"}
        assert set(objects(fleet, "pods")) == {"pod"}
        assert samples(fleet, BUSY, NOW + HOUR)["GPU-7"] == "70"
        assert samples(fleet, BUSY, NOW + 2 * HOUR) == {"GPU-0": "10", "GPU-1": "0"}
        rows = ledger(plain_rows(fleet.fleet), "allocations")
        held = {r["pod_name"]: (r["bound_at"], r["ended_at"]) for r in rows}
        assert held["other"] == ("2026-10-01T02:00:01Z", "2026-10-01T03:00:01Z")


def test_a_pod_on_another_card_is_another_pod() -> None:
    with served(ONE) as fleet:
        first = objects(fleet, "pods")["pod"]
        changed(fleet, design(a=idle("GPU-0") + gpu("GPU-1", "30")))
        assert objects(fleet, "pods")["pod"] != first
        assert samples(fleet, BUSY, NOW + HOUR) == {"GPU-0": "0", "GPU-1": "30"}


def test_a_watch_continues_at_its_version() -> None:
    with served(ONE) as fleet:
        [url] = fleet.kubernetes_urls.values()
        listed = httpx.get(f"{url}/api/v1/pods").json()
        changed(fleet, design(a=gpu("GPU-0") + gpu("GPU-1", pod="new")))
        asked = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        with httpx.stream("GET", f"{url}/api/v1/pods", params=asked, timeout=60) as answer:
            event = json.loads(next(answer.iter_lines()))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "new")


def test_of_two_changes_in_one_second_the_later_one_counts() -> None:
    with served(ONE) as fleet:
        first = design(a=gpu("GPU-0", "20") + gpu("GPU-1", pod="new"), b=idle("GPU-7"))
        fleet.apply_scenario(lambda: read(first))
        changed(fleet, design(a=gpu("GPU-0", "30") + idle("GPU-1")))
        assert samples(fleet, BUSY, NOW + HOUR) == {"GPU-0": "30", "GPU-1": "0"}
        assert set(objects(fleet, "pods")) == {"pod"}
        assert set(objects(fleet, "nodes")) == {"a"}
        # A card that was removed in the same second is back.
        fleet.apply_scenario(lambda: read(design(b=idle("GPU-7"))))
        changed(fleet, design(a=gpu("GPU-0", "30") + idle("GPU-1")))
        assert samples(fleet, BUSY, NOW + 2 * HOUR) == {"GPU-0": "30", "GPU-1": "0"}
        assert set(objects(fleet, "nodes")) == {"a"}


def test_labels_change_and_cards_do_not() -> None:
    with served(ONE) as fleet:
        changed(fleet, ONE.replace("mig-strategy: none", "mig-strategy: mixed"))
        node = fleet.fleet.clusters[0].nodes[0]
        labels = [state.labels["nvidia.com/mig.strategy"] for state in node.states]
        assert labels == ["none", "mixed"]
        for other, seen in (
            (design("mixed", a=gpu("GPU-0") + idle("GPU-2")), "has other cards"),
            (design("mixed", a=gpu("GPU-0")), "has other cards"),
        ):
            with pytest.raises(BadScenario, match=seen):
                fleet.apply_scenario(lambda text=other: read(text))  # type: ignore[misc]
        changed(fleet, design("mixed", b=idle("GPU-7")))
        with pytest.raises(BadScenario, match="was taken away before"):
            fleet.apply_scenario(lambda: read(design("mixed", a=idle("GPU-0"))))


def test_pools_of_the_operator_are_added_and_removed() -> None:
    pools = "nodePools:\n  {}: {{gpuProduct: Tesla-T4, gpuCount: 2}}\n".format
    with served(pools("one")) as fleet:
        changed(fleet, pools("one") + "  two: {gpu: {profile: h100}}\n")
        assert set(objects(fleet, "nodes")) == {"one", "two"}
        assert len(samples(fleet, BUSY, NOW)) == 2
        assert len(samples(fleet, BUSY, NOW + HOUR)) == 2 + 8


def test_with_a_running_clock_changes_start_soon() -> None:
    with serve(read(ONE), running(epoch(T0), speed=60)) as fleet:
        fleet.apply_scenario(lambda: read(design(a=gpu("GPU-0", "50") + idle("GPU-1"))))
        [pod] = fleet.fleet.clusters[0].pods
        [later] = pod.holds[0].later
        # Two of the machine's seconds, while the fleet was simulated.
        assert T0 < later.from_at - 60 <= T0 + 600
        assert later.from_at > fleet.clock.now_seconds()


# --- state after a refusal ------------------------------------------------------------------------


def counted(fleet: Running) -> dict[str, float]:
    text = httpx.get(f"{fleet.control_url}/metrics").text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.split() for line in lines)}


def test_a_refused_scenario_is_counted_in_the_controls_metrics() -> None:
    with served(TIMED) as fleet:
        assert list(counted(fleet).values()) == [1, 0, 0]
        url = f"{fleet.control_url}/-/scenario"
        for body in ("name: [", TIMED.replace("xid: 79", "xid: 48")):
            assert httpx.post(url, content=body).status_code == 409
        assert counted(fleet) == {
            "fake_gpu_scenario_last_apply_successful": 0,
            "fake_gpu_scenario_applied_total": 0,
            "fake_gpu_scenario_refused_total": 2,
        }
        assert httpx.post(url, content=TIMED).status_code == 200
        assert list(counted(fleet).values()) == [1, 1, 2]


FAULTY = (
    TIMED
    + """\
      - name: done
        namespace: vision
        kind: Pod
        requests: 1
        pods: [{created: +1m, started: +1m, ended: +1h, node: gpu-a, cards: [1]}]
        keep: 5h
      - {name: serve, namespace: chat}
faults:
  - {fault: start_rewritten, from: +0h, until: +4h}
  - {fault: evicted_without_end, namespace: chat, from: +3h}
"""
)


def test_counters_belong_to_the_accepted_scenario() -> None:
    without = FAULTY[: FAULTY.index("  - {fault: evicted")]
    refused = FAULTY.replace("xid: 79", "xid: 48")
    with served(without) as fleet:
        assert fleet.ledger.counts() == {}
        with pytest.raises(SimulatedPastIsFixed):
            fleet.apply_scenario(lambda: read(refused))
        assert fleet.ledger.counts() == {}
        # The fault is in the future, and the history in which it happens is already simulated.
        fleet.apply_scenario(lambda: read(FAULTY))
        assert fleet.fleet.fired == {"evicted_without_end#0": 1}
        assert fleet.ledger.counts() == {"evicted_without_end#0": 1}
        shown = httpx.get(f"{fleet.control_url}/-/faults").json()
        assert [(each["fault"], each["fired"]) for each in shown] == [
            ("start_rewritten#0", 0),
            ("evicted_without_end#0", 1),
        ]
        # After its removal it has not happened.
        fleet.apply_scenario(lambda: read(without))
        assert fleet.ledger.counts() == {}


def test_the_clock_has_one_listener_after_many_replacements() -> None:
    with served(ONE) as fleet:
        listeners = len(fleet.clock._listeners)
        for busy in ("20", "30", "40"):
            changed(fleet, design(a=gpu("GPU-0", busy) + idle("GPU-1")))
        with pytest.raises(BadScenario):
            fleet.apply_scenario(lambda: read("nodes: 7"))
        assert len(fleet.clock._listeners) == listeners == 1
