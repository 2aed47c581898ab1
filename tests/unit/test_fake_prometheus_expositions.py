"""At every scrape the samples equal the exporter's page at that time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fake_gpu.clock import driven, epoch
from fake_gpu.exporters.exposition import read_lines
from fake_gpu.fleet.build import build_fleet
from fake_gpu.fleet.model import Fleet, Incident
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.expositions import CONTENT_TYPE, Expositions, make_metrics_app
from fake_gpu.prometheus.matchers import Matcher
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.prometheus.targets import Target
from fake_gpu.scenario.load import load_scenario
from tests.asgi import Client
from tests.small_fleets import HOUR, MIDNIGHT, fleet_of, quiet_cluster

EXTERNAL = ("cluster", "clusterID", "prometheus_replica")
Found = dict[tuple[tuple[str, str], ...], float]


def _troubled() -> Fleet:
    """The quiet cluster with a failing card, and a node that is not ready for a while."""
    cluster = quiet_cluster()
    first, second = cluster.nodes
    card = first.cards[0]
    incidents = (
        Incident(card.card_id, MIDNIGHT + 600, MIDNIGHT + 900, "xid", xid=79),
        Incident(card.card_id, MIDNIGHT + 900, MIDNIGHT + 1200, "lost"),
    )
    start = second.states[0]
    states = (
        replace(start, until_at=MIDNIGHT + 1800),
        replace(start, from_at=MIDNIGHT + 1800, until_at=MIDNIGHT + 2400, ready="Unknown"),
        replace(start, from_at=MIDNIGHT + 2400, until_at=MIDNIGHT + 3000, exporters_paused=True),
        replace(start, from_at=MIDNIGHT + 3000),
    )
    nodes = (replace(first, incidents=incidents), replace(second, states=states))
    # Two pods that differ only in the address, which one of them never got.
    train, short, waits = cluster.pods
    twin = replace(short, name="twin", uid="twin", pod_ip="", holds=())
    pods = (train, short, twin, waits)
    return fleet_of(replace(cluster, nodes=nodes, pods=pods))


def _stories() -> Iterator[tuple[str, Fleet, list[int]]]:
    thin = build_fleet(load_scenario("thin_line"))
    times = [thin.started_at + second for second in range(0, 6 * HOUR, 2900)]
    yield "thin_line", thin, times
    yield "troubled", _troubled(), [MIDNIGHT + second for second in range(0, HOUR, 470)]


def _scraped(source: FleetSeries, job: str, instance: str, at_ms: int) -> Found:
    """Samples of a target in replica 0 at exactly one time."""
    matchers = (
        Matcher("job", "=", job),
        Matcher("prometheus_replica", "=", "prometheus-k8s-0"),
        Matcher("__name__", "!~", "up|scrape_.*"),
    )
    found: Found = {}
    for series in source.select(matchers, at_ms, at_ms):
        labels = {name: value for name, value in series.key if name not in EXTERNAL}
        if series.parts and labels.get("instance", instance) == instance:
            found[tuple(sorted(labels.items()))] = series.numbers[0]
    return found


def _series_of_page(pages: Expositions, path: str, at_ms: int) -> Found:
    """The same from the exporter's page; of two equal series the first counts."""
    target, _ = pages.texts[path]
    found: Found = {}
    for name, line in read_lines(pages.text(path, at_ms) or ""):
        found.setdefault(tuple(sorted(target.labelled(name, line.labels).items())), line.value)
    return found


@pytest.mark.parametrize(("story", "fleet", "times"), list(_stories()), ids=lambda p: str(p)[:9])
def test_samples_equal_the_pages(story: str, fleet: Fleet, times: list[int]) -> None:
    for cluster in fleet.clusters:
        history = ObjectHistory(cluster)
        source = FleetSeries(fleet, {cluster.cluster_id: history}, driven(epoch(fleet.ended_at)))
        pages = Expositions(cluster, history)
        compared = 0
        for path, (target, _) in pages.texts.items():
            instance = dict(target.labels)["instance"]
            grid = source.clusters[0].grid(target, 0, "")
            for at in times:
                at_ms = grid.first_time(at * 1000, at * 1000 + 60_000)
                assert at_ms is not None
                told = _series_of_page(pages, path, at_ms)
                assert _scraped(source, target.job, instance, at_ms) == told, f"{path} at {at_ms}"
                compared += len(told)
                count = len(list(read_lines(pages.text(path, at_ms) or "")))
                assert _own(source, target, "scrape_samples_scraped", at_ms) == count
        assert compared > 1000, story


def _own(source: FleetSeries, target: Target, name: str, at_ms: int) -> int:
    """Prometheus' own series about a scrape."""
    labels = dict(target.labels)
    matchers = (
        Matcher("__name__", "=", name),
        Matcher("job", "=", target.job),
        Matcher("instance", "=", labels["instance"]),
        Matcher("prometheus_replica", "=", "prometheus-k8s-0"),
    )
    # A removed target is not scraped and has no such series.
    found = [s.numbers[0] for s in source.select(matchers, at_ms, at_ms) if s.parts]
    return int(found[0]) if found else 0


def test_series_are_new_at_the_scrapes_that_prometheus_counts_as_new() -> None:
    """Calculated scrape by scrape: a failed scrape does not forget the known series."""
    fleet = _troubled()
    cluster = fleet.clusters[0]
    history = ObjectHistory(cluster)
    source = FleetSeries(fleet, {cluster.cluster_id: history}, driven(epoch(fleet.ended_at)))
    pages = Expositions(cluster, history)
    new = 0
    for path, (target, _) in pages.texts.items():
        grid = source.clusters[0].grid(target, 0, "")
        remembered: dict[str, int] = {}
        block = grid.between((MIDNIGHT - 120) * 1000, (MIDNIGHT + HOUR) * 1000)
        for number, at_ms in enumerate(block.times):
            text = pages.text(path, at_ms)
            if not _is_known(target.present, at_ms):
                remembered.clear()
                continue
            if text is None:
                assert _own(source, target, "scrape_series_added", at_ms) == 0
                continue
            series = {row.rpartition(" ")[0] for row in text.splitlines() if row[0] != "#"}
            added = series - remembered.keys()
            if number > 3 and remembered:
                found = _own(source, target, "scrape_series_added", at_ms)
                assert found == len(added), f"{path} at {at_ms}"
                new += len(added)
            remembered |= dict.fromkeys(series, number)
            remembered = {row: seen for row, seen in remembered.items() if number - seen <= 2}
    assert new > 50


def _is_known(present: tuple[tuple[int, int | None], ...], at_ms: int) -> bool:
    return any(low <= at_ms and (high is None or at_ms < high) for low, high in present)


def test_pages_are_served_under_their_paths_while_the_exporter_is_up() -> None:
    fleet = _troubled()
    cluster = fleet.clusters[0]
    clock = driven(epoch(MIDNIGHT + 60))
    http = Client(make_metrics_app(cluster, ObjectHistory(cluster), clock))
    paths = http.get("/").text.split()
    assert "/kube-state-metrics/metrics" in paths
    page = http.get("/dcgm-exporter/node-b/metrics")
    assert page.status_code == 200
    assert page.headers["content-type"] == CONTENT_TYPE
    clock.advance_to(epoch(MIDNIGHT + 2000))
    assert http.get("/dcgm-exporter/node-b/metrics").status_code == 503
    clock.advance_to(epoch(MIDNIGHT + 3100))
    assert http.get("/dcgm-exporter/node-b/metrics").status_code == 200


def test_a_lost_card_has_no_series_and_an_unhealthy_one_its_error() -> None:
    fleet = _troubled()
    cluster = fleet.clusters[0]
    pages = Expositions(cluster, ObjectHistory(cluster))

    def errors(second: int) -> dict[str, float]:
        text = pages.text("/dcgm-exporter/node-a/metrics", (MIDNIGHT + second) * 1000) or ""
        return {
            dict(line.labels)["gpu"]: line.value
            for name, line in read_lines(text)
            if name == "DCGM_FI_DEV_XID_ERRORS"
        }

    assert errors(590) == {"0": 0, "1": 0}
    assert errors(610) == {"0": 79, "1": 0}
    assert errors(910) == {"1": 0}
    assert errors(1210) == {"0": 0, "1": 0}
