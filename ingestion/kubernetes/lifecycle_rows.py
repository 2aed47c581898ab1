"""Journal lines as rows of the lifecycle tables.

Put here: one function per kind of object. Not here: reading segments (`journal_decoder`), types
(`lifecycle_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from domain.decisions.price_tables import budget_columns, read_budget
from domain.gpu.names import may_be_a_device
from domain.interval import parse_instant
from domain.request import NotACount, effective_request_of_pod, parse_count
from ingestion.kubernetes.journal_lines import Line

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]

# The rows of earlier observations, by the text of the pod.
Known = dict[tuple[object, ...], tuple[Row, list[Row]]]

# The value of `via` in a table: a missing object was found by a list.
_VIA = {"gone": "list"}


def rows_of(line: Line, content: bytes = b"", known: Known | None = None) -> Rows:
    """The rows that one line adds to the tables, each with its table's name.

    The rows of a pod with the same `content` are taken from `known`: every hourly list repeats
    them.
    """
    match line["line"]:
        case "object" if line["resource"] == "pods":
            yield from _pod(line, content, {} if known is None else known)
        case "object":
            yield from _OBJECTS[line["resource"]](line)
        case "gap":
            gap = {
                "gap_started_at": parse_instant(line["from"]),
                "gap_ended_at": parse_instant(line["until"]),
                "reason": line["reason"],
            }
            yield "resource_gaps", gap | {"resource": line["resource"]}
            if line["resource"] == "pods":
                yield "journal_gaps", gap
        case "contradiction":
            yield (
                "contradictions",
                {
                    "observed_at": parse_instant(line["at"]),
                    "resource": line["resource"],
                    "object_uid": line["uid"],
                    "what": line["what"],
                    "before_value": line["before"],
                    "after_value": line["after"],
                },
            )


def _observation_columns(line: Line) -> Row:
    return {
        "observed_at": parse_instant(line.get("alive_at") or line["at"]),
        "journal_position": line["position"],
        "via": _VIA.get(line["via"], line["via"]),
        "deleted": line["via"] in ("deleted", "gone"),
    }


def _time(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None


def _pod(line: Line, content: bytes, known: Known) -> Rows:
    key = (content or id(line), *line["facts"].values(), *line["kin"].values())
    if key not in known:
        known[key] = _timeless_columns(line), _request_rows(line["object"])
    itself, requests = known[key]
    last_seen_at = _time(line.get("last_seen_at"))
    yield "pod_observations", _observation_columns(line) | itself | {"last_seen_at": last_seen_at}
    for request in requests:
        yield "pod_requests", request


def _timeless_columns(line: Line) -> Row:
    """The columns of an observation that do not depend on its time."""
    pod, kin, facts = line["object"], line["kin"], line["facts"]
    meta, status = pod["metadata"], pod["status"]
    owner = meta.get("owner", {})
    restarts = [c.get("restartCount", 0) for c in status["containerStatuses"]]
    return {
        "pod_uid": meta["uid"],
        "namespace": meta.get("namespace", ""),
        "namespace_uid": kin["namespace_uid"],
        "pod_name": meta.get("name", ""),
        "node_name": pod["spec"]["nodeName"],
        "phase": status["phase"],
        "bound_at": _time(facts["bound_at"]),
        "started_at": _time(facts["started_at"]),
        "ended_at": _time(facts["ended_at"]),
        "deletion_deadline_at": _time(meta.get("deletionTimestamp")),
        "restart_count": sum(restarts),
        "owner_kind": owner.get("kind", ""),
        "owner_name": owner.get("name", ""),
        "workload_kind": kin["workload_kind"],
        "workload_name": kin["workload_name"],
        "reason": status.get("reason", ""),
        "labels": sorted(meta.get("labels", {}).items()),
    }


def _request_rows(pod: Mapping[str, Any]) -> list[Row]:
    uid = pod["metadata"]["uid"]
    return [
        {"pod_uid": uid, "resource": resource, "device_count": count}
        for resource, count in sorted(_requests(pod["spec"]).items())
    ]


def _requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """The effective request; none for a pod with an invalid quantity."""
    wrapped = {
        kind: [
            {"resources": {"requests": c["requests"]}, "restartPolicy": c.get("restartPolicy")}
            for c in spec[kind]
        ]
        for kind in ("containers", "initContainers")
    }
    try:
        return effective_request_of_pod(wrapped, may_be_a_device)
    except NotACount:
        return {}


def _node(line: Line) -> Rows:
    node = line["object"]
    meta, labels = node["metadata"], node["metadata"].get("labels", {})
    seen = _observation_columns(line)
    role = "node-role.kubernetes.io/"
    yield (
        "node_observations",
        seen
        | {
            "node_uid": meta["uid"],
            "node_name": meta.get("name", ""),
            "ready": any(c.get("status") == "True" for c in node["ready"]),
            "unschedulable": node["unschedulable"],
            "roles": sorted(k.removeprefix(role) for k in labels if k.startswith(role)),
            "labels": sorted(labels.items()),
        },
    )
    capacity, allocatable = _counts(node["capacity"]), _counts(node["allocatable"])
    for resource in sorted(capacity.keys() | allocatable.keys()):
        if may_be_a_device(resource):
            yield (
                "node_resources",
                {
                    "node_uid": meta["uid"],
                    "node_name": meta.get("name", ""),
                    "observed_at": seen["observed_at"],
                    "resource": resource,
                    "capacity": capacity.get(resource, 0),
                    "allocatable": allocatable.get(resource, 0),
                },
            )


def _counts(quantities: Mapping[str, str]) -> dict[str, int]:
    counts = {}
    for resource, quantity in quantities.items():
        try:
            counts[resource] = parse_count(quantity)
        except NotACount:
            continue  # no device: a device plugin offers whole numbers
    return counts


def _namespace(line: Line) -> Rows:
    meta, seen = line["object"]["metadata"], _observation_columns(line)
    del seen["journal_position"]
    names = {"namespace": meta.get("name", ""), "namespace_uid": meta["uid"]}
    yield "namespace_observations", seen | names


def _quota(line: Line) -> Rows:
    quota = line["object"]
    hard, used = _counts(quota["hard"]), _counts(quota["used"])
    if line["via"] in ("deleted", "gone"):
        hard = used = dict.fromkeys(hard, 0)
    for name in sorted(hard):
        yield (
            "quota_observations",
            {
                "observed_at": parse_instant(line["at"]),
                "namespace": quota["metadata"].get("namespace", ""),
                "quota_name": quota["metadata"].get("name", ""),
                "resource": name.removeprefix("requests."),
                "hard": hard[name],
                "used": used.get(name, 0),
            },
        )


def _budget(line: Line) -> Rows:
    meta, spec = line["object"]["metadata"], line["object"]["spec"]
    texts = {
        "billing_period": spec["billingPeriod"],
        "currency": spec["currency"],
        "amount": spec["amount"],
        "workload": spec["workload"],
        "label": spec["label"],
        "actual_steps": _steps(spec, "actualSteps"),
        "forecast_steps": _steps(spec, "forecastSteps"),
    }
    budget, invalid = read_budget(meta.get("namespace", ""), texts)
    yield (
        "budget_observations",
        {
            "observed_at": parse_instant(line["at"]),
            "journal_position": line["position"],
            "namespace": meta.get("namespace", ""),
            "budget_name": meta.get("name", ""),
            "created_at": _time(meta["creationTimestamp"]),
            "billing_period": spec["billingPeriod"],
            **(budget_columns(budget) if budget else {}),
            "invalid": invalid,
            "deleted": line["via"] in ("deleted", "gone"),
        },
    )


def _steps(spec: Mapping[str, Any], name: str) -> str:
    """As a cell of budgets.csv has them: empty for the usual steps."""
    return " ".join(spec[name]) or "none" if name in spec else ""


def _claim(line: Line) -> Rows:
    claim = line["object"]
    requests = {request["name"]: request for request in claim["requests"] if "name" in request}
    for result in claim["results"]:
        # A subrequest of a prioritised list is named `request/subrequest`.
        request = requests.get(result.get("request", "").partition("/")[0], {})
        yield (
            "claim_observations",
            {
                "observed_at": parse_instant(line["at"]),
                "claim_uid": claim["metadata"]["uid"],
                "namespace": claim["metadata"].get("namespace", ""),
                "claim_name": claim["metadata"].get("name", ""),
                "pod_uids": sorted(user["uid"] for user in claim["reservedFor"] if "uid" in user),
                "driver": result.get("driver", ""),
                "pool": result.get("pool", ""),
                "device": result.get("device", ""),
                "request_name": result.get("request", ""),
                "deleted": line["via"] in ("deleted", "gone"),
                "admin_access": result.get("adminAccess", False),
                "extended_resource": claim["extendedResource"],
                "device_class": request.get("deviceClassName", ""),
                "share_id": result.get("shareID", ""),
                "consumed_capacity": sorted(result.get("consumedCapacity", {}).items()),
            },
        )


def _slice(line: Line) -> Rows:
    offered = line["object"]
    for device in offered["devices"]:
        attributes = device["attributes"]
        capacity = {name: amount["value"] for name, amount in device["capacity"].items()}
        yield (
            "slice_devices",
            {
                "observed_at": parse_instant(line["at"]),
                "node_name": offered["nodeName"] or device.get("nodeName", ""),
                "driver": offered["driver"],
                "pool": offered["pool"],
                "device": device["name"],
                "device_type": attributes.get("type", ""),
                "product": attributes.get("productName", ""),
                "profile": attributes.get("profile", ""),
                "device_uuid": attributes.get("uuid", ""),
                "parent_uuid": attributes.get("parentUUID", ""),
                "memory": capacity.get("memory", ""),
                "capacity": sorted(capacity.items()),
                "allows_multiple_allocations": device["allowMultipleAllocations"],
                "tainted": _is_tainted(device),
                "deleted": line["via"] in ("deleted", "gone"),
            },
        )


def _is_tainted(device: Mapping[str, Any]) -> bool:
    """Whether no new pod may have the device; a taint of the effect None is only a remark."""
    return any(taint.get("effect") != "None" for taint in device["taints"])


_OBJECTS: Mapping[str, Callable[[Line], Rows]] = {
    "nodes": _node,
    "namespaces": _namespace,
    "resourcequotas": _quota,
    "gpubudgets": _budget,
    "resourceclaims": _claim,
    "resourceslices": _slice,
}
