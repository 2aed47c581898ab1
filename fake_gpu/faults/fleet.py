"""Faults of the fleet itself: events that happen to pods, nodes and namespaces.

Put here: their names, meaning and parameters.
Not here: their effects (`fake_gpu.fleet.disturbances`, `fake_gpu.fleet.fault_specs`).
"""

from __future__ import annotations

from fake_gpu.faults.kinds import (
    NAMESPACE,
    NODE,
    POD,
    SHARE,
    Parameter,
    kind,
)

FLEET = (
    kind(
        "evicted_without_end",
        "B05",
        "fleet",
        "Pods are evicted: Failed, without the end times of containers.",
        POD,
        NAMESPACE,
        NODE,
        SHARE,
    ),
    kind(
        "pods_replaced",
        "B04",
        "fleet",
        "Pods are killed and created again, with the same name if their owner keeps it.",
        POD,
        NAMESPACE,
        NODE,
        SHARE,
    ),
    kind(
        "crash_loop",
        "B07",
        "fleet",
        "Containers restart again and again; the pod keeps its devices.",
        POD,
        NAMESPACE,
        Parameter("every", "duration", 300, "how long a container runs"),
        Parameter("pause", "duration", 20, "how long it stays away"),
    ),
    kind(
        "node_not_ready",
        "B08",
        "fleet",
        "A node does not report; its pods are deleted after five minutes.",
        NODE,
    ),
    kind("node_removed", "B09", "fleet", "A node is deleted with its pods.", NODE),
    kind(
        "preemption",
        "B13",
        "fleet",
        "Pods get a deadline and use it: they end after their grace period.",
        POD,
        NAMESPACE,
        NODE,
        Parameter("grace", "duration", 120, "the grace period"),
        SHARE,
    ),
    kind(
        "mig_repartition",
        "B17",
        "fleet",
        "A node's cards are cut differently: its pods go, names and UUIDs change.",
        NODE,
        Parameter("layout", "text", "all-1g.5gb", "the new layout's name"),
        Parameter("takes", "duration", 300, "how long the node offers nothing"),
    ),
    kind(
        "card_unhealthy",
        "B18",
        "fleet",
        "A card leaves allocatable, not capacity, and comes back.",
        NODE,
        Parameter("card", "number", 0, "which card"),
        Parameter("mode", "text", "xid", "xid, lost, ecc or unhealthy"),
        Parameter("xid", "number", 79, "the code that DCGM reports"),
    ),
    kind(
        "namespace_recreated",
        "B20",
        "fleet",
        "A namespace is deleted with all that is in it, and made again by someone else.",
        Parameter("namespace", "text", "", "which namespace; needed"),
    ),
    kind(
        "label_edited",
        "B21",
        "fleet",
        "A label of a namespace is edited, and restored at the end.",
        Parameter("namespace", "text", "", "which namespace; needed"),
        Parameter("label", "text", "cost-centre", "which label"),
        Parameter("to", "text", "somebody-else", "the value meanwhile"),
    ),
    kind(
        "terminal_pods_kept",
        "B05",
        "fleet",
        "Ended pods stay, with their requests, until the time is over.",
        NAMESPACE,
    ),
)
