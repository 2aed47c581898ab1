"""The doctor's checks of a sample store, passing and failing.

Put here: one server for each problem. Not here: the format of the lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from domain.clock import StoppedClock
from ingestion.doctor_lines import DoctorLine
from ingestion.exporter_pins import Pins
from ingestion.metric_catalogue import ALLOCATION_ENTRIES, TELEMETRY_ENTRIES, Entry
from ingestion.thanos.exporters_seen import ABSENT_BECAUSE
from ingestion.thanos.store_probe import probe
from tests.samples_by_hand import CLUSTER, HOUR, TEN, UTIL, Form, Server, matrix, names
from warehouse.manifest import Sampling

NOW = TEN + HOUR + timedelta(minutes=15)
Labels = dict[str, str]


def complete(form: Form) -> httpx.Response:
    """A cluster with every metric of the catalogue, sampled every ten minutes."""
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


def probed(answering: Callable[[Form], httpx.Response], **changed: object) -> list[DoctorLine]:
    cluster = replace(CLUSTER, **changed)  # type: ignore[arg-type]
    return probe(cluster, StoppedClock(NOW), Server(answering).client())


def wrong(lines: list[DoctorLine]) -> dict[str, DoctorLine]:
    return {line.check: line for line in lines if not line.is_fine}


def test_a_complete_cluster_passes_every_check() -> None:
    lines = probed(complete)
    assert wrong(lines) == {}
    checks = {line.check for line in lines}
    assert {"hub answers", "clocks agree", "sampling interval", "one cluster"} <= checks
    assert {"device telemetry of nvidia.com", "one source of kube_state_metrics"} <= checks
    assert {"up", "kube_pod_status_phase", "kube_pod_container_resource_requests"} <= checks


def test_a_server_that_refuses_is_the_only_line() -> None:
    [line] = probed(lambda form: httpx.Response(403, json={"status": "error", "error": "no"}))
    assert not line.is_fine
    assert "status 403" in line.seen
    assert "token_file" in line.remedy


def test_an_unreachable_server_is_the_only_line() -> None:
    def away(form: Form) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    [line] = probed(away)
    assert "no route to host" in line.seen
    assert "proxy" in line.remedy


def test_a_missing_metric_is_named_with_its_remedy() -> None:
    phase = "kube_pod_status_phase"
    lines = probed(having(lambda e: None if e.metric == phase else dict.fromkeys(e.labels, "x")))
    [line] = wrong(lines).values()
    assert line.check == phase
    assert "--from-acm" in line.remedy


@pytest.mark.parametrize("metric", ABSENT_BECAUSE)
def test_an_optional_metric_that_is_absent_is_reported_as_fine(metric: str) -> None:
    lines = probed(having(lambda e: None if e.metric == metric else dict.fromkeys(e.labels, "x")))
    assert wrong(lines) == {}
    [line] = [line for line in lines if line.check == metric]
    assert line.seen.startswith("no sample in the last hour, which can be normal: ")


REQUESTS = "kube_pod_container_resource_requests"
SHOW_DEVICES = {REQUESTS, "kube_pod_init_container_resource_requests", "kube_pod_resource_request"}


def test_an_idle_cluster_passes_every_check() -> None:
    absent = SHOW_DEVICES
    lines = probed(having(lambda e: None if e.metric in absent else dict.fromkeys(e.labels, "x")))
    assert wrong(lines) == {}
    [line] = [line for line in lines if line.check == REQUESTS]
    assert line.seen == "no sample in the last hour, which can be normal: no pod requests a device"


@pytest.mark.parametrize("metric", sorted(SHOW_DEVICES - {REQUESTS}))
def test_missing_requests_are_named_if_a_pod_has_devices(metric: str) -> None:
    absent = SHOW_DEVICES - {metric}
    lines = probed(having(lambda e: None if e.metric in absent else dict.fromkeys(e.labels, "x")))
    [line] = wrong(lines).values()
    assert line.check == REQUESTS
    assert line.seen.endswith("but other metrics show 1 pods with devices, such as x")
    assert "--from-acm" in line.remedy


def test_requests_are_missing_if_no_pod_is_visible() -> None:
    absent = {*SHOW_DEVICES, "kube_pod_info"}
    lines = probed(having(lambda e: None if e.metric in absent else dict.fromkeys(e.labels, "x")))
    assert set(wrong(lines)) == {REQUESTS, "kube_pod_info"}


def test_every_queried_metric_has_a_line() -> None:
    nothing = probed(having(lambda e: {"job": "x", "instance": "x"} if e.metric == "up" else None))
    checks = [line.check for line in nothing]
    for entry in ALLOCATION_ENTRIES:
        assert checks.count(entry.metric) == 1


def test_a_label_that_was_relabelled_away_is_named() -> None:
    def without_uid(entry: Entry) -> Labels:
        return {name: "x" for name in entry.labels if name != "uid"}

    lines = wrong(probed(having(without_uid)))
    assert lines["kube_pod_container_resource_requests"].seen == "has no label uid"


def test_a_wrong_clock_is_a_line() -> None:
    late = NOW + timedelta(seconds=3)
    lines = wrong(probe(CLUSTER, StoppedClock(late), Server(complete).client()))
    assert lines["clocks agree"].seen == "the server's clock is -3 s off ours"


def test_an_interval_that_differs_from_the_decision_is_a_line() -> None:
    for decided in (30, 1200):
        lines = wrong(probed(complete, sampling=Sampling(decided, 30)))
        assert (
            f"every 600 s, decisions/clusters.csv says {decided}" in lines["sampling interval"].seen
        )


def test_two_replicas_do_not_halve_the_interval() -> None:
    """Each has samples every ten minutes, shifted by five: together they look like one of five."""

    def twice(form: Form) -> httpx.Response:
        found = complete(form)
        return found if found.status_code != 200 else replicated(found)

    named = replace(CLUSTER.thanos, replica_labels=("replica",))
    right = probed(twice, thanos=named)
    assert wrong(right) == {}
    for decided, harm in ((300, "looks like a gap"), (1200, "missed scrape is not seen as a gap")):
        line = wrong(probed(twice, thanos=named, sampling=Sampling(decided, 30)))
        assert "one replica come every 600 s" in line["sampling interval"].seen
        assert harm in line["sampling interval"].remedy


def replicated(answer: httpx.Response) -> httpx.Response:
    value = answer.json()
    data = value.get("data")
    if isinstance(data, dict) and data.get("resultType") == "matrix":
        data["result"] = [
            {
                "metric": {**one["metric"], "replica": str(number)},
                "values": [[at + 300 * number, text] for at, text in one["values"]],
            }
            for one in data["result"]
            for number in (0, 1)
        ]
    return httpx.Response(200, json=value)


def test_copies_without_a_replica_label_are_a_line() -> None:
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


def test_a_namespace_without_cluster_monitoring_is_a_line() -> None:
    def blind(form: Form) -> httpx.Response:
        return names() if "match[]" in form else complete(form)

    found = wrong(probed(blind))
    assert set(found) == {"device telemetry", "GPU operator is scraped"}
    for line in found.values():
        assert "cluster-monitoring=true" in line.remedy


def with_labels(metric: str, **labels: str) -> Callable[[Form], httpx.Response]:
    """The complete cluster, with these additional labels on one metric."""
    return having(lambda e: dict.fromkeys(e.labels, "x") | (labels if e.metric == metric else {}))


def probe_result(answering: Callable[[Form], httpx.Response], *found: str) -> list[DoctorLine]:
    """The result with these metrics of devices."""
    return probed(lambda form: names(*found) if "match[]" in form else answering(form))


def test_missing_telemetry_is_named_metric_by_metric() -> None:
    of_nvidia = [e.metric for e in TELEMETRY_ENTRIES if e.metric.startswith("DCGM")]
    lines = {line.check: line for line in probe_result(complete, *of_nvidia[:-2])}
    line = lines["device telemetry of nvidia.com"]
    assert line.is_fine
    assert line.seen == "28 of 30 metrics; missing: " + ", ".join(of_nvidia[-2:])
    assert "device telemetry of amd.com" not in lines
    of_operator = [e.metric for e in TELEMETRY_ENTRIES if e.metric.startswith("gpu_operator_")]
    lines = {line.check: line for line in probe_result(complete, *of_nvidia, *of_operator)}
    assert "device telemetry of amd.com" not in lines
    idle = wrong(probe_result(complete, "DCGM_FI_DEV_GPU_TEMP"))
    assert "utilisation" in idle["device telemetry of nvidia.com"].remedy


def test_a_vendor_whose_devices_have_no_telemetry_is_a_line() -> None:
    amd = with_labels("kube_node_status_capacity", resource="amd_com_gpu")
    found = wrong(probe_result(amd, UTIL))
    assert list(found) == ["device telemetry of amd.com"]
    assert found["device telemetry of amd.com"].seen == "0 of 5 metrics"


def test_scraping_of_the_operators_namespace_is_checked_by_its_targets() -> None:
    watched = with_labels("up", namespace="nvidia-gpu-operator")
    lines = {line.check: line for line in probe_result(watched)}
    assert lines["GPU operator is scraped"].is_fine
    assert lines["GPU operator is scraped"].seen == "targets: 1 in nvidia-gpu-operator"


def test_pod_labels_are_checked_if_some_are_kept() -> None:
    metric = "kube_pod_labels"
    assert "not queried" in next(x for x in probed(complete) if x.check == metric).seen

    def labelled(form: Form, **labels: str) -> httpx.Response:
        if not form["query"].startswith(metric):
            return complete(form)
        until = int(form["time"]) - 600
        pod = {"__name__": metric, "namespace": "x", "pod": "x", "uid": "x", **labels}
        return matrix((pod, [(second, "1") for second in range(until - 3600, until, 600)]))

    kept = ("team", "cost-centre")
    absent = wrong(probed(complete, pod_labels=kept))[metric]
    assert absent.seen == "no sample in the last hour"
    hidden = wrong(probed(lambda form: labelled(form, label_team="a"), pod_labels=kept))[metric]
    assert hidden.seen == "no pod shows cost-centre"
    assert "--metric-labels-allowlist=pods=[team,cost-centre]" in hidden.remedy
    shown = probed(
        lambda form: labelled(form, label_team="a", label_cost_centre="b"), pod_labels=kept
    )
    assert wrong(shown) == {}


def test_one_metric_of_two_jobs_is_a_line_with_the_pin_to_set() -> None:
    """A tenant's own exporter, scraped in addition to the platform's."""
    metric = "kube_pod_container_resource_requests"

    def answering(form: Form) -> httpx.Response:
        value = complete(form).json()
        if "result" in (data := value.get("data", {})) and data["resultType"] == "matrix":
            data["result"] = [
                {**one, "metric": {**one["metric"], "job": "kube-state-metrics", "namespace": "m"}}
                for one in data["result"]
            ]
            forged = {"job": "mine", "namespace": "team-b", "exported_namespace": "team-a"}
            data["result"] += [
                {**one, "metric": {**one["metric"], **forged}}
                for one in data["result"]
                if one["metric"]["__name__"] == metric
            ]
        return httpx.Response(200, json=value)

    [line] = [x for x in probed(answering) if x.check == "one source of kube_state_metrics"]
    assert not line.is_fine
    assert line.seen == f"{metric}: 1 series of kube-state-metrics, 1 series of team-b/mine; " \
        "not pinned"  # fmt: skip
    assert "[thanos.hub.pins]: kube_state_metrics" in line.remedy
    twice = wrong(probed(answering))["one namespace for each pod"]
    assert twice.seen == "1 of 1 UIDs occur in two namespaces, such as x in m and team-b"


def test_two_pinned_jobs_are_accepted() -> None:
    """The shards of one exporter, each with its own job."""

    def shards(form: Form) -> httpx.Response:
        value = complete(form).json()
        if "result" in (data := value.get("data", {})) and data["resultType"] == "matrix":
            data["result"] = [
                {**one, "metric": {**one["metric"], "job": job, "shard": job}}
                for one in data["result"]
                for job in ("ksm-0", "ksm-1")
            ]
        return httpx.Response(200, json=value)

    assert "one source of kube_state_metrics" in wrong(probed(shards))
    both = Pins(kube_state_metrics=("m/ksm-0", "m/ksm-1"))
    found = wrong(probed(shards, thanos=replace(CLUSTER.thanos, pins=both)))
    assert "one source of kube_state_metrics" not in found


def test_a_pin_without_a_target_is_named_at_its_missing_metrics() -> None:
    pinned = replace(CLUSTER.thanos, pins=Pins(kube_state_metrics=("m/other",)))

    def strict(form: Form) -> httpx.Response:
        return matrix() if 'job="other"' in form.get("query", "") else complete(form)

    found = wrong(probed(strict, thanos=pinned))
    assert "only m/other is accepted" in found["kube_node_info"].remedy
    assert "kube_pod_resource_request" not in found  # the scheduler exports it


def test_series_of_two_clusters_in_one_response_are_a_line() -> None:
    other = with_labels("kube_node_info", clusterID="other")
    found = wrong(probed(other))
    assert found["one cluster"].seen == "the series name 2 clusters"
    assert "cluster_matcher" in found["one cluster"].remedy


def test_a_store_without_samples_of_last_month_is_a_line() -> None:
    def young(form: Form) -> httpx.Response:
        asked = int(form.get("time", "0"))
        return complete(form) if asked > TEN.timestamp() else matrix()

    line = wrong(probed(young))["raw samples, 35 days"]
    assert "are missing" in line.seen
