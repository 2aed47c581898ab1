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
        "Pods are evicted: their phase is Failed, and their containers have no end time.",
        POD,
        NAMESPACE,
        NODE,
        SHARE,
    ),
    kind(
        "pods_replaced",
        "B04",
        "fleet",
        "Pods are deleted and created again; with the same names if their owner reuses names.",
        POD,
        NAMESPACE,
        NODE,
        SHARE,
    ),
    kind(
        "crash_loop",
        "B07",
        "fleet",
        "Containers restart repeatedly, and the pod keeps its devices.",
        POD,
        NAMESPACE,
        Parameter("every", "duration", 300, "time from a start to the next end"),
        Parameter("pause", "duration", 20, "time from an end to the next start"),
    ),
    kind(
        "node_not_ready",
        "B08",
        "fleet",
        "A node sends no status; its pods are deleted after five minutes.",
        NODE,
    ),
    kind("node_removed", "B09", "fleet", "A node is deleted with its pods.", NODE),
    kind(
        "preemption",
        "B13",
        "fleet",
        "Pods are preempted, and end after their whole grace period.",
        POD,
        NAMESPACE,
        NODE,
        Parameter("grace", "duration", 120, "grace period"),
        SHARE,
    ),
    kind(
        "mig_repartition",
        "B17",
        "fleet",
        "The MIG layout of a node changes: its pods end, and the MIG devices have other UUIDs.",
        NODE,
        Parameter("layout", "text", "all-1g.5gb", "name of the new layout"),
        Parameter("takes", "duration", 300, "time in which the node offers no devices"),
    ),
    kind(
        "card_unhealthy",
        "B18",
        "fleet",
        "A card is unhealthy: it is missing in allocatable, but not in capacity.",
        NODE,
        Parameter("card", "number", 0, "number of the card, from 0"),
        Parameter("mode", "text", "xid", "xid, lost, ecc or unhealthy"),
        Parameter("xid", "number", 79, "XID that DCGM reports"),
    ),
    kind(
        "namespace_recreated",
        "B20",
        "fleet",
        "A namespace is deleted with its objects, and another owner creates it again.",
        Parameter("namespace", "text", "", "namespace; required"),
    ),
    kind(
        "label_edited",
        "B21",
        "fleet",
        "A label of a namespace has another value during the fault.",
        Parameter("namespace", "text", "", "namespace; required"),
        Parameter("label", "text", "cost-centre", "label"),
        Parameter("to", "text", "somebody-else", "value during the fault"),
    ),
    kind(
        "terminal_pods_kept",
        "B05",
        "fleet",
        "The objects of ended pods are kept until the end of the fault, with their requests.",
        NAMESPACE,
    ),
)
