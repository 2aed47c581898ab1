"""The order of events within one second.

Put here: the order.
Not here: the events (`cluster_simulation`, `disturbances`).

Ends come first, then changes of nodes, then pods with exact times, then pods that look for a
place, then objects that go. So a device that is freed at a second is taken at the same second.
"""

from __future__ import annotations

ENDS, CHANGES, EXACT, ASKS, GOES = range(5)
