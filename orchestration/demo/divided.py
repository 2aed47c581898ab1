"""The fleet that is asked, served by two processes: some clusters by one, the others by the other.

Put here: which cluster is asked where, and keeping both clocks together.
Not here: serving (`fleet_process`), or asking (`asking`).

What a cluster's cards did in a day takes longer to make than to read, and one process has one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from orchestration.demo.fleet_process import Served
from warehouse.home import Home

if TYPE_CHECKING:
    from fake_gpu.fleet.model import Fleet


@dataclass(frozen=True, slots=True)
class Divided:
    """Both, and where each cluster is asked; the first can answer for all of them."""

    first: Served
    second: Served
    thanos_urls: Mapping[str, str]

    @classmethod
    def of(cls, fleet: Fleet, first: Served, second: Served) -> Divided:
        """Whoever has fewer devices to answer for gets the next cluster, the largest one first."""
        by_size = sorted(
            fleet.clusters,
            key=lambda cluster: (-sum(len(n.devices) for n in cluster.nodes), cluster.cluster_id),
        )
        loads, urls = [0, 0], {}
        for cluster in by_size:
            where = loads.index(min(loads))
            loads[where] += sum(len(node.devices) for node in cluster.nodes)
            urls[cluster.cluster_id] = (first, second)[where].thanos_url
        return cls(first, second, urls)

    @property
    def clock_urls(self) -> tuple[str, str]:
        return self.first.clock_url, self.second.clock_url

    def advance_to(self, when: datetime) -> None:
        for served in (self.first, self.second):
            served.advance_to(when)

    def unite(self, home: Home) -> None:
        """From here on the first one is asked for everything, and its clock is the only one."""
        self.first.take_counts_of(self.second)
        said = home.config_path.read_text(encoding="utf-8")
        said = said.replace(self.second.thanos_url, self.first.thanos_url)
        home.config_path.write_text(said, encoding="utf-8")
