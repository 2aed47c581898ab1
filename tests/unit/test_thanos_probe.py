"""What the doctor says of a sample store: each check, fine and not fine.

Put here: one server for each disease.
Not here: how lines are printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import httpx

from domain.clock import StoppedClock
from ingestion.catalogue import ALLOCATION_ENTRIES, Entry
from ingestion.manifest import Sampling
from ingestion.probe import ProbeLine
from ingestion.thanos.probe import probe
from tests.samples_by_hand import CLUSTER, HOUR, TEN, UTIL, Form, Server, matrix, names

NOW = TEN + HOUR + timedelta(minutes=15)
Labels = dict[str, str]


def complete(form: Form) -> httpx.Response:
    """A cluster that has everything of the catalogue, sampled every ten minutes."""
    return having(lambda entry: dict.fromkeys(entry.labels, "x"))(form)


def having(labels_of: Callable[[Entry], Labels | None]) -> Callable[[Form], httpx.Response]:
    def answer(form: Form) -> httpx.Response:
        if "match[]" in form:
            return names(UTIL)
        if form["query"] == "time()":
            value = [NOW.timestamp(), str(NOW.timestamp())]
            return httpx.Response(200, json={"data": {"resultType": "scalar", "result": value}})
        if "[" not in form["query"]:
            return httpx.Response(400, json={})
        until = int(form["time"]) - 600
        samples = [(second, "1") for second in range(until - 3600, until, 600)]
        named = form["query"].partition('"')[2].partition('"')[0].split("|")
        asked = {*named, form["query"].partition("{")[0]}
        found = [
            ({"__name__": entry.metric, **labels}, samples)
            for entry in ALLOCATION_ENTRIES
            if entry.metric in asked and (labels := labels_of(entry)) is not None
        ]
        return matrix(*found)

    return answer


def probed(answering: Callable[[Form], httpx.Response], **changed: object) -> list[ProbeLine]:
    cluster = replace(CLUSTER, **changed)  # type: ignore[arg-type]
    return probe(cluster, StoppedClock(NOW), Server(answering).client())


def wrong(lines: list[ProbeLine]) -> dict[str, ProbeLine]:
    return {line.check: line for line in lines if not line.is_fine}


def test_a_complete_cluster_has_nothing_wrong() -> None:
    lines = probed(complete)
    assert wrong(lines) == {}
    checks = {line.check for line in lines}
    assert {"hub answers", "clocks agree", "sampling interval", "device telemetry"} <= checks
    assert {"up", "kube_pod_status_phase", "kube_pod_container_resource_requests"} <= checks


def test_a_server_that_refuses_is_the_only_line() -> None:
    [line] = probed(lambda form: httpx.Response(403, json={"status": "error", "error": "no"}))
    assert not line.is_fine
    assert "status 403" in line.seen
    assert "token_file" in line.remedy


def test_a_server_that_is_away_is_the_only_line() -> None:
    def away(form: Form) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    [line] = probed(away)
    assert "no route to host" in line.seen
    assert "proxy" in line.remedy


def test_a_metric_that_nobody_collects_is_named_with_its_remedy() -> None:
    phase = "kube_pod_status_phase"
    lines = probed(having(lambda e: None if e.metric == phase else dict.fromkeys(e.labels, "x")))
    [line] = wrong(lines).values()
    assert line.check == phase
    assert "--from-acm" in line.remedy


def test_a_metric_that_may_be_absent_is_no_disease() -> None:
    quota = "kube_resourcequota"
    lines = probed(having(lambda e: None if e.metric == quota else dict.fromkeys(e.labels, "x")))
    assert wrong(lines) == {}


def test_a_label_that_was_relabelled_away_is_named() -> None:
    def without_uid(entry: Entry) -> Labels:
        return {name: "x" for name in entry.labels if name != "uid"}

    lines = wrong(probed(having(without_uid)))
    assert lines["kube_pod_container_resource_requests"].seen == "has no label uid"


def test_a_clock_that_is_off_is_a_line() -> None:
    late = NOW + timedelta(seconds=3)
    lines = wrong(probe(CLUSTER, StoppedClock(late), Server(complete).client()))
    assert lines["clocks agree"].seen == "the server's clock is -3 s off ours"


def test_an_interval_that_is_not_the_decided_one_is_a_line() -> None:
    for decided in (30, 1200):
        lines = wrong(probed(complete, sampling=Sampling(decided, 30)))
        assert (
            f"every 600 s, decisions/clusters.csv says {decided}" in lines["sampling interval"].seen
        )


def test_copies_that_nobody_named_are_a_line() -> None:
    def copies(form: Form) -> httpx.Response:
        found = complete(form)
        value = found.json()
        if not isinstance(value.get("data"), dict) or "result" not in value["data"]:
            return found
        series = value["data"]["result"]
        if value["data"]["resultType"] != "matrix":
            return found
        twice = [
            {**one, "metric": {**one["metric"], "my_replica": number}}
            for one in series
            for number in "01"
        ]
        value["data"]["result"] = twice
        return httpx.Response(200, json=value)

    assert "my_replica" in wrong(probed(copies))["replica labels"].seen


def test_a_namespace_that_cluster_monitoring_does_not_watch_is_a_line() -> None:
    def blind(form: Form) -> httpx.Response:
        return names() if "match[]" in form else complete(form)

    assert "cluster-monitoring=true" in wrong(probed(blind))["device telemetry"].remedy


def test_a_store_without_last_months_samples_is_a_line() -> None:
    def young(form: Form) -> httpx.Response:
        asked = int(form.get("time", "0"))
        return complete(form) if asked > TEN.timestamp() else matrix()

    line = wrong(probed(young))["raw samples, 35 days"]
    assert "not there" in line.seen
