"""One row per node and hour: cards in use, the largest number and the seconds.

Put here: the ledger of node-hours, true by device, and as known without devices.
Not here: clusters (`cluster_hours`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fake_gpu.truth.fewest_cards import ProfilePlacement, cuts_of, fewest_mig_cards
from fake_gpu.truth.history import HOUR, History, Rows, TrueHold, edges, holds_by_node_hour

WHOLE = ("whole", "shared", "passthrough")
MIG = ("mig", "mig_replica")


def node_hours(history: History, rows: Rows) -> list[dict[str, Any]]:
    """Every node with cards, every hour of the window in which it is there."""
    running = holds_by_node_hour(history)
    found = []
    for node in rows["nodes"]:
        if not node["card_count"]:
            continue
        here = _Node(history, rows, node["cluster_id"], node["node_name"])
        for hour in history.hours():
            if here.is_there(hour):
                key = (node["cluster_id"], node["node_name"], hour)
                found.append(here.row(hour, running.get(key, [])))
    return found


class _Node:
    """One node, with its counts of every hour."""

    def __init__(self, history: History, rows: Rows, cluster_id: str, name: str) -> None:
        self.history = history
        self.cluster_id, self.name = cluster_id, name
        self.states = _pods_of_node(rows["node_states"], cluster_id, name)
        self.devices = _pods_of_node(rows["devices"], cluster_id, name)
        self.cards = _pods_of_node(rows["cards"], cluster_id, name)
        self.cuts: tuple[ProfilePlacement, ...] = ()
        if self.cards:
            self.cuts = cuts_of(list(rows["mig_profiles"]), self.cards[0]["mig_family"])

    def is_there(self, hour: int) -> bool:
        return any(_covers(state, hour, hour + HOUR) for state in self.states)

    def row(self, hour: int, holds: list[TrueHold]) -> dict[str, Any]:
        begin, end = self.history.clip(hour, hour + HOUR)
        moments = edges(holds, begin, end)
        bound_moments = sorted({*moments, *self._capacity_changes(begin, end)})
        true_max = true_seconds = bound_max = bound_seconds = 0
        for at, until in zip(moments, [*moments[1:], end], strict=True):
            cards = len({hold.device.card_id for hold in holds if hold.runs_at(at)})
            true_max = max(true_max, cards)
            true_seconds += cards * (until - at)
        for at, until in zip(bound_moments, [*bound_moments[1:], end], strict=True):
            fewest = self._fewest(at, [hold for hold in holds if hold.runs_at(at)])
            bound_max = max(bound_max, fewest)
            bound_seconds += fewest * (until - at)
        return {
            "cluster_id": self.cluster_id,
            "node_name": self.name,
            "hour_started_at": hour,
            "gpu_capacity": len(self.cards),
            "gpu_count_max": true_max,
            "gpu_seconds": true_seconds,
            "gpu_count_max_bound": bound_max,
            "gpu_seconds_bound": bound_seconds,
        }

    def _capacity_changes(self, begin: int, end: int) -> list[int]:
        moments = [int(row["from_at"]) for row in self.devices]
        return [at for at in moments if begin <= at < end]

    def _fewest(self, at: int, holds: list[TrueHold]) -> int:
        """The bound at one second, from counts alone."""
        # A card of its own for each; pods that share a claim or a card are on one card.
        whole = len({hold.device.device_id for hold in holds if hold.device.makeup in WHOLE})
        return whole + self._fewest_shared(holds) + self._fewest_mig(at, holds)

    def _fewest_shared(self, holds: list[TrueHold]) -> int:
        by_kind: Counter[tuple[str, int]] = Counter()
        for hold in holds:
            if hold.device.makeup == "replica":
                by_kind[(hold.device.resource, hold.device.replica_count)] += hold.count
            elif hold.device.makeup == "partition":
                by_kind[(hold.device.resource, hold.device.compute.denominator)] += 1
        return sum(-(-count // per_card) for (_, per_card), count in by_kind.items())

    def _fewest_mig(self, at: int, holds: list[TrueHold]) -> int:
        mine = [hold for hold in holds if hold.device.makeup in MIG]
        if not mine:
            return 0
        instances: dict[str, set[str]] = {}
        for hold in mine:
            instances.setdefault(hold.device.mig_profile, set()).add(hold.device.device_id)
        there = [d for d in self.devices if d["makeup"] in MIG and _covers(d, at, at + 1)]
        cards = len({d["card_id"] for d in there})
        if any("c." in d["mig_profile"] for d in there):
            # Compute instances share a GPU instance: counted by shares, not by placement.
            return max(1, -(-sum(hold.device.compute * hold.count for hold in mine) // 1))
        capacity = Counter(str(d["mig_profile"]) for d in there)
        running = {profile: len(ids) for profile, ids in instances.items()}
        return fewest_mig_cards(
            self.cuts,
            tuple(sorted(capacity.items())),
            tuple(sorted(running.items())),
            cards,
            int(self.cards[0]["compute_slots"]),
        )


def _pods_of_node(
    table: Sequence[Mapping[str, Any]], cluster_id: str, name: str
) -> list[Mapping[str, Any]]:
    return [r for r in table if r["cluster_id"] == cluster_id and r["node_name"] == name]


def _covers(row: Mapping[str, Any], begin: int, end: int) -> bool:
    until = row["until_at"]
    return bool(row["from_at"] < end and (until is None or begin < until))
