"""The fleet that is asked is served twice: each cluster is asked at one of the two.

Put here: who answers for which cluster, two clocks that go together, and how they become one.
Not here: the processes (`test_demo_fleet_process`), the asking (`test_demo_asking`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from domain.interval import HOUR
from fake_gpu.clock import epoch
from fake_gpu.fleet.build import build_fleet
from fake_gpu.scenario.load import load_scenario
from orchestration.demo.divided import Divided
from orchestration.demo.fleet_clock import FleetClock
from orchestration.demo.fleet_process import Served, serving
from orchestration.demo.home import make_home


def test_clusters_are_shared_out_by_their_devices(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario("demo"))
    first, second = (Served(f"http://{name}", "", {}, None) for name in "ab")  # type: ignore[arg-type]
    urls = Divided.of(fleet, first, second).thanos_urls
    names = {cluster.name: urls[cluster.cluster_id] for cluster in fleet.clusters}
    # 20 devices; 12 and 11.
    assert names["beta"] == names["gamma"] != names["alpha"]
    api_urls = {cluster.cluster_id: "http://c" for cluster in fleet.clusters}
    home = make_home(tmp_path / "home", fleet, urls, api_urls)
    assert {row["url"] for row in _places(home.config_path).values()} == {"http://a", "http://b"}


def test_two_clocks_go_together_until_there_is_one(tmp_path: Path) -> None:
    fleet = build_fleet(load_scenario("thin_line"))
    start = epoch(fleet.started_at)
    with serving("thin_line") as one, serving("thin_line") as other:
        divided = Divided.of(fleet, one(start), other(start))
        divided.advance_to(start + timedelta(hours=2))
        assert [FleetClock(url).now() - start for url in divided.clock_urls] == [2 * HOUR] * 2
        urls = {cluster.cluster_id: divided.second.thanos_url for cluster in fleet.clusters}
        home = make_home(tmp_path / "home", fleet, urls, divided.first.kubernetes_urls)
        divided.unite(home)
        assert {row["url"] for row in _places(home.config_path).values()} == {
            divided.first.thanos_url
        }


def _places(config: Path) -> dict[str, dict[str, str]]:
    import tomllib

    found: dict[str, dict[str, str]] = tomllib.loads(config.read_text(encoding="utf-8"))["thanos"]
    return found
