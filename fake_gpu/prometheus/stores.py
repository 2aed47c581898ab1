"""The stores that a Thanos querier queries, and `/api/v1/stores`, which lists their state.

Put here: the series of each store.
Not here: faults of stores (`answer_faults`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fake_gpu.prometheus.label_sets import LabelPairs

# The newest time of a store that has all samples until now.
_NO_MAXIMUM = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SimulatedStore:
    """A sidecar of one Prometheus replica, or the receivers of one collected cluster."""

    cluster_id: str
    replica: int
    kind: str  # "sidecar" or "receive"
    address: str
    external: LabelPairs
    first_ms: int

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is kept here."""
        return all(labels.get(name) == value for name, value in self.external)


def stores_data(
    stores: Iterable[SimulatedStore], errors: Mapping[str, str], now_ms: int
) -> dict[str, list[dict[str, object]]]:
    """The `data` of `/api/v1/stores`, by kind; `errors` are by address."""
    checked = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    found: dict[str, list[dict[str, object]]] = {}
    for store in stores:
        found.setdefault(store.kind, []).append(
            {
                "name": store.address,
                "lastCheck": checked,
                "lastError": errors.get(store.address),
                "labelSets": [dict(store.external)],
                "minTime": store.first_ms,
                "maxTime": _NO_MAXIMUM,
            }
        )
    return found
