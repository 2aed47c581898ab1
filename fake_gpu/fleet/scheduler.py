"""Which node a pod goes to: the fullest that still has room, as a packing scheduler does.

Put here: free units by node, and choosing.
Not here: which device of the node (`calendar`), or when pods ask (`cluster_simulation`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# How many pending pods are tried when something becomes free; a real scheduler backs off too.
TRIED_AT_ONCE = 200


@dataclass(slots=True)
class FreeIndex:
    """Nodes by (offer, product), sorted by free units; updated as devices come and go."""

    _sorted: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    _free: dict[tuple[str, int], int] = field(default_factory=dict)

    def put(self, offer: str, product: str, node: int, free: int) -> None:
        """Node number `node` has `free` units of an offer now; below 0: it takes no pods."""
        entries = self._sorted.setdefault((offer, product), [])
        known = self._free.get((offer, node))
        if known is not None:
            entries.pop(bisect_left(entries, (known, node)))
        self._free[(offer, node)] = free
        insort(entries, (free, node))

    def candidates(self, offer: str, count: int, product: str = "") -> Iterator[int]:
        """Nodes with at least `count` free units, the fullest first; put nothing meanwhile."""
        for key in sorted(self._sorted):
            if key[0] == offer and product in ("", key[1]):
                entries = self._sorted[key]
                for at in range(bisect_left(entries, (max(count, 0), -1)), len(entries)):
                    yield entries[at][1]

    def free(self, offer: str, node: int) -> int:
        return self._free.get((offer, node), -1)


def matches(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node has all labels of a selector."""
    return all(labels.get(name) == value for name, value in selector.items())
