"""The plain rows as small records, and the naive functions that all ledgers use.

Put here: reading rows; the holders of devices at a second; times of changes.
Not here: any ledger.

A pod *holds* its devices from being bound, and *runs* from the first start of a main container
until the last of its containers has ended, or its object is gone. Restarts do not end it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

FOR_EVER = 1 << 60
HOUR = 3600

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TrueDevice:
    cluster_id: str
    node_name: str
    device_id: str
    card_id: str
    product: str
    makeup: str
    resource: str
    mig_profile: str
    compute: Fraction
    memory: Fraction
    replica_count: int


@dataclass(frozen=True, slots=True)
class TruePod:
    cluster_id: str
    pod_uid: str
    namespace: str
    pod_name: str
    node_name: str
    workload_kind: str
    workload_name: str
    bound_at: int | None
    started_at: int | None  # the first start of a main container
    ended_at: int  # FOR_EVER: it has no end


@dataclass(frozen=True, slots=True)
class TrueHold:
    pod: TruePod
    device: TrueDevice
    count: int  # replicas; MiB of a card that claims share; 1 of anything else
    claim_uid: str
    from_at: int
    until_at: int

    @property
    def devices(self) -> int:
        """The number of devices: a share of a card is one, in any size."""
        return 1 if self.device.makeup == "shared" else self.count

    def runs_at(self, second: int) -> bool:
        started = self.pod.started_at
        return started is not None and max(started, self.from_at) <= second < self.until_at

    def held_at(self, second: int) -> bool:
        return self.from_at <= second < self.until_at

    @property
    def running_from(self) -> int:
        """When the device begins to be used; FOR_EVER when that never happens."""
        started = self.pod.started_at
        return FOR_EVER if started is None else max(started, self.from_at)


@dataclass(slots=True)
class History:
    started_at: int
    ended_at: int
    devices: dict[tuple[str, str, str], TrueDevice]
    pods: dict[Key, TruePod]
    holds: list[TrueHold]

    def hours(self) -> range:
        """The start of every hour that the window touches."""
        return range(self.started_at // HOUR * HOUR, self.ended_at, HOUR)

    def clip(self, from_at: int, until_at: int) -> tuple[int, int]:
        return max(from_at, self.started_at), min(until_at, self.ended_at)


def read_history(rows: Rows) -> History:
    window = rows["window"][0]
    devices = _devices(rows)
    pods = _pods(rows)
    holds = [
        TrueHold(
            pod=pods[(hold["cluster_id"], hold["pod_uid"])],
            device=devices[(hold["cluster_id"], hold["node_name"], hold["device_id"])],
            count=hold["replica_count"],
            claim_uid=hold["claim_uid"],
            from_at=hold["from_at"],
            until_at=FOR_EVER if hold["until_at"] is None else hold["until_at"],
        )
        for hold in rows["holds"]
    ]
    return History(window["started_at"], window["ended_at"], devices, pods, holds)


def _devices(rows: Rows) -> dict[tuple[str, str, str], TrueDevice]:
    products = {
        (c["cluster_id"], c["node_name"], c["card_id"]): c["product"] for c in rows["cards"]
    }
    return {
        (d["cluster_id"], d["node_name"], d["device_id"]): TrueDevice(
            cluster_id=d["cluster_id"],
            node_name=d["node_name"],
            device_id=d["device_id"],
            card_id=d["card_id"],
            product=products[(d["cluster_id"], d["node_name"], d["card_id"])],
            makeup=d["makeup"],
            resource=d["resource"],
            mig_profile=d["mig_profile"],
            compute=Fraction(d["compute_numerator"], d["compute_denominator"]),
            memory=Fraction(d["memory_numerator"], d["memory_denominator"]),
            replica_count=d["replica_count"],
        )
        for d in rows["devices"]
    }


def _pods(rows: Rows) -> dict[Key, TruePod]:
    runs: dict[Key, list[Mapping[str, Any]]] = defaultdict(list)
    for run in rows["runs"]:
        runs[(run["cluster_id"], run["pod_uid"])].append(run)
    pods = {}
    for pod in rows["pods"]:
        key = (pod["cluster_id"], pod["pod_uid"])
        main = [r["started_at"] for r in runs[key] if r["kind"] == "main"]
        pods[key] = TruePod(
            cluster_id=pod["cluster_id"],
            pod_uid=pod["pod_uid"],
            namespace=pod["namespace"],
            pod_name=pod["pod_name"],
            node_name=pod["node_name"],
            workload_kind=pod["workload_kind"],
            workload_name=pod["workload_name"],
            bound_at=pod["bound_at"],
            started_at=min(main) if main else None,
            ended_at=_end(runs[key], pod["gone_at"]),
        )
    return pods


def _end(runs: Iterable[Mapping[str, Any]], gone_at: int | None) -> int:
    """The last of its containers has ended, or the object is gone."""
    ends = [FOR_EVER if run["ended_at"] is None else int(run["ended_at"]) for run in runs]
    gone = FOR_EVER if gone_at is None else gone_at
    return min(max(ends), gone) if ends else gone


def holds_by_node_hour(history: History) -> dict[tuple[str, str, int], list[TrueHold]]:
    """The holds that touch each hour of each node, for as long as they run in it."""
    found: dict[tuple[str, str, int], list[TrueHold]] = defaultdict(list)
    for hold in history.holds:
        begin, end = history.clip(hold.running_from, hold.until_at)
        hour = begin // HOUR * HOUR
        while hour < end:
            found[(hold.device.cluster_id, hold.device.node_name, hour)].append(hold)
            hour += HOUR
    return found


def edges(holds: Iterable[TrueHold], begin: int, end: int) -> list[int]:
    """Every second of `[begin, end)` at which something starts or stops running."""
    moments = {begin}
    for hold in holds:
        moments |= {hold.running_from, hold.until_at}
    return sorted(m for m in moments if begin <= m < end)
