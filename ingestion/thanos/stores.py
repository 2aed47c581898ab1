"""The stores behind a querier: which of them may hold a cluster's series, and which of those fail.

Put here: reading `/api/v1/stores`.
Not here: requesting the list (`ingestion.thanos.query_runner`), or the outcome when a store is gone
(`ingestion.thanos.outcomes`).

A querier has the stores of all clusters. The label sets of a store show whose series it has; a
store of another cluster has no effect on this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from clients.json_text import NOT_JSON

NAMES_LENGTH_LIMIT = 200
"""A reason is a sentence; the landed response has all names."""

_EQUAL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"', re.ASCII)


class _Store(msgspec.Struct, rename={"last_error": "lastError", "label_sets": "labelSets"}):
    name: str = ""
    last_error: object = None
    label_sets: list[dict[str, str]] = []


class _Stores(msgspec.Struct):
    data: dict[str, list[_Store]]


_STORES = msgspec.json.Decoder(_Stores)


@dataclass(frozen=True, slots=True)
class StoresSeen:
    """How many stores may hold a cluster's series, and the names of those that fail."""

    count: int
    failing: tuple[str, ...]

    @property
    def reason(self) -> str:
        if not self.failing:
            return ""
        names = ", ".join(self.failing)[:NAMES_LENGTH_LIMIT]
        return f"{len(self.failing)} of {self.count} stores fail: {names}"


def read_stores(body: bytes, cluster_matcher: str) -> StoresSeen | None:
    """The stores of the cluster that these matchers select; None if the body is no list of
    stores."""
    try:
        groups = _STORES.decode(body).data
    except NOT_JSON:
        return None
    wanted = dict(_EQUAL.findall(cluster_matcher))
    of_cluster = [
        store for stores in groups.values() for store in stores if _may_hold(store, wanted)
    ]
    failing = sorted(store.name for store in of_cluster if store.last_error)
    return StoresSeen(len(of_cluster), tuple(failing))


def _may_hold(store: _Store, wanted: Mapping[str, str]) -> bool:
    """Whether a label set of the store has no other value for a label of the matcher."""
    sets = [labels for labels in store.label_sets if not _is_mark(labels)]
    return not sets or any(
        all(labels.get(name, text) == text for name, text in wanted.items()) for labels in sets
    )


def _is_mark(labels: Mapping[str, str]) -> bool:
    """Whether a set is a mark such as `@thanos_compatibility_store_type`, and not of series."""
    return bool(labels) and all(name.startswith("@") for name in labels)
