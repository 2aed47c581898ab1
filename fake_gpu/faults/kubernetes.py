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
        "Watches end, and cannot be opened until the end of the fault. Changes during the fault "
        "are never sent as events.",
        Parameter("resource", "text", "", "only watches of this resource; empty: all resources"),
    ),
    kind(
        "watch_expired",
        "B02",
        "kubernetes",
        "A resumed watch gets 410 Gone in its stream, because the history before is compacted.",
        Parameter("resource", "text", "", "only watches of this resource; empty: all resources"),
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
        "The clock of a kubelet is behind: containers end before they start.",
        Parameter("seconds", "number", 60, "seconds by which the ends are too early"),
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
    kind(
        "page_token_expired",
        "B23",
        "kubernetes",
        "The request for a further page of a list gets 410 Gone.",
        REQUESTS,
    ),
    kind(
        "rbac_lost",
        "B24",
        "kubernetes",
        "Requests get 403; with `mode: fewer`, lists lack some namespaces.",
        Parameter("resource", "text", "pods", "affected resource"),
        Parameter("mode", "text", "forbidden", "`forbidden` or `fewer`"),
        NAMESPACE,
    ),
    kind(
        "etcd_restored",
        "B25",
        "kubernetes",
        "etcd is restored: resource versions go back, and ended pods exist again.",
        Parameter("back", "duration", 1800, "time by which the state goes back"),
    ),
    kind("mass_absence", "B27", "kubernetes", "A list lacks many pods.", SHARE, REQUESTS),
    kind("api_unavailable", "B02", "kubernetes", "Requests get status 503.", REQUESTS),
    kind(
        "api_throttled", "A14", "kubernetes", "Requests get status 429 and Retry-After.", REQUESTS
    ),
    kind("api_truncated", "A14", "kubernetes", "The body of a response is incomplete.", REQUESTS),
    kind(
        "events_lost",
        "B22",
        "kubernetes",
        "Lists lack some events, which expired, were aggregated, or exceeded a rate limit.",
        SHARE,
    ),
    kind("bookmarks_missing", "B02", "kubernetes", "Watches have no bookmarks."),
)
