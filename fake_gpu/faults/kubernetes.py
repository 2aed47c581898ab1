"""Faults of a Kubernetes API server: wrong, incomplete and missing responses.

Put here: their names, meaning and parameters.
Not here: their effects (`fake_gpu.kubernetes`).
"""

from __future__ import annotations

from fake_gpu.faults.kinds import NAMESPACE, NODE, POD, REQUESTS, SHARE, Parameter, kind

KUBERNETES = (
    kind(
        "watch_dropped",
        "B01 B02",
        "kubernetes",
        "Watches end, and cannot be opened until the end of the fault: changes meanwhile are "
        "never sent as events.",
        Parameter("resource", "text", "", "only watches of this resource; all when empty"),
    ),
    kind(
        "watch_expired",
        "B02",
        "kubernetes",
        "A resumed watch gets 410 Gone, inside the stream: everything before is compacted.",
        Parameter("resource", "text", "", "only watches of this resource; all when empty"),
    ),
    kind(
        "watch_replays",
        "B03",
        "kubernetes",
        "A watch sends old and deleted objects again.",
        SHARE,
    ),
    kind(
        "events_twice",
        "B03 B26",
        "kubernetes",
        "Each event is sent twice.",
        SHARE,
    ),
    kind(
        "finished_before_started",
        "B10",
        "kubernetes",
        "A kubelet's clock is behind: containers end before they start.",
        Parameter("seconds", "number", 60, "how far behind the ends are written"),
        NODE,
    ),
    kind(
        "start_rewritten",
        "B07",
        "kubernetes",
        "When a container ends, its startedAt becomes its finishedAt.",
        POD,
        NAMESPACE,
    ),
    kind("page_token_expired", "B23", "kubernetes", "The token of a page is 410.", REQUESTS),
    kind(
        "rbac_lost",
        "B24",
        "kubernetes",
        "403, or (`mode: fewer`) lists without some namespaces.",
        Parameter("resource", "text", "pods", "of this resource"),
        Parameter("mode", "text", "forbidden", "forbidden, or fewer"),
        NAMESPACE,
    ),
    kind(
        "etcd_restored",
        "B25",
        "kubernetes",
        "The store goes back: resource versions fall, and ended pods are there again.",
        Parameter("back", "duration", 1800, "how far"),
    ),
    kind("mass_absence", "B27", "kubernetes", "One list misses many pods.", SHARE, REQUESTS),
    kind("api_unavailable", "B02", "kubernetes", "The API server answers 503.", REQUESTS),
    kind("api_throttled", "A14", "kubernetes", "429 with Retry-After.", REQUESTS),
    kind("api_truncated", "A14", "kubernetes", "The body ends in the middle.", REQUESTS),
    kind(
        "events_lost",
        "B22",
        "kubernetes",
        "Lists of events miss some: they expired, were aggregated, or hit a rate limit.",
        SHARE,
    ),
    kind("bookmarks_missing", "B02", "kubernetes", "Watches carry no bookmarks."),
)
