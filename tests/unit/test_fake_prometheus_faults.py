"""Every fault of samples and responses has its effect, is counted, and changes nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from fake_gpu.clock import epoch, fixed
from fake_gpu.faults.fault_catalogue import CATALOGUE
from fake_gpu.fleet.model import Fault
from fake_gpu.prometheus.app import make_app
from tests.asgi import Client
from tests.served_samples import Thanos, fault, thanos
from tests.small_fleets import (
    CLUSTER_ID,
    HOUR,
    MIDNIGHT,
    fleet_of,
    monitoring,
    quiet_cluster,
    quiet_fleet,
    renamed,
)

OTHER_ID = "22222222-aaaa-4bbb-8ccc-000000000002"
TRAIN = 'kube_pod_info{pod="train-5d9c-abcde"}'
Check = Callable[[Callable[..., Thanos], Thanos], None]
CHECKS: dict[str, Check] = {}


def check(kind: str) -> Callable[[Check], Check]:
    """Register the check of a kind of fault; `with_it` returns a Thanos that has the fault."""

    def register(function: Check) -> Check:
        CHECKS[kind] = function
        return function

    return register


def test_every_fault_of_samples_in_the_catalogue_is_checked_here() -> None:
    assert set(CHECKS) == {kind for kind, entry in CATALOGUE.items() if entry.side == "samples"}


@pytest.mark.parametrize("kind", sorted(k for k, e in CATALOGUE.items() if e.side == "samples"))
def test_a_fault_has_its_effect_and_is_counted(kind: str) -> None:
    made: list[tuple[Thanos, Fault]] = []

    def with_it(from_at: int, until_at: int, **parameters: object) -> Thanos:
        now = int(str(parameters.pop("now", 24 * HOUR)))
        fleet = parameters.pop("fleet", None) or quiet_fleet()
        wrong = fault(kind, from_at, until_at, **parameters)
        shown = thanos(fleet, wrong, now=now)  # type: ignore[arg-type]
        made.append((shown, wrong))
        return shown

    CHECKS[kind](with_it, thanos(quiet_fleet()))
    assert made
    for shown, wrong in made:
        shown.ledger.require_fired([wrong])


def _times(samples: list[tuple[float, str]], low: float, high: float) -> list[float]:
    return [at for at, _ in samples if low <= at < high]


# --- scrapes -------------------------------------------------------------------------------------


@check("dropped_scrapes")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lossy = with_it(600, 900, job="kube-state-metrics")
    assert _times(lossy.samples(f"{TRAIN}[1h]", HOUR), 600, 900) == []
    kept = [s for s in honest.samples(f"{TRAIN}[1h]", HOUR) if not 600 <= s[0] < 900]
    assert lossy.samples(f"{TRAIN}[1h]", HOUR) == kept
    other = 'up{job="dcgm-exporter"}[1h]'
    assert lossy.samples(other, HOUR) == honest.samples(other, HOUR)
    half = with_it(0, HOUR, share=Fraction(1, 2))
    rows = half.rows(f"{TRAIN}[1h]", HOUR)
    assert all(30 < len(row["samples"]) < 90 for row in rows)
    # The same scrapes are lost in both replicas, so neighbouring samples are never half a step
    # apart.
    slots = [{int((MIDNIGHT + at) // 30) for at, _ in row["samples"]} for row in rows]
    assert len(slots[0] ^ slots[1]) <= 2


@check("replica_scrape_lost")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lossy = with_it(600, 900, replica=1)
    for number, row in enumerate(lossy.rows(f"{TRAIN}[1h]", HOUR)):
        assert bool(_times(row["samples"], 600, 900)) is (number == 0)


@check("collector_down")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    two = fleet_of(quiet_cluster(), renamed(quiet_cluster(), OTHER_ID, "beta"))
    lossy = with_it(600, 1200, fleet=two, cluster_id=CLUSTER_ID)
    for cluster, seen in (("alpha", False), ("beta", True)):
        samples = lossy.samples(f'up{{cluster="{cluster}"}}[1h]', HOUR)
        assert bool(_times(samples, 600, 1200)) is seen
        assert _times(samples, 0, 600)


@check("block_gap")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    assert _times(with_it(600, 1200).samples("up[1h]", HOUR), 600, 1200) == []


@check("interval_changed")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    slow = with_it(0, 1800, interval=300).rows(f"{TRAIN}[1h]", HOUR)
    assert [len(_times(row["samples"], 0, 1800)) for row in slow] == [6, 6]
    assert [len(_times(row["samples"], 1800, 3600)) for row in slow] == [60, 60]


@check("out_of_order_dropped")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lossy = with_it(600, 900, metric="kube_pod_info")
    assert _times(lossy.samples(f"{TRAIN}[1h]", HOUR), 600, 900) == []
    assert lossy.samples("kube_pod_owner[1h]", HOUR) == honest.samples("kube_pod_owner[1h]", HOUR)


@check("late_arrival")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    late = with_it(600, 900, delay=7200, now=HOUR)
    query = f"{TRAIN}[1h]"
    assert _times(late.samples(query, HOUR), 600, 900) == []
    late.go_to(7200 + 750)
    assert _times(late.samples(query, HOUR), 750, 900) == []
    assert _times(late.samples(query, HOUR), 600, 740)
    late.go_to(7200 + 901)
    assert late.samples(query, HOUR) == honest.samples(query, HOUR)


@check("clock_skew")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    ahead = with_it(600, 1200, seconds=90)
    row = ahead.rows('kube_pod_created{pod="short"}[1h]', HOUR)[0]["samples"]
    true = honest.rows('kube_pod_created{pod="short"}[1h]', HOUR)[0]["samples"]
    # The pod was created at 900; scrapes before 1200 have timestamps 90 s late.
    assert row[0][0] == pytest.approx(true[0][0] + 90)
    times = [at for at, _ in row]
    assert times == sorted(set(times))
    behind = with_it(600, 1200, seconds=-90)
    early = behind.rows('kube_pod_created{pod="short"}[1h]', HOUR)[0]["samples"]
    assert early[0][0] == pytest.approx(true[0][0] - 90)


@check("timestamps_overwritten")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    row = with_it(600, 1200).rows(f"{TRAIN}[1h]", HOUR)[0]["samples"]
    assert _times(row, 600, 1200) == []
    assert 1200.0 in _times(row, 1200, 1201)


# --- series --------------------------------------------------------------------------------------


@check("exporter_down")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    down = with_it(600, 1200, job="dcgm-exporter", node="node-a")
    up = 'up{job="dcgm-exporter",instance=~"10.0.0.64:.*"}'
    assert {text for at, text in down.samples(f"{up}[1h]", HOUR) if 600 <= at < 1200} == {"0"}
    busy = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-a"}'
    assert _times(down.samples(f"{busy}[1h]", HOUR), 600, 1200) == []
    assert down.rows(busy, 660) == []  # stale at once
    assert honest.rows(busy, 660)
    other = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-b"}[1h]'
    assert down.samples(other, HOUR) == honest.samples(other, HOUR)
    lines = 'scrape_samples_scraped{job="dcgm-exporter",instance=~"10.0.0.64:.*"}[1h]'
    assert {t for at, t in down.samples(lines, HOUR) if 600 <= at < 1200} == {"0"}


@check("sample_limit")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    down = with_it(600, 1200, job="kube-state-metrics")
    up = {t for at, t in down.samples('up{job="kube-state-metrics"}[1h]', HOUR) if 600 <= at < 1200}
    assert up == {"0"}
    assert _times(down.samples(f"{TRAIN}[1h]", HOUR), 600, 1200) == []


@check("exporter_moved")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    moved = with_it(600, 1200, job="dcgm-exporter")
    pods = {row["pod"] for row in moved.rows('up{job="dcgm-exporter"}[1h]', HOUR)}
    assert len(pods) == 2 * len(
        {r["pod"] for r in honest.rows('up{job="dcgm-exporter"}[1h]', HOUR)}
    )
    query = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-a"}[1h]'
    assert moved.samples(query, HOUR) == honest.samples(query, HOUR)


@check("metric_renamed")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    renamed_ = with_it(600, 1200, metric="kube_pod_info", to="kube_pod_information")
    before = renamed_.samples(f"{TRAIN}[1h]", HOUR)
    during = renamed_.samples(f"{TRAIN}[1h]".replace("info", "information"), HOUR)
    assert _times(before, 600, 1200) == []
    assert _times(during, 600, 1200) == [at for at, _ in during]
    assert sorted([*before, *during]) == honest.samples(f"{TRAIN}[1h]", HOUR)


@check("honor_labels_flipped")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    flipped = with_it(600, 1200)
    rows = flipped.rows('DCGM_FI_DEV_GPU_UTIL{pod="train-5d9c-abcde"}[1h]', HOUR)
    assert rows
    assert all("exported_pod" not in row for row in rows)
    assert _times(rows[0]["samples"], 600, 1200)
    assert honest.rows('DCGM_FI_DEV_GPU_UTIL{pod="train-5d9c-abcde"}[1h]', HOUR) == []


@check("pod_labels_lost")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lost = with_it(600, 1200, node="node-a")
    held = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-a",exported_pod!=""}[1h]'
    bare = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-a",exported_pod=""}[1h]'
    assert _times(lost.samples(held, HOUR), 600, 1200) == []
    assert {text for _, text in lost.samples(bare, HOUR)} == {"100"}
    assert honest.samples(bare, HOUR) == []


@check("model_renamed")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    query = 'DCGM_FI_DEV_GPU_UTIL{modelName="NEW"}[1h]'
    assert _times(with_it(600, 1200, to="NEW").samples(query, HOUR), 600, 1200)
    assert honest.samples(query, HOUR) == []


@check("label_renamed")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    other = with_it(600, 1200, metric="kube_pod_info")
    named = f"{TRAIN}[1h]"
    before = honest.rows(named, HOUR)
    rows = other.rows(named, HOUR)
    new = [row for row in rows if "uid" not in row]
    assert [row["pod_uid"] for row in new] == [row["uid"] for row in before]
    assert _times(new[0]["samples"], 600, 1200) == [at for at, _ in new[0]["samples"]]
    with_none = with_it(600, 1200, label="node", to="").rows(named, HOUR)
    assert [row for row in with_none if "node" not in row and "uid" in row]


@check("hostname_label_renamed")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    other = with_it(600, 1200)
    rows = other.rows('DCGM_FI_DEV_GPU_UTIL{hostname="node-a"}[1h]', HOUR)
    assert rows
    assert all("Hostname" not in row for row in rows)


@check("pod_metadata_lost")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lost = with_it(600, 1200, namespace="team-a")
    for metric in ("kube_pod_info", "kube_pod_owner", "kube_pod_labels"):
        assert _times(lost.samples(f'{metric}{{namespace="team-a"}}[1h]', HOUR), 600, 1200) == []
        assert _times(lost.samples(f'{metric}{{namespace="team-b"}}[1h]', HOUR), 600, 1200)
    phase = 'kube_pod_status_phase{namespace="team-a"}[1h]'
    assert lost.samples(phase, HOUR) == honest.samples(phase, HOUR)
    named = with_it(600, 1200, namespace="team-a", metric="kube_pod_status_phase")
    assert _times(named.samples(phase, HOUR), 600, 1200) == []
    owner = 'kube_pod_owner{namespace="team-a"}[1h]'
    assert named.samples(owner, HOUR) == honest.samples(owner, HOUR)


@check("odd_values")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    odd = with_it(600, 1200, values=("NaN", "-1", "1e+308"))
    texts = {
        text
        for at, text in odd.samples("kube_pod_container_resource_requests[1h]", HOUR)
        if 600 <= at < 1200
    }
    assert texts
    assert texts <= {"NaN", "-1", "1" + "0" * 308, "1e+308"}


@check("cluster_label_lost")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    lost = with_it(600, 1200)
    rows = lost.rows('kube_pod_info{cluster="",pod="train-5d9c-abcde"}[1h]', HOUR)
    assert rows
    assert all("clusterID" not in row for row in rows)
    assert honest.rows('kube_pod_info{cluster=""}[1h]', HOUR) == []


@check("shared_external_labels")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    two = fleet_of(quiet_cluster(), renamed(quiet_cluster(), OTHER_ID, "beta"))
    mixed = with_it(600, 1200, fleet=two, cluster_id=CLUSTER_ID, as_cluster="beta")
    times = mixed.samples(f'kube_node_info{{clusterID="{OTHER_ID}",node="node-a"}}[1h]', HOUR)
    assert len(_times(times, 600, 1200)) == 4 * 20
    assert len(_times(times, 1200, 1800)) == 2 * 20


@check("replicas_undeclared")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    doubled = with_it(0, HOUR, label="prometheus_instance")
    rows = doubled.rows(f"{TRAIN}[1h]", HOUR, dedup="true")
    assert sorted(row["prometheus_instance"] for row in rows) == [
        "prometheus-k8s-0",
        "prometheus-k8s-1",
    ]
    assert len(honest.rows(f"{TRAIN}[1h]", HOUR, dedup="true")) == 1


@check("second_kube_state_metrics")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    twice = with_it(600, 1200, second_job="opencost")
    rows = twice.rows(f"{TRAIN}[1h]", HOUR, dedup="true")
    first, second = sorted(rows, key=lambda row: str(row["job"]))
    assert (first["job"], second["job"]) == ("kube-state-metrics", "opencost")
    assert _times(second["samples"], 600, 1200) == [at for at, _ in second["samples"]]
    assert second["uid"] == first["uid"]


@check("counter_reset")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    query = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{Hostname="node-a",gpu="0"}[1h]'
    true = dict(honest.rows(query, HOUR)[0]["samples"])
    seen = with_it(600, 900, node="node-a").rows(query, HOUR)[0]["samples"]
    before = [at for at, text in seen if text == true[at]]
    assert max(before) < 600
    after = [(at, int(text)) for at, text in seen if at >= 600]
    # 400 W from 0 at 600 s, in millijoules.
    assert after[0][1] == int((after[0][0] - 600) * 400_000)
    assert after[-1][1] == int((after[-1][0] - 600) * 400_000)


@check("unaccounted_process")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    query = 'DCGM_FI_DEV_GPU_UTIL{Hostname="node-b",gpu="1"}[1h]'
    used = with_it(600, 1200, node="node-b", card=1, pct=60)
    assert {text for at, text in used.samples(query, HOUR) if 600 <= at < 1200} == {"60"}
    assert all("exported_pod" not in row for row in used.rows(query, HOUR))
    assert {text for _, text in honest.samples(query, HOUR)} == {"0"}


@check("forged_series")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    forged = with_it(600, 1200, attacker="team-b", victim="team-a", gpus=3)
    for metric in ("kube_pod_container_resource_requests", "DCGM_FI_DEV_GPU_UTIL"):
        rows = forged.rows(f'{metric}{{namespace="team-b",exported_namespace="team-a"}}[1h]', HOUR)
        assert len(rows) == 2 * 3
        assert {row["job"] for row in rows} == {"team-b-exporter"}
    honest_rows = honest.rows('{namespace="team-b",exported_namespace="team-a"}[1h]', HOUR)
    assert honest_rows == []


# --- stores and answers --------------------------------------------------------------------------


@check("store_vanishes")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    two = fleet_of(quiet_cluster(), renamed(quiet_cluster(), OTHER_ID, "beta"))
    down = with_it(HOUR, 2 * HOUR, fleet=two, cluster_id=CLUSTER_ID, warns_for=10, now=HOUR - 1)
    assert {row["cluster"] for row in down.rows("up", HOUR - 1)} == {"alpha", "beta"}
    down.go_to(HOUR + 5)
    warned = down.ask("up[1h]", HOUR, partial_response="false")
    assert warned.status_code == 200
    assert len(warned.json()["warnings"]) == 2
    assert "connection refused" in warned.json()["warnings"][0]
    assert warned.headers["cache-control"] == "no-store"
    down.go_to(HOUR + 30)
    silent = down.ask("up[1h]", HOUR, partial_response="false")
    assert "warnings" not in silent.json()
    assert {r["metric"]["cluster"] for r in silent.json()["data"]["result"]} == {"beta"}
    stores = down.http.get("/api/v1/stores").json()["data"]["sidecar"]
    assert [bool(store["lastError"]) for store in stores] == [True, True, False, False]
    down.go_to(2 * HOUR)
    assert {row["cluster"] for row in down.rows("up[1h]", HOUR)} == {"alpha", "beta"}


@check("store_hangs")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    hangs = with_it(HOUR, 2 * HOUR, errors_for=13, replica=1, now=HOUR + 5)
    refused = hangs.ask("up", HOUR)
    assert refused.status_code == 422
    assert "context deadline exceeded" in refused.json()["error"]
    hangs.go_to(HOUR + 14)
    rows = hangs.rows("up", HOUR)
    assert {row["prometheus_replica"] for row in rows} == {"prometheus-k8s-0"}


@check("receiver_gone")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    gone = with_it(HOUR, 2 * HOUR, receivers=3, now=HOUR + 60)
    query = '{__name__=~"kube_.*|up"}[1h]'
    answer = gone.ask(query, HOUR)
    assert "warnings" not in answer.json()
    left = len(answer.json()["data"]["result"])
    whole = len(honest.rows(query, HOUR))
    assert whole * 0.5 < left < whole
    for metric in ("up", "kube_node_info"):
        assert gone.rows(f"{metric}[1h]", HOUR) == honest.rows(f"{metric}[1h]", HOUR)


@check("partial_response")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    partial = with_it(HOUR, 2 * HOUR, share=Fraction(1, 2), now=HOUR + 60)
    answer = partial.ask('{__name__=~"kube_.*"}[1h]', HOUR, partial_response="false").json()
    whole = len(honest.rows('{__name__=~"kube_.*"}[1h]', HOUR))
    assert answer["status"] == "success"
    assert answer["warnings"]
    assert whole * 0.3 < len(answer["data"]["result"]) < whole * 0.7


@check("empty_success")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    empty = with_it(HOUR, 2 * HOUR, metric="up", requests=2, now=HOUR + 60)
    assert empty.rows("kube_pod_info[1h]", HOUR)
    answers = [len(empty.rows("up[1h]", HOUR)) for _ in range(3)]
    assert answers[:2] == [0, 0]
    assert answers[2] > 0


@check("truncated_result")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    short = with_it(HOUR, 2 * HOUR, series=3, now=HOUR + 60)
    answer = short.ask("up[1h]", HOUR).json()
    assert len(answer["data"]["result"]) == 3
    assert "warnings" not in answer


@check("cached_partial")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    cache = with_it(HOUR, 2 * HOUR, share=Fraction(1, 2), now=HOUR + 60)
    first = cache.ask("kube_pod_status_phase[1h]", HOUR)
    cache.go_to(2 * HOUR - 1)
    assert cache.ask("kube_pod_status_phase[1h]", HOUR).content == first.content
    whole = honest.rows("kube_pod_status_phase[1h]", HOUR)
    assert 0 < len(first.json()["data"]["result"]) < len(whole)
    cache.go_to(2 * HOUR)
    assert cache.rows("kube_pod_status_phase[1h]", HOUR) == whole


@check("history_vanished")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    young = with_it(1800, 3 * HOUR, now=1700)
    assert _times(young.samples("up[30m]", 1700), 0, 1700)
    young.go_to(HOUR)
    times = [at for at, _ in young.samples("up[1h]", HOUR)]
    assert min(times) >= 1800


@check("downsampled")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    gone = with_it(0, HOUR, resolution=300)
    running = 'kube_pod_status_phase{pod="short",phase="Running"}[1h]'
    # A query without a resolution gets raw samples; one with 5m gets averages.
    for asked in ({}, {"max_source_resolution": "0s"}, {"max_source_resolution": "4m"}):
        assert gone.rows(running, HOUR, **asked) == []
    by_5m = {"max_source_resolution": "5m"}
    coarse = with_it(0, HOUR, resolution=300, whatever_is_asked=1)
    row = coarse.rows(running, HOUR)[1]["samples"]
    assert gone.rows(running, HOUR, **by_5m) == coarse.rows(running, HOUR)
    # A window ends a millisecond before a multiple of five minutes, the last one at the last
    # scrape.
    assert [at for at, _ in row[:-1]] == [1199.999, 1499.999]
    # `short` existed from 900 to 1600 and ran from 920 to 1520. This replica scrapes at 13 and 43
    # seconds of the minute: one of its first ten scrapes found it not running yet, and two of its
    # last three not running any more.
    assert [text for _, text in row] == ["0.9", "1", "0.3333333333333333"]
    peak = coarse.rows(f"max_over_time({running})", HOUR)
    assert peak[0]["samples"][0][1] == "1"
    assert len(honest.rows(f"{TRAIN}[1h]", HOUR)[0]["samples"]) == 120


@check("lookback_overrun")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    long = with_it(0, 2 * HOUR, lookback=600, now=1600 + 570)
    ended = 'kube_pod_info{pod="short"}'
    assert long.rows(ended, 1600 + 570)
    assert honest.rows(ended, 1600 + 60) == []


@check("engine_upgraded")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    later = with_it(HOUR, 2 * HOUR, now=HOUR + 30)
    # A range up to its oldest sample includes that sample, until the upgrade.
    first = honest.samples(f"{TRAIN}[1h]", HOUR)[0][0]
    query = f"{TRAIN}[{round((HOUR - first) * 1000)}ms]"
    assert honest.samples(query, HOUR)[0][0] == first
    assert later.samples(query, HOUR)[0][0] > first
    version = later.http.get("/api/v1/status/buildinfo").json()["data"]["version"]
    assert version != honest.http.get("/api/v1/status/buildinfo").json()["data"]["version"]


@check("timeout")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    answers = _three(with_it(HOUR, 2 * HOUR, requests=1, now=HOUR + 60))
    assert answers == [503, 200, 200]


@check("unprocessable")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    assert _three(with_it(HOUR, 2 * HOUR, requests=2, now=HOUR + 60)) == [422, 422, 200]


@check("unavailable")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    broken = with_it(HOUR, 2 * HOUR, requests=0, now=HOUR + 60)
    assert _three(broken) == [503, 503, 503]
    with pytest.raises(json.JSONDecodeError):
        broken.ask("up", HOUR).json()


@check("too_many_requests")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    busy = with_it(HOUR, 2 * HOUR, retry_after=7, now=HOUR + 60)
    answer = busy.ask("up", HOUR)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert busy.ask("up", HOUR).status_code == 200


@check("html_login")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    page = with_it(HOUR, 2 * HOUR, now=HOUR + 60).ask("up", HOUR)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.text.startswith("<!DOCTYPE html>")


@check("truncated_body")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    cut = with_it(HOUR, 2 * HOUR, now=HOUR + 60)
    answer = cut.ask("up[1h]", HOUR)
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert cut.ask("up[1h]", HOUR).content.startswith(answer.content)


@check("reset_mid_body")
def _(with_it: Callable[..., Thanos], honest: Thanos) -> None:
    reset = with_it(HOUR, 2 * HOUR, now=HOUR + 60)
    answer = reset.ask("up[1h]", HOUR, headers=None)
    # In process the length is not checked; over a socket the connection ends early.
    assert int(answer.headers["content-length"]) > answer.num_bytes_downloaded


def _three(asked: Thanos) -> list[int]:
    return [asked.ask("up", HOUR).status_code for _ in range(3)]


# --- together ------------------------------------------------------------------------------------


def test_with_a_fixed_clock_a_request_happens_at_the_time_of_its_query() -> None:
    wrong = fault("html_login", HOUR, 2 * HOUR, requests=0)
    shown = thanos(quiet_fleet(), wrong)
    api = fixed(epoch(MIDNIGHT + 24 * HOUR))
    shown.source.clock = api
    http = Client(make_app(shown.source, api))
    types = [
        http.post("/api/v1/query", data={"query": "up", "time": MIDNIGHT + at}).headers[
            "content-type"
        ]
        for at in (HOUR - 1, HOUR + 1, 2 * HOUR)
    ]
    assert [kind.startswith("text/html") for kind in types] == [False, True, False]


def test_a_fault_does_not_affect_another_cluster() -> None:
    wrong = replace(fault("dropped_scrapes", 0, HOUR), cluster_id=OTHER_ID)
    lossless = thanos(quiet_fleet(), wrong)
    assert lossless.samples("up[1h]", HOUR) == thanos(quiet_fleet()).samples("up[1h]", HOUR)
    assert lossless.ledger.count("dropped_scrapes#0") == 0


def test_several_faults_can_be_combined() -> None:
    both = thanos(
        quiet_fleet(monitoring(replicas=2)),
        fault("clock_skew", 0, HOUR, seconds=30),
        fault("metric_renamed", 600, 1200, metric="kube_pod_info", to="other_info"),
        fault("pod_labels_lost", 0, HOUR),
    )
    during = both.samples('other_info{pod="train-5d9c-abcde"}[1h]', HOUR)
    assert during
    assert all(630 <= at < 1230 for at, _ in during)
