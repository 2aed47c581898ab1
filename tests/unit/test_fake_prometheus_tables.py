"""Cached series equal the series of the slow calculation, text for text."""

from __future__ import annotations

import json
from random import Random

import pytest

from fake_gpu.clock import epoch, fixed
from fake_gpu.fleet.build import build_fleet
from fake_gpu.prometheus.answer import raw_matrix, rows_matrix
from fake_gpu.prometheus.label_sets import LabelLayout, LabelSet
from fake_gpu.prometheus.language import parse_selector
from fake_gpu.prometheus.source import FleetSeries
from fake_gpu.scenario.load import load_scenario
from fake_gpu.serve import series_of
from ingestion.metric_catalogue import allocation_queries

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LENGTHS = (300_000, HOUR_MS, HOUR_MS, 5 * HOUR_MS, DAY_MS, 30 * HOUR_MS)


def _source(name: str) -> FleetSeries:
    fleet = build_fleet(load_scenario(name))
    return series_of(fleet, fixed(epoch(fleet.ended_at)))


@pytest.mark.parametrize(
    "name",
    [
        "restarts_and_crash_loops",  # pods that start and end, two replicas
        "namespace_recreated",
        "pod_name_reused",
        "shorter_than_a_scrape",  # one pod that a scrape met, and one that none met
        "odd_names_and_labels",
    ],
)
def test_any_window_of_a_table_equals_its_series(name: str) -> None:
    source = _source(name)
    fleet, draw, rows_found = source.fleet, Random(name), 0
    for _ in range(40):
        ask, cluster = draw.choice(allocation_queries()), draw.choice(fleet.clusters)
        more = draw.choice(["", 'prometheus_replica=~".*1"', 'namespace!="chat"', ask.matchers])
        own = ",".join(part for part in (f'clusterID="{cluster.cluster_id}"', more) if part)
        asked = parse_selector(f'{{__name__=~"{"|".join(ask.metrics)}",{own}}}')
        length = draw.choice(LENGTHS)
        end = draw.randrange(fleet.started_at, fleet.ended_at) * 1000
        end = draw.choice([end, end // HOUR_MS * HOUR_MS, end // DAY_MS * DAY_MS])
        rows = source.rows(asked, end - length, end)
        series = [each for each in source.select(asked, end - length, end) if each.parts]
        assert rows is not None
        assert rows_matrix(rows) == raw_matrix(series)
        counted = sum(len(each.timestamps_ms) for each in series)
        assert sum(each.count for each in rows) == counted
        rows_found += counted
    assert rows_found > 1_000


def test_varying_series_and_those_of_several_clusters_have_no_table() -> None:
    source = _source("tenant_in_two_clusters")
    start, cluster = source.fleet.started_at * 1000, source.fleet.clusters[0].cluster_id
    window = start, start + HOUR_MS
    assert source.rows(parse_selector(f'up{{clusterID="{cluster}"}}'), *window)
    assert source.rows(parse_selector("up"), *window) is None
    for varying in ("scrape_duration_seconds", "DCGM_FI_DEV_GPU_UTIL"):
        assert source.rows(parse_selector(f'{varying}{{clusterID="{cluster}"}}'), *window) is None


def test_a_cluster_with_a_fault_of_series_has_no_tables() -> None:
    source = _source("exporter_outage")
    start, cluster = source.fleet.started_at * 1000, source.fleet.clusters[0].cluster_id
    asked = parse_selector(f'up{{clusterID="{cluster}"}}')
    assert source.rows(asked, start, start + HOUR_MS) is None
    assert source.select(asked, start, start + HOUR_MS)


@pytest.mark.parametrize(
    "odd", ["plain-1.2_3/x", '"', "\\", "a\nb", "<&>", "100%", "%s", "ü\u2028", ""]
)
def test_precomputed_labels_equal_others(odd: str) -> None:
    layout = LabelLayout(["pod", "__name__", "cluster"], {"cluster": "lost", "zone": f"z{odd}"})
    laid_out = LabelSet.laid_out(layout, [odd, "up", "alpha"])
    plain = LabelSet({"__name__": "up", "pod": odd, "cluster": "alpha", "zone": f"z{odd}"}.items())
    assert json.loads(laid_out.text) == laid_out.mapping == plain.mapping
    assert laid_out.text == plain.text
    assert laid_out.exposition == plain.exposition
    assert laid_out.order == plain.order
