"""The doctor on a served fleet: no problem on a whole one, a line for each missing part.

Put here: from a home to rows, over HTTP.
Not here: each problem of a server (`test_thanos_probe`, `test_kubernetes_probe`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.clock import StoppedClock
from domain.decisions import Source
from domain.interval import Interval
from fake_gpu.clock import VirtualClock
from fake_gpu.scenario.load import read_scenario
from fake_gpu.serve import serve
from ingestion.kubernetes.journal import segment_key
from orchestration import steps
from orchestration.cli.doctor import check_sources, clusters_measured_now
from orchestration.cli.output import Row
from orchestration.demo.demo_home import make_home
from orchestration.open_home import OpenHome

NOW = datetime(2026, 10, 5, 3, 15, tzinfo=UTC)
FLEET = """
name: examined
story: A morning of one cluster.
seed: 11
from: 2026-10-05T00:00:00Z
until: 2026-10-05T06:00:00Z
clusters:
  - name: near
    monitoring: {{scrape_interval: 30s}}
    nodes: [{{name: a100, product: NVIDIA-A100-SXM4-80GB, cards: 8}}]
    workloads: [{{name: serve, namespace: chat, replicas: 3, requests: 1}}]
{faults}
"""
RENAMED = """faults:
  - {fault: metric_renamed, cluster: near, from: +0h, until: +6h,
     metric: kube_pod_status_phase, to: kube_pod_phase}
"""


@contextmanager
def home(folder: Path, faults: str = "") -> Iterator[OpenHome]:
    scenario = read_scenario(FLEET.format(faults=faults), "examined.yaml", None)
    with serve(scenario, VirtualClock(NOW)) as running:
        made = make_home(folder, running.fleet, running.thanos_url, running.kubernetes_urls)
        yield OpenHome(made, running.clock)


def silent(done: int, total: int, what: str) -> None:
    del done, total, what


def wrong(opened: OpenHome) -> dict[tuple[str, str], Row]:
    rows = check_sources(opened, clusters_measured_now(opened), silent)
    found = {(row["source"], row["check"]): row for row in rows if not row["fine"]}
    # The server of the fake API dates its responses by the machine, not by the driven clock.
    return {key: row for key, row in found.items() if key != ("kubernetes", "clocks agree")}


def test_a_new_fleet_lacks_only_history_and_a_collector(tmp_path: Path) -> None:
    with home(tmp_path) as opened:
        # The fleet is three hours old and has no collector.
        assert set(wrong(opened)) == {
            ("thanos", "raw samples, 35 days"),
            ("kubernetes", "journal is written"),
        }
        cluster_id = opened.decisions.clusters[0].cluster_id
        key = segment_key(cluster_id, NOW.replace(minute=0), 1)
        opened.spool(cluster_id).create(key, b"{}\n")
        assert set(wrong(opened)) == {("thanos", "raw samples, 35 days")}


def test_evidence_is_as_fresh_as_its_dbt_source_declares(tmp_path: Path) -> None:
    """By the dbt source: samples are too old if the newest whole hour ended 31 hours ago."""
    with home(tmp_path) as opened:
        hours = Interval(NOW.replace(hour=0, minute=0), NOW.replace(hour=2, minute=0))
        steps.pull(opened, hours, sources=[Source.THANOS])
        decided = opened.home.decisions / "clusters.csv"
        decided.write_text(decided.read_text().replace("2026-10-05T06:00:00Z", ""))
        for later, is_fine in (
            (timedelta(hours=31), True),
            (timedelta(hours=31, minutes=1), False),
        ):
            now = OpenHome(opened.home, StoppedClock(hours.ended_at + later))
            found = {
                (row["source"], row["check"]): row
                for row in check_sources(now, clusters_measured_now(now), silent)
            }
            assert found["thanos", "evidence is fresh"]["fine"] is is_fine
            assert "ended 31 h ago" in found["thanos", "evidence is fresh"]["seen"]
            assert found["kubernetes", "evidence is fresh"]["seen"] == "no attempt was made yet"


def test_a_metric_that_is_not_collected_is_a_line_with_its_remedy(tmp_path: Path) -> None:
    with home(tmp_path, RENAMED) as opened:
        found = wrong(opened)
        assert "--from-acm" in found["thanos", "kube_pod_status_phase"]["remedy"]


def test_an_unreachable_source_is_a_line_and_the_others_are_checked(
    tmp_path: Path,
) -> None:
    with home(tmp_path) as opened:
        config = opened.home.config_path
        text = config.read_text(encoding="utf-8").replace('thanos = "fake"', "")
        ca_file = '.kubernetes]\nca_file = "/nowhere/ca.crt"\nurl = "https://'
        text = text.replace('.kubernetes]\nurl = "http://', ca_file)
        config.write_text(text, encoding="utf-8")
        found = wrong(OpenHome(opened.home, opened.clock))
        assert "no thanos" in found["thanos", "is configured"]["seen"]
        assert "/nowhere/ca.crt" in found["kubernetes", "can be queried"]["seen"]


def test_only_currently_measured_clusters_are_checked(tmp_path: Path) -> None:
    with home(tmp_path) as opened:
        cluster_id = opened.decisions.clusters[0].cluster_id
        assert [row.cluster_id for row in clusters_measured_now(opened)] == [cluster_id]
        assert clusters_measured_now(opened, ["another"]) == []
        later = OpenHome(opened.home, VirtualClock(NOW + timedelta(days=30)))
        assert clusters_measured_now(later) == []
