"""A simulated Thanos over a fleet, with a clock that tests set, and short query functions.

Put here: queries.
Not here: fleets (`tests/small_fleets.py`), or expectations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import httpx

from fake_gpu.clock import VirtualClock, driven, epoch
from fake_gpu.faults.ledger import FaultLedger
from fake_gpu.fleet.model import Fault, Fleet
from fake_gpu.kubernetes.objects import ObjectHistory
from fake_gpu.prometheus.app import ApiOptions, make_app
from fake_gpu.prometheus.source import FleetSeries
from tests.asgi import Client
from tests.small_fleets import HOUR, MIDNIGHT

Row = dict[str, Any]


@dataclass
class Thanos:
    """One fake Thanos; times are seconds after midnight."""

    fleet: Fleet
    clock: VirtualClock
    ledger: FaultLedger
    source: FleetSeries
    http: Client

    def go_to(self, second: int) -> None:
        self.clock.advance_to(epoch(MIDNIGHT + second))

    def ask(self, query: str, at: float, **more: Any) -> httpx.Response:
        asked = {"query": query, "time": MIDNIGHT + at, "dedup": "false", **more}
        return self.http.post("/api/v1/query", data=asked)

    def rows(self, query: str, at: float, **more: Any) -> list[Row]:
        """The series of a response: labels, and samples as (seconds after midnight, text)."""
        answer = self.ask(query, at, **more)
        assert answer.status_code == 200, answer.text
        return [
            {
                **row["metric"],
                "samples": [
                    (round(at - MIDNIGHT, 3), text)
                    for at, text in row.get("values", [row.get("value")])
                ],
            }
            for row in answer.json()["data"]["result"]
        ]

    def samples(self, query: str, at: float, **more: Any) -> list[tuple[float, str]]:
        """All samples of all series, in order of time."""
        return sorted(s for row in self.rows(query, at, **more) for s in row["samples"])


def thanos(
    fleet: Fleet,
    *faults: Fault,
    now: int = 24 * HOUR,
    options: ApiOptions | None = None,
) -> Thanos:
    """A Thanos over a fleet with faults, at a time of its driven clock."""
    changed = replace(fleet, faults=(*fleet.faults, *faults))
    clock = driven(epoch(MIDNIGHT + now))
    ledger = FaultLedger()
    histories = {
        cluster.cluster_id: ObjectHistory(cluster, changed.faults, ledger)
        for cluster in changed.clusters
    }
    source = FleetSeries(changed, histories, clock, ledger)
    return Thanos(changed, clock, ledger, source, Client(make_app(source, clock, options)))


def fault(
    kind: str, from_at: int, until_at: int, cluster_id: str = "", **parameters: object
) -> Fault:
    """A fault by seconds after midnight; underscores at the end of names are dropped."""
    return Fault(
        fault_id=f"{kind}#0",
        kind=kind,
        cluster_id=cluster_id,
        from_at=MIDNIGHT + from_at,
        until_at=MIDNIGHT + until_at,
        seed=11,
        parameters={name.rstrip("_"): value for name, value in parameters.items()},
    )
