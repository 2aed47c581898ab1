"""Faults of a Kubernetes API server: what it says, and what it does not.

Put here: their names, meaning and parameters.
Not here: their effects (`fake_gpu.kubernetes`).
"""

from __future__ import annotations

from fake_gpu.faults.kinds import (
    NAMESPACE,
    NAMESPACES,
    NODE,
    POD,
    RESOURCES,
    Parameter,
    kind,
)

KUBERNETES = (
    kind(
        "watch_gap",
        "B01 B02",
        "kubernetes",
        "Watches end, and none can be opened until the time is over: what happened meanwhile is "
        "never told as an event, and a watch from before it gets 410.",
        RESOURCES,
        Parameter("history_kept", "number", 0, "1: the server still knows what happened in it"),
    ),
    kind(
        "watch_expired",
        "B02",
        "kubernetes",
        "410 Gone inside the stream: what the watch goes on from is compacted.",
        RESOURCES,
    ),
    kind(
        "watch_replays",
        "B03 B26",
        "kubernetes",
        "A watch tells old and deleted objects again.",
        RESOURCES,
        NAMESPACES,
        Parameter("replayed_seconds", "number", 3600, "how far back"),
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
    kind("page_token_expired", "B23", "kubernetes", "The token of a page is 410.", RESOURCES),
    kind(
        "rbac_lost",
        "B24",
        "kubernetes",
        "403; or, with namespaces, lists and watches without them, and without a word.",
        RESOURCES,
        NAMESPACES,
    ),
    kind(
        "etcd_restored",
        "B25",
        "kubernetes",
        "The store goes back: resource versions fall, and ended pods are there again.",
        Parameter("lost_seconds", "number", 600, "how far back"),
        Parameter("repair_seconds", "number", 120, "until the controllers have mended it"),
    ),
    kind(
        "mass_absence",
        "B27",
        "kubernetes",
        "Lists miss many pods.",
        Parameter("share_pct", "number", 50, "how many of them, in per cent"),
        Parameter("lists", "number", 1, "how many lists"),
    ),
    kind(
        "api_throttled",
        "A14",
        "kubernetes",
        "429 with Retry-After.",
        Parameter("requests", "number", 3, "how many requests"),
        Parameter("retry_after_seconds", "number", 1, "what Retry-After says"),
    ),
    kind("api_login_page", "A14", "kubernetes", "An HTML login page with status 200.", RESOURCES),
    kind("api_truncated_body", "A14", "kubernetes", "The body ends in the middle.", RESOURCES),
)
